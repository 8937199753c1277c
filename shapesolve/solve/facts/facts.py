# compiled: see CONTRIBUTING.md
"""`Facts`: substitutions, bounds, and divisors that follow from the constraints so far, without Z3.

There are three kinds of facts, each with the constraints that cause it: a symbol equals an expression (substitution), a
symbol is in an interval, and an expression is divisible by a constant. Reading a dim through the facts replaces symbols
and simplifies. Conditions that cannot be used yet are watched by their symbols and retried when one of these changes.
Everything is deterministic, and every cause is an index chosen by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd

from ...expr import (
    Atom,
    Cond,
    Dim,
    DimTooLarge,
    all_of,
    any_of,
    constant,
    exact_quotient,
    floor_div,
    ge,
    of_atom,
    rebuild,
    solve_for_symbol,
)
from ...expr.bounds import Interval, KnownIntervals, Memo, bounds
from ...expr.canonical import multiple_in
from ...expr.core import apply
from ...expr.limits import MAX_DEPTH, MAX_ELEM_SIZE
from ...expr.traverse import atoms_of, nesting, outgrows
from . import budget

Causes = frozenset[int]
_NONE: Causes = frozenset()
#: max nesting depth of an expression in which symbols are replaced: reading it is recursive
_DEEPEST = 2 * MAX_DEPTH


class Facts:
    """The facts of one analysis; `version` counts changes after which cached results are stale."""

    def __init__(self) -> None:
        self.version = 0
        self.changed: dict[str, int] = {}
        """The version with which a symbol last changed."""
        self._forget()

    def _forget(self) -> None:
        #: symbols that occur in `substitution` and `intervals`
        self.symbols: dict[str, Dim] = {}
        self.substitution: dict[str, Dim] = {}
        self._values: dict[str, Dim] = {}  # last result for each replaced symbol
        self.intervals = KnownIntervals()
        self.divisors: dict[Dim, int] = {}
        self.causes: dict[str, Causes] = {}
        self.rank: dict[str, int] = {}
        self._watched: dict[str, dict[Cond, Causes]] = {}
        self._queue: list[tuple[Cond, Causes]] = []
        self._memo = Memo()
        self._touched: set[str] = set()
        self._dirty: set[str] = set()
        self._stated: set[Cond] = set()
        self._held: list[tuple[Cond, int]] = []
        #: the constraints that the last rejected condition contradicts
        self.contradiction: Causes = _NONE

    # ------------------------------------------------------------------ reading

    def dim(self, d: Dim) -> Dim:
        """`d` simplified using the facts: symbols substituted, divisions and choices resolved."""
        if not d.terms or self._touched.isdisjoint(d.free):
            return d
        found: Dim | None = self._memo.get(d)
        if found is None:
            leaves = self._leaves(d.free)
            try:
                found = self._simplified(d)
                if found.size > _DEEPEST and nesting(found) > _DEEPEST:
                    found = d
            except DimTooLarge:
                found = d
            self._memo.keep(d, found, leaves)
        return found

    def _leaves(self, names: frozenset[str]) -> Iterable[str]:
        """Return these symbols, each substituted one replaced by the symbols of its expression.

        The expression is cached, so a long chain of replacements is resolved once, and without recursion.
        """
        values, touched, memo = self._values, self._touched, self._memo
        if values.keys().isdisjoint(names):
            return names
        stack = [name for name in names if name in values]
        entered: set[str] = set()
        while stack:
            to = values[stack[-1]]
            if touched.isdisjoint(to.free):
                stack.pop()
            elif stack[-1] in entered or to in memo:
                values[stack.pop()] = self.dim(to)
            else:
                entered.add(stack[-1])
                stack += [name for name in to.free if name in values]
        leaves = {name: None for name in names if name not in values}
        for name in names:
            if name in values:
                leaves.update(dict.fromkeys(values[name].free))
        return leaves

    def cond(self, c: Cond) -> Cond:
        """Return `c` simplified by the facts; true or false if bounds decide it."""
        if self._touched.isdisjoint(c.free):
            return c
        return self._decided(c.map_dims(self.dim))

    def decide(self, c: Cond) -> bool | None:
        """True or False if the facts decide `c`, else None."""
        c = self.cond(c)
        if not c.args:
            return c.is_true
        if c in self._stated or (c.kind == "or" and any(part in self._stated for part in c.args)):
            return True
        return False if c.kind in ("==", "!=", ">=") and ~c in self._stated else None

    def bounds(self, d: Dim) -> Interval:
        """Bounds of `d` under the facts."""
        return bounds(self.dim(d), self.intervals)

    def why(self, names: Iterable[str]) -> Causes:
        """The constraints from which the facts about these symbols (and their substitutes) follow."""
        seen: set[str] = set()
        out: set[int] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            out |= self.causes.get(name, _NONE)
            if name in self.substitution:
                stack += self.substitution[name].free
        return frozenset(out)

    def _simplified(self, d: Dim) -> Dim:
        new = rebuild(d, self._atom)
        if self.divisors and new.terms:
            new = self._use_divisors(new)
        return new

    def _atom(self, atom: Atom) -> Dim:
        if atom.kind == "sym":
            to = self._values.get(atom.args[0])
            return of_atom(atom) if to is None else self.dim(to)
        if self._touched.isdisjoint(atom.free):
            return of_atom(atom)
        if atom.kind == "ite":
            cond, a, b = atom.args
            return apply("ite", (self.cond(cond), self.dim(a), self.dim(b)))
        args = tuple(self.dim(a) for a in atom.args)
        if atom.kind == "pos":
            lo, hi = bounds(args[0], self.intervals)
            if lo is not None and lo >= 0:
                return args[0]
            if hi is not None and hi <= 0:
                return constant(0)
        elif atom.kind == "broadcast":
            for a in args:
                lo = bounds(a, self.intervals)[0]
                if lo is not None and lo > 1:
                    return a
        elif atom.kind == "//" and args[1].value != 0:
            return self._quotient(args[0], args[1])
        return apply(atom.kind, args) if args[-1].value != 0 or atom.kind != "//" else of_atom(atom)

    def _quotient(self, n: Dim, d: Dim) -> Dim:
        k = d.value
        if k is not None and k > 1:
            for base, m in self.divisors.items():
                if m % k == 0:  # (c*base + r)//k = c*(base//k) + r//k
                    c = multiple_in(n, base)
                    if c:
                        whole = floor_div(base, constant(k)).scale(c)
                        return whole + floor_div(n - base.scale(c), d)
            lo, hi = bounds(n, self.intervals)
            if lo is not None and hi is not None and lo // k == hi // k:
                return constant(lo // k)
        found = floor_div(n, d)
        if k is None and found.terms:  # 1//(2*x) is 0 once x is known not to be
            lo, hi = bounds(found, self.intervals)
            if lo is not None and lo == hi:
                return constant(lo)
        return found

    def _use_divisors(self, d: Dim) -> Dim:
        """Replaces ``k*(n//k)`` by ``n`` where k is known to divide n."""
        for mono, c in d.terms:
            for i, atom in enumerate(mono):
                if atom.kind != "//" or atom.args[1].terms:
                    continue
                n, k = atom.args[0], atom.args[1].const
                if k > 0 and gcd(c, k) > 1 and self.is_divisible(n, k):
                    g = gcd(c, k)
                    rest = constant(c // g)
                    for other in (*mono[:i], *mono[i + 1 :]):
                        rest = rest * of_atom(other)
                    term = constant(c)
                    for a in mono:
                        term = term * of_atom(a)
                    return self._use_divisors(d - term + rest * floor_div(n, constant(k // g)))
        return d

    def is_divisible(self, n: Dim, k: int) -> bool:
        """True if the facts imply that k divides n."""
        if exact_quotient(n, constant(k)) is not None:
            return True
        for base, m in self.divisors.items():
            if m % k == 0:
                c = multiple_in(n, base)
                if c and exact_quotient(n - base.scale(c), constant(k)) is not None:
                    return True
        return False

    def _decided(self, c: Cond) -> Cond:
        if c.kind in ("and", "or"):
            parts = tuple([self._decided(part) for part in c.args])
            if parts == c.args:
                return c
            return all_of(parts) if c.kind == "and" else any_of(parts)
        if not c.args:
            return c
        d = c.args[0]
        lo, hi = bounds(d, self.intervals)
        if c.kind == ">=":
            if lo is not None and lo >= 0:
                return all_of(())
            return any_of(()) if hi is not None and hi < 0 else c
        if (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return any_of(()) if c.kind == "==" else all_of(())
        return c

    # ------------------------------------------------------------------ learning

    def introduce(self, name: str) -> None:
        """Registers a symbol; of two equal symbols the one registered first is kept."""
        self.rank.setdefault(name, len(self.rank))

    def assume(self, cond: Cond, cause: int) -> bool:
        """Adds a condition to the facts; False if it contradicts them (which leaves them unchanged)."""
        self._queue.append((cond, frozenset((cause,))))
        for step in range(budget.MAX_ROUNDS):
            if not self._queue:
                self._wake()
            if not self._queue:
                break
            c, causes = self._queue.pop(0)
            if not self._learn(c, causes):
                self._queue.clear()
                self.contradiction = causes | self.why(c.free)
                if step:
                    self._go_back()
                return False
        for c, causes in self._queue:
            self._watch(c, causes)
        self._queue.clear()
        self._held.append((cond, cause))
        return True

    def _go_back(self) -> None:
        """Rebuilds the facts from the conditions that were consistent, after one contradicted them."""
        names, held, contradiction = list(self.rank), self._held, self.contradiction
        self._forget()
        for name in names:
            self.introduce(name)
        for cond, cause in held:
            self.assume(cond, cause)
        self.contradiction = contradiction
        self.version += 1
        self.changed.update(dict.fromkeys(self.changed, self.version))

    def _learn(self, cond: Cond, causes: Causes) -> bool:
        now = self.cond(cond)
        if now.is_true:
            return True
        if now.is_false:
            return False
        if now is not cond:
            causes = causes | self.why(cond.free)
        if now.kind == "and":
            self._queue[:0] = [(c, causes) for c in now.args]
            return True
        if now.kind == "==":
            return self._learn_equal(now, causes)
        if now.kind in (">=", "!="):
            return self._learn_bound(now, causes)
        self._watch(now, causes)
        return True

    def _learn_equal(self, cond: Cond, causes: Causes) -> bool:
        d = cond.args[0]
        solved = solve_for_symbol(d, lambda a: (a.made, self.rank.get(a.args[0], 0)))
        if solved is not None and self._may_replace(*solved):
            return self._substitute(*solved, causes)
        if len(d.terms) == 1:
            self._queue += [(ge(d, 0), causes), (ge(-d, 0), causes)]  # a quotient that is known: n//k == c
        divisor = as_divisibility(d)
        if divisor is not None:
            k, n = divisor
            self.divisors[n] = k * self.divisors.get(n, 1) // gcd(k, self.divisors.get(n, 1))
            for name in n.free:
                self.causes[name] = self.causes.get(name, _NONE) | causes
            self._changed(n.free)
        self._watch(cond, causes)
        return True

    def _may_replace(self, symbol: Atom, to: Dim) -> bool:
        """True if the symbol may be replaced by `to`. Author's names are not replaced by generated symbols, nor any name by
        an expression over the limit.
        """
        if outgrows(to, MAX_ELEM_SIZE):
            return False
        return symbol.made or not any(atom.made for atom in atoms_of(to))

    def _substitute(self, symbol: Atom, to: Dim, causes: Causes) -> bool:
        name, intrinsic = symbol.args[0], symbol.args[1]
        lo, hi = self.intervals.pop(name, (None, None))
        self.symbols[name] = of_atom(symbol)
        causes = causes | self.causes.get(name, _NONE)
        self.substitution[name] = self._values[name] = to
        self.causes[name] = causes
        self._changed((name,))
        for bound in {b for b in (lo, intrinsic) if b is not None}:
            self._queue.append((ge(to, bound), causes))
        if hi is not None:
            self._queue.append((ge(hi - to, 0), causes))
        return True

    def _learn_bound(self, cond: Cond, causes: Causes) -> bool:
        d = cond.args[0]
        if len(d.terms) == 1 and len(d.terms[0][0]) == 1 and d.terms[0][0][0].kind == "sym":
            atom, c = d.terms[0][0][0], d.terms[0][1]
            lo, hi = bounds(of_atom(atom), self.intervals)
            if cond.kind == "!=":
                if c not in (1, -1):
                    return True
                hole = -d.const * c
                new = (hole + 1 if lo == hole else lo, hole - 1 if hi == hole else hi)
                if new == (lo, hi):
                    self._watch(cond, causes)
            elif c > 0:
                edge = -(d.const // c)
                new = (edge if lo is None else max(lo, edge), hi)
            else:
                edge = d.const // -c
                new = (lo, edge if hi is None else min(hi, edge))
            return self._narrow(atom, (lo, hi), new, causes)
        if len(d.terms) == 1 and self._is_positive_product(cond.kind, d):
            self._queue += [(ge(of_atom(a), 1), causes) for a in dict.fromkeys(d.terms[0][0])]
        self._watch(cond, causes)
        return True

    def _is_positive_product(self, kind: str, d: Dim) -> bool:
        """True if the condition states that a product of sizes is not 0. Then none of them is."""
        mono, c = d.terms[0]
        says = d.const == 0 if kind == "!=" else c > 0 and d.const < 0
        return (
            says
            and all((bounds(of_atom(a), self.intervals)[0] or 0) >= 0 and a.kind != "ite" for a in mono)
            and all(bounds(of_atom(a), self.intervals)[0] is not None for a in mono)
        )

    def _narrow(self, symbol: Atom, old: Interval, new: Interval, causes: Causes) -> bool:
        if new == old:
            return True
        lo, hi = new
        if lo is not None and hi is not None and lo > hi:
            return False
        if lo is not None and lo == hi:
            return self._substitute(symbol, constant(lo), causes)
        name: str = symbol.args[0]
        self.symbols[name] = of_atom(symbol)
        self.intervals[name] = new
        self.causes[name] = self.causes.get(name, _NONE) | causes
        self._changed((name,))
        return True

    def _watch(self, cond: Cond, causes: Causes) -> None:
        for name in cond.free:
            self._watched.setdefault(name, {}).setdefault(cond, causes)
        self._stated.add(cond)

    def _changed(self, names: Collection[str]) -> None:
        self.version += 1
        for name in names:
            self.changed[name] = self.version
        self._memo.forget(names)
        self.intervals.forget(names)
        self._touched.update(names)
        self._dirty.update(names)

    def _wake(self) -> None:
        """Tries the conditions that waited for a changed symbol again."""
        names, self._dirty = sorted(self._dirty), set()
        for name in names:
            for cond, causes in list(self._watched.get(name, {}).items()):
                if self.cond(cond) is not cond:
                    for other in cond.free:
                        self._watched.get(other, {}).pop(cond, None)
                    self._stated.discard(cond)
                    self._queue.append((cond, causes))

    def pending(self) -> dict[Cond, Causes]:
        """Conditions that hold but could not be turned into facts, with the constraints that cause each."""
        found = {c: causes for w in self._watched.values() for c, causes in w.items()}
        return {c: found[c] for c in sorted(found, key=lambda c: c.order)}


def as_divisibility(d: Dim) -> tuple[int, Dim] | None:
    """``(k, n)`` when ``d == 0`` says that the constant k divides n."""
    for mono, c in d.terms:
        if len(mono) != 1 or mono[0].kind != "//" or mono[0].args[1].terms:
            continue
        n, k = mono[0].args[0], mono[0].args[1].const
        for sign in (1, -1):
            if c == -sign * k and d is (n - of_atom(mono[0]).scale(k)).scale(sign):
                return k, n
    return None
