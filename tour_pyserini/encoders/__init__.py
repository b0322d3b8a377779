"""Text to vectors: queries, documents and phrases."""
