"""`Checker`: which requirements are broken at given input sizes, exactly and in microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..expr import Cond, Dim, Substitution
from ..expr.closures import Compiler, Test
from ..propagate.constraint import Constraint, Role
from ..propagate.facts import Facts, is_generated
from ..propagate.log import Stated, all_rows, need
from .completions import Completions

#: input sizes for which it is remembered what they break
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Broken:
    """A requirement that does not hold: `cond` (with its guard as an implication), and who states it."""

    cond: Cond
    constraints: tuple[Constraint, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Labels of the nodes that need it, in graph order."""
        return tuple(dict.fromkeys(c.origin.node for c in self.constraints if c.origin.node))


class Checker:
    """The requirements themselves, compiled: empty inputs are judged as exactly as others.

    A condition on data (on symbols that the inputs do not bind) is evaluated where the facts give the symbol
    in terms of inputs; else it is judged only if its bounds decide it, or if no data could satisfy all such
    conditions together.
    """

    def __init__(
        self,
        constraints: Sequence[Stated],
        facts: Facts | None = None,
        roles: Sequence[Role] = ("requirement", "user", "assumption"),
    ) -> None:
        self.constraints = constraints = all_rows(constraints)
        numbers: dict[tuple[Cond, Cond], list[int]] = {}
        for n, row in constraints.stated():
            if row.role in roles:
                numbers.setdefault((row.cond, row.guard), []).append(n)
        merged: dict[Cond, list[int]] = {}
        for same in numbers.values():
            merged.setdefault(need(constraints.rows[same[0]]), []).extend(same)
        compiler = Compiler(merged)
        self._tests: list[tuple[Test, Cond, list[int]]] = [
            (compiler.test(cond), cond, same) for cond, same in merged.items() if not cond.is_true
        ]
        names = sorted(set().union(*(cond.free for _, cond, _ in self._tests)))
        #: symbols that the facts express by others, used where the caller does not bind them
        self._derived: list[tuple[str, Dim]] = (
            []
            if facts is None
            else [(n, facts.dim(facts.substitution[n])) for n in names if n in facts.substitution]
        )
        ours = {n for n in names if is_generated(n)} - {n for n, _ in self._derived}
        self._on_data: dict[Cond, int] = {}
        for n, row in constraints.stated() if ours else ():
            if (row.role in roles or row.role == "definition") and not ours.isdisjoint(row.cond.free):
                self._on_data.setdefault(need(row), n)
        needs = (*(cond for _, cond, _ in self._tests), *self._on_data)
        self._completions = Completions(needs, compiler) if ours else None
        self._names = sorted(set(names).union(*(cond.free for cond in self._on_data)))
        self._found: dict[tuple[int | None, ...], list[tuple[int, Cond, list[int]]]] = {}

    @property
    def conditions(self) -> list[Cond]:
        """The requirements."""
        return [cond for _, cond, _ in self._tests]

    def violations(self, sizes: Mapping[str, int]) -> list[Constraint]:
        """The first constraint of each requirement that is broken at these sizes; see `broken`."""
        return [b.constraints[0] for b in self.broken(sizes)]

    def broken(self, sizes: Mapping[str, int]) -> list[Broken]:
        """The requirements that are broken at these sizes of input symbols, in graph order; empty when the
        model runs.
        """
        sizes = self._completed(sizes)
        key = tuple([sizes.get(name) for name in self._names])
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _KEPT:
                self._found.clear()
            found = self._found[key] = self._find(sizes)
        numbered = self.constraints.numbered
        return [Broken(cond, tuple(numbered(n) for n in numbers)) for _, cond, numbers in found]

    def forget(self) -> None:
        """Drop what is remembered of sizes seen before."""
        self._found.clear()

    def _find(self, sizes: Mapping[str, int]) -> list[tuple[int, Cond, list[int]]]:
        sizes = dict(sizes)  # compiled parts remember their values by the identity of what they were given
        if self._completions is not None and self._completions.exists(sizes):
            return []
        found: list[tuple[int, Cond, list[int]]] = []
        for test, cond, numbers in self._tests:
            try:
                held: bool | None = test(sizes)
            except (KeyError, ZeroDivisionError):
                held = _judged(cond, sizes)
            if held is False:
                found.append((numbers[0], cond, numbers))
        if self._on_data and not found:
            found = self._contradicted(sizes)
        return sorted(found, key=lambda b: b[0])

    def _contradicted(self, sizes: Mapping[str, int]) -> list[tuple[int, Cond, list[int]]]:
        """The first condition on data that contradicts those before it at these sizes."""
        facts, at_sizes = Facts(), Substitution(sizes)
        for cond, number in self._on_data.items():
            try:
                now = cond.map_dims(at_sizes)
            except ZeroDivisionError:
                continue
            if not facts.assume(now, number):
                return [(number, cond, [number])]
        return []

    def _completed(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        extra = {}
        for name, dim in self._derived:
            if name not in sizes:
                value = dim.evaluate(sizes)
                if value is not None:
                    extra[name] = value
        return {**sizes, **extra} if extra else sizes


def _judged(cond: Cond, sizes: Mapping[str, int]) -> bool | None:
    """Truth of a condition that has a part without a value: what settles it nevertheless."""
    held = cond.evaluate(sizes)
    if held is None and not cond.free <= sizes.keys():
        try:
            left = cond.subs(sizes)
        except ZeroDivisionError:
            return None
        return True if left.is_true else False if left.is_false else None
    return held
