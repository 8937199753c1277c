"""`InputChecker`: tests concrete input shapes against declarations and requirements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..expr import Cond, Dim, all_of, eq, ge, symbol
from ..expr.cond import has_value
from ..expr.limits import INT64_MAX
from ..expr.nearest import unknown_name
from ..lazy import cached_property
from ..lower.request import size_of
from ..lower.types import Tensor
from ..solve.check import Broken, Checker
from ..solve.contract.contract import text_of
from ..solve.engine import Engine
from ..solve.facts.log import need
from ..solve.simplify.simplifier import short_form
from .rejected import Rejected, broken_terms, misfit, sentence_of, wrong_size

if TYPE_CHECKING:
    from ..causes.finding import Conflict
    from ..causes.given import GivenSizes
    from ..lower.lowered import Lowered
    from ..lower.request import Request
    from ..solve.accepted import Accepted
    from ..solve.contract.contract import Contract
    from ..solve.facts.constraint import Constraint


def _shape_of(given: Any) -> tuple[Any, ...]:
    """Return the shape given by a list, a vector of integers, or a tensor."""
    shape = getattr(given, "shape", None)
    if shape is None or (len(shape) == 1 and getattr(getattr(given, "dtype", None), "kind", "i") in "iu"):
        return tuple(given)
    return tuple(shape)


class InputChecker:
    """Checks input shapes; prepared once per analysis, so that each check takes microseconds."""

    def __init__(
        self,
        lowered: Lowered,
        accepted: Accepted,
        rejected_request: tuple[Conflict, ...],
        request: Request,
        concrete_shapes: GivenSizes,
        contract: Callable[[], Contract],
    ) -> None:
        self.lowered, self.request = lowered, request
        self.rejected_request, self.concrete_shapes = rejected_request, concrete_shapes
        self.engine, self._contract = Engine(request.rlimit), contract
        self.declared: list[tuple[str, tuple[tuple[str | None, int | None, Dim], ...]]] = []
        alike: dict[tuple[Dim, ...], tuple[tuple[str | None, int | None, Dim], ...]] = {}
        for name, known in lowered.inputs.items():
            if isinstance(known, Tensor) and known.shape is not None:
                dims = tuple([(d.name, d.value, d) for d in known.shape])
                self.declared.append((name, alike.setdefault(tuple(known.shape), dims)))
        self.checker = Checker(lowered.constraints, lowered.facts, accepted)
        self.names = {name for name, _ in lowered.model.graph.inputs}

    def bind(self, shapes: Mapping[str, Sequence[int]]) -> tuple[dict[str, int], list[Rejected]]:
        """Return the symbols' sizes for these shapes, and violations of declared shapes.

        Raises:
            ValueError: If a name is not an input's, or a shape is invalid.
        """
        if not self.names.issuperset(shapes):
            name = next(n for n in shapes if n not in self.names)
            raise ValueError(unknown_name("input", name, self.names))
        sizes: dict[str, int] = {}
        wrong: list[Rejected] = []
        later: list[tuple[str, int, Dim, int]] = []
        fit: dict[
            int, Sequence[int]
        ] = {}  # keyed by the declaration's identity, because cached inputs are all alike
        for name, dims in self.declared:
            given = shapes.get(name)
            if given is None:
                continue
            if type(given) is not tuple:  # an array of numpy does not compare to one truth
                given = _shape_of(given)
            if fit.get(id(dims)) == given:
                continue
            found = len(wrong) + len(later)
            if len(given) != len(dims):
                wrong.append(
                    misfit(f"{name} must have rank {len(dims)}, got rank {len(given)}: {list(given)}")
                )
                continue
            for axis, ((label, const, d), size) in enumerate(zip(dims, given)):
                if type(size) is not int or size < 0 or size > INT64_MAX:
                    size = size_of(f"{name}[{axis}]", size)
                if label is None:
                    if size != const:
                        later.append((name, axis, d, size))
                elif sizes.setdefault(label, size) != size:
                    wrong.append(
                        misfit(f"{name}[{axis}] is {size}, but {label} is {sizes[label]} in another input")
                    )
            if found == len(wrong) + len(later):
                fit[id(dims)] = given
        if later:
            self._solve([(d, size) for _, _, d, size in later if d.terms], sizes)
            for name, axis, d, size in later:
                value = d.evaluate(sizes) if d.terms else d.const
                if value != size:
                    wrong.append(wrong_size(name, axis, d, size, value))
        return sizes, wrong

    def _solve(self, stated: list[tuple[Dim, int]], sizes: dict[str, int]) -> None:
        """Bind symbols that occur only in declared expressions (``2*H`` is 6, so H is 3). Any accepted solution will do.

        If nothing remains of an expression, any value fits: any H for ``B*H`` if B is 0.
        """
        names = frozenset[str]().union(*(d.free for d, _ in stated)).difference(sizes)
        if not names:
            return
        left = [(now, size) for d, size in stated if (now := _at(d, sizes)) is not None and now.terms]
        declared = [eq(d, size) for d, size in left]
        known = [
            c.subs(sizes) for c in self.checker.conditions if has_value(c) and not names.isdisjoint(c.free)
        ]
        for conds in (
            [*declared, *known],
            declared,
        ):  # sizes that are declared so, but not accepted, are reported below
            found = self.engine.model(conds)
            if found is not None:
                sizes.update({n: found.get(n, 1) for n in sorted(names)})
                return

    def at(self, sizes: Mapping[str, int]) -> list[Rejected]:
        """All violations at these sizes, whatever the other sizes are."""
        broken = self.checker.broken(sizes)
        if broken:
            return [self._violation(b, sizes) for b in broken]
        return [Rejected(c.finding.title, c.message, c.nodes) for c in self._conflicts]

    @cached_property
    def _conflicts(self) -> tuple[Conflict, ...]:
        if self.rejected_request or not self.lowered.clashes:
            return self.rejected_request
        from ..causes.conflict import find_conflicts

        return find_conflicts(self.lowered, request=self.request)

    def _assumption(self, constraint: Constraint) -> Constraint | None:
        """Return the assumption without which this constraint could hold; None if it never can."""
        behind = next((c.stated for c in self._conflicts if constraint in c.stated), ())
        return next((c for c in behind if c.role == "assumption"), None)

    def _violation(self, broken: Broken, sizes: Mapping[str, int]) -> Rejected:
        from ..causes.operands import with_other_inputs
        from ..causes.trace import Tracer
        from ..causes.wording import breaking_text

        constraint, nodes = broken.constraints[0], dict.fromkeys(broken.nodes)
        tracer, operands = Tracer(self.lowered), []
        for c in broken.constraints:
            node, prefix = self.lowered.scopes.get(c.origin.node or "", (None, ""))
            sites = with_other_inputs(c.origin.sites, node, prefix, self.lowered)
            operands.append(sites)
            for site in sites:
                nodes.update(dict.fromkeys(tracer.labels(site)))
        cond = constraint.cond if need(constraint) is broken.cond else broken.cond
        place = breaking_text(constraint.origin, operands[0], sizes, self.concrete_shapes)
        if not (cond.is_false or self._contract().impossible):
            needed, sentence = self._needed(cond, constraint, sizes)
            if constraint.role == "user" and not place:
                sentence += " (assumed by the user)"
            return Rejected(needed, sentence, tuple(nodes), constraint, place)
        assumed = self._assumption(constraint)
        needed = sentence = "no input sizes run"
        if assumed is not None:
            sentence = f"under the assumption {assumed.cond} ({assumed.origin.rule}), {sentence}"
            needed, constraint = str(assumed.cond), assumed
        elif self.lowered.defaults:  # another value may do
            sentence = f"with the default of {' and of '.join(self.lowered.defaults)}, {sentence}"
        return Rejected(needed, sentence, tuple(nodes), constraint, place)

    def _needed(self, cond: Cond, constraint: Constraint, sizes: Mapping[str, int]) -> tuple[str, str]:
        """Return a broken requirement as text and as a sentence: the terms that state or imply it, or its shortest form."""
        terms = broken_terms(self._contract(), sizes)
        own = [t for t in terms if constraint in t.constraints]
        present = [ge(symbol(n), 1) for n in sorted(cond.free) if sizes.get(n)]
        implied = (t for t in terms if self.engine.entails(cond, [t.cond, *present], cheap=True).proved)
        own = own or [*islice(implied, 1)]
        own = own or [
            t for t in self._contract().from_constraint(constraint) if t.cond.evaluate(sizes) is False
        ]
        if not own:
            text = text_of(short_form(cond, self.engine))
            return text, sentence_of(text, sorted(cond.free), sizes)
        sentences = (sentence_of(t.text, t.symbols, sizes) for t in own)
        return text_of(all_of([t.cond for t in own])), " and ".join(sentences)


def _at(d: Dim, sizes: Mapping[str, int]) -> Dim | None:
    """`d` with these sizes substituted; None if a divisor becomes 0."""
    try:
        return d.subs(sizes)
    except ZeroDivisionError:
        return None
