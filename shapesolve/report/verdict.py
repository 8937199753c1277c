"""Result of a proof as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ..explain.limits import MAX_LINES
from ..lines import Line, line
from ..solve.proof import Proof, Proved, Refuted, Unknown

if TYPE_CHECKING:
    from .documents import ProveData


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


def verdict_data(claim: str, proof: Proof) -> ProveData:
    """Return the result of a proof as plain data."""
    decided: Literal["proved", "refuted", "unknown"] = (
        "proved" if proof else "refuted" if isinstance(proof, Refuted) else "unknown"
    )
    data: ProveData = {"claim": claim, "decided": decided}
    if isinstance(proof, Proved):
        data["assuming"] = list(proof.assumptions)
        data["since"] = [
            {"condition": str(c), "node": c.origin.node, "rule": c.origin.rule} for c in proof.core
        ]
    elif isinstance(proof, Refuted):
        data["counterexample"] = dict(proof.counterexample)
        data["holds_if"] = list(proof.holds_if)
    elif isinstance(proof, Unknown):
        data["reason"] = proof.reason
    return data
