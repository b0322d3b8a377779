"""TouR for Pyserini: test-time optimisation of query representations for dense retrieval."""
