"""Scripts that make the bundled models. Run them as modules from the repository root."""
