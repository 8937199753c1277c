"""Causes: from a condition to the node, operand, or constant that makes it, and edits that would remove it."""
