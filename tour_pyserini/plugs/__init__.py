"""What Pyserini sees: a searcher, a query encoder and a PRF rule; and what starts Pyserini."""
