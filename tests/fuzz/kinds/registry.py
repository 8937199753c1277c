"""What kinds of operators are drawn: one declaration each, with how often it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import onnx

from ..builder import Builder


@dataclass(frozen=True, slots=True)
class Kind:
    """Draws one operator: adds the nodes that make its inputs, and itself."""

    name: str
    draw: Callable[[Builder], object]
    since: int
    until: int
    weight: float


KINDS: list[Kind] = []


def kind(
    *names: str, since: int = 1, until: int = 99, weight: float = 1.0
) -> Callable[[Callable[[Builder], object]], Callable[[Builder], object]]:
    """Declares a kind for opsets `since` to `until`; a function that takes the name may stand for several."""

    def declare(draw: Callable[..., object]) -> Callable[..., object]:
        if len(names) == 1:
            KINDS.append(Kind(names[0], draw, since, until, weight))
        else:
            for name in names:
                KINDS.append(Kind(name, _named(draw, name), since, until, weight / len(names) ** 0.5))
        return draw

    return declare


def _named(draw: Callable[..., object], name: str) -> Callable[[Builder], object]:
    return lambda b: draw(b, name)


def known_at(name: str, opset: int) -> bool:
    """Has the standard an operator of this name at this opset?"""
    try:
        schema = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return False
    return not schema.deprecated


@cache
def kinds_at(opset: int) -> list[Kind]:
    """The kinds that a graph of this opset may have."""
    return [
        k for k in KINDS if k.since <= opset <= k.until and (k.name[0].islower() or known_at(k.name, opset))
    ]
