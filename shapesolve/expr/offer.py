"""Late-bound implementations of methods of dims and conditions: simplify, SymPy, Z3.

Z3 and SymPy are loaded when they are first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from ..arguments import wrong
from .cond import Cond, Under
from .core import Dim
from .parse import parse_cond, parse_dim
from .printing import cond_text, python_text

#: the class whose `dim` gives the form of a dim that is cheapest to read under some conditions
_SIMPLIFIER = "shapesolve.solve.simplify:Simplifier"


def conditions(under: Under) -> list[Cond]:
    """Return the conditions given by `under`. Raises `DimSyntaxError` if a string is not a condition."""
    given: object = under
    found: list[Cond] = []
    for cond in given if isinstance(given, Iterable) and not isinstance(given, (str, Cond)) else [given]:
        if not isinstance(cond, (str, Cond)):
            raise wrong("simplify takes under as a condition or a list of them, each a text or Cond", cond)
        found.append(parse_cond(cond) if isinstance(cond, str) else cond)
    return found


def simplified(dims: Iterable[Dim], under: Under) -> list[Dim]:
    """Return the dims in the form that is cheapest to read, equal at all sizes that satisfy `under`.

    If no sizes satisfy `under`, the dims are returned unchanged.
    """
    module, _, name = _SIMPLIFIER.partition(":")
    simplifier = getattr(importlib.import_module(module), name)(conditions(under))
    return [simplifier.dim(d) for d in dims]


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
        from .z3_bridge import z3_formula, z3_term

        return z3_term(expression, ctx) if isinstance(expression, Dim) else z3_formula(expression, ctx)

    def sympy(self, dim: Dim) -> Any:
        """See `Dim.sympy`."""
        from .sympy_bridge import to_sympy

        return to_sympy(dim)

    def from_sympy(self, expr: Any) -> Dim:
        """See `sympy_bridge.from_sympy`."""
        from .sympy_bridge import from_sympy

        return from_sympy(expr)
