"""What labelling and searching cost here: `python -m benchmarks` prints a table and draws a picture."""
