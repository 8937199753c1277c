"""Ranges of sizes that a model accepts throughout, written for the tools that ask for them."""
