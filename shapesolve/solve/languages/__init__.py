"""Languages in which checkers are written, one file each."""
