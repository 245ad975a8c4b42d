"""Training of drafters, the small networks that guess what a model says next."""
