"""Dims declared dynamic that the graph fixes, to a number or to another dim: a finding for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Dim, eq, symbol
from ..lower.records import Entry
from ..propagate.constraint import Constraint
from ..propagate.log import need
from .baked import Baked, Stored
from .finding import Finding, Operand
from .limit import Limit, left_text
from .operands import sides_of
from .repair import Repairs
from .wording import derived_text, operand_rows

if TYPE_CHECKING:
    from .derive import Deriver
    from .solved import Solved

_MAX_REASONS = 4


class _Fixed(NamedTuple):
    """What fixes the dim `name`: conditions, of which a node states the last with `entry`, and has it from `constant`."""

    name: str
    to: Dim
    causes: Sequence[Constraint]
    entry: Entry
    constant: Stored | None

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.origin.node for c in self.causes if c.origin.node))


def findings(analysis: Solved, deriver: Deriver) -> Iterator[Finding]:
    """A finding for each dim that has one size only, or that of another dim."""
    baked, repairs = Baked(analysis), Repairs(analysis.lowered, analysis.request)
    for fixed in _fixed(analysis, baked, analysis.symbols):
        name, to, causes = fixed.name, fixed.to, fixed.causes
        first, reasons = causes[-1].origin, _reasons(causes)
        if to.terms:
            title = f"`{name}` is declared as a dim of its own, but only {name} == {to} runs"
            told = f"declare the dim as {to}"
            sides = _sides(fixed, None, analysis)
            yield Finding(
                "SS402", title, first.node, first.op_type, fixed.nodes, sides, notes=reasons, help=told
            )
            continue
        title = f"`{name}` is declared dynamic, but {to} is the only size that runs"
        if not to.const:
            title = f"`{name}` must be 0: the model runs on empty inputs only"
        limit = _limit(fixed, analysis)
        found = deriver.derived(limit)
        constant = found.first or fixed.constant
        yield Finding(
            "SS405" if baked.is_feature(fixed.entry, name, to.const) else "SS401",
            title,
            first.node,
            first.op_type,
            fixed.nodes,
            _sides(fixed, constant, analysis),
            notes=(*reasons, *left_text(limit, found.left)),
            help=_help(
                fixed, found.elements, "" if found.elements else _repair_text(limit, analysis, repairs)
            ),
            constants=tuple(found.elements),
        )


def limits(analysis: Solved, names: Collection[str]) -> Iterator[Limit]:
    """The same as data, of these names."""
    for fixed in _fixed(analysis, Baked(analysis), names):
        yield _limit(fixed, analysis)


def _limit(fixed: _Fixed, analysis: Solved) -> Limit:
    cond, size = eq(analysis.symbols[fixed.name], fixed.to), None if fixed.to.terms else fixed.to.const
    return Limit((fixed.name, *sorted(fixed.to.free)), cond, fixed.entry, fixed.constant, size)


def _fixed(analysis: Solved, baked: Baked, names: Collection[str]) -> Iterator[_Fixed]:
    facts, symbols = analysis.facts, analysis.symbols
    bound = analysis.request.bind and not facts.substitution.keys().isdisjoint(symbols)
    unbound = analysis.again(bind={}) if bound else analysis
    for name in names:
        if name not in facts.substitution or name not in symbols or name in analysis.walk.state.undeclared:
            continue
        to = facts.dim(symbols[name])
        numbers = _deciding(name, to, sorted(facts.why([name])), analysis)
        causes = [analysis.stated[i] for i in numbers]
        if any(c.role in ("user", "assumption") for c in causes) or not causes:
            continue
        if unbound is not analysis and unbound.facts.dim(symbols[name]) is not to:
            continue  # it follows from sizes that the user gave, and not from the model alone
        if to.free <= symbols.keys():
            entry = analysis.walk.state.log[numbers[-1]]
            yield _Fixed(
                name, to, causes, entry, baked.constant(entry) if to.const and not to.terms else None
            )


def _deciding(name: str, to: Dim, numbers: Sequence[int], analysis: Solved) -> Sequence[int]:
    """Of conditions that fix a dim those that do it together; those last that fail where only this dim has another size."""
    if len(numbers) < 2:
        return numbers
    conds = [need(analysis.stated[i]) for i in numbers]
    core = analysis.prover.engine.core([*conds, ~eq(symbol(name), to)]) or range(len(conds))
    needed = [i for i in core if i < len(conds)]
    return [numbers[i] for i in sorted(needed, key=lambda i: name in conds[i].free)]


def _sides(fixed: _Fixed, constant: Stored | None, analysis: Solved) -> tuple[Operand, ...]:
    """What the node reads that fixes the dim, and the constant behind that."""
    sites = sides_of(fixed.entry, analysis.lowered, None if constant is None else constant.site)
    return operand_rows(sites, analysis.lowered)


def _reasons(causes: Iterable[Constraint]) -> tuple[str, ...]:
    """What fixes a dim: the last conditions first, since they decide; the rest counted."""
    told = list(
        dict.fromkeys(f"{c.origin.node} needs {c.cond}: {c.origin.rule}" for c in causes if c.origin.node)
    )
    told.reverse()
    rest = len(told) - _MAX_REASONS
    return (*told[:_MAX_REASONS], *((f"and {rest} conditions more of this kind",) if rest > 0 else ()))


def _repair_text(limit: Limit, analysis: Solved, repairs: Repairs) -> str:
    """The edits with which the limit is gone, in words; empty where none was found."""
    entry = limit.entry
    found = (
        () if entry is None or entry.node is None else repairs.of_limit(entry.node, entry.prefix, limit.names)
    )
    return ". Or: ".join(map(str, found))


def _help(fixed: _Fixed, derived: Collection[str], transposed: str = "") -> str:
    name, to = fixed.name, fixed.to
    if not to.const:
        return f"{fixed.causes[-1].origin.node} fails for every other size: look there first"
    if transposed:
        return transposed
    if fixed.constant is None:
        told = f"or export again with another `{name}`: what differs between the files was taken from the example"
        return f"declare `{name}` as {to}, {told}"
    told = derived_text(derived)
    return f"{told}, or declare `{name}` as {to}" if told else f"declare `{name}` as {to}"
