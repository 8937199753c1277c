"""Inferred shapes and the contract, written into a model."""
