"""Training data: the prose corpus, the seeded generators, and the mixture of both.

Later scripts (drafters) import `training.data.mixture` to see the same token stream.
"""
