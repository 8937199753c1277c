"""The whole constraint system of a model: what every node states, for users to hold, query and hand to Z3."""
