"""Cost of a model: parameters, operations, activations and peak memory, in the input symbols.

`cost` says it in symbols, `Cost.at` in numbers, `Cost.fit` finds the largest size that fits into so much memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cost_figures import Figures
from .cost_limit import Fit, find_fit
from .cost_text import as_data, as_text


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
        from .cost_plot import plot

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
