"""Queries to the solver: proofs, conflicts, ambiguities, the contract. Z3 is imported when needed."""
