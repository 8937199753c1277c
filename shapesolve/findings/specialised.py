"""Findings about dims declared dynamic that the graph fixes to a number or another dim."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..causes.failure import Failure, stored_text
from ..causes.finding import Finding
from ..causes.limits import MAX_LISTED
from ..causes.operands import input_sites, sides_of
from ..causes.repair import Repairs
from ..causes.wording import operand_rows, rule_text
from ..expr import Dim, eq, symbol
from ..lower.records import Entry
from ..solve.facts.constraint import Constraint
from ..solve.facts.log import need
from .baked import Baked, Stored
from .limits import FixedWidth, OneSize, SameDim
from .rows import Rows

if TYPE_CHECKING:
    from ..answers.solved import Solved


class _Fixed(NamedTuple):
    """Evidence that a dim is fixed: conditions, the node of the last one, a stored constant."""

    name: str
    to: Dim
    causes: Sequence[Constraint]
    entries: Sequence[Entry]
    constant: Stored | None

    @property
    def entry(self) -> Entry:
        return self.entries[-1]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.origin.node for c in self.causes if c.origin.node))


def findings(analysis: Solved, baked: Baked, repairs: Repairs, rows: Rows) -> Iterator[Finding]:
    """A finding for each dim with only one size, or equal to another dim."""
    for fixed in _fixed(analysis, baked, analysis.symbols):
        name, to, causes = fixed.name, fixed.to, fixed.causes
        first, reasons = causes[-1].origin, _reasons(fixed, analysis)
        if to.terms and name in analysis.lowered.unnamed:
            continue  # not declared as a separate size
        found = repairs.of_limit(fixed.entry, [name])
        if to.terms:
            yield SameDim(
                names=(name,),
                claim=f"{name} is declared as an independent dim, but must equal {to}",
                to=to,
                node=first.node,
                op_type=first.op_type,
                nodes=fixed.nodes,
                operands=rows.of(sides_of(fixed.entry, analysis.lowered), fixed.entry),
                reasons=reasons,
                repairs=tuple(found),
            ).told()
            continue
        is_feature = not found and baked.is_feature(fixed.entry, name, to.const)
        named = baked.named(fixed.constant, fixed.entry)
        met = None if not named else baked.reader(fixed.entry, fixed.constant)
        is_export = fixed.constant is not None and fixed.constant.data and not found and not is_feature
        shown = sides_of(
            fixed.entry, analysis.lowered, None if fixed.constant is None else fixed.constant.site
        )
        node, op_type, sides = first.node, first.op_type, rows.of(shown, fixed.entry)
        if met is not None:
            node, op_type = f"{met[1]}{met[0].label}", met[0].op_type
            sides = operand_rows(input_sites(*met, analysis.lowered), analysis.lowered)
        yield (FixedWidth if is_feature else OneSize)(
            names=(name,),
            size=to.const,
            node=node,
            op_type=op_type,
            nodes=tuple(dict.fromkeys((node, *fixed.nodes))),
            operands=sides,
            reasons=reasons,
            repairs=tuple(found),
            declare={name: to.const},
            constants=tuple(filter(None, [named])),
            export=named if named and is_export and baked.differs_alone(named) else "",
        ).told()


def _fixed(analysis: Solved, baked: Baked, names: Collection[str]) -> Iterator[_Fixed]:
    facts, symbols = analysis.facts, analysis.symbols
    bound = analysis.request.bind and not facts.substitution.keys().isdisjoint(symbols)
    unbound = analysis.again(bind={}) if bound else analysis
    for name in names:
        if name not in facts.substitution or name not in symbols or name in analysis.lowered.undeclared:
            continue
        to = facts.dim(symbols[name])
        numbers = _deciding(name, to, sorted(facts.why([name])), analysis)
        causes = [analysis.stated[i] for i in numbers]
        if any(c.role in ("user", "assumption") for c in causes) or not causes:
            continue
        if unbound is not analysis and unbound.facts.dim(symbols[name]) is not to:
            continue  # it follows from sizes that the user gave, and not from the model alone
        if to.free <= symbols.keys():
            entries = [analysis.lowered.log[i] for i in numbers]
            baked_in = baked.constant(entries[-1]) if to.const and not to.terms else None
            yield _Fixed(name, to, causes, entries, baked_in)


def _deciding(name: str, to: Dim, numbers: Sequence[int], analysis: Solved) -> Sequence[int]:
    """Return a minimal set of conditions that fix a dim, those that mention the dim last."""
    if len(numbers) < 2:
        return numbers
    conds = [need(analysis.stated[i]) for i in numbers]
    core = analysis.prover.engine.core([*conds, ~eq(symbol(name), to)]) or range(len(conds))
    needed = [i for i in core if i < len(conds)]
    return [numbers[i] for i in sorted(needed, key=lambda i: name in conds[i].free)]


def _reasons(fixed: _Fixed, analysis: Solved) -> tuple[str, ...]:
    """Return the conditions that fix a dim as text, last one first, and the number of omitted ones."""
    texts: dict[str, None] = {}
    sizes = {} if fixed.to.terms else {fixed.name: fixed.to.const}
    for cause, entry in reversed([*zip(fixed.causes, fixed.entries, strict=True)]):
        if not cause.origin.node or entry.node is None:
            continue
        place = Failure(analysis.lowered, entry.node, entry.prefix, sizes, entry)
        stored = place.stored_side
        rule = (
            rule_text(entry, analysis.lowered)
            if stored is None
            else stored_text(stored, entry, analysis.lowered)
        )
        texts[f"{cause.origin.node}: {rule}"] = None
        texts.update(dict.fromkeys(filter(None, islice(place.origins(), 1))))
    rest = len(texts) - MAX_LISTED
    return (*islice(texts, MAX_LISTED), *((f"and {rest} conditions more of this kind",) if rest > 0 else ()))
