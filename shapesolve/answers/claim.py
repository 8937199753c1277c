"""Parses claims like ``Z[1] == 2*seq``. References to dims of tensors become symbols of the parser's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import count
from typing import TYPE_CHECKING

from ..expr import Dim
from ..expr.limits import MAX_LENGTH, MAX_MEANT
from ..expr.nearest import like, unknown_name
from ..expr.parse import DimSyntaxError, parse_dim
from .rejected import TensorSizes

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from .solved import Solved

#: a tensor name (or a backticked one) directly followed by an index; what may be in a name without backticks
_REFERENCE = re.compile(r"`([^`]+)`\[\s*(-?\d+)\s*\]|([\w./:\-]*[\w./:])\[\s*(-?\d+)\s*\]")
#: a claim that is a single comparison: two sizes and the relation between them
_COMPARISON = re.compile(r"([^<>=!]+)(==|!=|<=|>=|<|>)([^<>=!]+)")


def no_tensor(name: str, lowered: Lowered) -> str:
    """Message: the model has no tensor of this name, with similar names or the names of its outputs."""
    names = list(lowered.tensors)
    close = [n for n in names if name and name in n]
    if close:
        return f"unknown tensor {name!r}; did you mean {' or '.join(close[:MAX_MEANT])}?"
    if hint := like(name, names):
        return f"unknown tensor {name!r}{hint}"
    return unknown_name("tensor", name, [n for n, _ in lowered.model.graph.outputs], "outputs")


def known_names(lowered: Lowered) -> AbstractSet[str]:
    """Dim names that a claim may use: input symbols and generated symbols."""
    introduced: AbstractSet[str] = lowered.facts.rank.keys()
    return lowered.symbols.keys() | introduced


def unknown_names(names: AbstractSet[str], lowered: Lowered) -> list[str]:
    """Return the names that no dim of any tensor has."""
    strange = set(names - known_names(lowered))
    if strange:  # otherwise no shape is needed
        strange.difference_update(*[d.free for shape in lowered.shapes.values() for d in shape])
    return sorted(strange)


def no_dim(name: str, lowered: Lowered) -> str:
    """Message: no dim has this name, with similar names."""
    names = {n for n in known_names(lowered) if n not in lowered.reasons}
    return unknown_name("dim", name, names)


def resolve_references(
    text: str, lowered: Lowered, extra: Mapping[str, Dim] | None = None
) -> tuple[str, Mapping[str, Dim]]:
    """Replace every ``tensor[axis]`` in `text` by a name; return the new text and the dims of all names.

    `extra` defines additional names. An unknown name becomes a symbol when the text is parsed.
    """
    if len(text) > MAX_LENGTH:
        raise DimSyntaxError(f"a claim may have {MAX_LENGTH} characters, this has {len(text)}")
    table: dict[str, Dim] = {**lowered.generated, **lowered.symbols}
    for shape in lowered.shapes.values():
        for d in shape:
            if d.name is not None:
                table.setdefault(d.name, d)
    table.update(extra or {})
    number = count()

    def name_for(match: re.Match[str]) -> str:
        axis = int(match[2] or match[4])
        tensor = match[1] or _named(match[3], lowered)
        before = "" if match[1] else match[3][: len(match[3]) - len(tensor)]
        name = next(n for n in (f"r{i}" for i in number) if n not in table and n not in text)
        table[name] = _dim_of(lowered, tensor, axis)
        return before + name.ljust(
            len(match[0]) - len(before)
        )  # keeps the offsets of the remaining text valid

    return _REFERENCE.sub(name_for, text), table


def _named(written: str, lowered: Lowered) -> str:
    """The tensor name before an index: the longest suffix of `written` that is one. The rest is subtracted or divided."""
    cuts = [
        0,
        *(m.end() for m in re.finditer(r"[-/]", written)),
        *(m.start() for m in re.finditer("/", written)),
    ]
    ends = (written[i:] for i in sorted(set(cuts)))
    return next((end for end in ends if end in lowered.dtypes or end in lowered.tensors), _word(written))


def _word(written: str) -> str:
    """Return the name to report if no tensor matches: the text without a leading sign."""
    return written.lstrip("-")


def compared(claim: str, table: Mapping[str, Dim]) -> tuple[Dim, str, Dim] | None:
    """Return the two sides of a claim as written, with the relation; None for other claims."""
    found = _COMPARISON.fullmatch(claim)
    try:
        return None if found is None else (parse_dim(found[1], table), found[2], parse_dim(found[3], table))
    except DimSyntaxError:
        return None


def read_dim(text: str | Dim, lowered: Lowered) -> Dim:
    """Parses a dim over dim names and dims of tensors. Raises `ValueError` for a name that the model does not have."""
    dim = (
        text.subs(lowered.generated)
        if isinstance(text, Dim)
        else parse_dim(*resolve_references(text, lowered))
    )
    for name in unknown_names(dim.free, lowered):
        raise ValueError(no_dim(name, lowered))
    return dim


def _dim_of(lowered: Lowered, tensor: str, axis: int) -> Dim:
    shape = lowered.shapes.get(tensor)
    if shape is None:
        if tensor in lowered.dtypes:
            raise KeyError(f"the rank of tensor {tensor!r} is unknown")
        raise KeyError(no_tensor(tensor, lowered))
    if not -len(shape) <= axis < len(shape):
        raise IndexError(f"tensor {tensor!r} has shape {shape}: it has no axis {axis}")
    return shape[axis]


def tensor_sizes(solved: Solved, sizes: Mapping[str, int]) -> TensorSizes:
    """See `Analysis.evaluate`."""
    for name in sizes.keys() - known_names(solved.lowered):
        raise ValueError(no_dim(name, solved.lowered))
    violations = solved.violations_at(sizes)
    if not violations:
        return TensorSizes(solved.sizes_at(sizes))
    failing = {v.constraint.node for v in violations if v.constraint is not None}
    return TensorSizes(solved.concrete_shapes.until(failing, sizes) if failing else {}, violations)
