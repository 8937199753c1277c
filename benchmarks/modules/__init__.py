"""Modules drawn by construction, each with the ranges of its sizes; eager PyTorch says which of these run."""
