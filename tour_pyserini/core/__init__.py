"""TouR's numerics: configuration, pseudo-labels, update rules, the loop and the final ranking. NumPy alone."""
