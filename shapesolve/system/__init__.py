"""The whole constraint system of a model, from the statements of every node. Users can hold it, query it and hand it to Z3."""
