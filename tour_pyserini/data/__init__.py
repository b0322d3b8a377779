"""Read and write topics, passages, judgements, runs and records in their file formats."""
