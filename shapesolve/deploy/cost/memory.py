"""Memory model: buffers allocated and freed as nodes run, and the peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import le

from ...expr import ZERO, Dim, maximum
from ...expr.atom import Atom
from ...expr.bounds import atom_bounds
from ...expr.structure import Monomial
from ...lazy import cached_property
from ...lower.rule import Memory
from ...model import Node


@dataclass(frozen=True, slots=True)
class Largest:
    """Maximum of several dims, kept as a list of those for which no other dim is a proved bound."""

    of: tuple[Dim, ...] = (ZERO,)

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in the maximum."""
        return frozenset().union(*(d.free for d in self.of))

    def evaluate(self, sizes: Mapping[str, int]) -> int | None:
        """Return the maximum at these sizes, or None if a symbol has no size."""
        found = [d.evaluate(sizes) for d in self.of]
        known = [n for n in found if n is not None]
        return max(known) if len(known) == len(found) else None

    def subs(self, sizes: Mapping[str, int]) -> Largest:
        """Return the maximum with these sizes substituted, over the dims that may still be the largest."""
        return largest(d.subs(sizes) for d in self.of)

    @property
    def dim(self) -> Dim:
        """Return the maximum as one dim."""
        return maximum(*self.of)

    def __str__(self) -> str:
        if len(self.of) == 1:
            return str(self.of[0])
        shown = [str(d) for d in self.of[:6]]
        more = len(self.of) - len(shown)
        return f"max({', '.join(shown)}{f', and {more} more' if more else ''})"


NOTHING = Largest()


class _Candidate:
    """Dim in a maximum, with sample values to compare it with others.

    Attributes:
        sizes: Values at the first probes, used to order candidates.
        coefficients: Coefficients by monomial; the key () is the constant.
        rough: Monomials that are not just a product of sizes.
        grows: Whether all monomials are nonnegative.
    """

    def __init__(self, dim: Dim, names: Sequence[str]) -> None:
        self.dim, self.names = dim, names
        self.sizes = [_size(dim, {n: size + 3 * k for k, n in enumerate(names)}) for size in (1000, 7, 130)]
        self.coefficients: dict[Monomial, int] = {**dict(dim.terms), (): dim.const}
        self.rough = [m for m, _ in dim.terms if any(a.kind != "sym" or a.args[1] != 0 for a in m)]
        self.grows = all(_is_never_negative(a) for m in self.rough for a in m)

    @cached_property
    def extremes(self) -> list[int]:
        """Return values at sizes for which one symbol is far from all others."""
        far = 1_000_007
        return [
            _size(self.dim, {n: one if n == name else rest for n in self.names})
            for name in self.names
            for one, rest in ((far, 1), (1, far), (0, far))
        ]

    def reaches(self, other: _Candidate) -> bool:
        """Return True if the dim is proved at least as large as the other at all sizes."""
        if not all(map(le, other.sizes, self.sizes)):
            return False
        if self.grows and other.grows:
            mine, its = self.coefficients, other.coefficients
            less = {m for m, c in its.items() if mine.get(m, 0) < c}
            less.update(m for m, c in mine.items() if c < 0 and m not in its)
            if not less:
                return True
            if all(mine.get(m, 0) == its.get(m, 0) for m in (*self.rough, *other.rough)):
                return False  # a product of sizes has no upper bound
        if any(b > a >= 0 for a, b in zip(self.extremes, other.extremes, strict=True)):
            return False
        lo = (self.dim - other.dim).lo
        return lo is not None and lo >= 0


def _is_never_negative(atom: Atom) -> bool:
    lo = atom_bounds(atom)[0]
    return lo is not None and lo >= 0


def _size(dim: Dim, probe: Mapping[str, int]) -> int:
    """Return the value of a dim at these sizes, or -1 if it has none."""
    found = dim.evaluate(probe)
    return -1 if found is None else found


def largest(dims: Iterable[Dim]) -> Largest:
    """Return the maximum of these dims, without those that never exceed another."""
    dims = tuple(dict.fromkeys(dims))
    if len(dims) == 1:
        return Largest(dims)
    names = sorted({n for d in dims for n in d.free})
    ranked = sorted((_Candidate(d, names) for d in dims), key=lambda c: c.sizes, reverse=True)
    kept: list[Dim] = []
    tried: list[_Candidate] = []  # kept dims, those that most recently bounded another one first
    for candidate in ranked:
        found = next((k for k, other in enumerate(tried) if other.reaches(candidate)), None)
        if found is None:
            kept.append(candidate.dim)
            tried.append(candidate)
        else:
            tried.insert(0, tried.pop(found))
    return Largest(tuple(kept) or (ZERO,))


class Buffers:
    """Buffers held while the nodes of one body run.

    Args:
        last: Index of the last node that reads each tensor (or computes it, if no node reads it).
        pinned: Tensors whose memory must not be overwritten.
        shares: Whether outputs may share memory if their operator allows it.
    """

    def __init__(self, last: Mapping[str, int], pinned: Iterable[str], *, shares: bool) -> None:
        self.last, self.pinned, self.shares = last, frozenset(pinned), shares
        self.bytes = ZERO
        self.peaks: dict[Dim, None] = {ZERO: None}
        self._buffer: dict[str, int] = {}  # buffer by tensor
        self._size: list[Dim] = []
        self._until: list[int] = []  # last node that reads it, by buffer

    def take(self, name: str, size: Dim) -> None:
        """Allocate a buffer for a tensor."""
        self._buffer[name] = len(self._size)
        self._size.append(size)
        self._until.append(self.last[name])
        self.bytes = self.bytes + size

    def place(self, name: str, size: Dim, node: Node, at: int, memory: Memory) -> None:
        """Assign a buffer to the first output of node number `at`: an input's buffer if possible."""
        if self.shares and memory == "view":
            source = self._buffer.get(node.inputs[0]) if node.inputs else None
            if source is not None:  # None: a view of a weight, or of a tensor owned by another subgraph
                self._join(name, source)
            return
        for read in node.inputs if self.shares and memory == "over" else ():
            source = self._buffer.get(read)
            if (
                source is not None
                and read not in self.pinned
                and self._until[source] == at
                and self._size[source] is size
            ):
                self._join(name, source)
                return
        self.take(name, size)

    def _join(self, name: str, buffer: int) -> None:
        self._buffer[name] = buffer
        self._until[buffer] = max(self._until[buffer], self.last[name])

    def give_back(self, names: Iterable[str], at: int) -> None:
        """Free buffers of these tensors that no later node reads."""
        for buffer in dict.fromkeys(self._buffer[n] for n in names if n in self._buffer):
            if self._until[buffer] == at:
                self.bytes = self.bytes - self._size[buffer]
                self._until[buffer] = -1

    def note(self, extra: Sequence[Dim]) -> None:
        """Record peaks: the bytes held now plus each of the dims."""
        for d in extra:
            self.peaks[self.bytes + d] = None
