"""Text output of `explain`: the origin of each dim of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..answers.names import dtype_name, shape_text
from ..lines import Printed, line, row
from .text import legend_lines, shown_shapes

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..answers.derivation import AxisDerivation, AxisStep, Derivation
    from ..expr import Dim, Shape


def derivation_lines(derivation: Derivation, analysis: Analysis) -> Iterator[Printed]:
    """Return lines on a tensor and the origins of its dims; every node with its operands if the rank is unknown."""
    dtype = dtype_name(analysis.dtypes.get(derivation.tensor, 0))
    texts = _Texts(analysis)
    yield line(
        ("bold", derivation.tensor), "  ", ("dim", dtype), "  ", ("shape", texts.shape(derivation.tensor))
    )
    yield from legend_lines(analysis, [derivation.tensor])
    if derivation.steps and not derivation.axes:
        yield from (line(text) for text in str(derivation).splitlines()[1:])
    for axis in derivation.axes:
        yield ()
        yield from _axis_rows(axis, texts.size(derivation.tensor, axis.axis), texts)


class _Texts:
    """Formatter of shapes, sizes, and conditions for a derivation."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.simple = analysis, analysis._solved.simple_shapes

    def shape(self, tensor: str) -> str:
        """Return a tensor's shape, simplified."""
        return shape_text(self._shown(tensor), self.analysis._solved.lowered.poisoned)

    def size(self, tensor: str, axis: int) -> str:
        """Return one size of a tensor, simplified."""
        shape = self._shown(tensor)
        return "?" if shape is None else self._text(shape[axis])

    def dim(self, dim: Dim) -> str:
        """Return a dim, simplified, or "?" if it depends on a node that cannot run."""
        return self._text(self.simple.dim(dim))

    def _text(self, dim: Dim) -> str:
        return str(dim) if self.analysis._solved.lowered.poisoned.isdisjoint(dim.free) else "?"

    def _shown(self, tensor: str) -> Shape | None:
        return shown_shapes(self.analysis, [tensor]).get(tensor)


def _axis_rows(axis: AxisDerivation, size: str, texts: _Texts) -> Iterator[Printed]:
    lines = [*(["after steps omitted by --depth"] if axis.cut else []), *_sentences(axis.steps, texts)]
    for i, text in enumerate(lines or ["given by the model"]):
        yield row(("dim", f"[{axis.axis}]" if not i else ""), ("shape", size if not i else ""), text)


def _sentences(steps: Sequence[AxisStep], texts: _Texts) -> Iterator[str]:
    """Return sentences on the steps of a dim's derivation; consecutive nodes that pass it on are merged."""
    for kind, group in groupby(steps, lambda step: step.kind):
        if kind == "passes":
            nodes = list(dict.fromkeys(step.node for step in group))
            if len(nodes) == 1:
                yield f"through {nodes[0]}"
            else:
                yield f"through {len(nodes)} nodes, from {nodes[0]} to {nodes[-1]}"
            continue
        for step in dict.fromkeys(group):
            name = step.tensor if step.axis is None else f"{step.tensor}[{step.axis}]"
            if kind == "computes":
                yield f"{step.node}{_kind(step.op_type, step.node)} computes {texts.dim(step.dim)}"
            else:
                yield f"{kind} {name} of {texts.shape(step.tensor)}"


def _kind(op_type: str, node: str) -> str:
    return f" ({op_type})" if op_type not in node else ""
