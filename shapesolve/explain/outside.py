"""Sizes and assumptions of the user that violate the contract: one finding per violated term.

They are judged against the contract of the model as it is, before anything is concluded from them: what would follow
from sizes that never run helps nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from ..expr import Cond, eq, parse_cond
from ..propagate import budget
from .finding import Conflict, Finding
from .limits import MAX_EXAMPLES, MAX_LISTED, MAX_TESTED
from .operands import sides_of
from .wording import operand_rows

if TYPE_CHECKING:
    from ..lower.records import Entry
    from ..solve.contract.contract import Term
    from .solved import Solved


def find_outside(free: Solved, bound: Solved) -> tuple[Conflict, ...]:
    """Conflicts of the user's statements in `bound` with the contract of `free`.

    One for each term that they contradict by itself; where there is none, one for a minimal set of terms that they
    contradict together.
    """
    stated, engine = dict(_stated(free, bound)), free.prover.engine
    broken = [(t,) for t in free.contract if engine.satisfiable([t.cond, *stated]).unsat]
    if not broken:
        terms = list(free.contract)
        core = engine.core([*(t.cond for t in terms), *stated]) or ()
        together = tuple(terms[i] for i in core if i < len(terms))
        return (_conflict(together, stated, free, bound),) if together else ()
    return tuple(_conflict(terms, stated, free, bound) for terms in broken)


def _stated(free: Solved, bound: Solved) -> Iterator[tuple[Cond, str]]:
    """The conditions of the user, each with its text."""
    symbols = free.symbols
    for name, size in bound.request.bind.items():
        if name in symbols:
            yield eq(symbols[name], size), f"{name} = {size}"
    for item in bound.request.assume:
        cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
        yield cond, f"the assumption `{item}`"


def _conflict(terms: Sequence[Term], stated: Mapping[Cond, str], free: Solved, bound: Solved) -> Conflict:
    engine, needs = free.prover.engine, [t.cond for t in terms]
    guilty = list(stated)
    for cond in list(guilty):  # those that it takes to break the terms
        fewer = [c for c in guilty if c is not cond]
        if engine.satisfiable([*needs, *fewer]).unsat:
            guilty = fewer
    given, wanted = [stated[c] for c in guilty], [t.text for t in terms]
    title = f"{_joined(given)} not accepted: {_joined(wanted)} needed"
    nodes = tuple(dict.fromkeys(n for t in terms for n in t.nodes))
    rows = [free.walk.state.log[number] for t in terms for number in t.numbers]
    stories = (c.finding for c in bound.conflicts if _is_about(c, guilty))
    story = next((f for f in stories if f.node in nodes), None) or _of_rows(rows, nodes, free)
    sizes = {n: bound.request.bind[n] for c in guilty for n in c.free if n in bound.request.bind}
    needs_of = dict.fromkeys(note for t in terms for note in _needed(t))
    notes = (*needs_of, *_would_do(terms, free, bound, sizes))
    finding = replace(story, code="SS203", title=title, nodes=nodes, notes=notes, help="")
    places = frozenset((id(row.node), row.prefix, row.why) for row in rows)
    find = partial(bound.cores.of_contradiction, places)  # of a system that holds what the user stated
    return Conflict(tuple(c for t in terms for c in t.constraints), title, nodes, finding, find)


def _joined(texts: Sequence[str]) -> str:
    """``a is``, ``a and b are``."""
    return f"{' and '.join(texts)} {'is' if len(texts) == 1 else 'are'}"


def _of_rows(rows: Sequence[Entry], nodes: Sequence[str], free: Solved) -> Finding:
    """A finding with the operands of the node that states the first of these conditions."""
    row = next((r for r in rows if r.node is not None), None)
    if row is None or row.node is None:
        return Finding("SS203", "", next(iter(nodes), ""))
    sides = operand_rows(sides_of(row, free.lowered), free.lowered)
    return Finding("SS203", "", f"{row.prefix}{row.node.label}", row.node.op_type, operands=sides)


def _is_about(conflict: Conflict, stated: Sequence[Cond]) -> bool:
    """True if the user's statements in the conflict are exactly these."""
    return {c.cond for c in conflict.stated if c.role == "user"} == set(stated)


def _needed(term: Term) -> Sequence[str]:
    shown = ", ".join(term.nodes[:MAX_LISTED])
    more = len(term.nodes) - MAX_LISTED
    rule = next((c.origin.rule for c in term.constraints if c.role == "requirement"), "")
    nodes = shown + (f" and {more} more" if more > 0 else "")
    return (f"needed by {nodes}: {rule}",) if rule and shown else ()


def _would_do(terms: Sequence[Term], free: Solved, bound: Solved, sizes: Mapping[str, int]) -> Iterator[str]:
    """Accepted sizes near the given ones, with the other bound sizes unchanged. Each was tested.

    Sizes that are not bound, or that break another term and are in its finding, are solved for.
    """
    given = {n: size for n, size in bound.request.bind.items() if n in free.symbols}
    wrong = [t.cond for t in free.contract if t not in terms and t.cond.evaluate(given) is False]
    elsewhere = frozenset[str]().union(*(c.free for c in wrong)) - sizes.keys()
    kept = {n: size for n, size in given.items() if n not in elsewhere}
    symbols = list(dict.fromkeys(s for t in terms for s in t.symbols))
    found_one = False
    for name, size in sizes.items():
        others = {n: at for n, at in kept.items() if n != name}
        near = (n for step in range(1, budget.MAX_AHEAD) for n in (size - step, size + step) if n >= 0)
        possible = (n for n in near if _possible(free, {**others, name: n}))
        tried = ((n, _accepted(free, bound, {**others, name: n})) for n in islice(possible, MAX_TESTED))
        found = islice(((n, full) for n, full in tried if full is not None), MAX_EXAMPLES)
        texts = [
            f"{name} = {n}{_with(symbols, others, name, full)}"
            for n, full in sorted(found, key=itemgetter(0))
        ]
        if texts:
            found_one = True
            yield f"nearest found to run: {' or '.join(texts)}"
    tied = [n for n in symbols if n in kept]
    if not found_one and len(tied) > 1:
        full = _accepted(free, bound, {n: at for n, at in kept.items() if n not in tied})
        if full is not None:
            yield f"found to run together: {' and '.join(f'{n} = {full[n]}' for n in tied)}"


def _possible(free: Solved, sizes: Mapping[str, int]) -> bool:
    return all(t.cond.evaluate(sizes) is not False for t in free.contract)


def _accepted(free: Solved, bound: Solved, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Accepted sizes of all inputs that include these, or None if none satisfy the user's assumptions."""
    full = free.completed(sizes)
    if full is None:
        return None
    assumed = (
        item if isinstance(item, Cond) else parse_cond(item, free.symbols) for item in bound.request.assume
    )
    return full if all(c.evaluate(full) is not False for c in assumed) else None


def _with(symbols: Sequence[str], given: Mapping[str, int], name: str, full: Mapping[str, int]) -> str:
    """Text of the sizes in `full` of other `symbols`."""
    solved = [f"{n} = {full[n]}" for n in symbols if n in full and n not in given and n != name]
    return f" with {' and '.join(solved)}" if solved else ""
