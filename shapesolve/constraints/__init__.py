"""The constraint system of a model: the statements of every node, to query and to hand to Z3."""
