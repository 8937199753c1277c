"""Compares the declared sizes with the exported ones, size by size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..analysis import Analysis
from ..expr import Cond, ge
from ..expr.plain import kind_of
from ..expr.traverse import atoms_of
from ..solve.contract.contract import Term, text_of
from ..solve.engine import Engine, Verdict
from .declared import Declaration, Root
from .running import Ran, SizeItems

Kind = Literal["fixed", "tied", "range", "restricted"]
#: who fails at sizes that a condition rules out; "nobody" if the module and the file run and agree
Blame = Literal["module", "graph", "nobody", "unknown"]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of running the module and its graph at sizes that a condition rules out.

    Attributes:
        verdict: Whose fault it is; unknown if the module could not be run.
        sizes: Sizes that show it, all others as in the example.
        failed: The failed run, with its line, if the module fails.
        runs: Sizes that the condition rules out, although the module runs.
        exact: False if the condition is a limit that was not run on both sides.
    """

    verdict: Blame = "unknown"
    sizes: SizeItems = ()
    failed: Ran | None = None
    runs: tuple[SizeItems, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Restriction:
    """A condition of the export that the declaration does not imply.

    Attributes:
        term: The condition, with the nodes that require it.
        kind: One size, a relation to other dims, a bound, or anything else (multiples, alternatives).
        answer: Whether the declaration implies it: refuted (with sizes that break it), or unknown.
        beyond: Whether the broken bound is undeclared.
        guard: The condition as torch.export has it; None if only the graph requires it.
        tried: Result of running at sizes that it rules out.
    """

    term: Term
    kind: Kind
    roots: tuple[str, ...]
    answer: Verdict
    beyond: bool = False
    guard: Cond | None = None
    tried: Confirmed = Confirmed()

    @property
    def guarded(self) -> bool:
        """True if torch.export itself requires it."""
        return self.guard is not None

    @property
    def counterexample(self) -> SizeItems:
        """Declared sizes that break the condition, from the proof."""
        broken = self.answer.model or {}
        return tuple((name, broken[name]) for name in self.roots if name in broken)

    @property
    def sizes(self) -> SizeItems:
        """Declared sizes that break the condition, from a run if possible."""
        return self.tried.sizes or self.counterexample


@dataclass(frozen=True)
class SizeOutcome:
    """Outcome of a declared size. `state` is free, failing, fixed, tied, range, restricted or unknown."""

    root: Root
    declared: str
    state: str
    text: str
    restrictions: tuple[Restriction, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.declared}: {self.text}"


class Comparison:
    """Compares terms of a contract with the declared ranges, for sizes of at least 1 that satisfy the conditions `given`."""

    def __init__(self, declaration: Declaration, rlimit: int, given: Iterable[Cond] = ()) -> None:
        self.declaration, self.engine = declaration, Engine(rlimit)
        self.known = [*given, *declaration.conditions]

    def restrictions(self, terms: Iterable[Term], *, guarded: bool) -> list[Restriction]:
        """The terms that the declaration does not imply."""
        found: list[Restriction] = []
        for term in terms:
            roots = tuple(n for n in term.symbols if n in self.declaration.roots)
            if not roots or len(roots) < len(term.symbols):
                continue
            answer = self.engine.entails(term.cond, self.known)
            if not answer.proved:
                guard, term = term.cond if guarded else None, self._plain(term)
                kind = classify(term.cond)
                beyond = kind == "range" and self._beyond(term.cond)
                found.append(Restriction(term, kind, roots, answer, beyond, guard))
        return found

    def _plain(self, term: Term) -> Term:
        """The term as a limit without ``max``, if it is one for the declared sizes."""
        given = [*self.known, term.cond]
        for x in (a.args[0] for a in atoms_of(term.cond) if a.kind == "pos"):
            for cond in (ge(-x, 0), ge(x, 0)):
                same = self.engine.entails(cond, given).proved
                if same and self.engine.entails(term.cond, [*self.known, cond]).proved:
                    return replace(term, cond=cond, text=text_of(cond))
        return term

    def implied(self, cond: Cond) -> bool:
        """True if a condition holds at all declared sizes."""
        return self.engine.entails(cond, self.known).proved

    def _beyond(self, cond: Cond) -> bool:
        bounded = [bound_sides(c) for c in (cond.args if cond.kind == "and" else (cond,))]
        roots = self.declaration.roots
        return any(getattr(roots[name], side) is None for sides in bounded for name, side in sides.items())


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
UNKNOWN = ("unknown", "not known, because the export fails")


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
