"""TouR in other frameworks: one module for each, which needs the extra of the same framework."""
