# compiled: see CONTRIBUTING.md
"""Comparison of a model's declarations (value_info and outputs) with the inferred types."""

from __future__ import annotations

from ..expr import Shape
from ..model import Node
from ..model.types import type_name
from .records import Scope
from .scopes import Scopes
from .types import OPEN, Known, Tensor


def reconcile(walk: Scopes, node: Node, scope: Scope, name: str, known: Known, declared: Known) -> Known:
    """Combine a tensor's inferred value with the model's declaration of it.

    An author's name replaces a generated size. If inference gave no result for lack of knowledge
    (`_is_rank_unknowable`), the
    declaration is assumed. If the rank is missing because sizes or data determine it, the file describes only one run
    and is
    ignored. Any other declaration becomes a declared constraint: a disagreement is a finding, and the inferred shape
    stays.
    """
    if not isinstance(known, Tensor) or not isinstance(declared, Tensor):
        return known
    dtype = known.dtype or declared.dtype
    if known.dtype and declared.dtype and known.dtype != declared.dtype:
        wrong = f"{name} is declared as {type_name(declared.dtype)}, but its type is {type_name(known.dtype)}"
        walk.clash(wrong, node, scope, loads=False)
        walk.note("type", wrong, node, scope)
    shape, stated = known.shape, declared.shape
    if stated is None:
        return walk.interner.tensor(dtype, shape, known.value)
    if shape is None and _is_rank_unknowable(walk, node, scope):
        shape = Shape(walk.fresh(f"dim {i} of {name}, which is only declared") for i in range(len(stated)))
        walk.state.unknown |= shape.free_symbols()
    if shape is not None and len(shape) != len(stated):
        walk.note("declared", f"{name} is declared as {stated}, but its shape is {shape}", node, scope)
    elif shape is not None:
        for i, (d, size) in enumerate(zip(shape, stated, strict=True)):
            if d is not size and size is not OPEN:
                walk.declare(d, size, name, i, node, scope)
        shape = Shape(walk.facts.dim(d) for d in shape)
    return walk.interner.tensor(dtype, shape, known.value)


def _is_rank_unknowable(walk: Scopes, node: Node, scope: Scope) -> bool:
    """Return True if every missing rank here is due to unknown operators or to unranked inputs."""
    prefix, todo, seen = scope.prefix, [node], {id(node)}
    while todo:
        at = todo.pop()
        if walk.operators.is_unknown(at, scope.opsets):
            continue
        missing = [name for name in at.inputs if name and _has_no_rank(walk.read(name, scope))]
        sources = [walk.state.producers.get(prefix + name) for name in missing]
        lost = any(
            s is None and name not in walk.state.named_inputs
            for name, s in zip(missing, sources, strict=True)
        )
        if not missing or lost or not walk.state.varying.isdisjoint(prefix + name for name in missing):
            walk.state.varying.update(prefix + name for name in node.outputs if name)
            return False
        for source in sources:
            if source is not None and id(source[0]) not in seen:
                seen.add(id(source[0]))
                todo.append(source[0])
    return True


def _has_no_rank(known: Known | None) -> bool:
    return not isinstance(known, Tensor) or known.shape is None


def rank_follows_inputs(walk: Scopes, name: str, rank: int) -> bool:
    """True if requiring `rank` of a tensor determines the ranks of all tensors it is computed from. Inputs must declare
    none of these.
    """
    todo, seen = [name], {name}
    while todo:
        at = todo.pop()
        source = walk.state.producers.get(walk.scope.prefix + at)
        if source is None:
            if at not in walk.state.named_inputs:
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


def _rank_of(walk: Scopes, name: str) -> int:
    known = walk.read(name, walk.scope)
    return len(known.shape) if isinstance(known, Tensor) and known.shape is not None else 0
