"""Models changed with proof: the result computes the same values, for every size that the model accepts."""
