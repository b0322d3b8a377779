"""Training of phrase encoders and phrase re-rankers."""
