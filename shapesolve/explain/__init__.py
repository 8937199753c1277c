"""Explanations: where sizes come from, why conditions contradict each other, what to do about it."""
