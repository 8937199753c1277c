"""Cost of a model: parameters, operations, activations and peak memory, in the input symbols.

`cost` says it in symbols, `Cost.at` in numbers, `Cost.fit` finds the largest size that fits into so much memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from ..expr.sizes import sizes_text
from .cost_figures import Figures
from .cost_limit import Fit, Line, find_fit
from .cost_text import as_data, as_text, human

if TYPE_CHECKING:
    from .cost_figures import Figures


_COLOURS = {"each tensor by itself": "#c2410c", "memory shared": "#1d4ed8", "weights": "#64748b"}


def plot(cost: Figures, symbol: str, sizes: Mapping[str, int], upto: int | None) -> str:
    """See `Cost.plot`."""
    line, shared = Line(cost, symbol, sizes), Line(cost, symbol, sizes, reuse=True)
    at = _accepted_sizes(line, upto)
    curves = {
        "each tensor by itself": [line.memory(n) for n in at],
        "memory shared": [shared.memory(n) for n in at],
        "weights": [cost.parameter_bytes] * len(at),
    }
    others = sizes_text(line.given)
    return _drawn(symbol, others, at, curves)


def _accepted_sizes(line: Line, upto: int | None) -> list[int]:
    """Accepted sizes to plot, evenly spread from the smallest."""
    least, high = line.least, line.bounds[1]
    end = max(256 if upto is None else upto, least)
    end = end if high is None else min(end, high)
    wanted = dict.fromkeys(least + (end - least) * k // 63 for k in range(64))
    found = [line.next(n) for n in wanted]
    return list(dict.fromkeys(n for n in found if n is not None and n <= end))


def _drawn(symbol: str, others: str, at: Sequence[int], curves: Mapping[str, Sequence[int]]) -> str:
    width, height, left, right, above, below = 640, 360, 84, 20, 44, 44  # in pixels
    top = max(max(c) for c in curves.values()) or 1
    first, last = at[0], max(at[-1], at[0] + 1)

    def x(n: int) -> float:
        return left + (n - first) / (last - first) * (width - left - right)

    def y(n: int) -> float:
        return height - below - n / top * (height - below - above)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for k in range(5):
        level = top * k // 4
        parts.append(f'<path d="M{left} {y(level):.1f}H{width - right}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{left - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{human(level)}</text>')
        size = first + (last - first) * k // 4
        parts.append(
            f'<text x="{x(size):.1f}" y="{height - below + 18}" text-anchor="middle">{size:,}</text>'
        )
    for k, (name, values) in enumerate(curves.items()):
        points = " ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in zip(at, values, strict=True))
        colour = _COLOURS[name]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 170 * k}" y="20" fill="{colour}">{name}</text>')
    title = f"{symbol} ({others})" if others else symbol
    parts.append(
        f'<text x="{(left + width) / 2:.0f}" y="{height - 6}" text-anchor="middle">{escape(title)}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


class Cost(Figures):
    """Cost of running a model, in the input symbols. Dims are in the input symbols and in generated symbols (``_d3``).

    They hold at all sizes that the model accepts; elsewhere there is nothing to run.

    Attributes:
        nodes: in the order in which they run; nodes that only hold a constant are left out.
        parameters, parameter_bytes: stored elements of all kinds, and their bytes.
        macs, flops: multiply-accumulates, and operations in all (two for each of those).
        activation_bytes: of all tensors that nodes of the main graph make.
        peak: most bytes of tensors held at once (inputs and outputs of the model among them), each in memory of its own.
        peak_reused: the same where views share memory and outputs are written over inputs that are not read again.
        uncounted: operators that are not counted, with the number of nodes.
        unmeasured: tensors whose bytes are not known; they count nothing.
        remarks: what else the figures leave out or take for granted.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return Cost, (self.analysis,)

    def fit(
        self, memory: int, symbol: str, sizes: Mapping[str, int] | None = None, *, reuse: bool = False
    ) -> Fit:
        """The largest accepted size of `symbol` at which weights and tensors fit into `memory` bytes. See `Fit`.

        Args:
            memory: bytes.
            symbol: the dim name that is to be large.
            sizes: of the other names on which the memory depends.
            reuse: count memory as shared where it may be (`peak_reused`).

        Raises:
            NoSizes: nothing fits, or no size is accepted.
            ValueError: a name is missing or none of the model's.
        """
        return find_fit(self, memory, symbol, sizes or {}, reuse)

    def plot(self, symbol: str, sizes: Mapping[str, int] | None = None, *, upto: int | None = None) -> str:
        """SVG plot of memory against the sizes of `symbol`; `sizes` fixes the other symbols.

        Raises `ValueError` as `fit` does, `NoSizes` where no size is accepted.
        """

        return plot(self, symbol, sizes or {}, upto)

    def to_json(self) -> dict[str, Any]:
        """The cost as plain data: expressions as text."""
        return as_data(self)

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<Cost of {len(self.nodes)} nodes: {self.parameters} parameters>"


def cost(model: Any, **options: Any) -> Cost:
    """The cost of running a model.

    Args:
        model: whatever `analyze` takes, or an `Analysis`.
        options: of `analyze`.

    >>> c = cost("bert.onnx")
    >>> c.peak, c.at({"batch": 8, "seq": 128}).memory, c.fit(8 << 30, "batch", {"seq": 128}).size

    Raises `ModelError` as `analyze` does.
    """
    from ..analysis import Analysis, analyze

    return Cost(model if isinstance(model, Analysis) else analyze(model, **options))
