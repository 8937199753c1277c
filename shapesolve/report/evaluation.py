"""Shapes at given sizes of the input dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ops.types import Tensor
from .lines import Line, line
from .names import dtype_name, shape_text

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..analysis.findings import Violation


def violations(analysis: Analysis, sizes: Mapping[str, int]) -> list[Violation]:
    """Requirements that these sizes break, as far as the sizes decide."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, known in analysis.inputs.items():
        dims = (
            [d.evaluate(sizes) for d in known.shape]
            if isinstance(known, Tensor) and known.shape is not None
            else [None]
        )
        if None not in dims:
            shapes[name] = tuple(d for d in dims if d is not None)
    return analysis.check_inputs(shapes)


def evaluation_data(analysis: Analysis, sizes: Mapping[str, int], names: Sequence[str]) -> dict[str, Any]:
    """Sizes of tensors (those that the given sizes decide) and violated requirements, as plain data."""
    known = analysis.evaluate(sizes)
    return {
        "sizes": dict(sizes),
        "tensors": {n: list(known[n]) for n in names if n in known},
        "open": {n: shape_text(analysis.shapes.get(n)) for n in names if n not in known},
        "violations": [
            {"condition": v.text, "message": v.message, "nodes": list(v.nodes)}
            for v in violations(analysis, sizes)
        ],
    }


def evaluation_lines(analysis: Analysis, sizes: Mapping[str, int], names: Sequence[str]) -> Iterator[Line]:
    """A table of tensors with numbers for sizes, and what these sizes break."""
    known = analysis.evaluate(sizes)
    memo: dict[str, str] = {}
    for n in names:
        shape = analysis.shapes.get(n)
        if n in known or shape is None:
            memo[n] = str(list(known[n])) if n in known else shape_text(shape)
        else:
            dims = ((d.evaluate(sizes), d) for d in shape)
            memo[n] = f"[{', '.join(str(d if size is None else size) for size, d in dims)}]"
    width = max((len(n) for n in names), default=0)
    types = {n: dtype_name(analysis.dtypes.get(n, 0)) for n in names}
    broad = max((len(t) for t in types.values()), default=0)
    for n in names:
        symbolic = (
            ""
            if n in known and not any(d.terms for d in analysis.shapes[n])
            else f"  {shape_text(analysis.shapes.get(n))}"
        )
        yield line(
            ("name", n.ljust(width)),
            "  ",
            ("dim", types[n].ljust(broad)),
            "  ",
            ("shape", memo[n]),
            ("dim", symbolic),
        )
    missing = [s for s in analysis.symbols if s not in sizes and s not in analysis.bindings]
    if missing:
        yield line(("dim", f"without a size: {', '.join(missing)}"))
    for v in violations(analysis, sizes):
        yield line(("error", "broken  "), v.message)
