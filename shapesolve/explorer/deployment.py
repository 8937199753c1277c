"""Deployment data of the explorer and notebooks: accepted sizes, a profile, and the cost of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..causes.limits import MAX_LINES
from ..deploy.cost.cost import Cost
from ..deploy.cost.text import left_out
from ..deploy.enumeration import enumerate_sizes
from ..deploy.profiles.profiles import NoProfile, Profile, profile
from ..deploy.sizes import NoSizes, Sizes
from ..expr.cond import has_value
from ..solve.facts.budget import MAX_CHEAP_ASKED
from .expressions import Expressions
from .limits import GROWTH, MAX_DRAWN

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..expr import Dim


@dataclass(frozen=True, slots=True)
class Growth:
    """Accepted sizes of one symbol, and of a second one that grows with it.

    For example, ``total`` follows ``past + seq``. Other names keep their example sizes.
    """

    name: str
    follows: str | None
    sizes: tuple[int, ...]
    following: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """Accepted sizes, profiles, and cost of a model, for the explorer.

    Attributes:
        names: Names of the sizes that may be chosen.
        usual: Example sizes of these names.
        sizes: Smallest accepted sizes, in order.
        profiles: Ranges from the minimum to a multiple of the example sizes.
        ways: Growth of each name.
        cost: Symbolic cost of a run.
    """

    names: tuple[str, ...]
    usual: Mapping[str, int]
    sizes: tuple[Mapping[str, int], ...]
    profiles: tuple[Profile, ...]
    ways: tuple[Growth, ...]
    cost: Cost


def deployment_of(analysis: Analysis) -> Deployment | None:
    """Return the `Deployment` of a model, or None if it does not run at any size."""
    example = analysis._solved.example
    if example is None:
        return None
    names = tuple(name for name in analysis.symbols if name not in analysis._solved.fixed_sizes)
    usual = {name: size for name, size in example.items() if name in names}
    small = (
        sum(t.cond.size for t in analysis.contract) <= MAX_CHEAP_ASKED
    )  # each size that is tried costs as much
    try:
        found = enumerate_sizes(analysis, MAX_LINES // 2) if names and small else []
    except NoSizes:
        found = []
    profiles = _profiles(analysis, usual) if found else ()
    ways = [_growth(analysis, name, usual) for name in names[:MAX_DRAWN]] if found else []
    return Deployment(
        names, usual, tuple(found), profiles, tuple(w for w in ways if len(w.sizes) > 1), Cost(analysis)
    )


def _profiles(analysis: Analysis, usual: Mapping[str, int]) -> tuple[Profile, ...]:
    try:
        most = Sizes(analysis).nearest({name: GROWTH * size for name, size in usual.items()})
        return profile(analysis, usual, max=most, split=True)
    except (NoProfile, NoSizes, ValueError):
        try:
            return profile(analysis, usual)
        except (NoProfile, NoSizes, ValueError):
            return ()


def _growth(analysis: Analysis, name: str, usual: Mapping[str, int]) -> Growth:
    """Return the accepted sizes of a symbol, with a second symbol if the contract ties both."""
    end = max(GROWTH * usual[name], 64)
    tried = sorted({1 + (end - 1) * k // 64 for k in range(65)})
    terms = (t.cond.free for t in analysis.contract.terms if name in t.cond.free)
    tied = dict.fromkeys(n for free in terms for n in usual if n in free and n != name)
    best = Growth(name, None, (), ())
    for follows in (None, *list(tied)[:2]):
        accepted = list(_accepted(analysis, name, follows, usual, tried))
        if accepted and accepted[-1][0] > max(best.sizes, default=0):
            values = tuple(sizes[follows] for _, sizes in accepted) if follows is not None else ()
            best = Growth(name, follows, tuple(n for n, _ in accepted), values)
        if max(best.sizes, default=0) > end - end // 8:
            break
    return best


def _accepted(
    analysis: Analysis, name: str, follows: str | None, usual: Mapping[str, int], tried: Sequence[int]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Return the accepted ones of the tried sizes, with the size of the second symbol. Others keep their example sizes."""
    solved = analysis._solved
    kept = {n: size for n, size in usual.items() if n not in (name, follows)}
    conds = [c.subs(kept) for c in solved.accepted.conds if has_value(c)] if follows is not None else []
    conds = [c for c in conds if follows in c.free]
    for n in tried:
        sizes = {**kept, name: n}
        if follows is not None:
            found = solved.prover.engine.model([c.subs({name: n}) for c in conds])
            if found is None:
                continue
            sizes[follows] = found.get(follows, usual[follows])
        complete = solved.completed(sizes)
        if complete is not None:
            yield n, complete


def deployment_data(analysis: Analysis, expressions: Expressions) -> dict[str, Any] | None:
    """Return the `Deployment` as data for the explorer, with expressions as row numbers."""
    found = deployment_of(analysis)
    if found is None:
        return None
    cost = found.cost

    def row(dim: Dim) -> int:
        return expressions.shown(dim)

    def at(sizes: Mapping[str, int]) -> list[int]:
        return [sizes[name] for name in found.names]

    return {
        "names": [expressions.symbols[name] for name in found.names],
        "usual": at(found.usual),
        "accepted": [at(sizes) for sizes in found.sizes],
        "profiles": [
            {"min": at(p.min), "opt": at(p.opt), "max": at(p.max), "conditions": list(p.conditions)}
            for p in found.profiles
        ],
        "ways": [
            {
                "symbol": expressions.symbols[w.name],
                "follows": -1 if w.follows is None else expressions.symbols[w.follows],
                "sizes": w.sizes,
                "following": w.following,
            }
            for w in found.ways
        ],
        "cost": {
            "parameters": cost.parameters,
            "parameterBytes": cost.parameter_bytes,
            "macs": row(cost.macs),
            "flops": row(cost.flops),
            "activations": row(cost.activation_bytes),
            "peak": [row(d) for d in cost.peak.of],
            "shared": [row(d) for d in cost.peak_reused.of],
            "remarks": left_out(cost),
        },
    }
