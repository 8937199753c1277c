"""Sizes that are shown: typical ones, those nearest to rejected ones, and which of them to propose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, eq, le, symbol
from ..expr.sizes import sizes_text
from ..lines import join_names
from ..solve.cone_of_influence import cone
from ..solve.facts.budget import SMALL_DOMAINS

if TYPE_CHECKING:
    from ..solve.search import Model
    from ..solve.sizes import SizeFinder
    from .solved import Solved


#: an image side or a sequence above it is shown only if the model does not run with a smaller one
_, LARGEST = SMALL_DOMAINS


class Typical(NamedTuple):
    """Typical sizes of a model, and the conditions and the minimum size of similar ones."""

    sizes: Model
    conds: tuple[Cond, ...]
    least: int


def typical(
    solved: Solved, fixed: Mapping[str, int] | None = None, also: Sequence[Cond] = ()
) -> Typical | None:
    """Return typical sizes that run, or None if none were found.

    Names that stand for the same have equal sizes (224 x 224 before 448 x 112), and nothing is above 4,096
    unless the model does not run with smaller sizes. Sizes in the scope of the contract come first, at which nothing runs only
    because an axis of 1 broadcasts, and those at which the outputs are as declared.

    Args:
        solved: The model.
        fixed: Sizes that stay.
        also: Conditions that the sizes satisfy too.
    """
    if solved.nothing_runs:
        return None
    certain = {n: v for n, v in solved.fixed_sizes.items() if n in solved.symbols}
    stay = {**certain, **(fixed or {})}
    start = {n: v for n, v in solved.bindings.items() if n in solved.symbols} | stay
    outputs = {name for name, _ in solved.model.graph.outputs}
    stale = [d for d in solved.stale_shapes if any(site.tensor in outputs for site in d.sites)]
    whole = solved.contract.usual.whole
    large: Typical | None = None
    plain, tied = tuple(also), (*also, *whole.sizes, *whole.equal)
    stages = (((*also, *whole.conds), 1), (tied, 1), (tied, 0), (plain, 1), (plain, 0))
    for conds, least in dict.fromkeys(stages):
        if large is not None and (conds, least) == stages[-1]:
            break
        for declared in dict.fromkeys((tuple(d.cond for d in stale), ())):
            equal = [eq(symbol(n), v) for n, v in stay.items()]
            finder = solved.finder([*conds, *declared, *equal], floor=least)
            found = _typical(finder, start)
            if found is not None and not _large(found, {**finder.usual, **start}):
                return Typical(found, conds, least)
            if found is not None and large is None:
                large = Typical(found, conds, least)
    return large


def _typical(finder: SizeFinder, known: Mapping[str, int]) -> Model | None:
    starts = [{n: known.get(n, size) for n, size in at.items()} for at in finder.roles.starts()]
    for start in starts:
        if all(c.evaluate(start) is not False for c in finder.roles.usual) and finder.accepts(start):
            return start
    found = finder.nearest(starts[0])
    large = _large(found or {}, starts[0])
    if large:
        found = finder.with_(le(symbol(n), LARGEST) for n in large).nearest(starts[0]) or found
    return (found and finder.rounder(found, starts[0])) or found


def _large(sizes: Model, usual: Mapping[str, int]) -> list[str]:
    return [n for n, size in sizes.items() if size > max(LARGEST, usual.get(n, 0))]


def near(solved: Solved, sizes: Mapping[str, int], assume: Sequence[Cond | str] = ()) -> list[Model]:
    """Return accepted sizes to propose instead of the given ones, best first, under the conditions in `assume`.

    A name without a given size that must follow a given one of the same role becomes equal to it, at round sizes near the
    given one. Otherwise, the nearest sizes are returned.
    """
    given = {n: size for n, size in sizes.items() if n in solved.symbols}
    finder = solved.finder(floor=1)
    for group in _followers(finder, given):
        start = {**given, **dict.fromkeys(group, next(given[n] for n in group if n in given))}
        beside = nearest(finder, start)
        equal = {s: at if at and len({at[n] for n in group}) == 1 else None for s, at in beside.items()}
        if any(equal.values()):
            return [finder.rounder(at, start) or at for at in _closest(equal, given)]
    return _closest(solved.nearest(given, assume), given)


def _followers(finder: SizeFinder, given: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Yield groups of names of one role if some of them were given and the others depend on these."""
    for group in finder.roles.alike:
        tied = {n for c in cone(group[:1], finder.conds) for n in c.free}
        if given.keys() & {*group} and not given.keys() >= {*group} and tied & {*group[1:]}:
            yield group


def nearest(finder: SizeFinder, given: Mapping[str, int]) -> dict[str, Model | None]:
    """Return the accepted sizes nearest to the given ones, below and above them; both are the same if sizes must move
    in different directions. Names that were not given may have any size.
    """
    found: dict[str, Model | None] = {
        "below": finder.nearest(given, "below"),
        "above": finder.nearest(given, "above"),
    }
    if not any(found.values()):
        both = finder.nearest(given)
        found = {"below": both, "above": both}
    return found


def data_conditions(solved: Solved, sizes: Mapping[str, int]) -> list[str] | None:
    """Return the conditions that depend on data at these sizes, each with the meaning of its names. None if the sizes are
    refused.
    """
    if not solved.contract.internal:
        return []
    bound = solved.again(bind={**solved.request.bind, **sizes})
    if bound.stuck or bound.contract.impossible:
        return None
    reasons = bound.lowered.reasons
    named = [
        (t.text, [f"{n}: {reasons[n]}" for n in t.symbols if n in reasons]) for t in bound.contract.internal
    ]
    return [f"{text}  ({', '.join(meant)})" if meant else text for text, meant in named]


def sizes_help(
    near: Sequence[Model], given: Mapping[str, int], conds: Sequence[Cond], finder: SizeFinder
) -> str:
    """Return the help line with sizes that run: "use height = 96 or height = 112"; empty if there are none.

    Each is followed by a rounder one if there is one: "or 480320 (round)". Names without a given size are listed if `conds` tie
    them to a size that changes: "use 224 for height and width" if one must follow the other.
    """
    texts: dict[str, None] = {}
    for sizes in near:
        names = moved(sizes, given, conds)
        equal = [g for g in _followers(finder, given) if len({sizes[n] for n in g}) == 1]
        if equal:
            rest = [(n,) for n in names if not any(n in g for g in equal)]
            texts[join_names([f"{sizes[g[0]]} for {join_names(g)}" for g in (*rest, *equal)])] = None
            continue
        text = sizes_text(sizes, names)
        rounder = finder.rounder(sizes, given)
        if rounder is not None:
            also = str(rounder[names[0]]) if len(names) == 1 else sizes_text(rounder, names)
            text += f" or {also} (round)"
        texts[text] = None
    return f"use {' or '.join(texts)}" if any(texts) else ""


def moved(sizes: Mapping[str, int], given: Mapping[str, int], conds: Sequence[Cond]) -> list[str]:
    """Return the names that change, and those without a given size that `conds` tie to one of them."""
    changed = _changed(sizes, given)
    tied = frozenset[str]().union(*(c.free for c in cone(changed, conds)))
    return [*changed, *(n for n in sizes if n in tied and n not in given)]


def _closest(near: Mapping[str, Model | None], given: Mapping[str, int]) -> list[Model]:
    """Return the sizes worth proposing, the best first. They change little, and none is far larger than another."""
    found = [sizes for sizes in near.values() if sizes is not None]
    ranked = sorted(found, key=lambda sizes: (len(_changed(sizes, given)), _far(sizes, given)))
    if not ranked:
        return []
    best, shown = ranked[0], []
    for sizes in ranked:
        same = _changed(sizes, given) == _changed(best, given)
        if sizes is best or (same and _far(sizes, given) <= _far(best, given) + log(2)):
            shown.append(sizes)
    return shown


def _changed(sizes: Mapping[str, int], given: Mapping[str, int]) -> Collection[str]:
    return [n for n, size in given.items() if sizes[n] != size]


def _far(sizes: Mapping[str, int], given: Mapping[str, int]) -> float:
    """Return the largest change of a size, relative to it."""
    return max((abs(log((sizes[n] + 0.5) / (size + 0.5))) for n, size in given.items()), default=0.0)
