"""`Engine`: decides conditions, using Z3 only if nothing cheaper does. This is the only module with Z3's options.

Each query runs in a fresh private context over the connected conditions, in canonical order, under a resource limit,
so a verdict
depends only on the query. If Z3 has no answer, the verdict is `unknown`, never a guess; models are checked by
evaluation. Z3 is only
imported for queries that small sizes and case splits leave open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..expr import FALSE, Cond, Dim, ge
from .cases import decide
from .cone_of_influence import (
    broadcast_pairs,
    by_symbol,
    components,
    cone,
    legal_broadcasts,
    nearby,
    order_of,
)
from .facts import budget
from .facts.residual import Residue
from .periods import Regular
from .search import Contradiction, Effort, Model, Search, satisfies, shrink


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to "does it follow?": proved, refuted by `model`, or unknown for `reason`."""

    kind: Literal["proved", "refuted", "unknown"]
    model: Model | None = None
    reason: str = ""

    @property
    def proved(self) -> bool:
        """True if the goal follows."""
        return self.kind == "proved"

    @property
    def refuted(self) -> bool:
        """True if there is a counterexample."""
        return self.kind == "refuted"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to "can these hold together?": yes with a model, no, or unknown for `reason`."""

    kind: Literal["sat", "unsat", "unknown"]
    model: Model | None = None
    reason: str = ""

    @property
    def sat(self) -> bool:
        """True if there is a model."""
        return self.kind == "sat"

    @property
    def unsat(self) -> bool:
        """True if there is provably no model."""
        return self.kind == "unsat"


_UNSAT = Answer("unsat")
_TOO_MANY = "too many questions of this kind were asked"


class Engine:
    """Decides conditions. `rlimit` is Z3's budget per query; with `shortcuts=False`, only Z3 answers.

    Broadcasts in the conditions are assumed to be legal, since the nodes behind them require it (if that cannot be
    assumed, expand them with
    `Plainly` first). `certain` tells which legality conditions hold for all inputs: a node inside a branch requires
    nothing if the branch
    does not run. `effort` counts queries and can be shared by several engines.
    """

    def __init__(
        self,
        rlimit: int = budget.RLIMIT,
        *,
        shortcuts: bool = True,
        certain: Callable[[Cond], bool] | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.rlimit, self.shortcuts = rlimit, shortcuts
        self.effort = effort or Effort()
        self.certain = certain
        self.queries = 0
        self._failures = 0
        self._work = 0  # size of the conditions in cheap queries so far
        self._asked = 0  # size of those that reached Z3
        self._memo: dict[tuple[Cond, ...], Answer] = {}
        self.regular = Regular()
        #: simplified conditions of queries that were refuted
        self._refuted: set[frozenset[Cond]] = set()
        self._cores: dict[tuple[Cond, ...], tuple[int, ...] | None] = {}

    # ------------------------------------------------------------------ queries

    def entails(self, goal: Cond, given: Iterable[Cond] = (), *, cheap: bool = False) -> Verdict:
        """Decide whether `goal` holds (and has a value) wherever all of `given` hold.

        A `cheap` query may be answered with unknown earlier, and its counterexample may be any that is at hand.
        """
        if goal.is_true:
            return Verdict("proved")
        if cheap and self.is_spent:
            return Verdict("unknown", reason=_TOO_MANY)
        negated = ~goal
        linked = cone(negated.free, given)
        partly = cheap and len(linked) > budget.MAX_LINKED
        if partly:
            linked = nearby(negated.free, by_symbol(linked))
        answer = self._component([negated, *linked], cheap)
        if answer.unsat:
            return Verdict("proved")
        if answer.sat and not partly:
            return Verdict("refuted", answer.model)
        return Verdict("unknown", reason=answer.reason or "only the nearest conditions were considered")

    def satisfiable(self, conds: Iterable[Cond], *, cheap: bool = False) -> Answer:
        """Answer to whether all `conds` can hold together. A model binds every symbol in them."""
        if cheap and self.is_spent:
            return Answer("unknown", reason=_TOO_MANY)
        model: Model = {}
        unknown: Answer | None = None
        for group in components(conds):
            answer = self._component(group, cheap)
            if answer.unsat:
                return answer
            if answer.sat:
                model.update(answer.model or {})
            else:
                unknown = unknown or answer
        return unknown or Answer("sat", model)

    def core(self, conds: Sequence[Cond]) -> tuple[int, ...] | None:
        """Return the indices of a minimal set of `conds` that contradict each other; None if no contradiction is proved.

        Minimal within the budget: without any one of them, there is a model or Z3 does not know.
        """
        key = tuple(conds)
        if key not in self._cores:
            self._cores[key] = self._core(key)
        return self._cores[key]

    def model(self, conds: Iterable[Cond], *, cheap: bool = False) -> Model | None:
        """Return small sizes at which all `conds` hold; None if there are none, or none were found."""
        return self.satisfiable(conds, cheap=cheap).model

    def bounds(self, dim: Dim, given: Sequence[Cond]) -> tuple[int | None, int | None]:
        """Proved bounds of `dim` where `given` hold, as tight as Z3 finds them (None: no bound is known)."""
        lo, hi = dim.bounds()
        low, high = self._extremum(dim, given), self._extremum(-dim, given)
        if low is not None and (lo is None or low > lo):
            lo = low
        if high is not None and (hi is None or -high < hi):
            hi = -high
        return lo, hi

    @property
    def is_spent(self) -> bool:
        """True if the budget for cheap queries is used up."""
        return self._work > budget.MAX_CHEAP_WORK

    # ------------------------------------------------------------------ one connected group of conditions

    def _component(self, conds: Iterable[Cond], cheap: bool) -> Answer:
        if cheap and self.is_spent:
            return Answer("unknown", reason=_TOO_MANY)
        stated = dict.fromkeys(c for c in conds if not c.is_true)
        if broadcast_pairs(stated) > budget.MAX_PAIRS:
            return Answer("unknown", reason="too many sizes are broadcast against each other")
        legal, certain = self._legal(stated)
        key = tuple(sorted({*stated, *legal}, key=order_of))
        if not key:
            return Answer("sat", {})
        found = self._memo.get(key)
        relations = sum(max(len(c.args), 1) for c in key)
        if found is None or (found.kind == "unknown" and not cheap):
            if cheap:
                self._work += sum(c.size for c in key)
            self.effort.count(relations)
            found = self._memo[key] = self._answer(key, cheap, self.shortcuts and certain)
        return found

    def _legal(self, conds: Iterable[Cond]) -> tuple[list[Cond], bool]:
        """Conditions that make the broadcasts in `conds` legal; second value: True if none is left out. The flag is
        True if that is all of them.
        """
        needed = legal_broadcasts(conds)
        if self.certain is None or not needed:
            return needed, True
        found = [c for c in needed if self.certain(c)]
        return found, len(found) == len(needed)

    def _answer(self, conds: tuple[Cond, ...], cheap: bool, shortcuts: bool) -> Answer:
        if FALSE in conds:
            return _UNSAT
        if shortcuts:
            try:
                model = self._without_z3(conds)
            except Contradiction:
                return _UNSAT
            if model is not None:
                return Answer("sat", model)
        if cheap and self._failures >= budget.CHEAP_FAILURES:
            return Answer("unknown", reason="too many questions of this kind had no answer")
        size = sum(c.size for c in conds)
        if cheap and size > budget.MAX_CHEAP_SIZE:
            return Answer("unknown", reason="the conditions are too large for a question of this kind")
        if cheap and self._asked > budget.MAX_CHEAP_ASKED:
            return Answer("unknown", reason=_TOO_MANY)
        self._asked += size if cheap else 0
        self.queries += 1
        limit = min(self.rlimit, budget.CHEAP_RLIMIT) if cheap else self.rlimit
        reason = ""
        is_large = size > budget.MAX_CHEAP_ASKED
        for options in _ALL_OPTIONS[:1] if is_large else _CHEAP_OPTIONS if cheap else _ALL_OPTIONS:
            answer = _ask(conds, limit, options)
            if answer.unsat:
                return answer
            if answer.sat:
                return Answer("sat", shrink(answer.model or {}, conds))
            reason = reason or answer.reason
        for top in () if cheap or is_large else budget.SMALL_DOMAINS:
            answer = _ask(conds, limit, Options(native=False, core=False), top)
            if answer.sat:
                return Answer("sat", shrink(answer.model or {}, conds))
        self._failures += cheap
        return Answer("unknown", reason=reason)

    def _without_z3(self, conds: Sequence[Cond]) -> Model | None:
        """Searches a model without Z3: at likely sizes, then by cases, then at more sizes. Raises `Contradiction` when
        there is none.
        """
        search = Search(conds)
        model = search.model(budget.SEARCH_TRIES // 10)
        if model is not None:
            return model
        residue = Residue(search.facts)
        left = frozenset(residue.conds)
        if left in self._refuted:
            raise Contradiction
        try:
            found = decide(conds, residue, self.regular)
        except Contradiction:
            self._refuted.add(left)
            raise
        return search.model(budget.SEARCH_TRIES) or found  # the sizes of a search are smaller

    def _core(self, conds: tuple[Cond, ...]) -> tuple[int, ...] | None:
        kept = self._some_core(conds)
        if kept is None:
            return None
        for i in reversed(kept):  # readers start at the beginning: try to drop the last first
            fewer = [j for j in kept if j != i]
            if self.satisfiable([conds[j] for j in fewer]).unsat:
                kept = fewer
        return tuple(kept)

    def _some_core(self, conds: tuple[Cond, ...]) -> list[int] | None:
        """Return indices of contradictory conditions: Z3's tracked ones, otherwise a whole group; None if none is found."""
        everything = list(range(len(conds)))
        for group in components(conds):
            if self._component(group, False).unsat:
                members = set(group)
                everything = [i for i in everything if conds[i] in members]
                break
        else:
            return None
        if len(everything) <= 4:
            return everything
        self.queries += 1
        near = [conds[i] for i in everything]
        tracked = _tracked_core(near, self._legal(near)[0], self.rlimit)
        if tracked is not None:
            part = [everything[i] for i in tracked]
            # that the quotients in the others have a value is asserted, and not tracked
            if self.satisfiable([conds[i] for i in part]).unsat:
                return part
        return everything

    def _extremum(self, dim: Dim, given: Sequence[Cond]) -> int | None:
        """Return the proved minimum of `dim` where `given` hold; None if it is unbounded or not found.

        It is found by queries with a budget each, since Z3's own optimizer ignores budgets.
        """
        near = cone(dim.free, given)
        probe = Engine(self.rlimit, shortcuts=self.shortcuts, certain=self.certain)
        known = probe.satisfiable(near, cheap=True).model
        high = None if known is None else dim.evaluate({**dict.fromkeys(dim.free, 0), **known})
        low: int | None = None  # nothing is below it
        step = 1
        while high is not None and low != high and abs(high) < budget.LARGEST_BOUND:
            tried = high - step if low is None else (low + high - 1) // 2
            answer = probe.satisfiable([*near, ge(tried - dim, 0)], cheap=True)
            if answer.unsat:
                low = tried + 1
                continue
            found = (
                dim.evaluate({**dict.fromkeys(dim.free, 0), **(answer.model or {})}) if answer.sat else None
            )
            if found is None or found > tried:
                return None
            high, step = found, step * 2
        return low if low == high else None


# ---------------------------------------------------------------------- Z3


def limited(solver: Any, limit: int) -> Any:
    """The solver with a resource limit, counted as in `budget.RLIMIT`. It ends without an answer beyond."""
    solver.set("rlimit", max(limit, 1))
    solver.set("timeout", budget.TIMEOUT_MS)
    # Python's own handler raises KeyboardInterrupt when the query ends; Z3's would answer "canceled".
    solver.set("ctrl_c", False)
    # Bases of products of five sizes and more grow for minutes, and while they do neither limit is looked at.
    solver.set("arith.nl.grobner", False)
    return solver


def _solver(z3: Any, ctx: Any, limit: int, *, core: bool = False) -> Any:
    solver = limited(z3.SimpleSolver(ctx=ctx) if core else z3.Solver(ctx=ctx), limit)
    solver.set("random_seed", 0)
    return solver


class Options(NamedTuple):
    """Options of a Z3 query: encoding of ``//`` and choice of tactic. It uses Z3's core alone or its own
    choice.
    """

    native: bool
    core: bool


#: The core solver answers nearly all queries within a work count. The tactic that Z3 chooses for integer products
#: converts them to bits first, which can take a hundred times as long but proves more about divisibility.
_CHEAP_OPTIONS = (Options(True, True), Options(False, True))
_ALL_OPTIONS = (Options(True, True), Options(True, False), Options(False, False))


def _ask(conds: Sequence[Cond], limit: int, options: Options, top: int | None = None) -> Answer:
    """One query in a fresh context. With `top`, symbols are at most that (and `unsat` means nothing)."""
    import z3

    from ..expr.z3_bridge import Z3Scope

    try:
        scope = Z3Scope(native=options.native)
        solver = _solver(z3, scope.ctx, limit, core=options.core)
        solver.add([scope.formula(c) for c in conds])
        solver.add(scope.definitions)
        if top is not None:
            solver.add([v <= top for v in scope.symbols.values()])
        result = solver.check()
        if result == z3.unsat:
            return Answer("unknown", reason="no small model") if top is not None else _UNSAT
        if result == z3.sat:
            return _checked(solver.model(), scope, conds)
        return Answer("unknown", reason=_why_unknown(solver.reason_unknown()))
    except z3.Z3Exception as e:
        return Answer("unknown", reason=_why_unknown(str(e)))


def _why_unknown(reason: str) -> str:
    """Text of the reason why Z3 gave no answer. Its API has no code for it: nowhere else are these words read."""
    if "canceled" in reason or "resource" in reason:
        return "the solver's budget was used up"
    return "the solver gave up" + (f": {reason}" if reason and reason != "unknown" else "")


def _checked(found: Any, scope: Any, conds: Sequence[Cond]) -> Answer:
    model: Model = {}
    for name, variable in sorted(scope.symbols.items()):
        value = found.eval(variable, model_completion=True)
        model[name] = value.as_long()
    if satisfies(model, conds):
        return Answer("sat", model)
    return Answer("unknown", reason="the solver's model did not hold when evaluated")


def _tracked_core(conds: Sequence[Cond], legal: Sequence[Cond], limit: int) -> list[int] | None:
    import z3

    from ..expr.z3_bridge import Z3Scope

    for native in (True, False):
        try:
            scope = Z3Scope(native=native)
            solver = _solver(z3, scope.ctx, limit)
            solver.set("core.minimize", True)
            formulas = [scope.formula(c) for c in conds]
            solver.add([scope.formula(c) for c in legal])
            solver.add(scope.definitions)
            for i, formula in enumerate(formulas):
                solver.assert_and_track(formula, f"need!{i}")
            if solver.check() == z3.unsat:
                return sorted(int(str(name)[5:]) for name in solver.unsat_core())
        except z3.Z3Exception:
            continue
    return None
