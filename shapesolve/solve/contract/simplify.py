"""Rewriting conditions for a contract: factors that are never 0 taken out, two bounds joined to a range."""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import Cond, Dim, all_of, any_of, eq, ge, of_atom
from ...expr.plain import common_factor, kind_of, without
from ...propagate.facts import Causes, Facts


def stripped(cond: Cond, facts: Facts) -> tuple[Cond, Causes]:
    """A relation with zero without the positive factors of all its terms: ``batch*x == batch*y`` says ``x
    == y``.
    """
    if cond.kind in ("and", "or"):
        used: set[int] = set()

        def strip(c: Cond) -> Cond:
            now, more = stripped(c, facts)
            used.update(more)
            return now

        parts = [strip(c) for c in cond.args]
        if not used:
            return cond, frozenset()
        return (all_of(parts) if cond.kind == "and" else any_of(parts)), frozenset(used)
    if not cond.args or cond.args[0].const or not cond.args[0].terms:
        return cond, frozenset()
    d: Dim = cond.args[0]
    common = common_factor(d)
    positive = [a for a in common if a.kind == "sym" and (facts.bounds(of_atom(a))[0] or 0) >= 1]
    if not positive:
        return cond, frozenset()
    names = {a.args[0] for a in positive}
    quotient = without(d, positive)
    relation = (
        eq(quotient, 0) if cond.kind == "==" else ~eq(quotient, 0) if cond.kind == "!=" else ge(quotient, 0)
    )
    return relation, facts.why(names)


def with_chains(conds: Mapping[Cond, Causes]) -> dict[Cond, Causes]:
    """Lower and upper bounds of the same thing joined: ``193 <= H <= 224``."""
    joined: dict[Cond, Causes] = {}
    bounds: dict[Dim, Cond] = {}
    for c, causes in conds.items():
        if c.kind == ">=" and kind_of(c) != "nonempty":
            opposite = bounds.pop(-(c.args[0] - c.args[0].const), None)
            if opposite is not None:
                joined[all_of((opposite, c))] = joined.pop(opposite) | causes
                continue
            bounds[c.args[0] - c.args[0].const] = c
        joined[c] = causes
    return joined
