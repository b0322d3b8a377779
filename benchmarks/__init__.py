"""Benchmarks of labelling and searching on this machine: `python -m benchmarks` prints tables and draws a picture."""
