"""`Simplifier`: finds the cheapest equivalent form of an expression or a condition, with proof.

Candidates come from tables of sizes, from rules, and from parts of a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...expr import ZERO, Atom, Cond, Dim, DimTooLarge, all_of, any_of, constant, eq, ge, of_atom, rebuild
from ...expr.canonical import common_factor, without
from ...expr.cond import symbols_in
from ...expr.core import apply, from_terms
from ...expr.plain import is_polynomial
from ...expr.structure import Monomial
from ..engine import Engine
from ..known import defined_where, is_size
from ..tables import Inexact, Table
from .cost import cheapest, is_small
from .domain import Domain
from .forms import is_short, is_worked_on, related
from .ranges import separated
from .rules import of_atoms, rewritten
from .strides import Strides
from .univariate import fits


class Simplifier:
    """Simplifies expressions and conditions; results are equal at the sizes where `conds` hold."""

    def __init__(self, conds: Iterable[Cond] = (), engine: Engine | None = None) -> None:
        self.domain = Domain(conds, engine)
        self.strides = Strides(self.domain.facts)
        self._dims: dict[Dim, Dim] = {}
        self._atoms: dict[Atom, Dim] = {}

    def dim(self, d: Dim) -> Dim:
        """The cheapest form found that is equal to `d` at all sizes of the domain."""
        found = self._dims.get(d)
        if found is None:
            found = d
            if not is_polynomial(d) and is_small(d) and not self.domain.is_empty:
                try:
                    found = self._simplified(d)
                except (DimTooLarge, ZeroDivisionError):
                    found = d
            self._dims[d] = found
        return found

    def cond(self, c: Cond) -> Cond:
        """`c` with its expressions in their cheapest form: true at the same sizes of the domain."""
        return c.map_dims(self.dim)

    # ------------------------------------------------------------------ one expression

    def _simplified(self, d: Dim) -> Dim:
        best = d
        for step in (self._fitted, self._ruled, self._fitted, self._constant):
            now = cheapest(best, (step(best),), is_small)
            if now is not best and len(d.free) == 1 and step == self._fitted:
                return now  # one template says all of it
            best = now
        return best

    def _ruled(self, d: Dim) -> Dim:
        return rebuild(d, self._atom)

    def _atom(self, atom: Atom) -> Dim:
        if atom.kind == "sym":
            return of_atom(atom)
        found = self._atoms.get(atom)
        if found is None:
            args = tuple(self.cond(a) if isinstance(a, Cond) else self.dim(a) for a in atom.args)
            found = of_atom(atom) if args == atom.args else apply(atom.kind, args)
            same = found.atom
            if same is not None and same.kind != "sym":
                found = rewritten(same, self.domain)
                if found.atom is same and len(same.free) == 1:
                    found = self._fit(found, *same.free)
            self._atoms[atom] = found
        return found

    def _fitted(self, d: Dim) -> Dim:
        """`d` with each subexpression in one symbol replaced by a fitted form."""
        for name in sorted(d.free):
            parts = collected(d, name)
            if all(is_polynomial(part) for part in parts.values()):
                continue
            done = ZERO
            for others, part in parts.items():
                done = done + of_atoms(others) * self._fit(part, name)
            d = done
        return d

    def _fit(self, part: Dim, name: str) -> Dim:
        if is_polynomial(part) or not is_size(part, name):
            return part
        if is_one_floor(part) and all(
            c.kind == ">=" and is_polynomial(c.args[0]) for c in self.domain.alone(name)
        ):
            low, high = self.domain.facts.bounds(part)
            # nothing else could make it shorter
            return constant(low) if low is not None and low == high else part
        return self._equal(part, fits(part, symbols_in(part)[name], self.domain))

    def _constant(self, d: Dim) -> Dim:
        points = None if is_polynomial(d) else self.domain.points(d)
        if points is None:
            return d
        try:
            values, there = Table(points).dim(d)
        except Inexact:
            return d
        if (there is not True and not there.all()) or (values != values.flat[0]).any():
            return d
        return self._equal(d, (constant(int(values.flat[0])),))

    def _equal(self, d: Dim, candidates: Iterable[Dim]) -> Dim:
        return cheapest(d, candidates, lambda c: self.domain.follows(eq(d, c)))

    # ------------------------------------------------------------------ one condition

    def shortest(self, cond: Cond) -> Cond:
        """Return the cheapest form found that is equivalent to `cond` in the domain; `cond` itself if it may divide by 0
        there.

        The search ends at a conjunction, whose parts are simplified separately.
        """
        best = cond
        try:
            if self._has_value(cond):
                while (form := self._shorter(best)) is not best:
                    best = form
                    if best.kind == "and":
                        break
        except DimTooLarge:
            return cond
        return best

    def _has_value(self, cond: Cond) -> bool:
        return all(map(self.domain.follows, defined_where(cond)))

    def _shorter(self, cond: Cond) -> Cond:
        proved = ((self.cond(cond),), self._stripped(cond), self._by_ranges(cond))
        for candidates in proved:
            form = cheapest(cond, candidates, self._has_value)
            if form is not cond:
                return form
        return cheapest(
            cond, self._by_parts(cond), lambda form: self._has_value(form) and self._equivalent(cond, form)
        )

    def _equivalent(self, cond: Cond, form: Cond) -> bool:
        return self.domain.with_([cond]).follows(form) and self.domain.with_([form]).follows(cond)

    def _stripped(self, cond: Cond) -> Iterator[Cond]:
        """Candidate: positive factors of all terms dropped."""
        d = cond.args[0] if cond.kind in ("==", "!=", ">=") else ZERO
        if isinstance(d, Dim) and d.terms and not d.const:
            positive = tuple(a for a in common_factor(d) if self.domain.follows(ge(of_atom(a), 1)))
            if positive:
                yield related(cond.kind, without(d, positive))

    def _by_ranges(self, cond: Cond) -> Iterator[Cond]:
        """Candidates: ranges and remainders of single symbols. They are of the condition by itself and together with
        others that are about no more symbols.
        """
        if cond.kind == "or" and len(cond.free) > 1:  # the values of one symbol depend on another
            return
        near = [c for c in self.domain.conds if len(c.free) == 1 and c.free <= cond.free]
        for group in ([cond], [cond, *near]) if near and len(cond.free) == 1 else ([cond, *near],):
            found = separated(group, self.domain.engine)
            if found is not None:
                yield all_of(found)

    def _by_parts(self, cond: Cond) -> Iterator[Cond]:
        """Candidates: one member dropped, or shortened under the assumption of the others."""
        if cond.kind not in ("and", "or"):
            return
        join = any_of if cond.kind == "or" else all_of
        for i, part in enumerate(cond.args):
            rest = [c for c in cond.args if c is not part]
            yield join(rest)
            if not is_short(part):
                settled = [~c if cond.kind == "or" else c for c in rest]
                inner = Simplifier([*self.domain.conds, *settled], self.domain.engine)
                if not inner.domain.is_empty:
                    yield join([*rest[:i], inner.shortest(part), *rest[i:]])


def short_form(cond: Cond, engine: Engine) -> Cond:
    """The shortest form found that is equivalent to a condition at all sizes."""
    return Simplifier((), engine).shortest(cond) if is_worked_on(cond) else cond


def is_one_floor(d: Dim) -> bool:
    """True for ``a*(p // q) + b`` with `p` a polynomial in symbols."""
    if len(d.terms) != 1 or len(d.terms[0][0]) != 1:
        return False
    atom = d.terms[0][0][0]
    return atom.kind == "//" and is_polynomial(atom.args[0]) and not atom.args[1].terms


def collected(d: Dim, name: str) -> dict[Monomial, Dim]:
    """`d` as a sum of products: factors in one symbol alone, by their other factors. The other factor does not depend
    on that symbol alone.
    """
    tables: dict[Monomial, dict[Monomial, int]] = {(): {}}
    consts: dict[Monomial, int] = {(): d.const}
    for mono, c in d.terms:
        mine = tuple(a for a in mono if a.free == {name})
        others = tuple(a for a in mono if a.free != {name})
        if mine:
            tables.setdefault(others, {})[mine] = c
        else:
            consts[others] = consts.get(others, 0) + c
            tables.setdefault(others, {})
    return {others: from_terms(table, consts.get(others, 0)) for others, table in tables.items()}
