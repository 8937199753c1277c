# compiled: see CONTRIBUTING.md
"""Data structures of dims (`Polynomial`) and conditions (`Statement`). It has all that bounding, ordering and walking
them needs, and no arithmetic yet.
"""

from __future__ import annotations

from typing import Any

from .atom import Atom
from .surface import Surface

#: a product of atoms, sorted, with repetition; never empty
Monomial = tuple[Atom, ...]
#: the non-constant part of a polynomial: sorted, no zero coefficients
Terms = tuple[tuple[Monomial, int], ...]


def monomial_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    """Sort key of a term: higher degrees first."""
    mono = term[0]
    return (-len(mono), [a.order for a in mono])


class Polynomial(Surface):
    """The content of a dim: terms (coefficient and monomial) and a constant."""

    __slots__ = ("_hash", "_order", "_text", "bounds_memo", "const", "free", "size", "terms")

    terms: Terms
    const: int
    size: int
    free: frozenset[str]
    bounds_memo: tuple[int | None, int | None] | None
    _hash: int
    _order: tuple[Any, ...] | None
    _text: str | None

    @property
    def value(self) -> int | None:
        """The size if it is constant, else None."""
        return None if self.terms else self.const

    def __int__(self) -> int:
        if self.terms:
            raise TypeError(f"the dim {self} is symbolic: it has no integer value")
        return self.const

    @property
    def name(self) -> str | None:
        """The symbol's name if the dim is one symbol, else None."""
        atom = self.atom
        return atom.args[0] if atom is not None and atom.kind == "sym" else None

    @property
    def atom(self) -> Atom | None:
        """The atom if the dim is exactly one atom, else None."""
        if self.const == 0 and len(self.terms) == 1:
            mono, coefficient = self.terms[0]
            if coefficient == 1 and len(mono) == 1:
                return mono[0]
        return None

    @property
    def is_made(self) -> bool:
        """True if the dim is one generated symbol (``_d0``)."""
        return self.atom is not None and self.atom.made

    @property
    def free_symbols(self) -> frozenset[str]:
        """Names of the symbols it depends on."""
        return self.free

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key, the same in every process."""
        if self._order is None:
            self._order = (self.size, [(monomial_order(t), t[1]) for t in self.terms], self.const)
        return self._order


class Statement:
    """The content of a condition: its kind and operands."""

    __slots__ = ("_order", "_text", "args", "free", "kind", "size", "valued")

    kind: str
    args: tuple[Any, ...]
    free: frozenset[str]
    size: int
    _order: tuple[Any, ...] | None
    _text: str | None
    valued: bool | None  # True if it has a value at all sizes; None until computed

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key, the same in every process."""
        if self._order is None:
            self._order = (self.size, self.kind, *[a.order for a in self.args])
        return self._order

    @property
    def is_true(self) -> bool:
        """True if it holds at all sizes."""
        return self.kind == "true"

    @property
    def is_false(self) -> bool:
        """True if it fails at all sizes."""
        return self.kind == "false"

    @property
    def free_symbols(self) -> frozenset[str]:
        """Names of the symbols it depends on."""
        return self.free
