"""`Bindings`: symbols that the constraints force to one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arguments import checked
from ..expr import Cond, Dim, ne, symbol
from .facts import budget
from .facts.facts import Facts
from .facts.log import ConstraintSet, Stated
from .facts.residual import Residue

if TYPE_CHECKING:
    from .facts.constraint import Constraint


class Reason(NamedTuple):
    """Reason for the only size of a symbol: an assumption (None if the size is forced) and the constraints behind it."""

    assumption: str | None
    constraints: tuple[Constraint, ...]


def find_bindings(
    constraints: Sequence[Stated], facts: Facts, symbols: Iterable[Dim], broadcast: str = "named"
) -> Bindings:
    """The bindings of these input symbols, in a broadcast mode (``strict``, ``named`` or ``equal``)."""
    return Bindings(Residue(facts, constraints), symbols, broadcast)


class Bindings(Mapping[str, int]):
    """Maps each symbol that can have only one size to that size.

    A symbol that must be 64 or 1 is bound to 64 under the assumption that it is not 1 (`why` says so), unless
    `mode` is ``"strict"``. Such bindings inform; shapes are not changed by them.
    """

    def __init__(self, residue: Residue, symbols: Iterable[Dim], mode: str = "named") -> None:
        self._residue = residue
        self._constraints: Any = residue.constraints
        self._sizes: dict[str, int] = {}
        self._assumed: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, frozenset[int]] = {}
        facts = residue.facts
        known = {n: d for d in symbols for n in d.free}
        self._made = {n for n, d in known.items() if d.is_made}
        wanted = sorted(known)
        for name in wanted:
            to = facts.substitution.get(name)
            value = None if to is None else facts.dim(to).value
            if value is not None:
                causes = facts.why((name,))
                self._bind(name, value, causes, self._granted(causes))
        open_conds = [(c, causes) for c, causes in residue.conds.items() if not c.is_false]
        for _ in range(budget.MAX_ROUNDS):
            if not self._chain(open_conds, set(wanted), mode):
                break
        self._inherit(wanted)

    def _bind(self, name: str, value: int, numbers: frozenset[int], assumed: tuple[str, ...] = ()) -> None:
        self._sizes[name] = value
        self._numbers[name] = numbers
        if assumed:
            self._assumed[name] = assumed

    def _granted(self, numbers: Iterable[int]) -> tuple[str, ...]:
        stated = self._residue.constraints
        found = [n for n in sorted(numbers) if stated.rows[n].role == "assumption"]
        return tuple(dict.fromkeys(stated.numbered(n).assumption for n in found))

    def _chain(self, conds: list[tuple[Cond, frozenset[int]]], wanted: set[str], mode: str) -> bool:
        """Binds symbols by conditions on one symbol, which can bind further ones. True if anything changed."""
        univariate: dict[str, list[tuple[Cond, frozenset[int], tuple[str, ...]]]] = {}
        for c, causes in conds:
            bound = sorted(n for n in c.free if n in self._sizes)
            try:
                now = c.subs({n: self._sizes[n] for n in bound}) if bound else c
            except ZeroDivisionError:  # a condition without a value implies nothing
                continue
            if len(now.free) == 1:
                (name,) = now.free
                univariate.setdefault(name, []).append((now, causes, tuple(bound)))
        changed = False
        for name, found in sorted(univariate.items()):
            if name in wanted and name not in self._sizes:
                changed |= self._bind_by_cases(name, found, mode)
        return changed

    def _bind_by_cases(
        self, name: str, found: list[tuple[Cond, frozenset[int], tuple[str, ...]]], mode: str
    ) -> bool:
        lists = [listed for c, _, _ in found if (listed := listed_sizes(c, name))]
        if not lists:
            return False
        cases = set.intersection(*lists)
        left = [
            v
            for v in sorted(cases)
            if v >= 0 and all(c.evaluate({name: v}) is not False for c, _, _ in found)
        ]
        numbers = frozenset[int]().union(*(causes for _, causes, _ in found))
        before = {b for _, _, bound in found for b in bound}
        texts = {text: None for b in sorted(before) for text in self._assumed.get(b, ())}
        texts |= dict.fromkeys(self._granted(numbers))
        numbers = numbers.union(*(self._numbers[b] for b in before))
        if len(left) == 2 and 1 in left:
            if mode == "strict" or name in self._made:
                return False
            left.remove(1)
            texts[str(ne(symbol(name), 1))] = None
        if len(left) != 1:
            return False
        self._bind(name, left[0], numbers, tuple(texts))
        return True

    def _inherit(self, wanted: list[str]) -> None:
        """Binds symbols whose expression (by the facts) has only bound symbols."""
        facts = self._residue.facts
        for name in wanted:
            to: Dim | None = facts.substitution.get(name)
            if name in self._sizes or to is None:
                continue
            now = facts.dim(to)
            value = now.evaluate(self._sizes)
            if value is not None:
                texts = dict.fromkeys(text for n in sorted(now.free) for text in self._assumed.get(n, ()))
                numbers = facts.why((name,)).union(*(self._numbers[n] for n in now.free))
                texts |= dict.fromkeys(self._granted(numbers))
                self._bind(name, value, numbers, tuple(texts))

    def __reduce__(self) -> tuple[Any, ...]:
        return _bindings, (self._sizes, self._assumed, {name: self.why(name).constraints for name in self})

    def __getitem__(self, name: str) -> int:
        return self._sizes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._sizes))

    def __len__(self) -> int:
        return len(self._sizes)

    @checked
    def why(self, name: str) -> Reason:
        """The assumption (or None) and the constraints that bind `name`. Raises `KeyError` for an unbound
        symbol.
        """
        if name not in self._sizes:
            raise KeyError(name)
        assumption = " and ".join(self._assumed.get(name, ())) or None
        return Reason(assumption, tuple(self._constraints.numbered(n) for n in sorted(self._numbers[name])))

    @property
    def assumed(self) -> Mapping[str, str]:
        """Bindings that depend on an assumption, by symbol."""
        return {name: " and ".join(texts) for name, texts in sorted(self._assumed.items())}

    def __repr__(self) -> str:
        return f"Bindings({dict(self)!r})"


def _bindings(
    sizes: dict[str, int],
    assumed: dict[str, tuple[str, ...]],
    causes: Mapping[str, tuple[Constraint, ...]],
) -> Bindings:
    made = Bindings.__new__(Bindings)
    made._sizes, made._assumed = sizes, assumed
    made._constraints = ConstraintSet(tuple(c for found in causes.values() for c in found))
    ends = [0, *accumulate(len(found) for found in causes.values())]
    made._numbers = {
        name: frozenset(range(a, b)) for name, (a, b) in zip(causes, pairwise(ends), strict=True)
    }
    return made


def listed_sizes(c: Cond, name: str) -> set[int] | None:
    """Return the sizes that a condition on one symbol allows, or None if it is not a list of sizes."""
    if c.kind == "==":
        solved = c.solved()
        if solved is not None and solved[0] == name and solved[1].value is not None:
            return {solved[1].const}
        return None
    if c.kind == "or":
        sizes: set[int] = set()
        for part in c.args:
            listed = listed_sizes(part, name)
            if listed is None:
                return None
            sizes |= listed
        return sizes
    if c.kind == "and":
        for part in c.args:
            listed = listed_sizes(part, name)
            if listed is not None:
                return listed
    return None
