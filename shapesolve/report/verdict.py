"""Result of a proof as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..causes.limits import MAX_LINES
from ..lines import Line, line
from ..solve.proof import Proof, Proved, Refuted, Unknown
from .json import ABSENT, Sizes


def verdict_lines(claim: str, proof: Proof) -> Iterator[Line]:
    """Return lines on a proof: assumptions and premises, the counterexample, or the reason why it is unknown."""
    if isinstance(proof, Proved):
        if proof:
            yield line(("good", "proved"), "  ", ("shape", claim))
        else:
            yield line(("warning", "not proved"), "  ", ("shape", claim))
            conds = " and ".join(proof.assumptions)
            yield line(("dim", "  holds if  "), ("shape", conds), ("dim", "; unknown otherwise"))
        for c in proof.core[:MAX_LINES]:
            where = f"{c.origin.node}: " if c.origin.node else ""
            yield line(("dim", "  since     "), ("shape", str(c)), ("dim", f"  {where}{c.origin.rule}"))
        if len(proof.core) > MAX_LINES:
            yield line(("dim", f"            and {len(proof.core) - MAX_LINES} more conditions"))
    elif isinstance(proof, Refuted):
        yield line(("error", "refuted"), "  ", ("shape", claim))
        if proof.only_at:
            yield line(("error", f"  false at {proof.only_at}"), "; true at every other accepted size")
        if proof.at:
            yield line(("dim", "  at        "), proof.at)
        if proof.sides is not None:
            a, relation, b = proof.sides
            yield line(("dim", "  where     "), f"{a} {relation} {b}")
        if proof.holds_if and not proof.only_at:
            yield line(("dim", "  holds if  "), ("shape", " and ".join(proof.holds_if)))
    else:
        yield line(("warning", "unknown"), "  ", ("shape", claim))
        if isinstance(proof, Unknown):
            yield line(("dim", "  because   "), proof.reason)


@dataclass(frozen=True)
class ReasonData:
    """Premise of a proof."""

    condition: str
    node: str
    rule: str


@dataclass(frozen=True)
class Prove:
    """`shapesolve prove --json`; a proof that needs assumptions is `unknown`, with the assumptions listed.

    A refuted claim may be proved under the conditions `holds_if`.
    """

    claim: str
    decided: Literal["proved", "refuted", "unknown"]
    assuming: Sequence[str] = ABSENT
    since: Sequence[ReasonData] = ABSENT
    counterexample: Sizes = ABSENT
    holds_if: Sequence[str] = ABSENT
    reason: str = ABSENT


def verdict_data(claim: str, proof: Proof) -> Prove:
    """Return the result of a proof."""
    if isinstance(proof, Proved):
        since = [ReasonData(str(c), c.origin.node, c.origin.rule) for c in proof.core]
        return Prove(claim, "proved" if proof else "unknown", assuming=proof.assumptions, since=since)
    if isinstance(proof, Refuted):
        return Prove(claim, "refuted", counterexample=proof.counterexample, holds_if=proof.holds_if)
    return Prove(claim, "unknown", reason=proof.reason if isinstance(proof, Unknown) else ABSENT)
