"""Phrase indexes: one vector per token, searched for [start; end]."""
