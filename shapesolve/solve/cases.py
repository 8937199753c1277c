"""Case splits of queries, without Z3: over alternatives, known products, and symbols with few sizes.

Facts simplify the rest of each case. A case ends if the facts, linear elimination, or the table of a single symbol
find a contradiction,
or if only conditions on single symbols are left, whose smallest solutions are a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..expr import TRUE, Cond, all_of, any_of, eq, ge, of_atom
from ..expr.plain import factors_paired
from ..expr.traverse import atoms_of
from .facts import budget
from .facts.facts import Facts
from .facts.residual import Residue
from .periods import Regular, Solutions
from .search import Contradiction, Model, learned, satisfies, symbol_of


def decide(conds: Sequence[Cond], residue: Residue, regular: Regular) -> Model | None:
    """Search for sizes at which all `conds` hold, by case splits; None if undecided.

    `residue` holds the conditions after simplification by facts; `regular` is kept between queries.

    Raises:
        Contradiction: If there are none.
    """
    names = frozenset[str]().union(*(c.free for c in conds))
    model = _Cases(regular).model(residue, names)
    if model is None:
        return None
    model = {name: model[name] for name in sorted(names) if name in model}
    return model if satisfies(model, conds) else None


class _Cases:
    def __init__(self, regular: Regular) -> None:
        self.regular = regular
        self.cases, self.size = budget.MAX_CASES, budget.MAX_CHEAP_SIZE

    def model(self, residue: Residue, names: Iterable[str]) -> Model | None:
        """A model of the facts and the residual conditions, with sizes for these names. Raises `Contradiction`."""
        self.cases -= 1
        conds = _open(residue.conds)
        units = [c for c in conds if c.kind != "or" and c not in residue.conds]
        if units:  # the facts have not learned them yet
            model = self._tried([all_of(units)], conds)
        else:
            model = self._split(conds, residue.facts)
        return None if model is None else _completed(model, residue, names)

    def _split(self, conds: Sequence[Cond], facts: Facts) -> Model | None:
        by_name: dict[str, list[Cond]] = {}
        several: list[Cond] = []
        for c in conds:
            if len(c.free) == 1:
                by_name.setdefault(next(iter(c.free)), []).append(c)
            else:
                several.append(c)
        found = {name: self._sizes(name, group, facts) for name, group in by_name.items()}
        if not several:
            if None in found.values():
                return None
            return {name: int(s.sizes[0]) for name, s in found.items() if s is not None}
        self.size -= sum(c.size for c in conds)
        if self.size <= 0:
            return None
        plainer = self._paired(conds, by_name, facts)
        if plainer != conds:
            return self._tried([TRUE], plainer)
        branches = _branches(several, found, facts)
        if branches is not None:
            return self._tried(branches, conds) if len(branches) <= self.cases else None
        try:
            return self._tried(_guesses(several, facts), conds)
        except Contradiction:  # a wrong guess implies nothing
            return None

    def _paired(
        self, conds: Sequence[Cond], by_name: Mapping[str, Sequence[Cond]], facts: Facts
    ) -> Sequence[Cond]:
        """Replaces equations of products by equations of their factors. The factors must be known not to be 0."""

        def holds(need: Cond) -> bool:
            if facts.cond(need).is_true:
                return True
            name = next(iter(need.free))
            alone = by_name.get(name, ())
            lo, _ = facts.bounds(symbol_of(name, (need,)))
            return (
                len(need.free) == 1 and lo is not None
                and self.regular.same([*alone, need], alone, name, lo) is True
            )  # fmt: skip

        found: list[Cond] = []
        for c in conds:
            pairs, needs = factors_paired(c) or ((), ())
            found += pairs if pairs and all(map(holds, needs)) else (c,)
        return found

    def _sizes(self, name: str, conds: Sequence[Cond], facts: Facts) -> Solutions | None:
        """The sizes of a symbol that the conditions on it alone allow. Raises `Contradiction` when there are none."""
        lo, _ = facts.bounds(symbol_of(name, conds))
        found = None if lo is None else self.regular.solutions(conds, name, lo)
        if found is not None and not len(found.sizes):
            raise Contradiction
        return found

    def _tried(self, branches: Iterable[Cond], conds: Sequence[Cond]) -> Model | None:
        """A model of the first case that has one; None if none is found. Raises `Contradiction` when none of them has one."""
        undecided = False
        names = frozenset[str]().union(*(c.free for c in conds))
        for branch in branches:
            if self.cases <= 0 or self.size <= 0:
                return None
            try:
                model = self.model(Residue(learned([branch, *conds])), names)
            except Contradiction:
                continue
            if model is not None:
                return model
            undecided = True
        if undecided:
            return None
        raise Contradiction


def _open(conds: Iterable[Cond]) -> list[Cond]:
    """Simplifies alternatives by the other conditions: drops members that these exclude. Raises `Contradiction` when no member
    is left.
    """
    stated = {c for c in conds if c.kind != "or"}
    left = []
    for c in conds:
        if c.kind == "or":
            if any(a in stated or (a.kind == "and" and stated.issuperset(a.args)) for a in c.args):
                continue
            c = any_of(a for a in c.args if a.kind in ("and", "or") or ~a not in stated)
            if c.is_false:
                raise Contradiction
        left.append(c)
    return left


def _completed(model: Mapping[str, int], residue: Residue, names: Iterable[str]) -> Model:
    """Extends a model by symbols that nothing restricts, and by those that the facts substitute."""
    facts = residue.facts
    full = dict(model)
    replaced = facts.substitution
    for name in sorted(set(names).union(*(facts.dim(to).free for to in replaced.values()))):
        if name not in replaced:
            full.setdefault(name, 2)
    return residue.complete(full)


def _branches(
    several: Sequence[Cond], found: Mapping[str, Solutions | None], facts: Facts
) -> Sequence[Cond] | None:
    """The available case split with the fewest cases; None without one."""
    options: list[Sequence[Cond]] = [c.args for c in several if c.kind == "or"]
    options += [split for c in several if (split := factor_pairs(c, facts)) is not None]
    for name in sorted(frozenset[str]().union(*(c.free for c in several))):
        known = found.get(name)
        if known is not None and not known.endless and len(known.sizes) <= budget.MAX_CASES:
            options.append([eq(symbol_of(name, several), int(size)) for size in known.sizes])
    if not options or min(map(len, options)) > 2:
        options += [split for c in several for split in _choices(c)]
    return min(options, key=len, default=None)


def _guesses(several: Sequence[Cond], facts: Facts) -> list[Cond]:
    """Cases for one symbol: small sizes from its lower bound on. The others follow, or are guessed next."""
    least: dict[str, int] = {}
    for name in sorted(frozenset[str]().union(*(c.free for c in several))):
        lo, _ = facts.bounds(symbol_of(name, several))
        if lo is not None:
            least[name] = lo
    if not least:
        return []
    name = max(least, key=lambda n: least[n])
    return [eq(symbol_of(name, several), least[name] + more) for more in range(3)]


def factor_pairs(cond: Cond, facts: Facts) -> list[Cond] | None:
    """Case split of ``c*a*b + d*a + e*b + f == 0`` by factor pairs; None for other conditions. It is ``(c*a + e)*(c*b +
    d) == d*e - c*f``: one way for each way to write that number as a product. None for a condition of another form.
    """
    if cond.kind != "==":
        return None
    terms = dict(cond.args[0].terms)
    pairs = [mono for mono in terms if len(mono) == 2]
    if len(pairs) != 1 or pairs[0][0] is pairs[0][1]:
        return None
    a, b = pairs[0]
    c, d, e = terms.pop((a, b)), terms.pop((a,), 0), terms.pop((b,), 0)
    number = d * e - c * cond.args[0].const
    if terms or abs(number) > budget.MAX_FACTORED:
        return None
    first, second = of_atom(a).scale(c) + e, of_atom(b).scale(c) + d
    if not number:
        return [eq(first, 0), eq(second, 0)]
    cases = []
    for factor in _divisors(abs(number)):
        for signed in (factor, -factor):
            way = facts.cond(all_of((eq(first, signed), eq(second, number // signed))))
            if not way.is_false:
                cases.append(way)
    return cases


def _divisors(number: int) -> list[int]:
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def _choices(cond: Cond) -> Iterable[tuple[Cond, Cond]]:
    """Tests of if-then-else, `max(x, 0)` and broadcast terms inside a condition, each with its opposite."""
    for atom in atoms_of(cond):
        test = (
            atom.args[0] if atom.kind == "ite"
            else ge(atom.args[0], 0) if atom.kind == "pos"
            else eq(atom.args[0], 1) if atom.kind == "broadcast"
            else None
        )  # fmt: skip
        if test is not None:
            yield test, ~test
