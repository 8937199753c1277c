"""`Strides`: rewrites expressions of sizes with a known divisor (``h % 8 == 0``). All expressions in them become
polynomials in their number of steps.
"""

from __future__ import annotations

from math import prod

from ...expr import Atom, Dim, of_atom
from ...expr.core import constant, from_terms
from ...expr.structure import Monomial
from ...expr.traverse import atoms_of
from ..facts.facts import Facts


class Strides:
    """Rewrites expressions by known divisors of sizes; results are equal where `facts` hold.

    >>> from shapesolve.expr import parse_cond, parse_dim
    >>> from shapesolve.solve.simplify import Domain
    >>> steps = Strides(Domain([parse_cond("height % 8 == 0")]).facts)
    >>> steps.inward(parse_dim("(height//2)*(height//4)"))
    Dim('8*(height//8)**2')
    >>> steps.shown(parse_dim("16*(height//2)*(height//4)"))
    Dim('2*height**2')
    """

    def __init__(self, facts: Facts) -> None:
        self._steps: list[tuple[Dim, Atom, int]] = []  # the size, its number of steps, the step
        for base, step in facts.divisors.items():
            atom = base.atom
            count = (base // constant(step)).atom
            if atom is not None and atom.kind == "sym" and count is not None and step > 1:
                self._steps.append((base, count, step))
        self._inward = {base.name or "": of_atom(count).scale(step) for base, count, step in self._steps}

    def inward(self, d: Dim) -> Dim:
        """`d` with each size that k divides written as ``k*(size//k)``."""
        return d.subs(self._inward)

    def outward(self, d: Dim) -> Dim:
        """`d` with ``k*(size//k)`` written as the size again; `d` itself if a factor does not allow it."""
        used = [s for s in self._steps if any(s[1] in mono for mono, _ in d.terms)]
        table: dict[Monomial, int] = {}
        done = constant(d.const)
        for mono, c in d.terms:
            factor = prod(step ** mono.count(count) for _, count, step in used)
            if c % factor or not all(_alone(count, mono) for _, count, _ in used):
                return d
            if factor == 1:
                table[mono] = c
                continue
            product = constant(c // factor)
            for atom in mono:
                product = product * next((base for base, count, _ in used if count is atom), of_atom(atom))
            done = done + product
        return from_terms(table, 0) + done

    def shown(self, d: Dim) -> Dim:
        """Return a shorter form of `d`, such as `2*h**2` for `16*(h//2)*(h//4)`, if it is exact; otherwise `d`."""
        return self.outward(self.inward(d)) if self._steps and not d.free.isdisjoint(self._inward) else d


def _alone(atom: Atom, mono: Monomial) -> bool:
    return all(other is atom or atom not in atoms_of(of_atom(other)) for other in mono)
