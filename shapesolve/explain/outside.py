"""Sizes and assumptions of the user that the model does not accept: one finding per term of its contract that they break.

They are judged against the contract of the model as it is, before anything is concluded from them: what would follow
from sizes that never run is not worth telling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..expr import Cond, eq, parse_cond
from .finding import Conflict, Finding

if TYPE_CHECKING:
    from ..solve.contract.contract import Term
    from .solved import Solved

_MAX_NODES = 4
#: how far around a size others are tried, and how many that would do are told
_FURTHEST, _MOST_TOLD = 4096, 2


def find_outside(free: Solved, bound: Solved) -> tuple[Conflict, ...]:
    """What the user stated (in the request of `bound`) that the contract of the model (`free` of it) excludes."""
    stated = dict(_stated(free, bound))
    terms = [t for t in free.contract if free.prover.engine.satisfiable([t.cond, *stated]).unsat]
    return tuple(_conflict(t, stated, free, bound) for t in terms)


def _stated(free: Solved, bound: Solved) -> Iterator[tuple[Cond, str]]:
    """The conditions that the user stated, each with how to call it."""
    symbols = free.symbols
    for name, size in bound.request.bind.items():
        if name in symbols:
            yield eq(symbols[name], size), f"{name} = {size}"
    for item in bound.request.assume:
        cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
        yield cond, f"the assumption `{item}`"


def _conflict(term: Term, stated: Mapping[Cond, str], free: Solved, bound: Solved) -> Conflict:
    engine = free.prover.engine
    guilty = list(stated)
    for cond in list(guilty):  # those that it takes to break the term
        fewer = [c for c in guilty if c is not cond]
        if engine.satisfiable([term.cond, *fewer]).unsat:
            guilty = fewer
    verb = "is" if len(guilty) == 1 else "are"
    told = f"{' and '.join(stated[c] for c in guilty)} {verb} not accepted: {term.text} is needed"
    node = term.nodes[0] if term.nodes else ""
    story = next((c.finding for c in bound.conflicts if _is_about(c, guilty) and c.nodes), None)
    sizes = {n: bound.request.bind[n] for c in guilty for n in c.free if n in bound.request.bind}
    finding = Finding(
        "SS203",
        told,
        node,
        term.constraints[0].origin.op_type if term.constraints else "",
        term.nodes,
        story.operands if story else (),
        story.steps if story else (),
        (*_needed(term), *_would_do(term, free, bound, sizes)),
    )
    rows = map(free.walk.log.__getitem__, term.numbers)
    places = frozenset((id(row.node), row.prefix, row.why) for row in rows)
    find = partial(bound.cores.of_contradiction, places)  # of a system that holds what the user stated
    return Conflict(term.constraints, told, term.nodes, finding, find)


def _is_about(conflict: Conflict, stated: Sequence[Cond]) -> bool:
    """Do these statements of the user, and no others, take part in it?"""
    return {c.cond for c in conflict.stated if c.role == "user"} == set(stated)


def _needed(term: Term) -> Sequence[str]:
    shown = ", ".join(term.nodes[:_MAX_NODES])
    more = len(term.nodes) - _MAX_NODES
    rule = next((c.origin.rule for c in term.constraints if c.role == "requirement"), "")
    return (f"{rule}: {shown}" + (f" and {more} more" if more > 0 else ""),) if rule and shown else ()


def _would_do(term: Term, free: Solved, bound: Solved, sizes: Mapping[str, int]) -> Iterator[str]:
    """Sizes near the given ones that satisfy the term and break no other, all else that is bound being as it is."""
    given = bound.request.bind
    conds = [t.cond for t in free.contract if t is term or t.cond.evaluate(given) is not False]
    for name, size in sizes.items():
        near = (n for step in range(1, _FURTHEST) for n in (size - step, size + step) if n >= 0)
        found = []
        for candidate in near:
            tried = {**given, name: candidate}
            if all(c.evaluate(tried) is not False for c in conds):
                found.append(candidate)
                if len(found) == _MOST_TOLD:
                    break
        if found:
            yield f"{' or '.join(f'{name} = {n}' for n in sorted(found))} would do"
