"""Text and data of `shapesolve evaluate`: shapes at given sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers.names import dtype_name, shape_text
from ..expr import Shape
from ..lines import Printed, line, row
from .limits import MAX_NAMES

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..answers.rejected import Rejected
    from .json import Sizes


@dataclass(frozen=True)
class Evaluate:
    """`shapesolve evaluate --json`; `open` has the shapes that the given sizes leave undetermined."""

    sizes: Sizes
    tensors: Mapping[str, Sequence[int]]
    open: Mapping[str, str]
    broken_contract: Sequence[str]
    violations: Sequence[Rejected]


def evaluation_data(analysis: Analysis, sizes: Mapping[str, int], names: Sequence[str]) -> Evaluate:
    """Return tensor sizes determined by the given sizes, and broken conditions and requirements."""
    known = analysis._solved.sizes_at(sizes)
    return Evaluate(
        sizes=sizes,
        tensors={n: known[n] for n in names if n in known},
        open={n: shape_text(analysis.shapes.get(n)) for n in names if n not in known},
        broken_contract=[t.text for t in analysis.contract.broken(sizes)],
        violations=analysis._solved.violations_at(sizes),
    )


def _at(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """Return the shape with sizes substituted, or unchanged if a divisor becomes 0."""
    try:
        return shape.subs(sizes)
    except ZeroDivisionError:
        return shape


def evaluation_lines(analysis: Analysis, sizes: Mapping[str, int], names: Sequence[str]) -> Iterator[Printed]:
    """Return the table of tensor shapes at these sizes, and the broken conditions."""
    known, simple = analysis._solved.sizes_at(sizes), analysis._solved.simple_shapes
    shapes = (
        analysis.shapes if analysis._solved.violations_at(sizes) else simple
    )  # shapes are only valid at accepted sizes
    rows: list[tuple[str, str, str, str]] = []
    for name in names:
        symbolic = shape_text(simple.get(name))
        if name in known:
            text = str(list(known[name]))
        else:
            shape = shapes.get(name)
            now = None if shape is None else _at(shape, sizes)
            text = symbolic if now == shape else shape_text(now)
        dtype = dtype_name(analysis.dtypes.get(name, 0))
        rows.append((name, dtype, text, symbolic if symbolic != text else ""))
    for name, dtype, text, symbolic in rows:
        yield row(("name", name), ("dim", dtype), ("shape", text), ("dim", symbolic))
    missing = [s for s in analysis.symbols if s not in sizes and s not in analysis._solved.fixed_sizes]
    if missing:
        yield ()
        yield line(("dim", f"undetermined: {', '.join(missing)}   (set it with --bind {missing[0]}=...)"))
    yield from _broken_lines(analysis, sizes)


def _broken_lines(analysis: Analysis, sizes: Mapping[str, int]) -> Iterator[Printed]:
    if analysis.contract.impossible:
        yield ()
        yield line(
            ("error", "no input sizes run: the model contradicts itself"),
            "   (run shapesolve check for the reason)",
        )
        return
    found = list(_condition_lines(analysis, sizes))
    if found:
        yield ()
        yield line(("error", "the model does not run at these sizes"))
        yield from found


def _condition_lines(analysis: Analysis, sizes: Mapping[str, int]) -> Iterator[Printed]:
    """Return a line for each broken condition, with some of the nodes that fail."""
    places: dict[str, list[str]] = {}
    for v in analysis._solved.violations_at(sizes):
        places.setdefault(v.sentence, []).extend([v.place] * bool(v.place))
    for sentence, fail in places.items():
        yield line("  ", ("shape", sentence))
        for place in fail[:MAX_NAMES]:
            yield line(("dim", "  = "), place)
        if len(fail) > MAX_NAMES:
            more = len(fail) - MAX_NAMES
            yield line(("dim", "  = "), f"and {more} more nodes" if more > 1 else "and one more node")
