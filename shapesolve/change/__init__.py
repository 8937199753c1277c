"""Models changed with proof: what comes out computes the same, for every size that the model accepts."""
