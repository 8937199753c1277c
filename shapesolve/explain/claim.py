"""Reading claims like ``Z[1] == 2*seq``: references to dims of tensors become symbols of the parser's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..expr import Dim
from ..expr.parse import DimSyntaxError, parse_dim

if TYPE_CHECKING:
    from ..analysis import Analysis

#: a tensor name (or a backticked one) directly followed by an index
_REFERENCE = re.compile(r"`([^`]+)`\[\s*(-?\d+)\s*\]|([A-Za-z_][\w./:\-]*)\[\s*(-?\d+)\s*\]")
_MAX_LENGTH = 10_000
_MAX_NAMES = 3
#: a claim that is a single comparison: two sizes and the relation between them
_COMPARISON = re.compile(r"([^<>=!]+)(==|!=|<=|>=|<|>)([^<>=!]+)")


def no_tensor(name: str, analysis: Analysis) -> str:
    """That the model has no such tensor, and which was meant, or what its outputs are called."""
    names = list(analysis.walk.tensors)
    close = [n for n in names if name and name in n] or get_close_matches(
        name[:200], names[:20_000], _MAX_NAMES, 0.75
    )
    outputs = [n for n, _ in analysis.model.graph.outputs]
    if close:
        return f"the model has no tensor {name!r}; did you mean {' or '.join(close[:_MAX_NAMES])}?"
    more = " …" if len(outputs) > _MAX_NAMES else ""
    return f"the model has no tensor {name!r}; its outputs are {', '.join(outputs[:_MAX_NAMES])}{more}"


def resolve_references(text: str, analysis: Analysis) -> tuple[str, Mapping[str, Dim]]:
    """`text` with every ``tensor[axis]`` replaced by a name, and the table of all names in it."""
    if len(text) > _MAX_LENGTH:
        raise DimSyntaxError(f"a claim may have {_MAX_LENGTH} characters, this has {len(text)}")
    table: dict[str, Dim] = {**analysis.symbols}
    for shape in analysis.shapes.values():
        for d in shape:
            if d.name is not None:
                table.setdefault(d.name, d)

    def name_for(match: re.Match[str]) -> str:
        tensor, axis = match[1] or match[3], int(match[2] or match[4])
        dim = _dim_of(analysis, tensor, axis)
        name = f"__{len(table)}"
        table[name] = dim
        return f" {name} "

    return _REFERENCE.sub(name_for, text), table


def compared(claim: str, table: Mapping[str, Dim]) -> tuple[Dim, str, Dim] | None:
    """The two sizes that a (readable) claim compares, as its author wrote them; None for other claims."""
    found = _COMPARISON.fullmatch(claim)
    try:
        return None if found is None else (parse_dim(found[1], table), found[2], parse_dim(found[3], table))
    except DimSyntaxError:
        return None


def _dim_of(analysis: Analysis, tensor: str, axis: int) -> Dim:
    shape = analysis.shapes.get(tensor)
    if shape is None:
        if tensor in analysis.dtypes:
            raise KeyError(f"the rank of tensor {tensor!r} is not known")
        raise KeyError(no_tensor(tensor, analysis))
    if not -len(shape) <= axis < len(shape):
        raise IndexError(f"tensor {tensor!r} has shape {shape}: it has no axis {axis}")
    return shape[axis]
