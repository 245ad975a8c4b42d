"""How models/reranker is made: a cross-encoder that begins as models/embedder."""
