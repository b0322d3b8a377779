"""Where candidates and their vectors come from."""
