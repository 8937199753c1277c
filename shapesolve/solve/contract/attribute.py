# compiled: see CONTRIBUTING.md
"""Attributes contract terms to the requirements that fail exactly when the term fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...expr import Cond, eq
from ...expr.closures import Compiler, Test
from ..cone_of_influence import by_symbol, reached
from ..facts import budget
from ..search import Contradiction, Model, find_model


def needed_by(
    terms: Sequence[Cond], needs: Sequence[Cond], given: Sequence[Cond], granted: Mapping[str, Cond]
) -> dict[Cond, set[Cond]]:
    """Return for each term the requirements in `needs` that fail at sizes that break this term alone.

    Requirements that only fail far from accepted sizes do not count: they are weaker. Terms for which no such size
    was found are
    missing, as are the last of very many terms; their causes are used instead.
    """
    compiler = Compiler()
    links, nodes = by_symbol((*terms, *given)), by_symbol(needs)
    position = {c: i for i, c in enumerate((*terms, *given))}
    tests: dict[Cond, Test] = {}
    found: dict[Cond, set[Cond]] = {}
    work = 0
    for term in terms:
        asked = {c: None for name in sorted(term.free) for c in nodes.get(name, ())}
        if len(asked) == 1:
            found[term] = set(asked)
        if len(asked) < 2:
            continue
        beside = set().union(*(c.free for c in asked))
        around = reached(term.free | beside, links)
        names = beside.union(*(c.free for c in around))
        others = sorted((c for c in around if c is not term), key=position.__getitem__)
        others += [c for n, c in granted.items() if n in names and c is not term]
        work += _work(others)
        if work > budget.MAX_WORKED_ON:
            break
        for c in asked:
            if c not in tests:
                tests[c] = compiler.test(c)
        near = {c: tests[c] for c in asked}
        hits: list[tuple[Model, list[Cond]]] = []
        for point in _points(term, others):
            full = {**dict.fromkeys(beside, 2), **point}  # no condition is about these
            hits.append((full, _broken(near, full)))
        for _ in range(8 if any(broken for _, broken in hits) else 0):
            work += _work(others)
            rest = _model([~term, *others, *(c for _, broken in hits for c in broken)])
            full = {**dict.fromkeys(beside, 2), **rest} if rest else {}
            more = _broken(near, full) if rest else []
            if not more:
                break
            hits.append((full, more))
        enough = _enough(term, [(p, cs) for p, cs in hits if cs], [compiler.test(c) for c in others])
        if enough:
            found[term] = enough
    return found


def _enough(term: Cond, hits: Sequence[tuple[Model, list[Cond]]], tests: Sequence[Test]) -> set[Cond]:
    """Return the requirements that are violated at the sizes a term rejects (`hits`), for each of its parts.

    Sizes next to accepted ones are used if there are any, otherwise all. What is violated at only some of these sizes says
    less than the term: it counts only if nothing is violated at all of them. Sizes of 1, which broadcast, don't count.
    """
    found: set[Cond] = set()
    for part in term.args if term.kind == "and" else (term,):
        own = [(point, broken) for point, broken in hits if part.evaluate(point) is False]
        if len({frozenset(broken) for _, broken in own}) > 1:
            own = [(point, broken) for point, broken in own if _is_next(point, term, tests)] or own
        usual = [set(broken) for point, broken in own if all(point.get(n, 2) > 1 for n in term.free)]
        always = set.intersection(*usual) if usual else set()
        found |= always or {c for _, broken in own for c in broken}
    return found


def _is_next(point: Model, term: Cond, tests: Sequence[Test]) -> bool:
    """True if changing one size of `term` by little makes this point accepted."""
    for name in sorted(term.free):
        for move in range(-budget.NEAR, budget.NEAR + 1):
            there = {**point, name: max(point.get(name, 1) + move, 0)}
            try:
                if term.evaluate(there) and all(test(there) for test in tests):
                    return True
            except (KeyError, ZeroDivisionError):
                continue
    return False


def _work(conds: Sequence[Cond]) -> int:
    """Estimated cost of a search with these conditions. Even a small condition must be learned, and of a large one most
    parts are shared.
    """
    return sum(min(c.size, 40) + 8 for c in conds)


def _broken(tests: Mapping[Cond, Test], point: Model) -> list[Cond]:
    """The conditions that are false at these sizes; those without a value are left out."""
    found = []
    for cond, test in tests.items():
        try:
            if not test(point):
                found.append(cond)
        except (KeyError, ZeroDivisionError):
            continue
    return found


def _model(conds: Sequence[Cond]) -> Model | None:
    try:
        return find_model(conds)
    except Contradiction:
        return None


def _points(term: Cond, others: Sequence[Cond]) -> Iterator[Model]:
    """Sizes that break `term` and none of the others. There is a small one for each of its parts, and variations of these."""
    parts = term.args if term.kind == "and" else (term,)
    nearly = [_model([eq(c.args[0], -1), *others]) if c.kind == ">=" else None for c in parts]
    if None not in nearly:  # just too small, or too large
        starts = [m for m in nearly if m is not None]
    else:
        found = (_model([cond, *others]) for cond in (*(~c for c in parts), term))
        starts = [m for m in found if m is not None]
    compiler = Compiler()
    broken = compiler.test(~term)
    tests = [compiler.test(c) for c in others]
    seen: set[tuple[tuple[str, int], ...]] = set()
    for model in starts:
        given = 0
        for trial in _variations(model, term):
            key = tuple(sorted(trial.items()))
            if key in seen:
                continue
            seen.add(key)
            try:
                if broken(trial) and all(t(trial) for t in tests):
                    yield trial
                    given += 1
            except (KeyError, ZeroDivisionError):
                continue
            if given >= budget.MAX_POINTS:
                break


def _variations(start: Model, term: Cond) -> Iterator[Model]:
    yield start
    moves = (1, -1, 2, -2, 3, 5, 7, 8, 16, 32)
    for name in sorted(term.free):
        value = start.get(name, 1)
        for size in (*range(1, 20), *(value + d for d in moves), value * 2, 100, 1000, 5000):
            if size >= 0:
                yield {**start, name: size}
