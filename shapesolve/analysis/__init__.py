"""`analyze` and what it returns: the one place where the rooms meet."""

from .analyze import analyze
from .findings import Conflict, Finding, Severity
from .result import Analysis

__all__ = ["Analysis", "Conflict", "Finding", "Severity", "analyze"]
