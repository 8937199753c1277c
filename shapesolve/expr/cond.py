# compiled: see CONTRIBUTING.md
"""`Cond`: a condition on dims, in canonical form and interned.

A condition is ``true``, ``false``, a relation of a polynomial with zero (``==``, ``!=``, ``>=``), or an
``and`` / ``or`` of conditions. Negation is pushed inwards, so that there is no ``not``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import Any, SupportsIndex, TypeAlias

from ..arguments import wrong
from . import canonical, surface
from .atom import Atom, Values, make_atom
from .core import ONE, ZERO, Dim, IntoDim, Substitution, as_dim, constant, make_dim, of_atom
from .pool import Pool
from .structure import Statement
from .traverse import atoms_of

#: conditions: one or several, as text or as they are
Under: TypeAlias = "str | Cond | Iterable[str | Cond]"


class Cond(Statement):
    """A condition on sizes; made by `eq`, `ne`, `ge`, `le`, `gt`, `lt`, `divides`, `all_of`, `any_of`.

    ``kind`` is one of ``true false == != >= and or``; relations compare ``args[0]`` with zero.
    Equal canonical forms are the same object.
    """

    __slots__ = ()

    def __invert__(self) -> Cond:
        kind, args = self.kind, self.args
        if kind == "==":
            return _relation("!=", args[0])
        if kind == "!=":
            return _relation("==", args[0])
        if kind == ">=":
            return _relation(">=", -args[0] - 1)
        if kind in ("and", "or"):
            return (any_of if kind == "and" else all_of)(~a for a in args)
        return FALSE if self.is_true else TRUE

    def __and__(self, other: Cond) -> Cond:
        return all_of((self, other))

    def __or__(self, other: Cond) -> Cond:
        return any_of((self, other))

    def evaluate(self, bindings: Mapping[str, SupportsIndex]) -> bool | None:
        """Truth at these sizes; None when it depends on a symbol that is not bound."""
        try:
            return self._value_at(bindings, {})
        except AttributeError:  # inlined: sizes are read very often
            if isinstance(bindings, Mapping):
                raise
            raise wrong("evaluate takes bindings as a mapping of str to int", bindings)  # noqa: B904

    def _value_at(self, bindings: Mapping[str, SupportsIndex], values: Values) -> bool | None:
        """`evaluate`, with a cache of the atoms' values."""
        kind = self.kind
        if kind in ("and", "or"):
            settles, is_open = kind == "or", False
            for a in self.args:
                held: bool | None = a._value_at(bindings, values)
                if held is settles:
                    return settles
                is_open = is_open or held is None
            return None if is_open else not settles
        if kind in ("true", "false"):
            return kind == "true"
        value = self.args[0]._value_at(bindings, values)
        if value is None:
            return None
        return bool(value >= 0 if kind == ">=" else (value == 0) == (kind == "=="))

    def map_dims(self, change: Callable[[Dim], Dim]) -> Cond:
        """The condition with `change` applied to each dim in it."""
        if not self.args:
            return self
        if self.kind in ("and", "or"):
            parts = tuple([a.map_dims(change) for a in self.args])
            if parts == self.args:
                return self
            return all_of(parts) if self.kind == "and" else any_of(parts)
        new = change(self.args[0])
        return self if new is self.args[0] else _relation(self.kind, new)

    def subs(self, bindings: Mapping[str, IntoDim]) -> Cond:
        """The condition with symbols replaced by dims or ints."""
        if not isinstance(bindings, Mapping):
            raise wrong("subs takes bindings as a mapping of str to int or Dim", bindings)
        return self if self.free.isdisjoint(bindings) else self.map_dims(Substitution(bindings))

    def z3(self, ctx: Any = None) -> Any:
        """The condition as a Z3 formula over one `z3.Int` per symbol. `ctx` is the Z3 context (default: the main one).

        It is false if the condition has no value because a divisor is 0. It does not state that sizes are at least 0.
        """
        return surface.offered.z3(self, ctx)

    def solved(self) -> tuple[str, Dim] | None:
        """``(symbol, expression)`` when an equality (or its negation) is solved for a symbol."""
        found = solve_for_symbol(self.args[0]) if self.kind in ("==", "!=") else None
        return None if found is None else (found[0].args[0], found[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self.kind, self.args)

    def __str__(self) -> str:
        if self._text is None:
            self._text = surface.offered.text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Cond({str(self)!r})"


def _new(kind: str, args: tuple[Any, ...]) -> Cond:
    cond = Cond()
    cond.kind, cond.args, cond._text, cond._order = kind, args, None, None
    cond.valued = None
    if len(args) == 1:
        cond.free, cond.size = args[0].free, 1 + args[0].size
    else:
        cond.free = frozenset().union(*[a.free for a in args])
        cond.size = 1 + sum([a.size for a in args])
    return cond


_CONDS = Pool(_new)
_recent: dict[tuple[Any, ...], Cond] = _CONDS.recent


def _make(kind: str, args: tuple[Any, ...] = ()) -> Cond:
    key = (kind, args)
    known = _recent.get(key)
    if known is None:
        known = _CONDS.take(key)
    return known


TRUE = _make("true")
FALSE = _make("false")


def truth(value: bool) -> Cond:
    """`TRUE` or `FALSE`."""
    return TRUE if value else FALSE


def _relation(kind: str, d: Dim) -> Cond:
    """The relation of `d` with 0; true or false if bounds or divisibility decide it."""
    if not d.terms:
        c = d.const
        return truth(c >= 0 if kind == ">=" else (c == 0) == (kind == "=="))
    g = gcd(*(c for _, c in d.terms))
    if kind == ">=":
        if g > 1:
            d = make_dim(tuple((m, c // g) for m, c in d.terms), d.const // g)
        lo, hi = d.bounds()
        if lo is not None and lo >= 0:
            return TRUE
        if hi is not None and hi < 0:
            return FALSE
        if hi == 0:
            return _relation("==", d)
        if lo is None and _is_product_of_sizes(d):
            return TRUE
        return _clamped(kind, d) or _unfloored(d) or _make(kind, (d,))
    never = d.const % g != 0
    if not never:
        if g > 1:
            d = make_dim(tuple((m, c // g) for m, c in d.terms), d.const // g)
        if d.terms[0][1] < 0:
            d = -d
        lo, hi = d.bounds()
        never = (lo is not None and lo > 0) or (hi is not None and hi < 0)
    if never:
        return truth(kind == "!=")
    return _clamped(kind, d) or _make(kind, (d,))


def _is_product_of_sizes(d: Dim) -> bool:
    """True if it is an expanded product of factors >= 0: ``batch*boxes - batch*pos(boxes - 10)``."""
    if d.const or len(d.terms) < 2:
        return False
    common = canonical.common_factor(d)
    if not common or any((lo := of_atom(a).lo) is None or lo < 0 for a in common):
        return False
    rest = canonical.exact_quotient(d, make_dim(((common, 1),), 0))
    return rest is not None and rest.lo is not None and rest.lo >= 0


def _unfloored(d: Dim) -> Cond | None:
    """Rewrites ``n//k >= c`` as ``n >= c*k``, ``n//k <= c`` as ``n <= c*k + k - 1``; None for others."""
    if len(d.terms) != 1 or len(d.terms[0][0]) != 1:
        return None
    atom, c = d.terms[0][0][0], d.terms[0][1]
    if atom.kind != "//" or c not in (1, -1):
        return None
    n, k = atom.args[0], atom.args[1].value
    if k is None or k < 1:
        return None
    return _relation(">=", n + d.const * k if c == 1 else (d.const * k + k - 1) - n)


def _clamped(kind: str, d: Dim) -> Cond | None:
    """Rewrites a relation of ``max(x, m)`` or ``min(x, m)`` with 0 as one of x; None for others. m is a number."""
    for mono, c in d.terms:
        if len(mono) != 1 or mono[0].kind != "pos" or c not in (1, -1):
            continue
        if len(d.terms) > 1 and len(mono[0].args[0].terms) != len(d.terms) - 1:
            continue  # neither side is a number
        rest = make_dim(tuple([t for t in d.terms if t[0] != mono]), d.const)
        other = rest + mono[0].args[0].scale(c)
        x, m = (other, rest.const) if not rest.terms else (rest, other.const)
        if rest.terms and other.terms:
            continue
        if kind == ">=":
            return truth(c > 0) if (m >= 0) == (c > 0) else _relation(">=", x)
        if m * c > 0:
            found = FALSE
        elif m == 0:
            found = _relation(">=", x.scale(-c))
        else:
            found = _relation("==", x)
        return found if kind == "==" else ~found
    return None


def eq(a: IntoDim, b: IntoDim) -> Cond:
    """``a == b``."""
    if type(b) is int and type(a) is Dim and not a.terms:
        return TRUE if a.const == b else FALSE
    return TRUE if a is b else _relation("==", as_dim(a) - as_dim(b))


def ne(a: IntoDim, b: IntoDim) -> Cond:
    """``a != b``."""
    return FALSE if a is b else _relation("!=", as_dim(a) - as_dim(b))


def ge(a: IntoDim, b: IntoDim) -> Cond:
    """``a >= b``."""
    if type(b) is int and type(a) is Dim and not a.terms:
        return TRUE if a.const >= b else FALSE
    return TRUE if a is b else _relation(">=", as_dim(a) - as_dim(b))


def le(a: IntoDim, b: IntoDim) -> Cond:
    """``a <= b``."""
    return ge(b, a)


def gt(a: IntoDim, b: IntoDim) -> Cond:
    """``a > b``."""
    return ge(as_dim(a) - 1, b)


def lt(a: IntoDim, b: IntoDim) -> Cond:
    """``a < b``."""
    return ge(as_dim(b) - 1, a)


def divides(k: IntoDim, a: IntoDim) -> Cond:
    """Return `a % k == 0`, which is false if k is the constant 0."""
    k = as_dim(k)
    return FALSE if k.value == 0 else eq(as_dim(a) % k, 0)


def all_of(conds: Iterable[Cond]) -> Cond:
    """Conjunction."""
    return _join("and", conds, TRUE, FALSE)


def any_of(conds: Iterable[Cond]) -> Cond:
    """Disjunction."""
    return _join("or", conds, FALSE, TRUE)


def _join(kind: str, conds: Iterable[Cond], neutral: Cond, absorbing: Cond) -> Cond:
    listed: list[Cond] = []
    for c in conds:
        if c is absorbing:
            return absorbing
        if c is not neutral:
            listed += c.args if c.kind == kind else (c,)
    if len(listed) < 2:
        return listed[0] if listed else neutral
    parts = dict.fromkeys(listed)
    if len(parts) == 1:
        return listed[0]
    kinds = [c.kind for c in parts]
    if ("==" in kinds and "!=" in kinds) or kinds.count(
        ">="
    ) > 1:  # otherwise no member is the negation of another
        for c in parts:
            if c.kind in ("==", "!=", ">=") and ~c in parts and (kind == "and" or has_value(c)):
                return absorbing
    if kind == "or" and "==" in kinds:
        for c in [c for c in parts if c.kind == "=="]:
            solved = c.solved()
            if solved is not None and _implied(solved, (q for q in parts if q is not c)):
                del parts[c]
        if len(parts) == 1:
            return next(iter(parts))
    return _make(kind, tuple(sorted(parts, key=lambda c: c.order)))


def has_value(c: Cond) -> bool:
    """Return True if the condition has a truth value at all sizes, that is, if no divisor in it can be 0."""
    if c.valued is None:
        divisors = (a.args[1] for a in atoms_of(c) if a.kind == "//")
        c.valued = all(d.value != 0 if not d.terms else (d.lo or 0) > 0 for d in divisors)
    return c.valued


def _implied(solved: tuple[str, Dim], others: Iterable[Cond]) -> bool:
    """True if one of the `others`, with the solved value substituted, is true."""
    binding = dict([solved])
    for q in others:
        if solved[0] in q.free and has_value(q):
            try:
                if q.subs(binding).is_true:
                    return True
            except ZeroDivisionError:  # undefined there, so it does not hold there
                continue
    return False


def implies(a: Cond, b: Cond) -> Cond:
    """``b`` wherever ``a`` holds."""
    return any_of((~a, b))


def solve_for_symbol(d: Dim, prefer: Callable[[Atom], Any] | None = None) -> tuple[Atom, Dim] | None:
    """Solves ``d == 0`` for a symbol with coefficient 1 or -1: symbol and value; None without one.

    Among several candidates the largest `prefer` key is eliminated (by default the last name in order).
    """
    alone = [t for t in d.terms if len(t[0]) == 1 and t[0][0].kind == "sym" and t[1] in (1, -1)]
    alone.sort(key=lambda t: t[0][0].args[0] if prefer is None else prefer(t[0][0]), reverse=True)
    for mono, c in alone:
        rest = make_dim(tuple([t for t in d.terms if t[0] != mono]), d.const)
        if mono[0].args[0] not in rest.free:
            return mono[0], rest.scale(-c)
    return None


def ite(cond: Cond, a: Dim, b: Dim) -> Dim:
    """``a if cond else b``."""
    if cond.is_true or a is b:
        return a
    if cond.is_false:
        return b
    solved = cond.solved()
    if solved is not None:  # if the condition fixes a symbol, `a` may be the same as `b` there
        fixed = dict([solved])
        try:
            same = b.subs(fixed) is a.subs(fixed)
        except ZeroDivisionError:  # ite(d == 0, a, n // d)
            same = False
        if same:
            return b if cond.kind == "==" else a
    return of_atom(make_atom("ite", cond, a, b))


def sign(x: Dim) -> Dim:
    """-1, 0 or 1."""
    if x.lo is not None and x.lo >= 1:
        return ONE
    if x.hi is not None and x.hi <= -1:
        return constant(-1)
    return ite(ge(x, 1), ONE, ite(eq(x, 0), ZERO, constant(-1)))


def trunc_div(n: Dim, d: Dim) -> Dim:
    """``n / d`` rounded toward zero, as C and ONNX's integer Div do."""
    if d.hi is not None and d.hi < 0:
        return -trunc_div(n, -d)
    if d.lo is not None and d.lo >= 0:
        if n.lo is not None and n.lo >= 0:
            return canonical.floor_div(n, d)
        up = canonical.minimum(
            canonical.ceil_div(n, d), ZERO
        )  # each quotient once: chains of them stay short
        return canonical.maximum(canonical.floor_div(n, d), up)
    size = canonical.floor_div(canonical.pos(n) + canonical.pos(-n), canonical.pos(d) + canonical.pos(-d))
    return size * sign(n) * sign(d)


def symbols_in(*roots: Dim | Cond) -> dict[str, Dim]:
    """The symbols that `roots` depend on, by name."""
    return {atom.args[0]: of_atom(atom) for atom in atoms_of(*roots) if atom.kind == "sym"}
