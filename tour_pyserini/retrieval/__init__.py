"""Where candidates come from: FAISS indexes, and the vectors behind their hits."""
