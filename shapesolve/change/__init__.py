"""Models changed with proof: what comes out computes the same, for every size that the model accepts."""

from .fix import fix
from .refused import Refused
from .simplify import simplify

__all__ = ["Refused", "fix", "simplify"]
