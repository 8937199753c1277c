# compiled: see CONTRIBUTING.md
"""Converts declared types of the model to known values."""

from __future__ import annotations

from ..expr import Dim, Shape, constant, symbol
from ..expr.parse import dim_from_param
from ..model import MapType, OptionalType, SequenceType, TensorType, ValueType
from .limits import MAX_RANK
from .statements import Statements
from .types import OPEN, Known, Map, Optional, Sequence


def declared_known(walk: Statements, declared: ValueType | None, name: str = "") -> Known | None:
    """Return the known value of a declared type; dims without a name get symbols named after `name`."""
    if declared is None:
        return None
    if isinstance(declared, TensorType):
        shape = None
        if declared.dims is not None and len(declared.dims) > MAX_RANK:
            what = f"{name or 'a tensor'} is declared with {len(declared.dims):,} axes:"
            what += f" ranks above {MAX_RANK} are not supported"
            walk.note("open", what, None, walk.scope)
        elif declared.dims is not None:
            shape = Shape(
                _declared_dim(walk, d, f"{name}_d{i}" if name else "") for i, d in enumerate(declared.dims)
            )
        return walk.interner.tensor(declared.dtype, shape)
    if isinstance(declared, SequenceType):
        return Sequence(declared_known(walk, declared.elem))  # the elements may differ in unnamed sizes
    if isinstance(declared, OptionalType):
        return Optional(declared_known(walk, declared.elem, name))
    assert isinstance(declared, MapType)
    return Map(declared.key, declared_known(walk, declared.value))


def _declared_dim(walk: Statements, d: int | str | None, name: str) -> Dim:
    if isinstance(d, int):
        return constant(d)
    if isinstance(d, str):
        dim = dim_from_param(d, walk.state.words)
        if dim not in walk.state.opaque:
            return dim
        made = walk.state.opaque[dim]
        if made is None and name.isidentifier():
            made = walk.state.opaque[dim] = unnamed_dim(walk, name)
        return OPEN if made is None else made
    if name and name.isidentifier():
        return unnamed_dim(walk, name)
    return OPEN if not name else walk.fresh(f"a dim of {name}")


def unnamed_dim(walk: Statements, name: str) -> Dim:
    """Symbol for an input dim without a name: `name`, or the model's own name for an equal size.

    A name that the author uses for another size is left alone.
    """
    while name in walk.state.words:
        name += "_"
    chosen = walk.state.author.get(name, name)
    if chosen == name:
        walk.state.unnamed.add(name)
    return symbol(chosen)
