"""`Checker`: finds the requirements that input sizes break, exactly and fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..expr import Cond
from ..expr.closures import Compiler, Test
from ..expr.cond import symbols_in
from ..expr.limits import MAX_CACHED
from .accepted import Accepted, find_accepted
from .facts.constraint import Constraint
from .facts.facts import Facts
from .facts.log import Stated, all_rows


@dataclass(frozen=True, slots=True)
class Broken:
    """A violated requirement: condition (its guard as an implication) and the constraints that state it."""

    cond: Cond
    constraints: tuple[Constraint, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Labels of the nodes that need it, in graph order."""
        return tuple(dict.fromkeys(c.origin.node for c in self.constraints if c.origin.node))


class Checker:
    """Finds the requirements that given input sizes break; empty inputs included."""

    def __init__(
        self,
        constraints: Sequence[Stated],
        facts: Facts | None = None,
        accepted: Accepted | None = None,
    ) -> None:
        self.constraints = constraints = all_rows(constraints)
        if accepted is None:
            names = symbols_in(*(cond for _, row in constraints.stated() for cond in (row.cond, row.guard)))
            accepted = find_accepted(
                constraints, facts, [n for n, known in names.items() if not known.is_made]
            )
        self.accepted = accepted
        compiler = Compiler(accepted.conds)
        self._tests: list[tuple[Test, Cond, Sequence[int]]] = [
            (compiler.test(cond), cond, numbers) for cond, numbers in accepted.conds.items()
        ]
        used = set().union(*(cond.free for cond in accepted.conds))
        #: sizes that others express, used where the caller does not bind them
        self._derived = list(accepted.derived)
        if facts is not None:
            self._derived += [(n, facts.dim(to)) for n, to in facts.substitution.items() if n in used]
        self._names = sorted(used)
        self._about: dict[str, list[int]] = {}  # the tests that read a size
        for number, (_, cond, _) in enumerate(self._tests):
            for name in cond.free:
                self._about.setdefault(name, []).append(number)
        self._found: dict[tuple[int | None, ...], list[tuple[int, Cond, Sequence[int]]]] = {}
        self._last: tuple[int | None, ...] | None = None  # keys of `_found`

    @property
    def conditions(self) -> list[Cond]:
        """The requirements."""
        return [cond for _, cond, _ in self._tests]

    def violations(self, sizes: Mapping[str, int]) -> list[Constraint]:
        """The first constraint of each requirement that is broken at these sizes; see `broken`."""
        return [b.constraints[0] for b in self.broken(sizes)]

    def broken(self, sizes: Mapping[str, int]) -> list[Broken]:
        """The requirements that are violated at these sizes of input symbols, in graph order. Empty when the model runs."""
        sizes = self._completed(sizes)
        key = tuple([sizes.get(name) for name in self._names])
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MAX_CACHED:
                self.forget()
            found = self._found[key] = self._after(key, sizes)
        self._last = key
        numbered = self.constraints.numbered
        return [Broken(cond, tuple(numbered(n) for n in numbers)) for _, cond, numbers in found]

    def forget(self) -> None:
        """Clears the cache of results for earlier sizes."""
        self._found.clear()
        self._last = None

    def _after(
        self, key: tuple[int | None, ...], sizes: Mapping[str, int]
    ) -> list[tuple[int, Cond, Sequence[int]]]:
        """Violations, reusing the result of the previous call if few sizes differ. Only tests that read those are made
        again.
        """
        if self._last is None:
            return self._find(sizes, self._tests)
        changed = [name for name, new, old in zip(self._names, key, self._last, strict=True) if new != old]
        again = {number for name in changed for number in self._about[name]}
        if 2 * len(again) > len(self._tests):
            return self._find(sizes, self._tests)
        conds = {self._tests[number][1] for number in again}
        kept = [b for b in self._found[self._last] if b[1] not in conds]
        return sorted([*kept, *self._find(sizes, [self._tests[n] for n in again])], key=lambda b: b[0])

    def _find(
        self, sizes: Mapping[str, int], tests: Iterable[tuple[Test, Cond, Sequence[int]]]
    ) -> list[tuple[int, Cond, Sequence[int]]]:
        sizes = dict(sizes)  # compiled parts cache their values by the identity of their arguments
        found: list[tuple[int, Cond, Sequence[int]]] = []
        for test, cond, numbers in tests:
            try:
                held: bool | None = test(sizes)
            except (KeyError, ZeroDivisionError):
                held = _judged(cond, sizes)
            if held is False:
                found.append((numbers[0], cond, numbers))
        return sorted(found, key=lambda b: b[0])

    def _completed(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        full = dict(sizes)
        for name, dim in self._derived:
            if name not in full:
                value = dim.evaluate(full)
                if value is not None:
                    full[name] = value
        return full


def _judged(cond: Cond, sizes: Mapping[str, int]) -> bool | None:
    """Truth of a condition with a part that has no value (division by 0), decided by its other parts."""
    held = cond.evaluate(sizes)
    if held is None and not cond.free <= sizes.keys():
        try:
            left = cond.subs(sizes)
        except ZeroDivisionError:
            return None
        return True if left.is_true else False if left.is_false else None
    return held
