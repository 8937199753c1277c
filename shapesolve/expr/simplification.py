"""Implements `Dim.simplify` and `Shape.simplify`. What does the work stands above this room; it is loaded at first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from ..arguments import wrong
from .cond import Cond, Under
from .core import Dim
from .parse import parse_cond

#: the class whose `dim` gives the form of a dim that is cheapest to read under some conditions
_SIMPLIFIER = "shapesolve.solve.simplify:Simplifier"


def conditions(under: Under) -> list[Cond]:
    """The conditions given by `under`. Raises `DimSyntaxError` for a text that is none."""
    given: object = under
    found: list[Cond] = []
    for cond in given if isinstance(given, Iterable) and not isinstance(given, (str, Cond)) else [given]:
        if not isinstance(cond, (str, Cond)):
            raise wrong("simplify takes under as a condition or a list of them, each a text or Cond", cond)
        found.append(parse_cond(cond) if isinstance(cond, str) else cond)
    return found


def simplified(dims: Iterable[Dim], under: Under) -> list[Dim]:
    """The dims in the form that is cheapest to read, given conditions. Each is equal to what it was at all sizes that
    satisfy `under`.

    Where no sizes satisfy them, the dims stay as they are.
    """
    module, _, name = _SIMPLIFIER.partition(":")
    simplifier = getattr(importlib.import_module(module), name)(conditions(under))
    return [simplifier.dim(d) for d in dims]
