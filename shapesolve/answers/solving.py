"""Solves a model for a request, and detects declared input dims that the graph contradicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, Dim, all_of, ge, le, parse_cond, solve_for_symbol
from ..expr.grammar import is_word
from ..lower.fixpoint import lower_model
from ..lower.request import Request, Watch
from ..model import TensorType
from ..solve.facts import budget
from .claim import resolve_references
from .solved import Solved

if TYPE_CHECKING:
    from ..model import Model


def solve_model(model: Model, request: Request, watch: Watch | None = None) -> Solved:
    """Lower a model and wraps it as `Solved`; contradicted declarations of inputs are ignored. Declared input
    expressions that the graph contradicts become plain names.
    """
    if any(isinstance(text, str) and "[" in text for text in request.assume):
        request = request._replace(assume=_over_inputs(model, request))
    types = [t for _, t in model.graph.inputs if isinstance(t, TensorType)]
    texts = [d for t in types for d in t.dims or () if isinstance(d, str) and not is_word(d)]
    if request.opaque or not texts:
        return _lowered(model, request, watch)
    law = _lowered(model, request._replace(bind={}, assume=()), watch)
    opaque = frozenset(o.declared for o in opposed_by(law))
    if not opaque and not (request.bind or request.assume):
        return law
    return _lowered(model, request._replace(opaque=opaque))


def _lowered(model: Model, request: Request, watch: Watch | None = None) -> Solved:
    return Solved(lower_model(model, request, watch), request)


def solve_request(model: Model, request: Request, watch: Watch | None = None) -> Solved:
    """Solve a model for a request that its contract may exclude.

    If it does, the result is the model without the requested sizes and assumptions, and the broken conditions are its
    conflicts.
    """
    solved = solve_model(model, request, watch)
    request = solved.request
    if not (request.bind or request.assume) or not solved.contract.impossible:
        return solved
    free = solved.again(bind={}, assume=())
    if free.contract.impossible:
        return free
    from .outside import conflict_of, find_outside

    rejected = find_outside(free, solved)
    return (
        solved if rejected is None else Solved(free.lowered, request, rejected=partial(conflict_of, rejected))
    )


def _over_inputs(model: Model, request: Request) -> tuple[Cond | str, ...]:
    """Return the assumptions, with dims of tensors (`x[0]`) replaced by their definitions without any assumption."""
    lowered = _lowered(model, request._replace(bind={}, assume=())).lowered
    found: list[Cond | str] = []
    for given in request.assume:
        if isinstance(given, str) and "[" in given:
            try:
                given = parse_cond(*resolve_references(given, lowered))
            except (KeyError, IndexError) as e:
                raise ValueError(str(e.args[0])) from None
        found.append(given)
    return tuple(found)


class Opposed(NamedTuple):
    """A declared expression of an input dim that the graph contradicts, with sizes that show it."""

    tensor: str
    axis: int
    declared: Dim
    free: Solved  # with the dim as a separate size
    sizes: Mapping[str, int]

    @property
    def size(self) -> Dim:
        """The dim as an independent symbol."""
        shape = getattr(self.free.inputs[self.tensor], "shape", None)
        assert shape is not None
        dim: Dim = shape[self.axis]
        return dim


def opposed_by(law: Solved) -> Iterator[Opposed]:
    """Return declared input expressions that the graph contradicts for sizes that run without them.

    `law` is the model that assumes all of them. A declaration is contradicted if the graph, with that dim as a
    separate
    size, ties it by an equality to other sizes, and the two differ for some sizes that run. A limit or a divisor of
    the dim
    is not a contradiction.
    """
    if law.stuck:
        return
    shapes = {n: getattr(known, "shape", None) or () for n, known in law.inputs.items()}
    dims = [(d, name, axis) for name, shape in shapes.items() for axis, d in enumerate(shape) if d.terms]
    named = {d.name for d, _, _ in dims}
    first = {d: (name, axis) for d, name, axis in reversed(dims) if d.name is None}
    for declared, (name, axis) in first.items():
        if not declared.free <= named or not any(c.free & declared.free for c in law.accepted.conds):
            continue
        free = law.again(opaque=frozenset((declared,)))
        opposed = Opposed(name, axis, declared, free, {})
        size = opposed.size.name or ""
        ties = [] if free.stuck else [c for c in free.accepted.conds if _is_tie(c, size)]
        at_declared = all_of(ties).subs({size: declared})
        near = [bound for d in free.symbols.values() for bound in (ge(d, 2), le(d, budget.SMALL_DOMAINS[1]))]
        if not ties or at_declared.is_true:
            continue
        found = free.prover.engine.model([~at_declared, *free.accepted.conds, *near])
        if found is not None:
            sizes = {n: found.get(n, 2) for n in free.symbols}
            if not free.violations_at(sizes):
                yield opposed._replace(sizes=sizes)


def _is_tie(cond: Cond, name: str) -> bool:
    """Return True if the condition, or an alternative in it, equates the size with an expression."""
    parts = cond.args if cond.kind == "or" else (cond,)
    equal = [p.args[0] for p in parts if isinstance(p, Cond) and p.kind == "=="]
    solved = [solve_for_symbol(d, lambda atom: atom.args[0] == name) for d in equal]
    return any(s is not None and s[0].args[0] == name and s[1].terms for s in solved)
