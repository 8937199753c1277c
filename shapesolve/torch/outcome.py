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
from .places import Verdict
from .running import Ran, SizeItems

Kind = Literal["fixed", "tied", "range", "restricted"]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of running the module and its graph at sizes that a condition rules out.

    Attributes:
        verdict: whose fault it is; unknown where the module could not be run there.
        sizes: the sizes at which it shows, all others as in the example.
        failed: the run that failed, with its line, when the module does.
        runs: ruled out by the condition, and the module runs there all the same.
    """

    verdict: Verdict = "unknown"
    sizes: SizeItems = ()
    failed: Ran | None = None
    runs: tuple[SizeItems, ...] = ()


@dataclass(frozen=True, slots=True)
class Restriction:
    """A condition of the export that the declaration does not imply.

    Attributes:
        term: the condition, with everything that needs it.
        kind: one size, a relation to other dims, a bound, or anything else (multiples, alternatives).
        proof: does the declaration imply it? Here always `Refuted` (with sizes that break it) or `Unknown`.
        beyond: the broken bound is one that the declaration does not state at all.
        guarded: torch.export itself made it a condition; else the graph needs it and nothing says so.
        tried: the result of running at sizes that it rules out.
    """

    term: Term
    kind: Kind
    roots: tuple[str, ...]
    proof: Proof
    beyond: bool = False
    guarded: bool = False
    tried: Confirmed = Confirmed()

    @property
    def counterexample(self) -> SizeItems:
        """Declared sizes that break the condition, from the proof."""
        if not isinstance(self.proof, Refuted):
            return ()
        return tuple((r, self.proof.counterexample[r]) for r in self.roots if r in self.proof.counterexample)

    @property
    def sizes(self) -> SizeItems:
        """Declared sizes that break the condition: those of a run, or else of the proof."""
        return self.tried.sizes or self.counterexample


@dataclass(frozen=True)
class SizeOutcome:
    """Outcome of a declared size. `state` is free, traced, failing, fixed, tied, range, restricted or unknown.

    It is traced when the module runs as declared, and torch.export's trace refuses some of it.
    """

    root: Root
    declared: str
    state: str
    text: str
    restrictions: tuple[Restriction, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.declared}: {self.text}"


class Comparison:
    """Compares terms of a contract with the declared ranges."""

    def __init__(self, declaration: Declaration, rlimit: int, given: Iterable[Cond] = ()) -> None:
        self.declaration, self.rlimit, self.given = declaration, rlimit, tuple(given)

    def restrictions(self, terms: Iterable[Term], *, guarded: bool) -> list[Restriction]:
        """The terms that the declaration (with the conditions `given`) does not imply."""
        found: list[Restriction] = []
        for term in terms:
            roots = tuple(n for n in term.symbols if n in self.declaration.roots)
            if not roots or len(roots) < len(term.symbols):
                continue
            proof, kind = self._prover.prove(term.cond), classify(term.cond)
            if not proof:
                beyond = kind == "range" and self._beyond(term.cond)
                found.append(Restriction(term, kind, roots, proof, beyond, guarded))
        return found

    def implied(self, cond: Cond) -> bool:
        """True if a condition holds at all declared sizes."""
        return bool(self._prover.prove(cond))

    def _beyond(self, cond: Cond) -> bool:
        bounded = [bound_sides(c) for c in (cond.args if cond.kind == "and" else (cond,))]
        roots = self.declaration.roots
        return any(getattr(roots[name], side) is None for sides in bounded for name, side in sides.items())

    @cached_property
    def _prover(self) -> Prover:
        """Prover under the declared ranges, sizes of at least 1, and the conditions given."""
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
    """Kind of a condition, by its effect on sizes: fixed, tied, range or restricted."""
    kind = kind_of(cond)
    if kind == "equality":
        return "fixed" if len(cond.free) == 1 else "tied"
    if kind in ("range", "nonempty"):
        return "range"
    return "restricted"


def bound_sides(cond: Cond) -> dict[str, str]:
    """For ``a*x + b*y + c >= 0``: the symbols bounded from below, and those from above."""
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
    default: tuple[str, str],
    seen: Mapping[str, tuple[str, str]],
) -> tuple[SizeOutcome, ...]:
    """One outcome per declared size, in the order of declaration.

    Of a size without restriction, the state and text are those `seen`, or else the default.
    """
    found: list[SizeOutcome] = []
    for name, root in declaration.roots.items():
        own = tuple(r for r in restrictions if name in r.roots)
        state, text = seen.get(name, default)
        if own:
            state = next(k for k in ("fixed", "tied", "restricted", "range") if any(r.kind == k for r in own))
            text = ", ".join(r.term.text for r in own)
        found.append(SizeOutcome(root, declaration.quote(name), state, text, own))
    return tuple(found)


#: state and text of an unrestricted size, and of an unknown one
FREE = ("free", "free, as declared")
UNKNOWN = ("unknown", "not known: torch.export gives up before")


def graph_terms(analysis: Analysis) -> Sequence[Term]:
    """Contract terms that nodes need, without assumptions. Empty if the model contradicts itself."""
    if analysis.conflicts or analysis.contract.impossible:
        return ()
    return tuple(t for t in analysis.contract.usual if t.nodes)


def holds_at(cond: Cond, sizes: Mapping[str, int]) -> bool:
    """True unless the condition is false at these sizes. A condition without a value counts as true."""
    try:
        return bool(cond.evaluate(dict(sizes)))
    except (ArithmeticError, ValueError, KeyError):
        return True
