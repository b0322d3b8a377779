"""Training phrase encoders and phrase re-rankers."""
