"""Converts dims and conditions to Z3 terms. Names every intermediate: nested divisions and choices make Z3 slow.

Encodings: ``n // d`` is a pair (q, r) with ``n == d*q + r`` or, in native mode, Z3's ``/`` (Euclidean,
which is floor for a positive divisor); ``max(x, 0)`` is a variable that is 0 or x and at least both;
``broadcast(a, b)`` is the first size that is not 1 (never the maximum: 0 with 1 gives 0).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import z3

from ..arguments import wrong
from .atom import Atom
from .bounds import atom_bounds
from .cond import Cond
from .core import Dim
from .traverse import atoms_of
from .visit import visit


class Z3Scope:
    """Z3 terms in a private context, with definitions of helper variables.

    `definitions` grows as terms are made; a query must assert all of it. It says what introduced variables
    mean, the lower bound of each symbol, and that no divisor is 0 where a quotient is needed (a branch that
    is not taken needs none).
    """

    def __init__(self, ctx: Any = None, *, native: bool = False) -> None:
        self.ctx: Any = z3.Context() if ctx is None else ctx
        self.native = native
        self.definitions: list[Any] = []
        self.symbols: dict[str, Any] = {}
        self._atoms: dict[Atom, Any] = {}
        self._products: dict[tuple[Atom, ...], Any] = {}
        self._defined: dict[Atom, Any] = {}  # when an atom has a value; None: always
        self._asserted: set[Dim | Cond] = set()

    def term(self, dim: Dim) -> Any:
        """The Z3 integer term of `dim`."""
        self._define(dim)
        return self._polynomial(dim)

    def formula(self, cond: Cond) -> Any:
        """The Z3 formula of `cond`."""
        self._define(cond)
        return self._truth(cond)

    # ------------------------------------------------------------------ definitions

    def _define(self, root: Dim | Cond) -> None:
        for atom in atoms_of(root):
            if atom not in self._atoms:
                term = visit(atom, self)
                if atom.kind not in ("sym", "//"):
                    self._bound(atom, term)
                self._atoms[atom] = term
                self._defined[atom] = self._when_defined(atom)
        if root not in self._asserted:
            self._asserted.add(root)
            needed = self._dim_defined(root) if isinstance(root, Dim) else self._cond_defined(root)
            if needed is not None:
                self.definitions.append(needed)

    def _introduced(self, letter: str) -> Any:
        return z3.Int(f"{letter}!{len(self._atoms)}", self.ctx)

    def _symbol(self, atom: Atom) -> Any:
        name, lo, _ = atom.args
        v = self.symbols.get(name)
        if v is None:
            v = self.symbols[name] = z3.Int(_symbol_name(name), self.ctx)
        if lo is not None:
            self.definitions.append(v >= lo)
        return v

    def _quotient(self, n: Dim, d: Dim) -> Any:
        if d.terms and d.lo is not None and d.lo >= 0 and d.hi is not None and d.hi <= 3:
            return self._by_one_of_few(n, d, d.hi)
        if self.native and positive_if_defined(d):
            return self._polynomial(n) / self._polynomial(d)
        q = self._introduced("q")
        self.definitions.append(self._division(n, d, q, self._introduced("r")))
        return q

    def _by_one_of_few(self, n: Dim, d: Dim, most: int) -> Any:
        """A quotient with few possible divisors, as a case split over linear quotients."""
        numerator, divisor = self._polynomial(n), self._polynomial(d)
        quotient = numerator / most if most > 1 else numerator
        for k in range(most - 1, 0, -1):
            quotient = z3.If(divisor == k, numerator / k if k > 1 else numerator, quotient)
        return quotient

    def _positive(self, x: Dim) -> Any:
        v, term = self._introduced("pos"), self._polynomial(x)
        self.definitions.append(z3.And(v >= 0, v >= term, z3.Or(v == 0, v == term)))
        return v

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Any:
        v = self._introduced("broadcast")
        self.definitions.append(v == self._first_not_one(sizes))
        return v

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Any:
        v, held = self._introduced("ite"), self._truth(cond)
        self.definitions.append(z3.Implies(held, v == self._polynomial(a)))
        self.definitions.append(z3.Implies(z3.Not(held), v == self._polynomial(b)))
        return v

    def _first_not_one(self, sizes: tuple[Dim, ...]) -> Any:
        one = z3.IntVal(1, self.ctx)
        return reduce(lambda rest, a: z3.If(a != 1, a, rest), map(self._polynomial, reversed(sizes)), one)

    def _bound(self, atom: Atom, v: Any) -> None:
        """Asserts redundant bounds of a helper variable, which save Z3 case splits."""
        lo, hi = atom_bounds(atom)
        if lo is not None and (atom.kind != "pos" or lo > 0):
            self.definitions.append(v >= lo)
        if hi is not None:
            self.definitions.append(v <= hi)

    def _division(self, numerator: Dim, divisor: Dim, q: Any, r: Any) -> Any:
        n, d = self._polynomial(numerator), self._polynomial(divisor)
        whole = n == d * q + r
        above = z3.And(whole, r >= 0, r < d)
        lo = divisor.lo
        if lo is not None and lo >= 1:
            return above
        if lo is not None and lo >= 0:
            return z3.Implies(d != 0, above)
        return z3.And(z3.Implies(d > 0, above), z3.Implies(d < 0, z3.And(whole, r <= 0, r > d)))

    # ------------------------------------------------------------------ where a value exists

    def _when_defined(self, atom: Atom) -> Any:
        if atom.kind == "sym":
            return None
        if atom.kind == "ite":
            cond, a, b = atom.args
            da, db, dc = self._dim_defined(a), self._dim_defined(b), self._cond_defined(cond)
            if da is None and db is None:
                return dc
            always = z3.BoolVal(True, self.ctx)
            chosen = z3.If(self._truth(cond), always if da is None else da, always if db is None else db)
            return _both([dc, chosen])
        needed = [self._dim_defined(a) for a in atom.args]
        if atom.kind == "//":
            lo, hi = atom.args[1].bounds()
            if not (lo is not None and lo >= 1) and not (hi is not None and hi <= -1):
                needed.append(self._polynomial(atom.args[1]) != 0)
        return _both(needed)

    def _dim_defined(self, dim: Dim) -> Any:
        return _both([self._defined[a] for mono, _ in dim.terms for a in mono])

    def _cond_defined(self, cond: Cond) -> Any:
        """Formula for "the condition has a value": one member can decide an ``and`` or ``or``."""
        if not cond.args:
            return None
        if cond.kind not in ("and", "or"):
            return self._dim_defined(cond.args[0])
        each = [self._cond_defined(c) for c in cond.args]
        everything = _both(each)
        if everything is None:
            return None
        settled = []
        for c, d in zip(cond.args, each):
            truth = self._truth(c) if cond.kind == "or" else z3.Not(self._truth(c))
            settled.append(truth if d is None else z3.And(d, truth))
        return z3.Or(everything, *settled)

    # ------------------------------------------------------------------ terms

    def _polynomial(self, dim: Dim) -> Any:
        parts = []
        for mono, c in dim.terms:
            product = self._products.get(mono)
            if product is None:  # powers and sums of the same sizes come again and again
                product = self._products[mono] = reduce(lambda a, b: a * b, (self._atoms[a] for a in mono))
            parts.append(product if c == 1 else product * c)
        if dim.const or not parts:
            parts.append(z3.IntVal(dim.const, self.ctx))
        return parts[0] if len(parts) == 1 else z3.Sum(parts)

    def _truth(self, cond: Cond) -> Any:
        if not cond.args:
            return z3.BoolVal(cond.is_true, self.ctx)
        if cond.kind in ("and", "or"):
            return (z3.And if cond.kind == "and" else z3.Or)([self._truth(c) for c in cond.args])
        left = self._polynomial(cond.args[0])
        return left >= 0 if cond.kind == ">=" else left == 0 if cond.kind == "==" else left != 0


_TAKEN = re.compile(r"(q|r|pos|broadcast|ite)![0-9]+|sym!.*", re.DOTALL)


def _symbol_name(name: str) -> str:
    """Return the Z3 name of a symbol, which no introduced variable has."""
    return f"sym!{name}" if _TAKEN.fullmatch(name) else name


def positive_if_defined(d: Dim) -> bool:
    """True if `d` is positive wherever it is a legal divisor."""
    return d.lo is not None and d.lo >= 0


def _both(formulas: list[Any]) -> Any:
    kept = list(dict.fromkeys(f for f in formulas if f is not None))
    return None if not kept else kept[0] if len(kept) == 1 else z3.And(kept)


class Z3Terms(Z3Scope):
    """Z3 terms in the caller's context (default: Z3's main context).

    `sizes` are the variables of symbols that stand for sizes, which are not negative: the terms do not say so.
    """

    def __init__(self, ctx: Any = None, name: Callable[[str], str] | None = None) -> None:
        """A converter for a context; `name` maps symbols to names in Z3 (default: unchanged)."""
        super().__init__(z3.main_ctx() if ctx is None else ctx, native=True)
        self.sizes: list[Any] = []
        self._name = name

    def formula(self, cond: Cond) -> Any:
        """Return the Z3 formula of `cond`, which is false if the condition has no value (division by zero)."""
        self._define(cond)
        defined, truth = self._cond_defined(cond), self._truth(cond)
        return truth if defined is None else z3.And(defined, truth)

    def _define(self, root: Dim | Cond) -> None:
        for atom in atoms_of(root):
            if atom not in self._atoms:
                self._atoms[atom] = visit(atom, self)
                self._defined[atom] = self._when_defined(atom)

    def _quotient(self, n: Dim, d: Dim) -> Any:
        numerator, divisor = self._polynomial(n), self._polynomial(d)
        if positive_if_defined(d):  # Z3's division is Euclidean: floor for a positive divisor
            return numerator / divisor
        return z3.If(divisor > 0, numerator / divisor, -numerator / -divisor)

    def _positive(self, x: Dim) -> Any:
        term = self._polynomial(x)
        return z3.If(term >= 0, term, z3.IntVal(0, self.ctx))

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Any:
        return self._first_not_one(sizes)

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Any:
        return z3.If(self._truth(cond), self._polynomial(a), self._polynomial(b))

    def _symbol(self, atom: Atom) -> Any:
        name, lo, _ = atom.args
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = z3.Int(name if self._name is None else self._name(name), self.ctx)
            if lo is not None:
                self.sizes.append(found)
        return found


def z3_term(dim: Dim, ctx: Any = None) -> Any:
    """See `Dim.z3`."""
    return Z3Terms(_context(ctx)).term(dim)


def z3_formula(cond: Cond, ctx: Any = None) -> Any:
    """See `Cond.z3`."""
    return Z3Terms(_context(ctx)).formula(cond)


def _context(given: Any) -> Any:
    if given is None or isinstance(given, z3.Context):
        return given
    raise wrong("z3 takes ctx as a z3.Context or None", given)
