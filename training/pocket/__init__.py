"""How models/pocket was made: tokenizer, model, training, export, evaluation."""
