"""The contract: what input sizes must satisfy for the model to run."""
