"""The contract: conditions on input sizes under which the model runs."""
