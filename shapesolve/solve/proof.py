"""Proofs that a condition holds for every input that the model accepts.

Tried in order: the canonical form, the facts, a few evaluations (to refute), Z3 without assumptions, and Z3 with
them. A proof names its
assumptions and the constraints behind it; a refutation has sizes that were checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from ..expr import Cond, Dim, IntoDim, as_dim, constant, divides, eq, ge, ne
from ..expr.cond import symbols_in
from ..expr.plain import sides_of
from ..expr.sizes import sizes_text
from .cone_of_influence import cone
from .engine import Engine
from .facts import budget
from .facts.constraint import Constraint
from .facts.facts import Facts
from .facts.log import Stated, need
from .facts.residual import Residue
from .search import Effort


@dataclass(frozen=True, slots=True)
class Assumption:
    """A condition that a proof may assume and then names.

    `usual` marks conditions that the user did not give but that hold for most inputs.
    """

    text: str
    cond: Cond
    usual: bool = False


def usual_assumptions(symbols: Iterable[Dim]) -> tuple[Assumption, ...]:
    """Assumptions that each input symbol is not 0 and, if the author named it, not 1."""
    ordered = sorted(symbols, key=lambda d: d.name or "")
    found = [Assumption(str(c), c, usual=True) for c in (ge(d, 1) for d in ordered)]
    found += [Assumption(str(c), c, usual=True) for c in (ne(d, 1) for d in ordered if not d.is_made)]
    return tuple(found)


#: a relation as it was written
Sides = tuple[Dim, str, Dim]


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of a proof: `Proved`, `Refuted`, or `Unknown`. Only a proof without assumptions is true.

    `assumptions` are the assumptions of a proof, as strings; `core` the constraints that imply it. Both are empty
    otherwise.
    """

    assumptions: tuple[str, ...] = ()
    core: tuple[Constraint, ...] = ()

    @property
    def holds(self) -> bool:
        """True if it is proved without an assumption. It is the truth value of the answer."""
        return isinstance(self, Proved) and not self.assumptions

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True, slots=True, repr=False)
class Proved(Proof):
    """Result: the claim holds for every input that the model accepts, under `assumptions`. `core` are constraints that
    it follows from. With assumptions it is not true as a truth value: an accepted input may make it false.
    """

    @property
    def assuming(self) -> tuple[str, ...]:
        """The assumptions, as strings."""
        return self.assumptions

    def __repr__(self) -> str:
        return f"Proved(assuming={self.assumptions!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Refuted(Proof):
    """Result: the claim fails at the accepted sizes `counterexample`. `sides` are the values compared there.

    If `holds_if` is not empty, the claim is proved for all accepted sizes that satisfy these conditions.
    """

    counterexample: Mapping[str, int] = field(default_factory=dict)
    sides: tuple[int, str, int] | None = None
    shown: tuple[str, ...] = ()

    @property
    def holds_if(self) -> tuple[str, ...]:
        """Conditions under which the claim is proved, as text."""
        return self.assumptions

    @property
    def only_at(self) -> str:
        """The only size at which the claim can fail (`n = 1`); empty if that is not proved."""
        if len(self.holds_if) != 1:
            return ""
        for name, size in self.counterexample.items():
            if self.holds_if[0] == f"{name} != {size}" or (self.holds_if[0] == f"{name} >= 1" and not size):
                return f"{name} = {size}"
        return ""

    @property
    def at(self) -> str:
        """Text of the counterexample's sizes that matter to the claim; empty if it fails at all sizes."""
        names = self.shown if self.shown or self.sides else tuple(self.counterexample)
        return sizes_text(self.counterexample, names)

    def __repr__(self) -> str:
        compared = "" if self.sides is None else " ".join(map(str, self.sides))
        text = ": ".join(part for part in (self.at, compared) if part)
        return f"Refuted({text}{'; holds if ' if self.holds_if else ''}{' and '.join(self.holds_if)})"


@dataclass(frozen=True, slots=True, repr=False)
class Unknown(Proof):
    """Result: neither proved nor refuted, with the reason."""

    reason: str = ""

    def __repr__(self) -> str:
        return f"Unknown({self.reason})"


_OPPOSITE = {"==": "!=", "!=": "==", ">=": "<", "<=": ">", ">": "<=", "<": ">="}


class Prover:
    """Proves conditions from the constraints of one analysis; `symbols` are the input symbols.

    `assumptions` (by default the `usual_assumptions` on the symbols) are only used if a proof needs them.
    """

    def __init__(
        self,
        constraints: Sequence[Stated],
        facts: Facts,
        symbols: Iterable[Dim] = (),
        rlimit: int = budget.RLIMIT,
        assumptions: Sequence[Assumption] | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.facts, self.residue = facts, Residue(facts, constraints)
        self.engine = Engine(rlimit, certain=self.residue.certain, effort=effort)
        self.constraints = self.residue.constraints
        self.assumptions = usual_assumptions(symbols) if assumptions is None else assumptions

    def equal(self, a: IntoDim, b: IntoDim) -> Proof:
        """Proves or refutes that two dims are equal for every input."""
        a, b = as_dim(a), as_dim(b)
        if a is b:
            return Proved()
        return self.prove(eq(a, b), sides=(a, "==", b))

    def prove(self, cond: Cond, sides: Sides | None = None) -> Proof:
        """Prove or refute that `cond` holds for every input. `sides` are the dims to show in a refutation (default:
        those of a relation).
        """
        if cond.is_true:
            return Proved()
        goal = self.facts.cond(cond)
        if goal.is_true:
            return Proved((), self._constraints(self._fewest(cond, self.facts.why(cond.free))))
        given = cone(goal.free, self.residue.conds)
        first = self.engine.entails(goal, given)
        if first.proved:
            if self.engine.satisfiable(given).unsat:
                return Unknown(reason="no input size satisfies the constraints")
            return Proved((), self._core(cond, goal, given))
        assumed = self._relevant(goal, given)
        if assumed:
            proof = self._under(cond, goal, given, assumed, sides, first.model)
            if proof is not None:
                return proof
        if first.refuted and first.model is not None:
            return self._refuted(cond, first.model, sides)
        return Unknown(reason=first.reason or "the solver gave up")

    def refuted(self, cond: Cond, sides: Sides | None = None) -> Refuted | None:
        """The refutation of `cond` without assumptions, or None if no counterexample is found."""
        goal = self.facts.cond(cond)
        model = self.engine.entails(goal, cone(goal.free, self.residue.conds)).model
        found = None if model is None else self._refuted(cond, model, sides)
        return found if isinstance(found, Refuted) else None

    def follows(self, cond: Cond) -> bool:
        """True if `cond` follows from the constraints alone. As `prove` has it, without looking for a core."""
        goal = self.facts.cond(cond)
        if goal.is_true:
            return True
        given = cone(goal.free, self.residue.conds)
        return self.engine.entails(goal, given).proved and not self.engine.satisfiable(given).unsat

    # ------------------------------------------------------------------ quantities

    def bounds(self, dim: Dim) -> tuple[int | None, int | None]:
        """Proved bounds of a dim for every input, as tight as found (None: none known)."""
        now = self.facts.dim(dim)
        lo, hi = self.facts.bounds(now)
        given = cone(now.free, self.residue.conds)
        low, high = self.engine.bounds(now, given)
        if low is not None and (lo is None or low > lo):
            lo = low
        if high is not None and (hi is None or high < hi):
            hi = high
        return lo, hi

    def divisor(self, dim: Dim) -> int:
        """The largest constant that provably divides a dim for every input (0 when the dim is always 0)."""
        now = self.facts.dim(dim)
        if not now.terms:
            return abs(now.const)
        certain = gcd(now.const, *(c for _, c in now.terms))
        given = cone(now.free, self.residue.conds)
        guess = 0
        for low in (2, 3, 5, 8):  # the values of a few models bound what can be proved
            model = self.engine.model([*given, ge(now, low)])
            value = None if model is None else now.evaluate(model)
            guess = guess if value is None else gcd(guess, value)
        while guess > certain:
            verdict = self.engine.entails(divides(constant(guess), now), given)
            if verdict.proved:
                return guess
            value = None if verdict.model is None else now.evaluate(verdict.model)
            if value is None:
                break
            guess = gcd(guess, value)
        return certain

    # ------------------------------------------------------------------ verdicts

    def _under(
        self,
        cond: Cond,
        goal: Cond,
        given: list[Cond],
        assumed: list[Assumption],
        sides: Sides | None,
        first: Mapping[str, int] | None,
    ) -> Proof | None:
        """Try a proof under assumptions: proved, refuted, or None. `first` refutes it without these.

        An assumption that was not given is not proved by itself.
        """
        conds = [self.facts.cond(a.cond) for a in assumed]
        usual = first is not None and all(c.evaluate(first) is True for c in conds)
        unsaid = [c for a, c in zip(assumed, conds, strict=True) if a.usual]
        alike = [c for c in unsaid if len(c.free) == 1 and c.free == goal.free]
        if first is not None and (
            usual or any(self.engine.regular.same([goal], [c], min(c.free), 0) for c in alike)
        ):
            refuted = self._refuted(cond, first, sides)
            if isinstance(refuted, Refuted):
                return refuted
        second = self.engine.entails(goal, [*given, *conds])
        if second.refuted and second.model is not None:
            return self._refuted(cond, second.model, sides)
        if not second.proved:
            return None
        if not self.engine.satisfiable([*given, *conds]).sat:
            return None  # the assumptions contradict the model: nothing follows from them
        used = list(range(len(assumed)))
        own = [i for i in used if conds[i].free <= goal.free]
        if len(own) < len(used) and self.engine.entails(goal, [*given, *(conds[i] for i in own)]).proved:
            used = own
        # the weaker ones, given first, are kept
        for i in reversed(used) if len(used) <= budget.MAX_CONDS else ():
            fewer = [j for j in used if j != i]
            if self.engine.entails(goal, [*given, *(conds[j] for j in fewer)]).proved:
                used = fewer
        core = self._core(cond, goal, [*given, *(conds[j] for j in used)])
        return Proved(tuple(assumed[j].text for j in used), core)

    def _relevant(self, goal: Cond, given: Sequence[Cond]) -> list[Assumption]:
        names = set(goal.free).union(*(c.free for c in given))
        return [a for a in self.assumptions if not self.facts.cond(a.cond).free.isdisjoint(names)]

    def _refuted(self, cond: Cond, model: Mapping[str, int], sides: Sides | None) -> Proof:
        full = self.residue.complete(self._extended(cond, model))
        if self.residue.violates(full) or cond.evaluate(full) is True:
            return Unknown(reason="the counterexample that was found does not satisfy all constraints")
        shown = tuple(sorted(n for n in cond.free if n in full))
        return Refuted(counterexample=full, sides=compared_at(compared_sides(cond, sides), full), shown=shown)

    def _extended(self, cond: Cond, model: Mapping[str, int]) -> Mapping[str, int]:
        names = set().union(*(self.facts.dim(d).free for d in symbols_in(cond).values())) - model.keys()
        if not names:
            return model
        near = cone(names, self.residue.conds)
        fixed = [eq(d, model[n]) for n, d in symbols_in(*near).items() if n in model]
        more = self.engine.model([*near, *fixed]) or {}
        return {**dict.fromkeys(sorted(names), 2), **more, **model}

    def _core(self, cond: Cond, goal: Cond, given: Sequence[Cond]) -> tuple[Constraint, ...]:
        used: Sequence[Cond] = given
        if len(given) <= budget.MAX_CONDS:
            found = self.engine.core([~goal, *given])
            if found is not None:
                used = [given[i - 1] for i in found if i > 0]
        numbers = set(self.facts.why(cond.free))
        for c in used:
            numbers |= self.residue.conds.get(c, frozenset())
        return self._constraints(numbers)

    def _fewest(self, cond: Cond, numbers: Iterable[int]) -> Sequence[int]:
        """A small subset of the constraints from which `cond` still follows."""
        ordered = sorted(numbers)
        if len(ordered) > budget.MAX_CONDS:
            return ordered
        core = self.engine.core([~cond, *(need(self.constraints.rows[n]) for n in ordered)])
        return ordered if core is None else [ordered[i - 1] for i in core if i > 0]

    def _constraints(self, numbers: Iterable[int]) -> tuple[Constraint, ...]:
        return tuple(self.constraints.numbered(n) for n in sorted(numbers))


def compared_sides(cond: Cond, sides: Sides | None) -> Sides | None:
    """Return the two sides of a relation, by default those of its canonical form."""
    if sides is not None or cond.kind not in _OPPOSITE:
        return sides
    a, b = sides_of(cond.args[0])
    return (a, cond.kind, b) if a.terms or cond.kind != ">=" else (b, "<=", a)  # `x <= 5` starts with x


def compared_at(sides: Sides | None, sizes: Mapping[str, int]) -> tuple[int, str, int] | None:
    """The two values that a refuted relation compares at these sizes."""
    if sides is None:
        return None
    left, right = sides[0].evaluate(sizes), sides[2].evaluate(sizes)
    return None if left is None or right is None else (left, _OPPOSITE[sides[1]], right)
