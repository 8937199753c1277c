"""Findings: what is worth reporting about a model, ranked, each with a stable code."""
