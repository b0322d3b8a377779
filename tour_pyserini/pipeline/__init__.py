"""What the commands do, as functions on values."""
