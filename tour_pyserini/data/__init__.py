"""Topics, passages, judgements, runs and records, in all their file formats."""
