"""Ambiguities: broadcasts of two sizes that may be equal or 1, undecided by the constraints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, Dim, broadcast, eq, ge, le, symbol
from ..expr.traverse import atoms_of
from .cone_of_influence import by_symbol, nearby
from .engine import Engine
from .facts import budget
from .facts.facts import Facts
from .facts.log import Stated
from .facts.residual import Residue
from .groups import group_of, grouped
from .search import Model
from .simplify.simplifier import short_form

if TYPE_CHECKING:
    from .contract.contract import Contract
    from .engine import Engine
    from .facts.constraint import Constraint, Site
    from .facts.facts import Facts


class StaleShape(NamedTuple):
    """Declared sizes of a tensor that are wrong at some accepted sizes: condition and constraints."""

    cond: Cond
    rows: Sequence[Constraint]

    @property
    def sites(self) -> list[Site]:
        """The dims that have these declared sizes."""
        return [site for row in self.rows for site in row.origin.sites]


def find_stale_shapes(
    declared: Iterable[Constraint], facts: Facts, contract: Contract, names: Set[str], engine: Engine
) -> list[StaleShape]:
    """Declared sizes that are wrong at some accepted sizes of the inputs `names`. None of these sizes is 0 and none very
    large.
    """
    rows: dict[Cond, list[Constraint]] = {}
    for row in declared:
        cond = facts.cond(row.cond)
        if row.origin.sites and row.guard.is_true and cond.free and cond.free <= names:
            rows.setdefault(cond, []).append(row)
    known = [t.cond for t in (*contract.terms, *contract.assumed)]
    known += [eq(symbol(name), dim) for name, dim in contract.derived]
    near = [bound for d in map(symbol, names) for bound in (ge(d, 1), le(d, budget.SMALL_DOMAINS[1]))]
    asked = list(rows)[: budget.MAX_QUERIES]
    return [StaleShape(c, rows[c]) for c in asked if engine.satisfiable([~c, *known, *near]).sat]


def sharing_memory(stale: Iterable[StaleShape], outputs: Collection[str]) -> list[StaleShape]:
    """Return stale shapes of tensors whose memory onnxruntime shares. Graph outputs have their own memory."""
    return [d for d in stale if any(site.tensor not in outputs for site in d.sites)]


#: two dims that a node broadcasts against each other, the node's label and its operator
OpenPair = tuple[Dim, Dim, str, str]


class Case(NamedTuple):
    """One possible case of an ambiguous broadcast: condition, resulting size, example sizes."""

    cond: Cond
    result: Dim
    example: Mapping[str, int]

    def __str__(self) -> str:
        return str(self.cond)


class Ambiguity(NamedTuple):
    """An ambiguous broadcast: two sizes, possible cases, nodes, and an assumption that decides it."""

    pair: tuple[Dim, Dim]
    cases: tuple[Case, ...]
    sites: tuple[str, ...]
    suggestion: str

    def __repr__(self) -> str:
        return f"Ambiguity({self})"

    def __str__(self) -> str:
        a, b = self.pair
        first, count = self.sites[0], len(self.sites)
        where = f"at {first}" if count == 1 else f"at {count} nodes (first {first})"
        options = []
        for case in self.cases:
            one = a if case.cond is eq(a, 1) else b
            options.append("equal" if case.cond is eq(a, b) else f"{one} is 1")
        return f"broadcast `{a}` against `{b}` is open {where}: {', or '.join(options)}"


def find_ambiguities(
    opens: Iterable[OpenPair],
    constraints: Sequence[Stated],
    facts: Facts,
    rlimit: int = budget.RLIMIT,
    *,
    strict: bool = False,
) -> tuple[Ambiguity, ...]:
    """Return the broadcast pairs that the constraints leave undecided, one per distinct pair, in graph order.

    A size against a constant gives the constant either way; it is only listed if `strict`. A pair that is decided in
    each case of an
    earlier pair is not listed; its nodes are added to that pair.
    """
    residue, engine = Residue(facts, constraints), Engine(rlimit)
    examples = _Examples(residue)
    pairs: dict[frozenset[Dim], tuple[Dim, Dim]] = {}
    sites: dict[frozenset[Dim], dict[str, None]] = {}
    seen: dict[tuple[Dim, Dim], frozenset[Dim] | None] = {}
    for first, second, node, _ in opens:
        known = (first, second)
        if known not in seen:
            a, b = facts.dim(first), facts.dim(second)
            seen[known] = key = None if _is_settled(a, b, strict) else frozenset((a, b))
            if key is not None:
                pairs.setdefault(key, (a, b))
        key = seen[known]
        if key is not None:
            sites.setdefault(key, {})[node] = None
    groups = grouped(pairs.values())
    for key, pair in list(pairs.items()):
        group = group_of(pair, groups)
        if group is not None:  # one for all of its pairs
            first, *others = sorted(group, key=str)
            one = (first, broadcast(*others))
            pairs.setdefault(frozenset(one), one)
            if frozenset(one) != key:
                sites.setdefault(frozenset(one), {}).update(sites.pop(key))
                del pairs[key]
    found: dict[frozenset[Dim], Ambiguity] = {}
    links = by_symbol(residue.conds)
    about: dict[str, list[frozenset[Dim]]] = {}
    for key, (a, b) in pairs.items():
        cases = _possible_cases(a, b, residue, links, engine, examples)
        if len(cases) > 1 and not _always_equal(a, b, engine):
            names = a.free | b.free
            near = dict.fromkeys(
                k for name in sorted(names) for k in about.get(name, ())[: budget.MAX_PROOFS]
            )
            root = next((k for k in near if _settles(found[k], a, b)), None)
            if root is not None:
                sites[root].update(sites[key])
                continue
            equal = next((c for c in cases if c.cond is eq(a, b)), cases[0])
            found[key] = Ambiguity((a, b), tuple(cases), (), str(equal.cond))
            for name in sorted(names):
                about.setdefault(name, []).append(key)
    return tuple(known._replace(sites=tuple(sites[key])) for key, known in found.items())


def _always_equal(a: Dim, b: Dim, engine: Engine) -> bool:
    """True if two sizes, at least one a choice, are proved equal; only few symbols are tried."""
    cond = eq(a, b)
    chosen = any(atom.kind == "ite" for atom in atoms_of(cond))
    return chosen and len(cond.free) <= 3 and short_form(cond, engine).is_true


def _settles(earlier: Ambiguity, a: Dim, b: Dim) -> bool:
    """True if deciding an earlier ambiguity, either way, also decides the pair `a`, `b`."""
    for case in earlier.cases:
        facts = Facts()
        if not facts.assume(case.cond, 0) or not _is_settled(facts.dim(a), facts.dim(b), strict=False):
            return False
    return True


def _is_settled(a: Dim, b: Dim, strict: bool) -> bool:
    if a is b or a.value == 1 or b.value == 1:
        return True
    return (a.value is not None or b.value is not None) and not strict


def _possible_cases(
    a: Dim, b: Dim, residue: Residue, links: Mapping[str, Sequence[Cond]], engine: Engine, examples: _Examples
) -> list[Case]:
    """The cases of an ambiguous pair that the constraints do not exclude."""
    cases = []
    near = [] if engine.is_spent else nearby(a.free | b.free, links)
    for cond, result in ((eq(a, b), a), (eq(a, 1), b), (eq(b, 1), a)):
        if residue.facts.cond(cond).is_false:
            continue
        different = () if cond is eq(a, b) else (~eq(a, b),)
        answer = engine.satisfiable([cond, *different, *near], cheap=True)
        if not answer.unsat:
            cases.append(Case(cond, result, {} if answer.model is None else examples.checked(answer.model)))
    return cases


class _Examples:
    """Completes example sizes for cases and checks them, within a budget."""

    def __init__(self, residue: Residue) -> None:
        self.residue, self.left = residue, budget.MAX_SEARCH_WORK

    def checked(self, model: Model) -> Mapping[str, int]:
        """The model with all sizes that follow from it; empty if these break a constraint."""
        if self.left <= 0:
            return {}
        self.left -= len(self.residue.stated)
        sizes = self.residue.complete(model)
        return {} if self.residue.violates(sizes) else sizes
