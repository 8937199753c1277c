"""Late-bound implementations of methods of dims and conditions: simplify, SymPy, Z3.

Z3 and SymPy are loaded when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .cond import Cond, Under
from .core import Dim
from .parse import parse_dim
from .printing import cond_text, python_text
from .simplification import simplified


class Offered:
    """See `surface.Offer`."""

    def parsed(self, text: str) -> Dim:
        """See `parse_dim`."""
        return parse_dim(text)

    def text(self, expression: Dim | Cond) -> str:
        """See `python_text` and `cond_text`."""
        return python_text(expression) if isinstance(expression, Dim) else cond_text(expression)

    def simplified(self, dims: Iterable[Dim], under: Under) -> list[Dim]:
        """See `Dim.simplify`."""
        return simplified(dims, under)

    def z3(self, expression: Dim | Cond, ctx: Any) -> Any:
        """See `Dim.z3` and `Cond.z3`."""
        from .z3_terms import z3_formula, z3_term

        return z3_term(expression, ctx) if isinstance(expression, Dim) else z3_formula(expression, ctx)

    def sympy(self, dim: Dim) -> Any:
        """See `Dim.sympy`."""
        from .sympy_bridge import to_sympy

        return to_sympy(dim)

    def from_sympy(self, expr: Any) -> Dim:
        """See `sympy_bridge.from_sympy`."""
        from .sympy_bridge import from_sympy

        return from_sympy(expr)
