"""Cost of a model: parameters, operations, activations, and peak memory, in the input symbols.

`cost` returns formulas, `Cost.at` numbers, and `Cost.fit` the largest size that fits into a given amount of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from ...expr.sizes import sizes_text
from .figures import Figures
from .limit import Fit, Line, find_fit
from .text import as_data, as_text, human

if TYPE_CHECKING:
    from .figures import Figures


_COLOURS = {"separate buffers": "#c2410c", "shared buffers": "#1d4ed8", "weights": "#64748b"}


def plot(cost: Figures, symbol: str, sizes: Mapping[str, int], upto: int | None) -> str:
    """See `Cost.plot`."""
    line, shared = Line(cost, symbol, sizes), Line(cost, symbol, sizes, reuse=True)
    at = _accepted_sizes(line, upto)
    curves = {
        "separate buffers": [line.memory(n) for n in at],
        "shared buffers": [shared.memory(n) for n in at],
        "weights": [cost.parameter_bytes] * len(at),
    }
    others = sizes_text(line.given)
    return _drawn(symbol, others, at, curves)


def _accepted_sizes(line: Line, upto: int | None) -> list[int]:
    """Return accepted sizes to plot, evenly spread from the smallest."""
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
    """Cost of running a model, over the input symbols and generated symbols (``_d3``).

    The formulas hold at all sizes that the model accepts.

    Attributes:
        nodes: Costs of the nodes in execution order, without Constant nodes.
        parameters, parameter_bytes: Number of stored elements of all types, and their bytes.
        macs, flops: Multiply-accumulates, and total operations (two per multiply-accumulate).
        activation_bytes: Bytes of all tensors computed by nodes of the main graph.
        peak: Maximum bytes of tensors held at once, including the model's inputs and outputs, each in a separate
            buffer.
        peak_reused: The same if views share memory and outputs overwrite inputs without later consumers.
        uncounted: Operators that are not counted, with the number of nodes.
        unmeasured: Tensors of unknown size in bytes, counted as 0.
        remarks: Other omissions and assumptions of the figures.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return Cost, (self.analysis,)

    def fit(
        self, memory: int, symbol: str, sizes: Mapping[str, int] | None = None, *, reuse: bool = False
    ) -> Fit:
        """Return the largest accepted size of `symbol` at which weights and tensors fit into `memory` bytes. See `Fit`.

        Args:
            memory: Available memory in bytes.
            symbol: Name of the dim to maximize.
            sizes: Sizes of the other names that the memory depends on.
            reuse: Whether to assume that buffers are shared where possible (`peak_reused`).

        Raises:
            NoSizes: If nothing fits, or no size is accepted.
            ValueError: If a name is missing or unknown.
        """
        return find_fit(self, memory, symbol, sizes or {}, reuse)

    def plot(self, symbol: str, sizes: Mapping[str, int] | None = None, *, upto: int | None = None) -> str:
        """Return an SVG plot of memory against the sizes of `symbol`; `sizes` fixes the other symbols.

        Raises:
            ValueError: As for `fit`.
            NoSizes: If no size is accepted.
        """

        return plot(self, symbol, sizes or {}, upto)

    def to_json(self) -> dict[str, Any]:
        """Return the cost as plain data, with expressions as strings."""
        return as_data(self)

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<Cost of {len(self.nodes)} nodes: {self.parameters} parameters>"


def cost(model: Any, **options: Any) -> Cost:
    """Return the cost of running a model.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        options: Options for `analyze`.

    >>> c = cost("bert.onnx")
    >>> c.peak, c.at({"batch": 8, "seq": 128}).memory, c.fit(8 << 30, "batch", {"seq": 128}).size

    Raises:
        ModelError: As for `analyze`.
    """
    from ...analysis import Analysis, analyze

    return Cost(model if isinstance(model, Analysis) else analyze(model, **options))
