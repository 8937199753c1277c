"""Small models to try the analyzer on, and the code that writes them."""
