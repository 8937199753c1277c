"""The solver: facts, Z3, proofs, conflicts, ambiguities, the contract. Depends on dims only; Z3 is imported
when needed.
"""
