"""What Pyserini sees: searchers, a query encoder and a PRF rule that run TouR."""
