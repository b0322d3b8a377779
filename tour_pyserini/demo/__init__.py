"""A small collection written for this project, and the command that shows everything on it."""
