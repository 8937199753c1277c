"""Findings about requirements that depend on input data rather than on input sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers.names import unknown_operators
from ..causes.finding import ExampleModel, Finding, Kind
from ..causes.limits import MAX_LISTED
from ..causes.wording import quoted_conditions

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.contract.contract import Term


@dataclass(frozen=True, eq=False)
class DependsOnData(Kind):
    """a node's precondition depends on input data

    A node's requirement depends on the input data: the number of nonzero elements, the values of an input
    with sizes, or the branch taken. It excludes no input sizes, so the contract does not contain it, and a
    run may still fail.

    ## What to do

    Nothing, if your data always satisfies the condition. `shapesolve contract` lists these conditions in
    addition to those on sizes.
    """

    code, severity = "SS302", "info"
    example = ExampleModel("g (float[batch, 5] x, int64[1] k) => (v, i) { [best] v, i = TopK(x, k) }")

    terms: Sequence[Term]
    rule: str
    #: where the values come from, by their names
    reasons: Mapping[str, str]

    def title(self) -> str:
        needed = quoted_conditions([term.text for term in self.terms])
        return f"{needed} must hold, which depends on data, not on input sizes"

    def notes(self) -> tuple[str, ...]:
        named = dict.fromkeys(f"{n}: {self.reasons[n]}" for n in self.names if n in self.reasons)
        return (self.rule, *named)[:MAX_LISTED]

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the conditions."""
        return tuple(dict.fromkeys(n for t in self.terms for n in t.symbols))


def find(analysis: Solved) -> Iterator[Finding]:
    """Yield requirements that depend on input data rather than on input sizes.

    Those of nodes behind a tensor of unknown shape are left out, which another finding says.
    """
    if analysis.conflicts:
        return
    reported = {  # reported separately
        (node, left.free | right.free)
        for a in analysis.ambiguities
        for left, right in (a.pair,)
        for node in a.sites
    }
    groups: dict[tuple[str, str, str], list[Term]] = {}
    lowered = analysis.lowered
    unknown = {*lowered.unranked_behind, *unknown_operators(lowered)}
    for term in analysis.contract.internal:
        needs = [c for c in term.constraints if c.role == "requirement"]
        own = next((c for c in needs if c.cond is term.cond), needs[-1] if needs else None)
        if own is None or own.cond.is_false:  # another finding tells it
            continue
        node_, prefix = lowered.scopes.get(own.node, (None, ""))
        read = () if node_ is None else (lowered.full_name(n, prefix) for n in node_.inputs if n)
        if (own.node, term.cond.free) not in reported and unknown.isdisjoint(read):
            groups.setdefault((own.node, own.op_type, own.rule), []).append(term)
    for (node, op_type, rule), terms in groups.items():
        kind = DependsOnData(terms, rule, analysis.lowered.reasons)
        nodes = tuple(dict.fromkeys((node, *(n for term in terms for n in term.nodes))))
        yield kind.finding(node, op_type, nodes=nodes, dims=kind.names)
