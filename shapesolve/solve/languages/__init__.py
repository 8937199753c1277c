"""Target languages of generated checkers, one file each."""
