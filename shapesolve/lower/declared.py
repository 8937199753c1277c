"""What the model itself declares: types of inputs, and value_info and outputs held against what was inferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expr import Dim, Shape, constant, eq, symbol
from ..expr.parse import dim_from_param
from ..model import MapType, Node, OptionalType, SequenceType, TensorType, ValueType
from ..model.types import type_name
from .types import OPEN, Known, Map, Optional, Sequence, Tensor
from .values import MAX_RANK

if TYPE_CHECKING:
    from .records import Scope
    from .walk import Walk


def declared_known(walk: Walk, declared: ValueType | None, name: str = "") -> Known | None:
    """A declared type as something known; anonymous dims get symbols named after `name` when it is given."""
    if declared is None:
        return None
    if isinstance(declared, TensorType):
        shape = None
        if declared.dims is not None and len(declared.dims) > MAX_RANK:
            what = f"{name or 'a tensor'} is declared with {len(declared.dims):,} axes:"
            what += f" sizes are followed for at most {MAX_RANK}"
            walk.note("open", what, None, walk.scope)
        elif declared.dims is not None:
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
        return constant(d)
    if isinstance(d, str):
        return dim_from_param(d, walk.words)
    if name and name.isidentifier():
        return unnamed_dim(walk, name)
    return OPEN if not name else walk.fresh(f"a dim of {name}")


def unnamed_dim(walk: Walk, name: str) -> Dim:
    """The symbol of an input dim without a name: `name`, or what the author calls that size elsewhere.

    A name that the author uses for another size is left alone.
    """
    while name in walk.words:
        name += "_"
    chosen = walk.author.get(name, name)
    if chosen == name:
        walk.unnamed.add(name)
    return symbol(chosen)


def reconcile(walk: Walk, node: Node, scope: Scope, name: str, known: Known, declared: Known) -> Known:
    """What is known of a tensor after hearing the model's own declaration of it.

    A new name that the author gives to a size of ours replaces ours. Anything else is kept as a declared constraint: a
    disagreement is a finding, and the inferred shape stays. Where nothing was inferred, the declaration counts only if
    that is for want of knowledge (`_is_rank_unknowable`): else the rank depends on sizes or on data, and what a file says of
    such a tensor was true of one run.
    """
    if not isinstance(known, Tensor) or not isinstance(declared, Tensor):
        return known
    dtype = known.dtype or declared.dtype
    if known.dtype and declared.dtype and known.dtype != declared.dtype:
        kinds = f"{type_name(declared.dtype)}, it is {type_name(known.dtype)}"
        walk.clash(f"{name} is declared as {kinds}", node, scope, loads=False)
    shape = known.shape
    if shape is None and declared.shape is not None and _is_rank_unknowable(walk, node, scope):
        shape = _claimed(walk, node, scope, name, declared.shape)
    if shape is not None and declared.shape is not None:
        if len(shape) != len(declared.shape):
            walk.note("declared", f"{name} is declared as {declared.shape}, it is {shape}", node, scope)
        else:
            for i, (d, said) in enumerate(zip(shape, declared.shape, strict=True)):
                if d is not said and said is not OPEN:
                    walk.declare(d, said, f"{name}[{i}]", node, scope)
    return walk.interner.tensor(dtype, shape, known.value)


def _is_rank_unknowable(walk: Walk, node: Node, scope: Scope) -> bool:
    """Is every rank that is missing here missing because of unknown operators or of unranked inputs?"""
    prefix, todo, seen = scope.prefix, [node], {id(node)}
    while todo:
        at = todo.pop()
        if walk.operators.is_unknown(at, scope.opsets):
            continue
        missing = [name for name in at.inputs if name and _has_no_rank(walk.read(name, scope))]
        sources = [walk.producers.get(prefix + name) for name in missing]
        lost = any(
            s is None and name not in walk.named_inputs for name, s in zip(missing, sources, strict=True)
        )
        if not missing or lost or not walk.varying.isdisjoint(prefix + name for name in missing):
            walk.varying.update(prefix + name for name in node.outputs if name)
            return False
        for source in sources:
            if source is not None and id(source[0]) not in seen:
                seen.add(id(source[0]))
                todo.append(source[0])
    return True


def _has_no_rank(known: Known | None) -> bool:
    return not isinstance(known, Tensor) or known.shape is None


def rank_follows_inputs(walk: Walk, name: str, rank: int) -> bool:
    """If a tensor must be of `rank`: does that give all ranks that miss before it, which inputs declare none of?"""
    todo, seen = [name], {name}
    while todo:
        at = todo.pop()
        source = walk.producers.get(walk.scope.prefix + at)
        if source is None:
            if at not in walk.named_inputs:
                return False
            continue
        node, rule = source[0], walk.operators.rule(source[0], walk.scope.opsets)
        relation = "" if rule is None else rule.rank_relation
        read = [n for n in node.inputs[: 1 if relation == "first" else None] if n]
        missing = [n for n in dict.fromkeys(read) if _has_no_rank(walk.read(n, walk.scope))]
        if not relation or not missing or (relation == "broadcast" and len(missing) > 1):
            return False
        if relation == "broadcast" and any(_rank_of(walk, n) >= rank for n in read if n not in missing):
            return False
        todo += [n for n in missing if n not in seen]
        seen.update(missing)
    return True


def _rank_of(walk: Walk, name: str) -> int:
    known = walk.read(name, walk.scope)
    return len(known.shape) if isinstance(known, Tensor) and known.shape is not None else 0


def _claimed(walk: Walk, node: Node, scope: Scope, name: str, said: Shape) -> Shape:
    """The declared rank with sizes of our own.

    Names are the author's word, and taken as an assumption where they stand for something else too; numbers may have been
    those of one traced run.
    """
    walk.note(
        "open", f"of {name} only a declaration is known, {said}: its rank and names are believed", node, scope
    )
    shape = Shape(walk.fresh(f"dim {i} of {name}, which is only declared") for i in range(len(said)))
    for i, (d, size) in enumerate(zip(shape, said, strict=True)):
        if walk.granted and size.free and size is not OPEN and walk.is_taken(size):
            walk.define(eq(d, size), f"{name}[{i}] is declared as {size}", node, "assumption")
    return Shape(walk.facts.dim(d) for d in shape)
