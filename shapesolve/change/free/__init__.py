"""One fixed export made dynamic, with proof that batch items stay apart."""
