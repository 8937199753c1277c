"""User's sizes and assumptions that the model rejects: the first failing node, and the nearest sizes that run.

They are checked against the model's own contract before anything is derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..causes.contradictions import Refuted
from ..causes.failure import Failure, first_clash, label_of
from ..causes.finding import Conflict, Finding
from ..causes.limits import MAX_LISTED
from ..causes.operands import sides_of
from ..causes.wording import is_short, operand_rows
from ..expr import Cond, eq, ge, parse_cond
from ..expr.sizes import sizes_text
from ..solve.known import Known
from .example import moved, near, sizes_help
from .rejected import sentence_of

if TYPE_CHECKING:
    from ..lower.records import Entry
    from ..solve.contract.contract import Term
    from .solved import Solved


#: a condition that a sentence can state: a bound, a multiple, or an equality of sums
_PLAIN = re.compile(r"[\w\s+*<>=-]+|\w+ % \d+ == \d+")


class Outside(NamedTuple):
    """Terms of the contract of `free` that contradict the user's conditions in `bound`, if other sizes are `present`."""

    terms: Sequence[Term]
    stated: Mapping[Cond, str]
    present: Sequence[Cond]
    free: Solved
    bound: Solved


def find_outside(free: Solved, bound: Solved) -> Outside | None:
    """Return the conflict between the user's conditions in `bound` and the contract of `free`; None if none was found.

    It covers all terms that contradict them on their own or, if there are none, a minimal set of terms.
    """
    stated, engine = dict(_stated(free, bound)), free.prover.engine
    every = list(free.contract)
    present = [ge(size, 1) for name, size in free.symbols.items() if name not in bound.request.bind]
    for more in ([], present):
        known = Known([*stated, *more], engine)
        terms = [t for t in every if known.refuted(t.cond)]
        if not terms:
            core = engine.core([*(t.cond for t in every), *stated, *more]) or ()
            terms = [every[i] for i in core if i < len(every)]
        if terms:
            return Outside(terms, stated, more, free, bound)
    if all(clash.node is None for clash in bound.lowered.clashes[:1]):
        return None  # the user's statements contradict each other
    return Outside(terms, stated, [], free, bound)


def _stated(free: Solved, bound: Solved) -> Iterator[tuple[Cond, str]]:
    """Return the user's conditions, each with its text."""
    symbols = free.symbols
    for name, size in bound.request.bind.items():
        if name in symbols:
            yield eq(symbols[name], size), f"{name} = {size}"
    for item in bound.request.assume:
        cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
        yield cond, f"the assumption {cond}"


def conflict_of(outside: Outside) -> Conflict:
    """Return the conflict as a finding words it, with the first failing node and the nearest sizes that run."""
    terms, stated, present, free, bound = outside
    engine = free.prover.engine
    needs = Known([*(t.cond for t in terms), *present], engine)
    guilty = list(stated)
    for cond in list(guilty):  # those that it takes to break the terms
        fewer = [c for c in guilty if c is not cond]
        if needs.refuted(*fewer):
            guilty = fewer
    rows = [free.lowered.log[number] for t in terms for number in t.numbers]
    given = {n: size for n, size in bound.request.bind.items() if n in free.symbols}
    finder = free.finder()
    proposed = near(free, given, bound.request.assume)
    usual = (t for t in free.contract.usual if all(c.evaluate(given) is not False for c in t.scope))
    known = Known(stated, engine)
    broken = [t for t in usual if known.refuted(t.cond)]
    finding = _first_failure(free, bound, broken, next(iter(proposed), None)) or _of_rows(
        rows, [stated[c] for c in guilty], terms, free, bound
    )
    nodes = tuple(dict.fromkeys([*filter(None, [finding.node]), *(n for t in terms for n in t.nodes)]))
    assumed = [stated[c] for c in guilty if stated[c].startswith("the assumption ")]
    lead = f"{' and '.join(assumed)} contradict{'s' * (len(assumed) == 1)} the model: " if assumed else ""
    finding = Refuted.worded(
        lead + finding.title,
        finding.node,
        finding.op_type,
        nodes=nodes,
        operands=finding.operands,
        notes=finding.notes,
        help=sizes_help(proposed, given, [t.cond for t in free.contract.usual], finder),
        dims=tuple(given),
    )
    places = frozenset((id(row.node), row.prefix, row.why) for row in rows)
    find = partial(bound.cores.of_contradiction, places)  # the system includes the user's conditions
    constraints = tuple(c for t in terms for c in t.constraints)
    return Conflict(constraints, finding.title, nodes, finding, find)


def _of_rows(
    rows: Sequence[Entry], given: Sequence[str], terms: Sequence[Term], free: Solved, bound: Solved
) -> Finding:
    """Return a finding with the operands of the node that states the first of these conditions."""
    sizes_given = [text for text in given if not text.startswith("the assumption ")]
    got = f", got {', '.join(sizes_given)}" if sizes_given else ""
    title = f"the model requires {' and '.join(map(str, terms))}{got}"
    sizes = {n: size for n, size in bound.request.bind.items() if n in free.symbols}
    negative = next(_negative(free, sizes), "")
    if negative:
        return Refuted.worded(negative)
    row = next((r for r in rows if r.node is not None), None)
    if row is None or row.node is None:
        return Refuted.worded(title)
    sides = operand_rows(sides_of(row, free.lowered), free.lowered)
    why = () if row.places else (row.why,)
    label = f"{row.prefix}{row.node.label}"
    return Refuted.worded(title, label, row.node.op_type, operands=sides, notes=why)


def _negative(free: Solved, sizes: Mapping[str, int]) -> Iterator[str]:
    """Sentences on input sizes that would be negative as they are declared."""
    for name, known in free.inputs.items():
        for axis, dim in enumerate(getattr(known, "shape", None) or ()):
            value = dim.evaluate(sizes)
            if value is not None and value < 0:
                used = sizes_text(sizes, sorted(dim.free))
                yield f"{name}[{axis}] is declared as {dim}, which is {value} at {used}"


def _first_failure(
    free: Solved, bound: Solved, terms: Sequence[Term], runs: Mapping[str, int] | None
) -> Finding | None:
    """Return the finding about the first node that fails in `bound`, the model with sizes that `free` rejects.

    Args:
        free: The model without these sizes.
        bound: The model with these sizes.
        terms: The contract's terms for typical sizes that these sizes break.
        runs: Similar sizes for which the model runs, if any are known.
    """
    sizes = {n: size for n, size in bound.request.bind.items() if n in free.symbols}
    clash, filled = first_clash(bound.lowered), ""
    missing = {n: size for n, size in (runs or {}).items() if n not in sizes}
    if missing:  # the first failure may depend on the other sizes
        full = free.again(bind={**missing, **sizes}, assume=bound.request.assume)
        there = first_clash(full.lowered)
        if there is not None and (clash is None or label_of(there) != label_of(clash)):
            bound, clash, filled = full, there, sizes_text(missing)
            sizes |= missing
    if clash is None or clash.node is None:
        return None
    place = Failure.of(clash, bound.lowered, sizes)
    term = min((t for t in terms if _is_plain(t)), key=lambda t: place.label not in t.nodes, default=None)
    needed = "" if term is None else sentence_of(str(term), term.symbols, sizes)
    notes = [f"with {filled}"] if filled else []
    notes += [*([place.reason] if needed else []), *place.origins()]
    if not needed:
        notes += [f"the model requires {t}" for t in terms if place.label in t.nodes and is_short(str(t))]
    notes += place.emptied()
    if not needed and len(free.symbols) > 1 and len(sizes) > 1:
        notes.append(f"at {sizes_text(sizes)}")
    if runs is not None and place.stored_side is not None:
        good = Failure(free.again(bind=runs).lowered, place.node, place.prefix, runs, place.entry)
        shown = sizes_text(runs, moved(runs, sizes, [t.cond for t in terms]))
        notes += [f"at {shown}: {text}" for text in good.made_instead(place)] if shown else []
    return Refuted.worded(
        needed or place.reason,
        place.label,
        clash.node.op_type,
        nodes=(place.label,),
        operands=place.rows(),
        notes=tuple(dict.fromkeys(n for n in notes if n and n != needed))[:MAX_LISTED],
    )


def _is_plain(term: Term) -> bool:
    """Return True if a sentence can state the term."""
    return not term.scope and term.kind != "alternative" and _PLAIN.fullmatch(str(term)) is not None
