"""Text to vectors: queries and documents."""
