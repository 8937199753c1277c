"""Models made smaller, or fixed to given sizes, with the same outputs."""
