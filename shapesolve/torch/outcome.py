"""Compares the declared sizes with the exported ones, size by size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ..analysis import Analysis
from ..expr import Cond, ge
from ..expr.plain import kind_of
from ..propagate.constraint import Constraint, Origin
from ..propagate.facts import Facts
from ..propagate.log import ConstraintSet
from ..solve.contract.contract import Term
from ..solve.proof import Proof, Prover, Refuted
from .declared import Declaration, Root

Kind = Literal["fixed", "tied", "range", "restricted"]


@dataclass(frozen=True, slots=True)
class Restriction:
    """A condition that came out and that the declaration does not promise.

    Attributes:
        term: the condition, with everything that needs it.
        kind: one size, a relation to other dims, a bound, or anything else (multiples, alternatives).
        proof: does the declaration imply it? Here always `Refuted` (with sizes that break it) or `Unknown`.
        beyond: the broken bound is one that the declaration does not state at all.
        guarded: torch.export itself made it a condition; else the graph needs it and nothing says so.
    """

    term: Term
    kind: Kind
    roots: tuple[str, ...]
    proof: Proof
    beyond: bool = False
    guarded: bool = False

    @property
    def counterexample(self) -> tuple[tuple[str, int], ...]:
        """Sizes within the declaration at which it does not run."""
        if not isinstance(self.proof, Refuted):
            return ()
        return tuple((r, self.proof.counterexample[r]) for r in self.roots if r in self.proof.counterexample)


@dataclass(frozen=True)
class SizeOutcome:
    """Outcome of a declared size. `state` is free, traced, failing, fixed, tied, range, restricted or unknown.

    It is traced when the module runs as declared, and torch.export's trace refuses some of it.
    """

    root: Root
    declared: str
    state: str
    restrictions: tuple[Restriction, ...] = field(default=(), repr=False)
    constant: int | None = None
    ruled_out: str = ""
    """The condition that torch.export's trace makes although the module runs elsewhere too."""
    failing: str = ""
    """What was seen to fail at which sizes, where no condition says why."""

    def __str__(self) -> str:
        came = ", ".join(r.term.text for r in self.restrictions)
        if self.constant is not None:
            came = f"the constant {self.constant}"
        free = "free, as declared" if self.state == "free" else "not known: torch.export gives up before"
        if self.failing and not came:
            free = self.failing
        elif self.ruled_out and not came:
            free = f"the module runs as declared; torch.export's trace keeps to {self.ruled_out}"
        return f"{self.declared}: {came or free}"


class Comparison:
    """Holds terms of a contract against the declared ranges."""

    def __init__(self, declaration: Declaration, rlimit: int, given: Iterable[Cond] = ()) -> None:
        self.declaration, self.rlimit, self.given = declaration, rlimit, tuple(given)

    def restrictions(self, terms: Iterable[Term], *, guarded: bool) -> list[Restriction]:
        """The terms that the declaration (with the conditions `given`) does not imply."""
        found = [self._restriction(t, guarded=guarded) for t in terms]
        return [r for r in found if r is not None]

    def implied(self, cond: Cond) -> bool:
        """True if a condition holds at all declared sizes."""
        return bool(self._prover.prove(cond))

    def _restriction(self, term: Term, *, guarded: bool) -> Restriction | None:
        roots = tuple(n for n in term.symbols if n in self.declaration.roots)
        if not roots or len(roots) < len(term.symbols):
            return None
        proof = self._prover.prove(term.cond)
        if proof:
            return None
        kind = classify(term.cond)
        return Restriction(term, kind, roots, proof, self._beyond(term.cond, kind), guarded)

    def _beyond(self, cond: Cond, kind: Kind) -> bool:
        if kind != "range":
            return False
        bounded = [bound_sides(c) for c in (cond.args if cond.kind == "and" else (cond,))]
        return any(not self._states(name, side) for sides in bounded for name, side in sides.items())

    def _states(self, name: str, side: str) -> bool:
        root = self.declaration.roots[name]
        return (root.low if side == "low" else root.high) is not None

    @cached_property
    def _prover(self) -> Prover:
        """Knows the declared ranges, that no size is 0, and the conditions given."""
        roots = self.declaration.roots.values()
        conds = [c for root in roots for c in (*root.conditions(), ge(root.dim, 1))]
        rows = [Constraint(c, "requirement", Origin("", "", "declared")) for c in (*conds, *self.given)]
        facts = Facts()
        for root in roots:
            facts.introduce(root.name)
        for i, row in enumerate(rows):
            facts.assume(row.cond, i)
        return Prover(ConstraintSet(rows), facts, rlimit=self.rlimit, assumptions=())


def classify(cond: Cond) -> Kind:
    """The effect of a condition on its sizes: fixed, tied, range or restricted."""
    kind = kind_of(cond)
    if kind == "equality":
        return "fixed" if len(cond.free) == 1 else "tied"
    if kind in ("range", "nonempty"):
        return "range"
    return "restricted"


def bound_sides(cond: Cond) -> dict[str, str]:
    """For ``a*x + b*y + c >= 0``: which symbols it bounds from below, which from above."""
    if cond.kind != ">=":
        return {}
    sides: dict[str, str] = {}
    for monomial, factor in cond.args[0].terms:
        for atom in monomial:
            for name in sorted(atom.free):
                sides[name] = "low" if factor > 0 else "high"
    return sides


def outcomes(
    declaration: Declaration,
    restrictions: Sequence[Restriction],
    constants: Mapping[str, int] | None = None,
    *,
    known: bool = True,
    ruled_out: Mapping[str, Restriction] | None = None,
    failing: Mapping[str, str] | None = None,
) -> tuple[SizeOutcome, ...]:
    """One outcome per declared size, in the order of declaration; `constants` came out as numbers.

    When the reason of a refusal is not `known`, a size that nothing is said of may be anything but free.
    """
    found: list[SizeOutcome] = []
    order = ("fixed", "tied", "restricted", "range")
    for name, root in declaration.roots.items():
        own = tuple(r for r in restrictions if name in r.roots)
        state = next((k for k in order if any(r.kind == k for r in own)), "free" if known else "unknown")
        constant = (constants or {}).get(name)
        state = state if constant is None else "fixed"
        traced, failed = (ruled_out or {}).get(name), (failing or {}).get(name, "")
        if not own and constant is None and (traced or failed):
            state = "failing" if failed else "traced"
        text = traced.term.text if traced is not None else ""
        found.append(SizeOutcome(root, declaration.quote(name), state, own, constant, text, failed))
    return tuple(found)


def graph_terms(analysis: Analysis) -> Sequence[Term]:
    """Contract terms that nodes need, without assumptions. Empty if the model contradicts itself."""
    if analysis.conflicts or analysis.contract.impossible:
        return ()
    return tuple(t for t in analysis.contract.readable if t.nodes)


def holds_at(cond: Cond, sizes: Mapping[str, int]) -> bool:
    """True unless the condition is false at these sizes. A condition without a value counts as true."""
    try:
        return bool(cond.evaluate(dict(sizes)))
    except (ArithmeticError, ValueError, KeyError):
        return True
