"""Facts: what constraints imply about dims, kept as substitutions, intervals, and congruences. Z3 is not needed."""
