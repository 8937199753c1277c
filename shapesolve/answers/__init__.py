"""Answers about a lowered model: what `Solved` knows, which sizes run, and why others do not."""
