"""`explain` as text: the inputs and weights that a shape starts from, and every node on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .lines import Line, line
from .names import dtype_name, shape_text
from .text import legend_lines

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.derivation import Derivation

_MAX_STEPS = 200


def derivation_lines(derivation: Derivation, analysis: Analysis) -> Iterator[Line]:
    """The tensor, its sources, and the steps in graph order."""
    dtype = dtype_name(analysis.dtypes.get(derivation.tensor, 0))
    yield line(
        ("bold", derivation.tensor), "  ", ("dim", dtype), "  ", ("shape", shape_text(derivation.shape))
    )
    yield from legend_lines(analysis, [derivation.tensor])
    if derivation.sources:
        yield ()
        width = max(len(name) for _, name, _ in derivation.sources)
        for i, (kind, name, shape) in enumerate(derivation.sources):
            label = "from" if i == 0 else ""
            yield line(
                ("dim", label.ljust(6)),
                ("name", name.ljust(width)),
                "  ",
                ("shape", shape_text(shape)),
                ("dim", f"  {kind}"),
            )
    for i, step in enumerate(derivation.steps[:_MAX_STEPS], 1):
        yield ()
        kind = f"  ({step.op_type})" if step.op_type not in step.node else ""
        yield line(("dim", f"{i:>4}  "), ("bold", step.node), ("dim", kind))
        rows = [(n, shape_text(s)) for n, s in step.inputs]
        width = max((len(n) for n, _ in (*rows, (step.output, ""))), default=0)
        for name, text in rows:
            yield line("      ", ("dim", "   "), ("name", name.ljust(width)), "  ", ("shape", text))
        yield line(
            "      ",
            ("dim", "-> "),
            ("name", step.output.ljust(width)),
            "  ",
            ("shape", shape_text(step.shape)),
        )
        for text in step.requires:
            yield line("      ", ("dim", "needs "), ("shape", text))
    if len(derivation.steps) > _MAX_STEPS:
        yield line(("dim", f"      and {len(derivation.steps) - _MAX_STEPS} more nodes"))
