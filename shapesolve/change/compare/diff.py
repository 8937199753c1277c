"""Compares two models: outputs and accepted sizes by proof, other tensors by their printed shapes.

Inputs and outputs are matched by name, the others by position; sizes by the inputs that they are declared on. Nothing is
assumed about broadcasts. A difference of sizes comes with an example that was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...analysis import Analysis, analyze
from ...answers.judge import bare
from ...answers.names import dtype_name, shape_text
from ...expr import Cond, Dim, Shape, any_of, eq, symbol
from ...expr.sizes import sizes_text
from ...lower.types import Known, Tensor
from ...solve.check import Checker
from ...solve.contract.contract import heading, text_of
from ...solve.proof import Proved, Prover, Refuted
from .differences import ContractComparison, Diff, OutputComparison, Relation, TensorChange, Verdict


class _Side:
    """One model, with its symbols and conditions in the names of the other."""

    def __init__(self, mine: Analysis, other: Analysis) -> None:
        self.analysis = mine
        self.to: dict[str, Dim] = {}
        self.ties: list[Cond] = []
        self.open = 0
        self._match(mine, other)
        for cond in Checker(mine._solved.lowered.constraints, mine._solved.facts).conditions:
            now = cond if cond.free <= self.to.keys() else mine._solved.facts.cond(cond)
            if now.free <= self.to.keys():
                self.ties.append(now.subs(self.to))
            else:
                self.open += 1
        self.names = self._names(other)

    def _match(self, mine: Analysis, other: Analysis) -> None:
        pairs = [(mine.inputs[a], other.inputs[b]) for a, b in matched([*mine.inputs], [*other.inputs])]
        later: list[tuple[Dim, Dim]] = []
        for known, its in pairs:
            for d, x in zip(_dims(known), _dims(its)):
                if d.name is not None and d.name not in self.to:
                    self.to[d.name] = x
                else:
                    later.append((d, x))
        for d, x in later:
            if d.free <= self.to.keys():
                self.ties.append(eq(d.subs(self.to), x))
            else:
                self.open += 1

    def _names(self, other: Analysis) -> dict[str, Dim]:
        """Return the printed name of each symbol: the other model's name for the same input axis, or a new name."""
        found = {name: d for name, d in self.to.items() if d.name is not None}
        taken = {d.name for d in found.values()} | other.symbols.keys()
        for name in self.analysis.symbols:
            if name not in found and name in taken:
                found[name] = symbol(f"{name}_of_the_second")
        return found

    def translated(self, d: Dim) -> Dim | None:
        """A size in the symbols of the other model; None if it depends on a symbol that has no counterpart."""
        return d.subs(self.to) if d.free <= self.to.keys() else None

    def typed(self, name: str) -> str:
        """Text of a tensor's type and shape, in printed names."""
        a = self.analysis
        return f"{dtype_name(a.dtypes.get(name, 0))} {shape_text(_renamed(a.shapes.get(name), self.names))}"


def _dims(known: Known) -> Sequence[Dim]:
    return known.shape if isinstance(known, Tensor) and known.shape is not None else ()


def _renamed(shape: Shape | None, to: Mapping[str, Dim]) -> Shape | None:
    return shape if shape is None or not to else Shape(d.subs(to) for d in shape)


def matched(mine: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs equal names; if as many names are left on both sides, pairs these by position."""
    pairs = [(name, name) for name in mine if name in others]
    left, right = [n for n in mine if n not in others], [n for n in others if n not in mine]
    return pairs + ([*zip(left, right)] if len(left) == len(right) else [])


def diff(before: Any, after: Any, *, values: bool = False) -> Diff:
    """Differences between two models in their outputs, accepted sizes, tensors and conflicts.

    Outputs are proved to have the same type and shape, and accepted sizes compared as sets. Assumptions that an analysis made
    about broadcasts are dropped first.

    Args:
        before, after: Two analyses, or models in any form that `analyze` accepts.
        values: Also prove that outputs have equal values, if both simplified graphs compute the same.
    """
    before, after = (_nothing_assumed(m) for m in (before, after))
    first, second = _Side(before, after), _Side(after, before)
    inputs = matched([*before.inputs], [*after.inputs])
    ends = [n for n, _ in before.model.graph.outputs], [n for n, _ in after.model.graph.outputs]
    outputs = matched(*ends)
    contract = _contract(first, second, bool(inputs))
    compared: Iterable[OutputComparison] = ()
    if contract.relation != "none":  # otherwise there is nothing to compare
        prover = _prover(before)
        compared = [_output(before, after, prover, second, a, b) for a, b in outputs]
    if values:
        from .same_values import same_values

        equal = same_values(before, after, inputs, outputs)
        compared = [replace(o, values="equal" if equal[o.name] else "not known") for o in compared]
    names = before.dtypes.keys() & after.dtypes.keys()
    rows = [(f"input {a}", a, b) for a, b in inputs]
    rows += [(name, name, name) for name in before.dtypes if name in names and name not in before.inputs]
    kept, own = dict[str, Dim](), {n: d for n, d in second.names.items() if d.name != n}
    removed, added = _only(_requirements(before, kept), _requirements(after, own))
    return Diff(
        _name(before),
        _name(after),
        tuple(compared),
        contract,
        tuple(_changes(before, second, rows)),
        len(names),
        tuple(_unmatched([*before.inputs], ends[0], [a for a, _ in inputs], [a for a, _ in outputs])),
        tuple(_unmatched([*after.inputs], ends[1], [b for _, b in inputs], [b for _, b in outputs])),
        removed,
        added,
        (len(before.conflicts), len(after.conflicts)),
        {n: str(d) for n, d in own.items()},
    )


def _nothing_assumed(model: Any) -> Analysis:
    found = model if isinstance(model, Analysis) else analyze(model, broadcast="strict")
    return found if found._solved.request.broadcast == "strict" else Analysis(bare(found._solved))


def _name(analysis: Analysis) -> str:
    path = analysis.model.path
    return str(path) if path is not None else analysis.model.graph.name


def _unmatched(
    inputs: Sequence[str], outputs: Sequence[str], paired_inputs: Sequence[str], paired_outputs: Sequence[str]
) -> list[str]:
    lost = [f"input {n}" for n in inputs if n not in paired_inputs]
    return lost + [f"output {n}" for n in outputs if n not in paired_outputs]


def _changes(before: Analysis, second: _Side, rows: Iterable[tuple[str, str, str]]) -> Iterable[TensorChange]:
    """Tensors whose printed type or shape differs, of rows (shown name, name before, name after)."""
    for shown, a, b in rows:
        text = f"{dtype_name(before.dtypes.get(a, 0))} {shape_text(before.shapes.get(a))}"
        other = second.typed(b)
        if text != other:
            yield TensorChange(shown, text, other)


# ---------------------------------------------------------------------- accepted sizes


def _contract(first: _Side, second: _Side, related: bool) -> ContractComparison:
    before, after = first.analysis, second.analysis
    terms = (
        *_only(_terms(before, {}), _terms(after, second.names)),
        _usual(before, {}),
        _usual(after, second.names),
    )
    left_out = first.open + second.open
    if before.contract.impossible and after.contract.impossible:
        return ContractComparison("none", None, None, left_out, *terms)
    if not related and (before.inputs or after.inputs):
        return ContractComparison("unrelated", None, None, left_out, *terms)
    only_first = _outside(before, second)
    only_second = _outside(after, first)
    relation = _relation(only_first, only_second)
    return ContractComparison(relation, only_first or None, only_second or None, left_out, *terms)


def _usual(analysis: Analysis, to: Mapping[str, Dim]) -> str:
    contract = analysis.contract
    if contract.impossible or not contract.usual.terms or not to:
        return str(contract)
    scope = heading([cond.subs(to) for cond in contract.usual.scope])
    terms = ", ".join(text_of(term.cond.subs(to)) for term in contract.usual)
    return f"{terms} {scope}".rstrip()


def _prover(analysis: Analysis) -> Prover:
    solved = analysis._solved
    return Prover(solved.lowered.constraints, solved.facts, rlimit=solved.request.rlimit, assumptions=())


#: undecided: no sizes are known, and their absence is not proved
_UNDECIDED: Mapping[str, int] = {}


def _outside(mine: Analysis, other: _Side) -> Mapping[str, int] | None:
    """Sizes that `mine` accepts and the other model rejects. None: proved that there are none; empty: undecided."""
    if mine.contract.impossible:
        return None
    if other.analysis.contract.impossible:
        return mine._solved.completed({}) or _UNDECIDED
    checker = Checker(mine._solved.lowered.constraints, mine._solved.facts)
    prover = _prover(mine)
    decided = True
    for cond in dict.fromkeys(other.ties):
        proof = prover.prove(cond)
        if isinstance(proof, Proved):
            continue
        decided = False
        if isinstance(proof, Refuted):
            sizes = {n: v for n, v in proof.counterexample.items() if n in mine.symbols}
            if cond.evaluate(sizes) is False and not checker.broken(sizes):
                return _plainer(mine, cond, sizes, checker)
    return None if decided else _UNDECIDED


def _plainer(mine: Analysis, cond: Cond, sizes: Mapping[str, int], checker: Checker) -> Mapping[str, int]:
    """Return sizes that show the same difference, without zeros and in the contract's scope if possible."""
    start = {name: max(size, 1) for name, size in sizes.items()}
    for scope in (mine.contract.usual.whole.conds, ()):
        near = mine._solved.finder([~cond, *scope], floor=1).nearest(start)
        if near is not None and cond.evaluate(near) is False and not checker.broken(near):
            return near
    return sizes


def _relation(only_first: Mapping[str, int] | None, only_second: Mapping[str, int] | None) -> Relation:
    if _UNDECIDED in (only_first, only_second):
        return "open"
    if only_first is None:
        return "equal" if only_second is None else "wider"
    return "narrower" if only_second is None else "neither"


def _only(first: Mapping[str, None], second: Mapping[str, None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(t for t in first if t not in second), tuple(t for t in second if t not in first)


def _terms(analysis: Analysis, to: Mapping[str, Dim]) -> dict[str, None]:
    if analysis.conflicts:
        return {}
    return dict.fromkeys(text_of(t.cond.subs(to)) if to else t.text for t in analysis.contract)


def _requirements(analysis: Analysis, to: Mapping[str, Dim]) -> dict[str, None]:
    """Conditions on input sizes that nodes require, each with its node."""
    found: dict[str, None] = {}
    for c in analysis._solved.stated.role("requirement"):
        if c.cond.free and c.cond.free <= analysis.symbols.keys():
            found[f"{c.origin.node}: {c.cond.subs(to) if to else c.cond}"] = None
    return found


# ---------------------------------------------------------------------- outputs


def _output(
    before: Analysis, after: Analysis, prover: Prover, second: _Side, name: str, other: str
) -> OutputComparison:
    x, y = before.shapes.get(name), after.shapes.get(other)
    kinds = before.dtypes.get(name, 0), after.dtypes.get(other, 0)
    texts = shape_text(x), shape_text(_renamed(y, second.names))
    if all(kinds) and kinds[0] != kinds[1]:
        typed = [f"{dtype_name(kind)} {text}" for kind, text in zip(kinds, texts)]
        return OutputComparison(name, other, "differs", typed[0], typed[1])
    if x is None or y is None or not all(kinds):
        return OutputComparison(name, other, "open", *texts, "unknown rank or type")
    if len(x) != len(y):
        return OutputComparison(name, other, "differs", *texts, "the ranks differ")
    why = ""
    for a, b in zip(x, y):
        verdict, reason = _sizes(before, prover, second, a, b)
        if verdict == "differs":
            return OutputComparison(name, other, verdict, *texts, reason)
        why = why or reason
    return OutputComparison(name, other, "open" if why else "same", *texts, why)


def _sizes(before: Analysis, prover: Prover, second: _Side, a: Dim, b: Dim) -> tuple[Verdict, str]:
    its = second.translated(b)
    strange = sorted(a.free - before.symbols.keys()) or sorted(b.free - second.to.keys())
    if its is None or strange:
        return "open", f"{strange[0]} depends on data, or on an input that the other model lacks"
    if a is its:
        return "same", ""
    refused = [~c for c in dict.fromkeys(second.ties) if not before._solved.facts.cond(c).is_true]
    proof = prover.prove(any_of((*refused, eq(a, its))))
    if isinstance(proof, Proved):
        return "same", ""
    if isinstance(proof, Refuted):
        sizes = {n: v for n, v in proof.counterexample.items() if n in before.symbols}
        values = a.evaluate(sizes), its.evaluate(sizes)
        accepted = not Checker(before._solved.lowered.constraints, before._solved.facts).broken(sizes)
        if accepted and None not in values and values[0] != values[1]:
            at = sizes_text(sizes, sorted(a.free | its.free))
            return "differs", f"{f'at {at}: ' if at else ''}{values[0]} against {values[1]}"
    return "open", f"{a} == {its} is undecided"
