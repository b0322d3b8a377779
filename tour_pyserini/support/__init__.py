"""Helpers that are independent of retrieval: files, Java, devices, checkpoints, costs."""
