"""Phrase indexes: one vector per token; a query [start; end] finds phrases by their first and last token."""
