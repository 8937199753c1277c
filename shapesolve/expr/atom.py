# compiled: see CONTRIBUTING.md
"""`Atom`: a symbol or a non-polynomial term (quotient, choice ...), a factor of monomials."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, SupportsIndex

from .pool import Pool


class Atom:
    """A symbol or a non-polynomial term (quotient, maximum, choice ...); interned.

    ``kind`` is ``sym`` (args: name, lower bound or None, is it made by an analysis), ``//`` (numerator, denominator),
    ``pos`` (dim), ``broadcast`` (dims) or ``ite`` (cond, dim, dim). ``order`` sorts atoms the same way in every process.
    """

    __slots__ = ("args", "bounds_memo", "free", "kind", "order", "size")

    kind: str
    args: tuple[Any, ...]
    order: tuple[Any, ...]
    size: int
    free: frozenset[str]
    bounds_memo: tuple[Any, Any] | None

    @property
    def made(self) -> bool:
        """True if it is a generated symbol (``_d0``), not one that the author named."""
        return self.kind == "sym" and bool(self.args[2])

    def __repr__(self) -> str:
        return f"Atom({self.kind}, {', '.join(map(str, self.args))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_atom, (self.kind, *self.args)


def _new(kind: str, *args: Any) -> Atom:
    atom = Atom()
    atom.kind, atom.args, atom.bounds_memo = kind, args, None
    if kind == "sym":
        atom.size, atom.free = 1, frozenset((args[0],))
        atom.order = (0, args[0], -1 if args[1] is None else args[1], args[2])
    else:
        atom.size = 1 + sum([a.size for a in args])
        if kind == "broadcast":  # each of its sizes is compared with each other one
            atom.size += (len(args) - 1) * (len(args) - 2) // 2
        atom.free = frozenset().union(*[a.free for a in args])
        atom.order = (atom.size, kind, *[a.order for a in args])
    return atom


_ATOMS = Pool(_new)
_recent: dict[tuple[Any, ...], Atom] = _ATOMS.recent


def make_atom(kind: str, *args: Any) -> Atom:
    """Returns the interned atom of canonical arguments."""
    key = (kind, *args)
    known = _recent.get(key)
    if known is None:
        known = _ATOMS.take(key)
    return known


#: values of atoms at one mapping of sizes
Values = dict[Atom, "int | None"]


def evaluate_atom(atom: Atom, bindings: Mapping[str, SupportsIndex], values: Values) -> int | None:
    """Value of an atom, cached in `values`; None if a symbol is unbound or a divisor is 0."""
    if atom.kind == "sym":
        size = bindings.get(atom.args[0])
        return None if size is None else index(size)
    if atom not in values:
        values[atom] = _evaluated(atom, bindings, values)
    return values[atom]


def _evaluated(atom: Atom, bindings: Mapping[str, SupportsIndex], memo: Values) -> int | None:
    kind, args = atom.kind, atom.args
    if kind == "ite":
        held = args[0]._value_at(bindings, memo)
        return None if held is None else args[1 if held else 2]._value_at(bindings, memo)
    values: list[int] = []
    for a in args:
        v = a._value_at(bindings, memo)
        if v is None:
            return None
        values.append(v)
    if kind == "//":
        return None if values[1] == 0 else values[0] // values[1]
    if kind == "pos":
        return max(values[0], 0)
    return next((v for v in values if v != 1), 1)  # broadcast
