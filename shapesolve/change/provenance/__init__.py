"""Which batch item each row of a tensor comes from."""
