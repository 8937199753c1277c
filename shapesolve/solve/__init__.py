"""What the solver is asked: proofs, conflicts, ambiguities, the contract. Z3 is imported when needed."""
