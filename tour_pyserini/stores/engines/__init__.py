"""Vector databases as stores: Milvus and Qdrant."""
