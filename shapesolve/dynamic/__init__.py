"""Makes fixed sizes dynamic: with proofs that rows stay apart, or by comparing several exports."""
