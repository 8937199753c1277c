"""What the model itself declares: types of inputs, and value_info and outputs held against what was inferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dims import Dim, Shape, symbol
from ..dims.parse import dim_from_param
from ..graph import MapType, Node, OptionalType, SequenceType, TensorType, ValueType
from .types import Known, Map, Optional, Sequence, Tensor

if TYPE_CHECKING:
    from .records import Scope
    from .walk import Walk

_ANONYMOUS = "?"


def declared_known(walk: Walk, declared: ValueType | None, name: str = "") -> Known | None:
    """A declared type as something known; anonymous dims get symbols named after `name` when it is given."""
    if declared is None:
        return None
    if isinstance(declared, TensorType):
        shape = None
        if declared.dims is not None:
            shape = Shape(
                _declared_dim(walk, d, f"{name}_d{i}" if name else "") for i, d in enumerate(declared.dims)
            )
        return walk.interner.tensor(declared.dtype, shape)
    if isinstance(declared, SequenceType):
        return Sequence(declared_known(walk, declared.elem))  # elements may differ in what has no name
    if isinstance(declared, OptionalType):
        return Optional(declared_known(walk, declared.elem, name))
    assert isinstance(declared, MapType)
    return Map(declared.key, declared_known(walk, declared.value))


def _declared_dim(walk: Walk, d: int | str | None, name: str) -> Dim:
    if isinstance(d, int):
        return Dim(d)
    if isinstance(d, str):
        return dim_from_param(d)
    if name and name.isidentifier():
        return unnamed_dim(walk, name)
    return symbol(_ANONYMOUS) if not name else walk.fresh(f"a dim of {name}")


def unnamed_dim(walk: Walk, name: str) -> Dim:
    """The symbol of an input dim without a name: `name`, or what the author calls that size elsewhere."""
    chosen = walk.author.get(name, name)
    if chosen == name:
        walk.unnamed.add(name)
    return symbol(chosen)


def reconcile(walk: Walk, node: Node, scope: Scope, name: str, known: Known, declared: Known) -> Known:
    """What is known of a tensor after hearing the model's own declaration of it.

    Where nothing was inferred the declaration stands. A new name that the author gives to a size of ours replaces
    ours. Anything else is kept as a declared constraint: a disagreement is a finding, and the inferred shape stays.
    """
    if not isinstance(known, Tensor) or not isinstance(declared, Tensor):
        return known
    dtype = known.dtype or declared.dtype
    if known.dtype and declared.dtype and known.dtype != declared.dtype:
        walk.note(
            "declared",
            f"{name} is declared with element type {declared.dtype}, it is {known.dtype}",
            node,
            scope,
        )
    shape = known.shape
    if shape is None:
        if declared.shape is not None:
            what = f"a dim of {name} that is declared without a size"
            shape = Shape(walk.fresh(what) if _is_anonymous(d) else d for d in declared.shape)
    elif declared.shape is not None:
        if len(shape) != len(declared.shape):
            walk.note("declared", f"{name} is declared as {declared.shape}, it is {shape}", node, scope)
        else:
            for i, (d, said) in enumerate(zip(shape, declared.shape, strict=True)):
                if d is not said and not _is_anonymous(said):
                    walk.declare(d, said, f"{name}[{i}]", node, scope)
    return walk.interner.tensor(dtype, shape, known.value)


def _is_anonymous(d: Dim) -> bool:
    return d.name == _ANONYMOUS
