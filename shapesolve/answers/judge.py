"""Answers claims by proof, and confirms each answer by analyzing the model at the sizes it found.

A proof that uses a default or the `broadcast` mode is tried again without these, and lists them if it then fails. A
refutation counts only if the model accepts its sizes, and a new analysis at these sizes refutes the claim too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self, TypeVar

from ..causes.limits import MAX_LISTED, MAX_STATED
from ..expr import Cond, Dim, DimSyntaxError, eq, parse_cond
from ..lines import join_names
from ..solve.proof import Proof, Proved, Refuted, Sides, Unknown, compared_at, compared_sides
from .claim import compared, no_dim, read_dim, resolve_references, unknown_names

if TYPE_CHECKING:
    from .solved import Solved

T = TypeVar("T")

_NOTHING_RUNS = "no input size is accepted"


class Claim:
    """User's claim about sizes: a condition (as text or parsed), or two dims claimed to be equal.

    Each analysis that checks the claim parses it again. It finds generated symbols by their positions in `meant`, the
    user's own analysis.
    """

    def __init__(self, claim: str | Cond | tuple[Dim, Dim], meant: Solved) -> None:
        self.claim, self.meant = claim, meant
        self.cond, self.sides = self._read(meant, {})
        for name in unknown_names(self.cond.free, meant.lowered):
            raise ValueError(no_dim(name, meant.lowered))
        self._generated = self.cond.free - meant.symbols.keys()
        self._places = dict(_places(meant, self._generated)) if self._generated else {}

    def at(self, other: Solved) -> tuple[Cond, Sides | None] | None:
        """The claim parsed over the symbols of `other`, with the dims that it compares. None if `other` lacks a dim or
        symbol of it.
        """
        shapes = {n: (other.shapes.get(t, ()), axis) for n, (t, axis) in self._places.items()}
        there = {
            n: shape[axis] for n, (shape, axis) in shapes.items() if axis < len(shape)
        }  # ranks may differ there
        if isinstance(self.claim, str):
            try:
                return self._read(other, there)
            except (LookupError, ValueError):  # the rank of a tensor, or a generated symbol
                return None
        return self._read(other, there) if self._generated <= there.keys() else None

    def _read(self, a: Solved, there: Mapping[str, Dim]) -> tuple[Cond, Sides | None]:
        claim, names = self.claim, {**a.lowered.generated, **there}
        if isinstance(claim, Cond):
            return claim.subs(names), None
        if isinstance(claim, tuple):
            x, y = (d.subs(names) for d in claim)
            return eq(x, y), (x, "==", y)
        text, table = resolve_references(claim, a.lowered, there)
        try:
            return parse_cond(text, table), compared(text, table)
        except DimSyntaxError as e:  # it has the same position in the user's text
            raise DimSyntaxError(e.problem, claim, e.position) from e


def _places(a: Solved, names: Iterable[str]) -> Iterator[tuple[str, tuple[str, int]]]:
    """For each symbol, a tensor axis whose size is that symbol."""
    wanted = set(names)
    for tensor, shape in a.shapes.items():
        for axis, d in enumerate(shape):
            if d.name in wanted:
                wanted.discard(d.name)
                yield d.name, (tensor, axis)


def judge(a: Solved, stated: str | Cond | tuple[Dim, Dim]) -> Proof:
    """Proves or refutes a claim for every input that the model accepts."""
    claim = Claim(stated, a)
    if a.stuck:
        return Unknown(reason=_NOTHING_RUNS)
    proof = a.prover.prove(claim.cond, claim.sides)
    if isinstance(proof, Proved):
        proof = proof if proof.assumptions else _without_defaults(a, claim, proof)
        refuted = _refuted_without(a, claim, proof)
        return proof if refuted is None else refuted
    if isinstance(proof, Refuted):
        return _confirmed(a, claim, proof)
    return proof


# ---------------------------------------------------------------------- proofs


def _without_defaults(a: Solved, claim: Claim, proof: Proved) -> Proof:
    """Return the proof, with the assumptions that it depends on. Unchanged if it needs none."""
    return replace(proof, assumptions=_needed(a, lambda other: _holds(other, claim)))


def _needed(a: Solved, holds: Callable[[Solved], bool]) -> tuple[str, ...]:
    """Assumptions (broadcast mode, default values) without which a result does not hold."""
    granted = {c.cond: c.assumption for c in a.stated.role("assumption")}
    if not granted and not a.defaults:
        return ()
    free = bare(a)
    if holds(free):
        return ()
    needed: list[Cond | str] = [*granted, *a.defaults]
    if len(needed) <= MAX_STATED and all(c.free <= free.symbols.keys() for c in granted):
        for one in list(needed):
            fewer = [n for n in needed if n is not one]
            if holds(_granting(a, fewer)):
                needed = fewer
    return tuple([f"{n} has its default value" if isinstance(n, str) else granted[n] for n in needed])


def bare(a: Solved) -> Solved:
    """Return the analysis repeated without assumptions on broadcasts and default values. The user's stay."""
    return a.again(granted=False, untaken=frozenset(a.defaults))


def _granting(a: Solved, granted: Iterable[Cond | str]) -> Solved:
    """Return the analysis repeated with no assumptions except these. The user's stay."""
    granted = list(granted)
    conds = [g for g in granted if isinstance(g, Cond)]
    untaken = frozenset(a.defaults).difference(g for g in granted if isinstance(g, str))
    return a.again(granted=False, assume=(*a.request.assume, *conds), untaken=untaken)


def _holds(other: Solved, claim: Claim) -> bool:
    """Return True if the claim is proved for `other` without an assumption."""
    found = claim.at(other)
    return found is not None and other.prover.follows(found[0])


class Bounds(tuple[int | None, int | None]):
    """Lower and upper bound (None: unbounded), with the `assumptions` they depend on."""

    assumptions: tuple[str, ...]

    def __new__(cls, bounds: tuple[int | None, int | None], assumptions: tuple[str, ...] = ()) -> Self:
        """Return a pair of bounds with assumptions."""
        made = super().__new__(cls, bounds)
        made.assumptions = assumptions
        return made


class Divisor(int):
    """A number that divides a dim, with the `assumptions` this depends on."""

    assumptions: tuple[str, ...]

    def __new__(cls, number: int, assumptions: tuple[str, ...] = ()) -> Self:
        """Return a divisor with assumptions."""
        made = super().__new__(cls, number)
        made.assumptions = assumptions
        return made


def bounds_of(a: Solved, dim: str | Dim) -> Bounds:
    """Return the bounds of a dim for all accepted inputs."""
    return Bounds(*_quantity(a, dim, lambda there, d: there.prover.bounds(d)))


def divisor_of(a: Solved, dim: str | Dim) -> Divisor:
    """Return the largest number that divides a dim for all accepted inputs."""
    return Divisor(*_quantity(a, dim, lambda there, d: there.prover.divisor(d)))


def _quantity(a: Solved, dim: str | Dim, ask: Callable[[Solved, Dim], T]) -> tuple[T, tuple[str, ...]]:
    """Result of `ask` for a dim, with the assumptions it depends on."""
    found = ask(a, read_dim(dim, a.lowered))

    def same(other: Solved) -> bool:
        if isinstance(dim, Dim) and not dim.free <= a.symbols.keys():
            return False  # a generated symbol may be another there
        try:
            return ask(other, read_dim(dim, other.lowered)) == found
        except (LookupError, ValueError):  # the rank of a tensor, or a generated symbol
            return False

    return found, _needed(a, same)


# ---------------------------------------------------------------------- refutations


def _refuted_without(a: Solved, claim: Claim, proof: Proof) -> Refuted | None:
    """Return the refutation of a claim that is proved under assumptions; None if no accepted counterexample is found."""
    found = a.prover.refuted(claim.cond, claim.sides) if proof.assumptions else None
    refuted = None if found is None else _confirmed(a, claim, found)
    return replace(refuted, assumptions=proof.assumptions) if isinstance(refuted, Refuted) else None


def _confirmed(a: Solved, claim: Claim, proof: Refuted) -> Proof:
    """Return the refutation, confirmed by an analysis at its sizes and completed to all inputs.

    The model must accept the sizes and refute the claim once they are bound. If generated symbols are involved, other
    sizes
    are tried too: the values that the solver chose for these may never occur.
    """
    generated = claim.cond.free - a.symbols.keys()
    found = {n: v for n, v in proof.counterexample.items() if n in a.symbols}
    answer: Proof | None = None
    for given in (found, *(dict.fromkeys(a.symbols, n) for n in (3, 0, 1, 8))):
        sizes = a.completed(given)
        tried = None if sizes is None else _refuted_at(a, claim, sizes)
        if isinstance(tried, Refuted):
            return tried
        answer = tried if answer is None else answer
        if answer is not None and not generated:
            break
    return answer or Unknown(reason=_not_accepted(a, claim, proof))


def _refuted_at(a: Solved, claim: Claim, sizes: Mapping[str, int]) -> Proof | None:
    """Tests the claim at these sizes by an analysis with them bound. None if that analysis does not accept them."""
    there = a.again(bind=sizes, assume=())
    if there.stuck:
        return None
    found = claim.at(there)
    if found is None:
        return Unknown(reason=_undecided(claim.cond.free - a.symbols.keys(), a))
    cond, sides = found[0], compared_sides(*found)
    now = there.facts.cond(cond)
    if now.is_true:
        names = _undecided(claim.cond.free - a.symbols.keys(), a)
        return Unknown(reason=f"it holds for the sizes tried; {names}")
    if not now.is_false and not there.prover.follows(~now):
        return Unknown(reason=_undecided(now.free, there))
    open_at = claim.cond.free - a.symbols.keys()
    shown = tuple(n for n in a.symbols if open_at or n in claim.cond.free)
    values = sides and compared_at((there.facts.dim(sides[0]), sides[1], there.facts.dim(sides[2])), {})
    return Refuted(counterexample=sizes, sides=values, shown=shown)


def _not_accepted(a: Solved, claim: Claim, proof: Refuted) -> str:
    """Message: the model accepts no tried counterexample; names the generated symbols that decide it."""
    made = [n for n in proof.counterexample if n in a.lowered.reasons]
    names = [n for n in made if n in claim.cond.free] or made[:MAX_LISTED]
    reason = "no counterexample was found that the model accepts"
    return f"{reason}; {_undecided(names, a)}" if names else reason


def _undecided(names: Iterable[str], a: Solved) -> str:
    """Message: the answer depends on these data-dependent symbols, with their definitions."""
    named = [f"{n} ({a.lowered.reasons[n]})" if n in a.lowered.reasons else n for n in sorted(names)]
    verb = "decide" if len(named) > 1 else "decides"
    return f"{join_names(named) or 'data'} {verb}, which does not follow from the input sizes"
