"""A proof's answer as text."""

from __future__ import annotations

from collections.abc import Iterator

from ..solve.proof import Proof, Proved, Refuted, Unknown
from .lines import Line, line

_MAX_CORE = 12


def verdict_lines(claim: str, proof: Proof) -> Iterator[Line]:
    """Proved with assumptions and what it follows from; refuted with sizes; or why neither."""
    if isinstance(proof, Proved):
        yield line(("good", "proved"), "  ", ("shape", claim))
        for text in proof.assumptions:
            yield line(("dim", "  assuming  "), ("shape", text))
        for c in proof.core[:_MAX_CORE]:
            where = f"{c.origin.node}: " if c.origin.node else ""
            yield line(("dim", "  since     "), ("shape", str(c)), ("dim", f"  {where}{c.origin.rule}"))
        if len(proof.core) > _MAX_CORE:
            yield line(("dim", f"            and {len(proof.core) - _MAX_CORE} more conditions"))
    elif isinstance(proof, Refuted):
        yield line(("error", "refuted"), "  ", ("shape", claim))
        names = proof.shown or tuple(proof.counterexample)
        sizes = ", ".join(f"{n} = {proof.counterexample[n]}" for n in names if n in proof.counterexample)
        if sizes:
            yield line(("dim", "  at        "), sizes)
        if proof.sides is not None:
            a, relation, b = proof.sides
            yield line(("dim", "  where     "), f"{a} {relation} {b}")
    else:
        yield line(("warning", "not decided"), "  ", ("shape", claim))
        if isinstance(proof, Unknown):
            yield line(("dim", "  because   "), proof.reason)
