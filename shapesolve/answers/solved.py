"""`Solved`: solver results of a lowered model. `Analysis` adds queries in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from ..expr import FALSE, TRUE, Cond, Dim, eq, parse_cond, symbol
from ..lazy import cached_property
from ..lower.fixpoint import lower_model
from ..lower.lowered import Lowered
from ..lower.request import Request
from ..lower.statements import TRUTH
from ..lower.types import Tensor
from ..solve.bindings import Bindings, find_bindings
from ..solve.engine import Engine
from ..solve.facts.log import ConstraintSet
from ..solve.search import Effort
from .example import near, nearest, typical
from .names import item_size

if TYPE_CHECKING:
    from ..causes.finding import Conflict
    from ..causes.given import GivenSizes
    from ..constraints.constraints import ConstraintSystem
    from ..constraints.cores import Cores
    from ..model import Model
    from ..solve.accepted import Accepted
    from ..solve.ambiguity import Ambiguity, StaleShape
    from ..solve.contract.contract import Contract
    from ..solve.contract.usual import Recorded
    from ..solve.equality import Equalities
    from ..solve.proof import Prover
    from ..solve.roles import Roles
    from ..solve.simplify import Readable
    from ..solve.sizes import SizeFinder
    from .rejected import Rejected
    from .violation import InputChecker


class Solved:
    """Solver results of one lowered model, each computed at first use: contract, conflicts, and others.

    Attributes:
        rejected: Makes the conflict of the request with the contract: its sizes or assumptions leave nothing accepted.
        effort: Counter of solver work, shared by analyses with one budget.
        trial: True for a candidate model, whose contract is neither shortened nor attributed.
    """

    def __init__(
        self,
        lowered: Lowered,
        request: Request,
        *,
        rejected: Callable[[], Conflict] | None = None,
        effort: Effort | None = None,
        trial: bool = False,
    ) -> None:
        self.lowered, self.request = lowered, request
        self.model, self.walk, self.inputs = lowered.model, lowered.walk, lowered.inputs
        self.broadcast, self.rlimit = request.broadcast, request.rlimit
        self.facts: Any = lowered.facts
        self.shapes, self.dtypes, self.values = lowered.shapes, lowered.dtypes, lowered.values
        self.rejected = rejected
        self.effort = effort or Effort()
        self.trial = trial
        self._given: dict[frozenset[str], Self] = {}
        self._numbers: tuple[Mapping[str, int], Self] | None = None  # the last that were looked at

    def again(
        self, model: Model | None = None, *, effort: Effort | None = None, trial: bool = False, **changes: Any
    ) -> Self:
        """Lower the same or a changed model again, with fields of the `Request` changed."""
        request = self.request._replace(**changes)
        lowered = lower_model(model or self.model, request)
        return type(self)(lowered, request, effort=effort, trial=trial)

    # ------------------------------------------------------------------ constraints

    @cached_property
    def constraints(self) -> ConstraintSystem:
        """The constraint system, built at first use. It has definitions, requirements, input sizes and assumptions."""
        from ..constraints.constraints import constraint_system
        from ..constraints.local import Analysed

        analysed = Analysed(self.walk, self.shapes, self.values, frozenset(self.symbols))
        return constraint_system(self.model, self.inputs, analysed)

    @cached_property
    def cores(self) -> Cores:
        """Finder of unsat cores for conflicts and contract terms."""
        from ..constraints.cores import Cores

        return Cores(self.constraints, self.rlimit)

    @property
    def stated(self) -> ConstraintSet:
        """Recorded conditions over the inputs, in graph order. Conditions settled immediately are not recorded."""
        return self.lowered.constraints

    @property
    def symbols(self) -> dict[str, Dim]:
        """The dim names of the model's inputs, in order of appearance."""
        return dict(self.lowered.symbols)

    @property
    def defaults(self) -> tuple[str, ...]:
        """Inputs whose default value is used (SS502)."""
        return self.lowered.defaults

    @property
    def stuck(self) -> bool:
        """True if no input size is accepted: some node never runs, or the contract rejects the request."""
        return bool(self.lowered.clashes or self.rejected)

    @cached_property
    def switched(self) -> Mapping[str, Self]:
        """The model at either value of its boolean input, as text: `use_cache_branch = true`. Empty without such an input.

        Merged decoders choose between their two graphs by it.
        """
        reasons = self.lowered.reasons.values()
        names = [n for n in self.inputs if TRUTH + n in reasons]
        if len(names) != 1 or self.stuck or any(d.terms for d in self.shapes[names[0]]):
            return {}
        values = {"true": TRUE, "false": FALSE}
        return {
            f"{names[0]} = {text}": self.again(instead={**self.request.instead, names[0]: (value,)})
            for text, value in values.items()
        }

    # ------------------------------------------------------------------ what the solver concludes

    @property
    def ok(self) -> bool:
        """True if there is no conflict."""
        return not self.conflicts

    @cached_property
    def bindings(self) -> Bindings:
        """Symbols with a single possible value: ``{"d_model": 64}``; ``.why(name)`` has the reason."""
        return find_bindings(self.stated, self.facts, self.symbols.values(), self.broadcast)

    @cached_property
    def equalities(self) -> Equalities:
        """Classes of dims, and of tensors' byte sizes, that are provably equal."""
        from ..solve.equality import find_equalities

        sizes = {name: item_size(dtype) for name, dtype in self.dtypes.items() if item_size(dtype)}
        return find_equalities(self.shapes, sizes, self.facts, self.rlimit)

    @cached_property
    def accepted(self) -> Accepted:
        """Input sizes that the model accepts. The contract and `check_inputs` are views of this."""
        from ..solve.accepted import find_accepted

        return find_accepted(self.stated, self.facts, self.symbols)

    @property
    def contract(self) -> Contract:
        """The irredundant conditions on input sizes under which the model runs."""
        return self._contract()

    @cached_property
    def _contract(self) -> Callable[[], Contract]:
        """A function that computes the contract, without a reference to the analysis."""
        from ..solve.contract.build import find_contract, nothing_runs

        if self.stuck:
            return nothing_runs
        parts = (
            self.stated,
            self.facts,
            self.symbols.values(),
            self.rlimit,
            self._recorded,
            self.accepted,
        )
        made = partial(find_contract, *parts, effort=self.effort, short=not self.trial)
        cores = self.cores
        unjudged = self.lowered.unjudged
        return cache(lambda: replace(made().with_cores(cores.of_term), unjudged=unjudged))

    @property
    def _recorded(self) -> Recorded:
        """Return the conditions on typical inputs that lowering recorded."""
        from ..solve.contract.usual import Recorded

        low = self.lowered
        return Recorded(tuple(low.usual), tuple((o.a, o.b) for o in low.opens), tuple(low.caches))

    @cached_property
    def rejected_request(self) -> tuple[Conflict, ...]:
        """The conflict between the contract and the user's sizes or assumptions, if there is one."""
        return () if self.rejected is None else (self.rejected(),)

    @cached_property
    def conflicts(self) -> Sequence[Conflict]:
        """Minimal sets of contradicting conditions, each with a message."""
        if self.rejected or not self.contract.impossible:
            return self.rejected_request
        from ..causes.conflict import find_conflicts, find_contradiction, is_after_emptiness, stopping_first

        if not self.lowered.clashes:
            return (find_contradiction(self.lowered, chain.from_iterable(self.accepted.conds.values())),)
        if is_after_emptiness(self.lowered, self.request):
            filled = self.again(filled=True)
            if filled.lowered.clashes:
                return filled.conflicts
        found = find_conflicts(self.lowered, self.cores, self.request)
        return stopping_first(found, self.lowered, lambda at: self.again(bind=at, filled=False).lowered)

    @cached_property
    def nothing_runs(self) -> str:
        """Message if no input sizes run, with the node; empty if some do."""
        if self.rejected_request:
            return self.rejected_request[0].message
        found = next(iter(self.conflicts), None)
        if found is None:
            return ""
        place = f" at {found.finding.node}" if found.finding.node else ""
        return f"no input sizes run: {found.finding.title}{place}"

    @cached_property
    def ambiguities(self) -> Sequence[Ambiguity]:
        """Broadcasts of two sizes that may be equal or 1, which nothing in the model decides."""
        if not self.lowered.opens:
            return ()
        from ..solve.ambiguity import find_ambiguities

        poisoned = self.lowered.poisoned  # sizes after a node that cannot run
        opens = [
            (o.a, o.b, f"{o.prefix}{o.node.label}", o.node.op_type)
            for o in self.lowered.opens
            if poisoned.isdisjoint(o.a.free) and poisoned.isdisjoint(o.b.free)
        ]
        strict = self.broadcast == "strict"
        return find_ambiguities(opens, self.stated, self.facts, self.rlimit, strict=strict)

    @cached_property
    def stale_shapes(self) -> Sequence[StaleShape]:
        """Declared sizes of computed tensors that are wrong at some accepted sizes."""
        from ..solve.ambiguity import find_stale_shapes

        declared = self.stated.role("declared")
        if not declared or self.stuck or self.contract.impossible:
            return []
        return find_stale_shapes(declared, self.facts, self.contract, self.symbols.keys(), self.prover.engine)

    @cached_property
    def prover(self) -> Prover:
        """The prover for conditions on the symbols of this analysis."""
        from ..solve.proof import Assumption, Prover, usual_assumptions

        declared = [
            Assumption(c.origin.rule, c.cond)
            for c in self.stated.role("declared")
            if c.guard.is_true and not self.facts.cond(c.cond).is_false
        ]
        assumptions = (*usual_assumptions(self.symbols.values()), *declared)
        symbols = self.symbols.values()
        return Prover(self.stated, self.facts, symbols, self.rlimit, assumptions, self.effort)

    @cached_property
    def simple_shapes(self) -> Readable:
        """The simplified form of every shape, computed on demand."""
        from ..solve.simplify import Readable

        return Readable(self.shapes, self._contract, self.facts, self.symbols)

    @cached_property
    def definitions(self) -> Mapping[str, Dim]:
        """Generated symbols for data-dependent choices, with the expression of each: ``{"_d1": ...}``."""
        from ..solve.simplify import Simplifier

        simplifier, dim = Simplifier(), self.facts.dim
        named = {dim(to).name: dim(choice) for choice, to in self.lowered.chosen.items()}
        return {n: simplifier.dim(d) for n, d in named.items() if n and n not in self.symbols}

    def usually(self, cond: Cond) -> bool:
        """Return True if a condition is proved for accepted sizes in the scope of the contract's simplified form."""
        contract, cond = self.contract, self.facts.cond(cond)
        terms = [t.cond for t in (*contract.terms, *contract.assumed)]
        known = [*terms, *contract.usual.whole.conds]
        return cond in known or self.prover.engine.entails(cond, known, cheap=True).proved

    # ------------------------------------------------------------------ sizes

    def finder(self, also: Sequence[Cond] = (), *, floor: int = 0) -> SizeFinder:
        """Return a finder of accepted sizes for the inputs' names.

        Args:
            also: Additional conditions that sizes must satisfy.
            floor: Smallest size of a name unless a smaller one is requested.
        """
        from ..solve.sizes import SizeFinder

        contract = self.contract
        conds = [t.cond for t in (*contract.terms, *contract.assumed)]
        conds += [eq(symbol(name), dim) for name, dim in contract.derived]
        shapes = (getattr(known, "shape", None) or () for known in self.inputs.values())
        declared = dict.fromkeys(d for shape in shapes for d in shape if d.terms and d.name is None)

        def accepts(sizes: Mapping[str, int]) -> bool:
            if any((size := d.evaluate(sizes)) is None or size < 0 for d in declared):
                return False
            return not self.violations_at(sizes)

        return SizeFinder(
            [*conds, *also],
            Engine(self.rlimit),
            names=self.symbols,
            judge=accepts,
            roles=self.roles,
            floor=floor,
        )

    @cached_property
    def example(self) -> Mapping[str, int] | None:
        """Return typical sizes that run, or None if none were found."""
        found = typical(self)
        return None if found is None else found.sizes

    @cached_property
    def roles(self) -> Roles:
        """Roles of the input sizes in the model."""
        from ..solve.roles import find_roles

        shapes = [known.shape for known in self.inputs.values() if isinstance(known, Tensor) and known.shape]
        tensors = (t for t in self.lowered.tensors.values() if isinstance(t, Tensor))
        dims = dict.fromkeys(d for t in tensors for d in t.shape or () if d.terms)
        usual = self.contract.usual.whole
        kept = {*self.contract.usual.may_be_empty, *self.fixed_sizes}
        return find_roles(
            self.contract.terms.cond, shapes, tuple(self.symbols), dims, usual.fits + usual.equal, kept
        )

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Accepted sizes for all inputs, including the given ones; None if none were found."""
        known = {name: size for name, size in sizes.items() if name in self.symbols}
        return self.finder().completed(known, self.example)

    def violations_at(self, sizes: Mapping[str, int]) -> list[Rejected]:
        """Return the requirements that these sizes break whatever the other sizes are."""
        found = self._checker.at(sizes)
        if not found and not sizes.keys() >= self.symbols.keys():  # a term may need only one of its causes
            from .rejected import broken_terms, rejected_by

            found = rejected_by(broken_terms(self.contract, sizes), sizes)
        numbers = None if found else self._with_numbers(sizes)
        found = found if numbers is None else numbers.refusals
        return [replace(v, find=partial(near, self, sizes)) for v in found]

    def nearest(
        self, given: Mapping[str, int], assume: Sequence[Cond | str] = ()
    ) -> dict[str, dict[str, int] | None]:
        """Return the accepted sizes nearest to the given ones, below and above them, if `assume` holds too."""
        assumed = [item if isinstance(item, Cond) else parse_cond(item, self.symbols) for item in assume]
        never = self.contract.impossible
        return dict.fromkeys(("below", "above")) if never else nearest(self.finder(assumed, floor=1), given)

    @property
    def refusals(self) -> list[Rejected]:
        """Violations that explain why no sizes are accepted. Empty if some sizes are accepted."""
        return self._checker.at(self.request.bind)

    def _with_numbers(self, sizes: Mapping[str, int]) -> Self | None:
        """Return the model lowered again with these sizes, or None if the terms determine everything."""
        bind = {name: size for name, size in sizes.items() if name in self.symbols}
        if not self.lowered.is_open or not bind.items() - self.request.bind.items() or self.stuck:
            return None
        if self._numbers is None or self._numbers[0] != bind:
            self._numbers = bind, self.again(bind={**self.request.bind, **bind})
        return self._numbers[1]

    def sizes_at(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the sizes of inputs as given, and of other tensors as their expressions have them, accepted or not."""
        known = {**self.fixed_sizes, **sizes}
        for name, dim in self.named_sizes:
            if name not in known and (size := dim.evaluate(known)) is not None:
                known[name] = size
        declared = {n: getattr(given, "shape", None) for n, given in self.inputs.items()}
        memo: dict[Dim, int | None] = {}
        out: dict[str, tuple[int, ...]] = {}
        for name, shape in self.shapes.items():
            found = []
            for d in declared.get(name) or shape:
                if d not in memo:
                    memo[d] = d.evaluate(known) if d.terms else d.const
                size = memo[d]
                if size is None:
                    break
                found.append(size)
            else:
                out[name] = tuple(found)
        numbers = self._with_numbers(sizes) if sizes.keys() <= self.symbols.keys() else None
        return out if numbers is None or numbers.stuck else {**out, **numbers.sizes_at(sizes)}

    def check_inputs(self, shapes: Mapping[str, Sequence[int]]) -> list[Rejected]:
        """Return the requirements that these concrete input shapes break, with their nodes. Empty if the model runs."""
        given = frozenset(self.defaults).intersection(shapes)
        solved = self._with_own(given) if given else self
        sizes, wrong = solved._checker.bind(shapes)
        return wrong + (solved._checker.at(sizes) if wrong else solved.violations_at(sizes))

    @cached_property
    def fixed_sizes(self) -> dict[str, int]:
        """Symbols (also generated ones) that have only one possible size."""
        return {n: d.const for n, d in self.facts.substitution.items() if not d.terms}

    @cached_property
    def named_sizes(self) -> tuple[tuple[str, Dim], ...]:
        """Definitions of named large expressions, in terms of symbols and of earlier names."""
        named = self.lowered.named.items()
        return tuple((name.name, self.facts.dim(d)) for (d, _), name in named if name.name is not None)

    @cached_property
    def concrete_shapes(self) -> GivenSizes:
        """Sizes of tensors at given input sizes, accepted or not."""
        from ..causes.given import GivenSizes

        return GivenSizes(self.lowered, self.constraints)

    @cached_property
    def _checker(self) -> InputChecker:
        from .violation import InputChecker

        return InputChecker(
            self.lowered,
            self.accepted,
            self.rejected_request,
            self.request,
            self.concrete_shapes,
            self._contract,
        )

    def _with_own(self, names: frozenset[str]) -> Self:
        """Return the analysis with default values of these inputs not used."""
        if names not in self._given:
            self._given[names] = self.again(untaken=self.request.untaken | names)
        return self._given[names]

    def bind_inputs(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the sizes of the symbols at concrete input shapes."""
        given = frozenset(self.defaults).intersection(shapes)
        return (self._with_own(given) if given else self)._checker.bind(shapes)[0]
