"""How models/embedder was made: distilled from MiniLM-L6 on documentation and a dictionary."""
