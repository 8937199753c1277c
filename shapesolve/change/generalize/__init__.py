"""One dynamic model made of several fixed exports."""
