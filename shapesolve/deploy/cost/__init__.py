"""Memory and operations at given sizes, as expressions in the input dims."""
