"""TouR as a service: searches over HTTP that advance together, with a deadline or round by round."""
