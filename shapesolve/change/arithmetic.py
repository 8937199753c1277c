"""Builds ONNX nodes that compute sizes: vectors, sums, products and quotients. The nodes work on int64 vectors of one
element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ..expr import Atom, Dim, of_atom
from ..expr.structure import Monomial


class Arithmetic(ABC):
    """Builds nodes that compute sizes in one graph.

    Subclasses define the sources of sizes, and the storage and names of results.

    Attributes:
        opset: version of the standard operators there.
    """

    opset: int

    @abstractmethod
    def number(self, numbers: Iterable[int]) -> str:
        """Returns the name of a constant vector with these numbers."""

    @abstractmethod
    def node(self, op_type: str, inputs: list[str], length: int, hint: str = "", **attributes: int) -> str:
        """Returns the output name of a node that makes `length` elements; an equal existing node is reused."""

    @abstractmethod
    def size(self, d: Dim) -> str | None:
        """Returns the name of a one-element vector with the size `d`; None if it cannot be computed."""

    @abstractmethod
    def rounds_down(self, n: Dim, d: Dim) -> bool:
        """True if the quotient is never negative, so that the runtime's truncating division equals ``//``."""

    def piece(self, entries: Sequence[Dim], k: int) -> tuple[str | None, int]:
        """The next tensor to concatenate, which begins at entry `k` of a vector, and how many entries it has."""
        return self.size(entries[k]), 1

    def joined(self, entries: Sequence[Dim], hint: str = "") -> str | None:
        """Returns the name of a vector with these elements; None if one cannot be computed."""
        pieces: list[str] = []
        k = 0
        while k < len(entries) or not pieces:
            start = k
            while k < len(entries) and not entries[k].terms:
                k += 1
            if k > start or not entries:
                pieces.append(self.number([d.const for d in entries[start:k]]))
            else:
                piece, length = self.piece(entries, k)
                if piece is None:
                    return None
                pieces.append(piece)
                k += length
        return pieces[0] if len(pieces) == 1 else self.node("Concat", pieces, len(entries), hint, axis=0)

    def computed(self, d: Dim) -> str | None:
        """Returns the name of a vector with `d`, an expression, computed by nodes from its operands."""
        return self._sum(d) if d.atom is None else self._atom(d.atom)

    def _atom(self, atom: Atom) -> str | None:
        if atom.kind == "pos" and self.opset >= 12:  # Max takes integers
            inner = self.size(atom.args[0])
            return None if inner is None else self.node("Max", [inner, self.number([0])], 1)
        if atom.kind == "//" and self.rounds_down(*atom.args):
            return self._quotient(*atom.args)
        return None

    def _quotient(self, n: Dim, d: Dim) -> str | None:
        """Return nodes for ``n // d``, never as a product with 1/d.

        onnxruntime replaces a product of 1/d and b by b/d, also for integers
        (https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/optimizer/div_mul_fusion.cc).
        """
        below = self.size(d)
        if below is None:
            return None
        if n.value == 1:
            return self.node("Sub", [self.number([0]), self.node("Div", [self.number([-1]), below], 1)], 1)
        above = self.size(n)
        return None if above is None else self.node("Div", [above, below], 1)

    def _sum(self, d: Dim) -> str | None:
        """Nodes for a polynomial, which add its positive terms first."""
        total: str | None = None
        for monomial, factor in sorted(d.terms, key=lambda term: term[1] < 0):
            term = self._product(monomial, factor if total is None else abs(factor))
            if term is None:
                return None
            total = term if total is None else self.node("Add" if factor > 0 else "Sub", [total, term], 1)
        if d.const and total is not None:
            total = self.node("Add" if d.const > 0 else "Sub", [total, self.number([abs(d.const)])], 1)
        return total

    def _product(self, monomial: Monomial, factor: int) -> str | None:
        product = None if factor == 1 else self.number([factor])
        for atom in monomial:
            name = self.size(of_atom(atom))
            if name is None:
                return None
            product = name if product is None else self.node("Mul", [name, product], 1)
        return product
