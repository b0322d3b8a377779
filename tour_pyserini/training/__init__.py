"""What `train` and `learn` compute: the training loop, its tasks and data, and the fit of query adapters."""
