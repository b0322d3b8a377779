"""Stores: indexes that find candidates, and sources of their vectors."""
