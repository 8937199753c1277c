# compiled: see CONTRIBUTING.md
"""`Dim`: integer expressions in canonical form.

A dim is a polynomial with integer coefficients over *atoms*. Atoms are symbols and four
non-polynomial terms: ``n // d``, ``pos(x) = max(x, 0)``, ``broadcast(a, b, ...)`` and
``ite(cond, a, b)``. Everything else is written with these: ``a % k`` is ``a - k*(a//k)``,
``max(a, b)`` is ``b + pos(a - b)``, ``min(a, b)`` is ``a - pos(a - b)``. So identities such as
``k*(a//k) + a%k == a`` or ``max(a, b) + min(a, b) == a + b`` hold by construction.

Dims and atoms are hash-consed: equal canonical forms are the same object, so equality is identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from ..arguments import wrong
from . import surface
from .atom import Atom, Values, evaluate_atom, make_atom
from .bounds import bounds
from .limits import MAX_CACHED, MAX_TERMS, DimTooLarge
from .pool import Pool
from .structure import Monomial, Polynomial, Terms, monomial_order
from .surface import UNFILLED, attach

if TYPE_CHECKING:
    from .cond import Cond, Under

IntoDim = Union["Dim", SupportsIndex]

_NO_NAMES: frozenset[str] = frozenset()


def _new(terms: Terms, const: int) -> Dim:
    dim = Dim(UNFILLED)
    dim.terms, dim.const = terms, const
    dim._hash = hash((terms, const)) if terms else hash(const)
    dim.bounds_memo = dim._text = dim._order = None
    atoms = [a for mono, _ in terms for a in mono]
    if len(atoms) == 1:
        dim.free, size = atoms[0].free, 1 + atoms[0].size
    elif not atoms:
        dim.free, size = _NO_NAMES, 1
    else:
        dim.free = frozenset().union(*[a.free for a in atoms])
        size = 1 + sum([a.size for a in atoms])
    for _, c in terms:
        if not -(2**64) < c < 2**64:  # coefficients beyond 64 bits count by their length
            size += c.bit_length() // 12  # Python prints 4300 digits at most
    dim.size = size  # set last: a dim with a size is final
    return dim


_DIMS = Pool(_new)
_recent: dict[tuple[Terms, int], Dim] = _DIMS.recent


def make_dim(terms: Terms, const: int) -> Dim:
    """The interned dim of canonical `terms` (sorted, non-zero) plus `const`."""
    key = (terms, const)
    known = _recent.get(key)
    if known is None:
        known = _DIMS.take(key)
    return known


def from_terms(terms: Mapping[Monomial, int], const: int) -> Dim:
    """The dim of a coefficient table (zeros allowed, any order)."""
    kept = [t for t in terms.items() if t[1]]
    if len(kept) > 1:
        if len(kept) > MAX_TERMS:
            raise DimTooLarge(f"an expression of {len(kept)} terms")
        kept.sort(key=monomial_order)
    return make_dim(tuple(kept), const)


def of_atom(atom: Atom) -> Dim:
    """The dim that is just `atom`."""
    return make_dim((((atom,), 1),), 0)


def symbol(name: str, lo: int | None = 0, made: bool = False) -> Dim:
    """Return the symbol `name`: a size (>= 0), or any integer with `lo=None`.

    `made` marks symbols that an analysis generated. They differ from an author's symbol of the same name.
    """
    return of_atom(make_atom("sym", name, lo, made))


#: numbers that came up already, of those that most sizes are: to find them here costs less than to ask the pool
_SMALL: dict[int, Dim] = {}


def constant(value: int) -> Dim:
    """The dim of a known size."""
    dim = _SMALL.get(value)
    if dim is None:
        dim = make_dim((), value)
        if -64 <= value <= MAX_CACHED:
            _SMALL[value] = dim
    return dim


class Dim(Polynomial):
    """An integer expression over named sizes, in canonical form; immutable and interned.

    >>> batch, seq = Dim("batch"), Dim("seq")
    >>> (2 * seq + batch - seq) // 1
    Dim('batch + seq')
    >>> (2 * seq // 2).evaluate({"seq": 7})
    7

    ``Dim(text)`` parses (see `parse_dim`), ``Dim(5)`` is a constant, ``Dim(expression of SymPy)`` reads it. ``+ - *
    // %`` take dims and ints with Python's meaning. ``==`` is identity of canonical forms (and compares with ints):
    equal means proved equal, different does *not* mean provably different: ask `Analysis.equal` or build a condition
    by `eq`.
    """

    __slots__ = ()

    # ------------------------------------------------------------------ identity

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return not self.terms and self.const == other
        return NotImplemented if not isinstance(other, Dim) else False

    def __reduce__(self) -> tuple[Any, ...]:
        return make_dim, (self.terms, self.const)

    @staticmethod
    def _made_of(value: IntoDim | str) -> Dim:
        return as_dim(value)

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: object) -> Dim:
        return self

    # ------------------------------------------------------------------ arithmetic

    def __add__(self, other: Dim | int) -> Dim:
        if isinstance(other, int):
            return make_dim(self.terms, self.const + other) if other else self
        if not isinstance(other, Dim):
            return NotImplemented
        if not other.terms:
            return make_dim(self.terms, self.const + other.const) if other.const else self
        if not self.terms:
            return make_dim(other.terms, self.const + other.const) if self.const else other
        table = dict(self.terms)
        for mono, c in other.terms:
            table[mono] = table.get(mono, 0) + c
        return from_terms(table, self.const + other.const)

    def __radd__(self, other: int) -> Dim:
        return self + other

    def __neg__(self) -> Dim:
        return make_dim(tuple((m, -c) for m, c in self.terms), -self.const)

    def __sub__(self, other: Dim | int) -> Dim:
        if self is other:
            return ZERO
        if isinstance(other, int):
            return make_dim(self.terms, self.const - other) if other else self
        if not isinstance(other, Dim):
            return NotImplemented
        if not other.terms:
            return make_dim(self.terms, self.const - other.const) if other.const else self
        table = dict(self.terms)
        for mono, c in other.terms:
            table[mono] = table.get(mono, 0) - c
        return from_terms(table, self.const - other.const)

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    def scale(self, factor: int) -> Dim:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return make_dim(tuple((m, c * factor) for m, c in self.terms), self.const * factor)

    def __mul__(self, other: Dim | int) -> Dim:
        if isinstance(other, int):
            return self.scale(other)
        if not isinstance(other, Dim):
            return NotImplemented
        if not other.terms:
            return self.scale(other.const)
        if not self.terms:
            return other.scale(self.const)
        if len(self.terms) * len(other.terms) > 4 * MAX_TERMS:
            raise DimTooLarge("a product of large sums")
        table: dict[Monomial, int] = {}
        right = (*other.terms, ((), other.const)) if other.const else other.terms
        for m1, c1 in (*self.terms, ((), self.const)) if self.const else self.terms:
            for m2, c2 in right:
                mono = m1 + m2
                if m1 and m2:
                    mono = tuple(sorted(mono, key=lambda atom: atom.order))
                table[mono] = table.get(mono, 0) + c1 * c2
        const = table.pop((), 0)
        return from_terms(table, const)

    def __rmul__(self, other: int) -> Dim:
        return self * other

    def __floordiv__(self, other: Dim | int) -> Dim:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return canonical.floor_div(self, other if isinstance(other, Dim) else constant(other))

    def __rfloordiv__(self, other: int) -> Dim:
        return constant(other) // self

    def __mod__(self, other: Dim | int) -> Dim:
        return self - (self // other) * other

    def __rmod__(self, other: int) -> Dim:
        return constant(other) % self

    # ------------------------------------------------------------------ queries

    def evaluate(self, bindings: Mapping[str, SupportsIndex]) -> int | None:
        """The integer at these sizes; None when a symbol is not bound or a divisor is zero."""
        try:
            return self._value_at(bindings, {})
        except AttributeError:  # inlined: sizes are read very often
            if isinstance(bindings, Mapping):
                raise
            raise wrong("evaluate takes bindings as a mapping of str to int", bindings)  # noqa: B904

    def _value_at(self, bindings: Mapping[str, SupportsIndex], values: Values) -> int | None:
        """`evaluate`, with a cache of the atoms' values. `values` holds those evaluated, so that shared parts are evaluated
        once.
        """
        total = self.const
        for mono, c in self.terms:
            for atom in mono:
                v = evaluate_atom(atom, bindings, values)
                if v is None:
                    return None
                c *= v
            total += c
        return total

    def subs(self, bindings: Mapping[str, IntoDim]) -> Dim:
        """The expression with symbols replaced by dims or ints (all at once)."""
        if not isinstance(bindings, Mapping):
            raise wrong("subs takes bindings as a mapping of str to int or Dim", bindings)
        if self.free.isdisjoint(bindings):
            return self
        return Substitution(bindings)(self)

    def bounds(self) -> tuple[int | None, int | None]:
        """Lower and upper bound that hold whatever the sizes are (None: unbounded)."""
        return bounds(self) if self.bounds_memo is None else self.bounds_memo

    @property
    def lo(self) -> int | None:
        """Lower bound that always holds, or None."""
        return self.bounds()[0]

    @property
    def hi(self) -> int | None:
        """Upper bound that always holds, or None."""
        return self.bounds()[1]

    def simplify(self, under: Under = ()) -> Dim:
        """The equal form that is cheapest to read. It is equal at all sizes >= 0 that satisfy the conditions `under`.

        >>> Dim("max(height//2, 1)").simplify(under=["height % 8 == 0", "height >= 1"])
        Dim('height//2')

        `under` is a condition or several, as text or `Cond`. A dim for which nothing cheaper is proved is returned as it is.
        """
        found: Dim = surface.offered.simplified([self], under)[0]
        return found

    def z3(self, ctx: Any = None) -> Any:
        """The expression as a Z3 integer term over one ``z3.Int`` per symbol. `ctx` is the Z3 context (default: the main one).

        The term says neither that sizes are at least 0, nor that divisors are not 0.
        """
        return surface.offered.z3(self, ctx)

    @property
    def sympy(self) -> Any:
        """The SymPy expression (imports SymPy on first use)."""
        return surface.offered.sympy(self)

    def _sympy_(self) -> Any:  # SymPy asks for it by this name, in `dim + sympy.Symbol("x")` too
        return surface.offered.sympy(self)

    def eq(self, other: IntoDim) -> Cond:
        """The condition ``self == other``."""
        return conditions.eq(self, other)

    def ge(self, other: IntoDim) -> Cond:
        """The condition ``self >= other``."""
        return conditions.ge(self, other)

    def __str__(self) -> str:
        if self._text is None:
            self._text = surface.offered.text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Dim({str(self)!r})" if self.terms else f"Dim({self.const})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Substitution:
    """Replaces symbols in dims and conditions; results are cached in the object."""

    def __init__(self, bindings: Mapping[str, IntoDim]) -> None:
        self.bindings = {k: as_dim(v) for k, v in bindings.items()}
        self._memo: dict[Any, Any] = {}

    def __call__(self, dim: Dim) -> Dim:
        """`dim` with its symbols replaced."""
        if dim.free.isdisjoint(self.bindings):
            return dim
        found: Dim | None = self._memo.get(dim)
        if found is None:
            found = self._memo[dim] = rebuild(dim, self.atom)
        return found

    def atom(self, atom: Atom) -> Dim:
        """The dim that replaces `atom`."""
        if atom.kind == "sym":
            return self.bindings.get(atom.args[0]) or of_atom(atom)
        if atom.free.isdisjoint(self.bindings):
            return of_atom(atom)
        if atom.kind == "ite":
            cond, a, b = atom.args
            cond = cond.map_dims(self)
            if not cond.args:  # the other branch may have no value here
                return self(a if cond.is_true else b)
            return apply("ite", (cond, self(a), self(b)))
        return apply(atom.kind, tuple(self(a) for a in atom.args))


def rebuild(dim: Dim, replace: Callable[[Atom], Dim]) -> Dim:
    """`dim` with each atom replaced by a dim, in canonical form."""
    table: dict[Monomial, int] = {}
    const, changed = dim.const, False
    for mono, c in dim.terms:
        new = [replace(atom) for atom in mono]
        if all(to.atom is atom for to, atom in zip(new, mono, strict=True)):
            table[mono] = table.get(mono, 0) + c
            continue
        changed = True
        product = constant(c)
        for to in new:
            product = product * to
        const += product.const
        for other, k in product.terms:
            table[other] = table.get(other, 0) + k
    return from_terms(table, const) if changed else dim


def apply(kind: str, args: tuple[Any, ...]) -> Dim:
    """The canonical dim of an operation of this kind (``//``, ``max`` ...) on `args`."""
    if kind == "//":
        return canonical.floor_div(*args)
    if kind == "pos":
        return canonical.pos(args[0])
    if kind == "broadcast":
        return canonical.broadcast(*args)
    return conditions.ite(*args)


def as_dim(value: IntoDim | str) -> Dim:
    """Convert a number, string, or SymPy expression to a dim.

    Raises:
        TypeError: If `value` is not an integer, such as `2.7`.
    """
    if isinstance(value, Dim):
        return value
    if isinstance(value, str):
        parsed: Dim = surface.offered.parsed(value)
        return parsed
    if str(getattr(value, "dtype", "")) == "bool":  # numpy's bool is not an integer to Python
        return constant(int(value))
    if not hasattr(value, "__index__"):
        if hasattr(value, "is_Symbol"):  # SymPy's alone
            read: Dim = surface.offered.from_sympy(value)
            return read
        raise wrong("a size must be an int, a Dim, or a string", value)
    return constant(index(value))


def as_dims(values: Iterable[IntoDim | str]) -> list[Dim]:
    """`as_dim` of each value."""
    return [as_dim(value) for value in values]


def total(dims: Iterable[IntoDim]) -> Dim:
    """Sum of dims."""
    terms: dict[Monomial, int] = {}
    const = 0
    for value in dims:
        d = as_dim(value)
        const += d.const
        for mono, c in d.terms:
            terms[mono] = terms.get(mono, 0) + c
    return from_terms(terms, const)


def product(dims: Iterable[IntoDim]) -> Dim:
    """Product of dims (1 for none): the number of elements of a shape."""
    result: Dim = ONE
    for d in dims:
        result = result * as_dim(d)
    return result


attach(Dim)
ZERO, ONE = constant(0), constant(1)

from . import canonical  # noqa: E402, these build on the definitions above
from . import cond as conditions  # noqa: E402
