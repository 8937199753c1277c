"""`Accepted`: the input sizes that a model accepts, as conditions on input symbols.

The conditions of nodes, assumptions, and users are projected onto the input names: a data-dependent size may have any
value that
satisfies its conditions. `check_inputs`, the contract, generated checkers, `evaluate`, and the explorer are views of
this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from ..expr import (
    TRUE,
    Cond,
    Dim,
    DimTooLarge,
    Substitution,
    all_of,
    any_of,
    ceil_div,
    constant,
    floor_div,
    ge,
    solve_for_symbol,
)
from ..expr.cond import symbols_in
from ..expr.core import from_terms, make_dim
from ..expr.limits import MAX_DIM_SIZE
from ..expr.traverse import outgrows
from .facts import budget
from .facts.facts import Facts
from .facts.log import Stated, all_rows, need

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """Conditions on the input symbols, with the indices of the constraints behind each. The model accepts exactly the
    sizes that satisfy all of
    them.

    `derived` are sizes that are too large to write out and therefore have a name, in terms of inputs and of earlier
    names. `internal` are
    conditions on data that exclude no size by themselves.
    """

    conds: Mapping[Cond, Numbers]
    derived: tuple[tuple[str, Dim], ...] = ()
    internal: Mapping[Cond, Numbers] = field(default_factory=dict)


def find_accepted(constraints: Sequence[Stated], facts: Facts | None, inputs: Collection[str]) -> Accepted:
    """Eliminates generated symbols from the constraints: conditions on the symbols `inputs`. `facts` (which have
    learned them) name sizes in terms of others.
    """
    projection = _Projection(facts or Facts(), frozenset(inputs))
    rows: dict[tuple[Cond, Cond], list[int]] = {}
    stated = all_rows(constraints)
    for number, row in stated.stated():
        if row.role == "definition":
            projection.definitions.add(number)
        if row.role != "declared":
            rows.setdefault((row.cond, row.guard), []).append(number)
    conds: dict[Cond, list[int]] = {}
    for numbers in rows.values():
        conds.setdefault(need(stated.rows[numbers[0]]), []).extend(numbers)
    return projection.of({c: tuple(ns) for c, ns in conds.items() if not c.is_true})


class _Projection:
    def __init__(self, facts: Facts, inputs: frozenset[str]) -> None:
        self.facts, self.inputs = facts, inputs
        self.derived: dict[str, Dim] = {}
        self.definitions: set[int] = set()

    def of(self, conds: Mapping[Cond, Numbers]) -> Accepted:
        """Eliminates all symbols but inputs from `conds`."""
        own: dict[Cond, Numbers] = {}
        data: dict[Cond, Numbers] = {}
        for cond, numbers in self._expressing(conds).items():
            if self.inputs.issuperset(cond.free):
                _add(own, cond, numbers)
                continue
            for part in cond.args if cond.kind == "and" else (cond,):
                _add(own if self.inputs.issuperset(part.free) else data, part, numbers)
        for group in _linked(data, self.inputs):
            self._group(group, own)
        internal = {c: ns for c, ns in conds.items() if not self.inputs.issuperset(c.free)}
        return Accepted(self._needed(own), tuple(self.derived.items()), self._needed(internal))

    def _needed(self, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers]:
        """The conditions that are not only definitions, with the numbers of the constraints that state them."""
        found = {}
        for cond, numbers in conds.items():
            stated = tuple(n for n in numbers if n not in self.definitions)
            if stated and not cond.is_true:
                found[cond] = stated
        return found

    # ------------------------------------------------------------------ sizes that the facts express

    def _expressing(self, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers]:
        """Replaces generated symbols in the conditions by expressions of inputs, where the facts have one."""
        found: dict[Cond, Numbers] = {}
        forms = self._forms(dict.fromkeys(n for c in conds for n in sorted(c.free)))
        used: dict[str, None] = {}
        for cond, numbers in conds.items():
            now, names = cond, [n for n in sorted(cond.free) if n in forms]
            replaced = set[str]()
            if names:
                try:
                    now = cond.map_dims(Substitution({n: forms[n][0] for n in names}))
                    replaced.update(*(forms[n][1] for n in names))
                except (ZeroDivisionError, DimTooLarge):
                    pass
            used.update(dict.fromkeys(sorted(replaced)))
            if not now.is_true:
                if replaced and self.definitions.issuperset(numbers):
                    # sizes that a definition gives depend on the conditions that follow from them
                    numbers = (*numbers, *self.facts.why(replaced))
                _add(found, now, numbers)
        for name in (*used, *self.derived):  # the replacement of a size is a size too
            cond = ge(forms[name][0] if name in forms else self.derived[name], 0)
            if (
                self.facts.symbols[name].lo is not None
                and not cond.is_true
                and self.inputs.issuperset(cond.free)
            ):
                _add(found, cond, tuple(sorted(self.facts.why((name,)))))
        return found

    def _forms(self, names: Iterable[str]) -> dict[str, tuple[Dim, set[str]]]:
        """Return the facts' expression of each generated symbol, and the symbols substituted in it. Large expressions
        become `derived`.
        """
        known = {n: to for n, to in self.facts.substitution.items() if n not in self.inputs}
        forms: dict[str, tuple[Dim, set[str]]] = {}
        stack, met = [n for n in names if n in known], set[str]()
        while stack:
            name = stack[-1]
            inner = sorted(known[name].free & known.keys())
            if name not in met:
                met.add(name)
                stack += [n for n in inner if n not in met]
                continue
            stack.pop()
            if name in forms or name in self.derived:
                continue
            mine = {n: forms[n] for n in inner if n in forms}
            try:
                to = known[name].subs({n: form for n, (form, _) in mine.items()})
            except (ZeroDivisionError, DimTooLarge):
                continue
            if not outgrows(to, MAX_DIM_SIZE):
                forms[name] = to, {name}.union(*(others for _, others in mine.values()))
            elif self.inputs.issuperset(to.free):
                self.derived[name] = to
                self.inputs |= {name}
        return forms

    # ------------------------------------------------------------------ data-dependent sizes

    def _group(self, conds: dict[Cond, Numbers], own: dict[Cond, Numbers]) -> None:
        """Adds conditions on inputs that follow from several conditions with common generated symbols."""
        left: dict[Cond, Numbers] = {}
        about: dict[str, dict[Cond, None]] = {}
        expressed: list[str] = []  # symbols that an equality over inputs alone may define

        def add(cond: Cond, numbers: Numbers) -> None:
            _add(left, cond, numbers)
            unknown = cond.free - self.inputs
            for name in unknown:
                about.setdefault(name, {})[cond] = None
            if cond.kind == "==" and len(unknown) == 1:
                expressed.extend(unknown)

        for cond, numbers in conds.items():
            add(cond, numbers)
        names = dict.fromkeys(sorted(sorted(about), key=lambda n: len(about[n])))
        large = sum(c.size for c in left) > budget.MAX_PROJECTED
        while names:
            # replacements must not grow: first eliminate the symbols that inputs express
            while large and expressed and expressed[-1] not in names:
                expressed.pop()
            name = expressed.pop() if large and expressed else next(iter(names))
            del names[name]
            taken = {c: left.pop(c) for c in about.pop(name, ()) if c in left}
            for cond, numbers in (self._without(name, taken) if taken else {}).items():
                for part in cond.args if cond.kind == "and" else (cond,):
                    if not part.is_true:
                        if self.inputs.issuperset(part.free):
                            _add(own, part, numbers)
                        else:
                            add(part, numbers)

    def _without(self, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers]:
        """Eliminates the symbol `name`: conditions under which some size of it satisfies `conds`."""
        x = symbols_in(*conds)[name]
        try:
            for way in (self._solved, _by_cases, self._by_choices, _by_small_cases):
                found = way(x, name, conds)
                if found is not None:
                    return found
            return _by_bounds(x, name, conds)
        except (ZeroDivisionError, DimTooLarge):
            return {}

    def _solved(self, x: Dim, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers] | None:
        """Elimination of a symbol by an equality that can be solved for it; None without one."""
        found: dict[Cond, Numbers]
        for cond, numbers in conds.items():
            solved = (
                solve_for_symbol(cond.args[0], lambda a: a.args[0] == name) if cond.kind == "==" else None
            )
            if solved is None or solved[0].args[0] != name:
                continue
            to = solved[1]
            if outgrows(to, MAX_DIM_SIZE) and self.inputs.issuperset(to.free):
                self.derived[name] = to
                self.inputs |= {name}
                found = {c: ns for c, ns in conds.items() if c is not cond}
                if x.lo is not None:
                    _add(found, ge(to, x.lo), numbers)
                return found
            found = {}
            if x.lo is not None:
                _add(found, ge(to, x.lo), numbers)
            for other, others in conds.items():
                if other is not cond:
                    _add(found, other.subs({name: to}), (*others, *numbers))
            return found
        return None

    def _by_choices(self, x: Dim, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers] | None:
        """Elimination of a symbol by a case split over the alternatives of a condition; None if too many."""
        alternatives = [c for c in conds if c.kind == "or"]
        if not alternatives or prod(len(c.args) for c in alternatives) > budget.MAX_COMBINED:
            return None
        all_numbers = tuple(sorted(set().union(*conds.values())))
        others = [c for c in conds if c.kind != "or"]
        found = []
        for choice in product(*(c.args for c in alternatives)):
            parts = [p for c in (*others, *choice) for p in (c.args if c.kind == "and" else (c,))]
            about = {p: all_numbers for p in parts if name in p.free and p.kind != "or"}
            left = self._without(name, about) if about else {}
            found.append(all_of((*(p for p in parts if name not in p.free), *left)))
        return {any_of(found): all_numbers}


def _add(conds: dict[Cond, Numbers], cond: Cond, numbers: Iterable[int]) -> None:
    conds[cond] = tuple(sorted({*conds.get(cond, ()), *numbers}))


def _by_cases(x: Dim, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers] | None:
    """Elimination of a symbol by a case split over its values, if these are few."""
    values = _values(x, conds)
    if (
        not values
        or len(conds) > budget.MAX_CONDS
        or sum(c.size for c in conds) * len(values) > budget.MAX_PROJECTED
    ):
        return None
    cases = [all_of(c.subs({name: value}) for c in conds) for value in values]
    return {any_of(cases): tuple(sorted(set().union(*conds.values())))}


def _by_small_cases(x: Dim, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers] | None:
    """Elimination of a symbol from the small conditions only, which loses what the large ones imply. The result is
    weaker, and never wrong.
    """
    values = _values(x, conds)
    kept: dict[Cond, Numbers] = {}
    left = budget.MAX_PROJECTED
    for cond in sorted(conds, key=lambda c: c.size)[: budget.MAX_CONDS]:
        left -= cond.size * len(values)
        if left >= 0:
            kept[cond] = conds[cond]
    return _by_cases(x, name, kept)


def _values(x: Dim, conds: Collection[Cond]) -> range:
    """Return all values of a symbol if there are few, otherwise an empty range."""
    tops = [c.args[0].const for c in conds if c.kind == ">=" and c.args[0] + x is constant(c.args[0].const)]
    if not tops or x.lo is None or min(tops) - x.lo >= budget.MAX_CASES:
        return range(0)
    return range(x.lo, min(tops) + 1)


def _by_bounds(x: Dim, name: str, conds: Mapping[Cond, Numbers]) -> dict[Cond, Numbers]:
    """Elimination of a symbol from bounds: every lower bound is at most every upper bound."""
    ((mono, _),) = x.terms
    lows: list[tuple[Dim, Numbers]] = [] if x.lo is None else [(constant(x.lo), ())]
    highs: list[tuple[Dim, Numbers]] = []
    found: dict[Cond, Numbers] = {}
    for cond, numbers in conds.items():
        for sign in {">=": (1,), "==": (1, -1)}.get(cond.kind, ()):
            left = cond.args[0].scale(sign)
            k = dict(left.terms).get(mono, 0)
            rest = left - x.scale(k)
            if k and name not in rest.free:
                if k > 0:
                    lows.append((ceil_div(-rest, constant(k)), numbers))
                else:
                    highs.append((floor_div(rest, constant(-k)), numbers))
            else:
                _add(found, _at_most(left, name), numbers)
    for (low, below), (high, above) in list(product(lows, highs))[: budget.MAX_COMBINED]:
        _add(found, ge(high, low), (*below, *above))
    return found


def _at_most(dim: Dim, name: str) -> Cond:
    """A condition without the symbol `name` that is necessary for ``dim >= 0``. It uses the upper bound of the summands
    with `name` in them.
    """
    inside = from_terms({m: c for m, c in dim.terms if name in make_dim(((m, 1),), 0).free}, 0)
    return TRUE if inside.hi is None else ge(dim - inside + inside.hi, 0)


def _linked(conds: Mapping[Cond, Numbers], inputs: frozenset[str]) -> Iterator[dict[Cond, Numbers]]:
    """Groups of conditions connected by symbols that are not inputs."""
    by_name: dict[str, list[Cond]] = {}
    for cond in conds:
        for name in cond.free - inputs:
            by_name.setdefault(name, []).append(cond)
    left = dict.fromkeys(conds)
    while left:
        group: dict[Cond, Numbers] = {}
        stack = [next(iter(left))]
        while stack:
            cond = stack.pop()
            if cond in left:
                del left[cond]
                group[cond] = conds[cond]
                stack += [c for name in sorted(cond.free - inputs) for c in by_name[name] if c in left]
        yield group
