"""Models with fixed sizes made dynamic: rows that are proved to stay apart, and sizes learned from several exports."""
