"""Explanations: where sizes come from, why conditions contradict each other, and possible fixes."""
