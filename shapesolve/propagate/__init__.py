"""Facts: what constraints say of dims, kept as substitutions, intervals and congruences. Needs no Z3."""
