"""Generated inputs at which a model runs."""
