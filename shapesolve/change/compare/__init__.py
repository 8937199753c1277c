"""Two models compared: interface, shapes, contract, and values."""
