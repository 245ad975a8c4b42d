"""How .embedder/reranker/model is made: a cross-encoder that begins as models/embedder."""
