"""Checks of input sizes as code, or as nodes in front of a model."""
