"""`Simplifier`: finds the cheapest equivalent form of an expression, with proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...expr import ZERO, Atom, Cond, Dim, DimTooLarge, constant, of_atom, rebuild
from ...expr.core import apply, from_terms
from ...expr.structure import Monomial
from ...expr.traverse import atoms_of
from ..facts import budget
from ..known import is_size
from ..tables import Inexact, Table
from .cost import cost, is_small
from .domain import Domain
from .rules import of_atoms, rewritten
from .strides import Strides
from .univariate import fits


class Simplifier:
    """Simplifies expressions and conditions; results are equal at the sizes where `conds` hold."""

    def __init__(self, conds: Iterable[Cond] = (), domain: Domain | None = None) -> None:
        self.domain = domain or Domain(conds)
        self.strides = Strides(self.domain.facts)
        self._dims: dict[Dim, Dim] = {}
        self._atoms: dict[Atom, Dim] = {}

    def dim(self, d: Dim) -> Dim:
        """The cheapest form found that is equal to `d` at all sizes of the domain."""
        found = self._dims.get(d)
        if found is None:
            found = d
            if not is_linear(d) and is_small(d) and not self.domain.is_empty:
                try:
                    found = self._simplified(d)
                except (DimTooLarge, ZeroDivisionError):
                    found = d
            self._dims[d] = found
        return found

    def cond(self, c: Cond) -> Cond:
        """`c` with its expressions in their cheapest form: true at the same sizes of the domain."""
        return c.map_dims(self.dim)

    @staticmethod
    def _symbol(d: Dim, name: str) -> Dim:
        return next(of_atom(a) for a in atoms_of(d) if a.kind == "sym" and a.args[0] == name)

    # ------------------------------------------------------------------ one expression

    def _simplified(self, d: Dim) -> Dim:
        best, price = d, cost(d)
        for step in (self._fitted, self._ruled, self._fitted, self._constant):
            now = step(best)
            if now is not best and is_small(now):
                new = cost(now)
                if new < price:
                    best, price = now, new
                    if len(d.free) == 1 and step == self._fitted:
                        break  # one template says all of it
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
            if all(is_linear(part) for part in parts.values()):
                continue
            done = ZERO
            for others, part in parts.items():
                done = done + of_atoms(others) * self._fit(part, name)
            d = done
        return d

    def _fit(self, part: Dim, name: str) -> Dim:
        if is_linear(part) or not is_size(part, name):
            return part
        if is_one_floor(part) and all(
            c.kind == ">=" and is_linear(c.args[0]) for c in self.domain.alone(name)
        ):
            low, high = self.domain.facts.bounds(part) if self.domain.facts is not None else (None, None)
            return (
                constant(low) if low is not None and low == high else part
            )  # nothing else could make it shorter
        return self._cheapest(part, fits(part, self._symbol(part, name), self.domain))

    def _constant(self, d: Dim) -> Dim:
        """Return the number that `d` equals at all sizes of the domain, otherwise `d`."""
        points = None if is_linear(d) else self.domain.points(d)
        if points is None:
            return d
        try:
            values, there = Table(points).dim(d)
        except Inexact:
            return d
        if (there is not True and not there.all()) or (values != values.flat[0]).any():
            return d
        return self._cheapest(d, iter((constant(int(values.flat[0])),)))

    def _cheapest(self, d: Dim, candidates: Iterator[Dim]) -> Dim:
        """Return the cheapest candidate that costs less than `d` and is proved equal to it, otherwise `d`."""
        price = cost(d)
        small = {c: None for c in candidates if c is not d and c.size <= d.size + budget.LONGER}
        nearly = sorted(small, key=lambda c: c.size)[: budget.MAX_FORMS]
        prices = {c: cost(c) for c in nearly}
        for candidate in sorted(nearly, key=lambda c: prices[c])[: budget.MAX_PROOFS]:
            if prices[candidate] < price and self.domain.equal(d, candidate):
                return candidate
        return d


def is_linear(d: Dim) -> bool:
    """True if the expression is a polynomial in symbols (no ``//``, choice or maximum)."""
    return all(a.kind == "sym" for mono, _ in d.terms for a in mono)


def is_one_floor(d: Dim) -> bool:
    """True for ``a*(p // q) + b`` with `p` a polynomial in symbols."""
    if len(d.terms) != 1 or len(d.terms[0][0]) != 1:
        return False
    atom = d.terms[0][0][0]
    return atom.kind == "//" and is_linear(atom.args[0]) and not atom.args[1].terms


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
