"""Re-rankers: models that score (query, passage) pairs, and the score cache that can wrap any of them."""
