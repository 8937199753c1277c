"""Declarations of an operator's operations and output memory (`Rule.work`).

A multiply-accumulate (MAC) is one multiplication and one addition to a running sum; matrix products, convolutions,
recurrent
cells, and attention are counted in MACs. All other arithmetic counts one operation per element and function, for any
function; moving, selecting, and converting elements counts as zero. `docs/reference/cost-model.md` has the full definition.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from ..expr import Dim, IntoDim, Shape, as_dim, constant, product
from .op import Op
from .rule import Operations as Operations
from .rule import Work as Work

#: shapes of a node's outputs; None if the rank is unknown
Outputs = Seq["Shape | None"]


def _nothing(op: Op, outputs: Outputs) -> Operations:
    return Operations()


#: moves, chooses or makes up elements
MOVES = Work(_nothing)
#: the same elements under another shape
VIEW = Work(_nothing, "view")


def each(n: int = 1, *added: int) -> Work:
    """Return work of `n` operations per element of the first output, which can reuse an input's memory.

    Each present input in `added` adds one operation.
    """
    return Work(lambda op, outputs: per(outputs[0], n + sum(map(op.has, added))), "over")


def makes(n: int = 1) -> Work:
    """`n` operations per element of the first output."""
    return Work(lambda op, outputs: per(outputs[0], n))


def reads(n: int = 1, i: int = 0) -> Work:
    """`n` operations per element of input `i`."""
    return Work(lambda op, outputs: per(op.shape(i), n))


def joins(extra: int = -1) -> Work:
    """``inputs + extra`` operations per element of the first output."""
    return Work(lambda op, outputs: per(outputs[0], op.n_in + extra), "over")


def slides(w: int = 1, bias: int | None = None, *added: str | int) -> Work:
    """Return the work of a convolution: one MAC per output element and filter element, including padding.

    Input `w` holds the filters. A bias, and each present input or attribute in `added`, adds one operation per
    element.
    """

    def count(op: Op, outputs: Outputs) -> Operations | None:
        weights, out = op.shape(w), outputs[0]
        if weights is None or out is None:
            return None
        there = [op.has(a) if isinstance(a, int) else bool(op.attr(a)) for a in added]
        more = sum(there) + int(bias is not None and op.has(bias))
        return Operations(out.numel * product(weights[1:]), out.numel.scale(more))

    return Work(count)


def spreads(w: int = 1, bias: int | None = None) -> Work:
    """A transposed convolution: one MAC per input element and element of a filter. Each element is spread by the weights,
    input `w`.
    """

    def count(op: Op, outputs: Outputs) -> Operations | None:
        data, weights, out = op.shape(0), op.shape(w), outputs[0]
        if data is None or weights is None or out is None:
            return None
        more = int(bias is not None and op.has(bias))
        return Operations(data.numel * product(weights[1:]), out.numel.scale(more))

    return Work(count)


def product_of(columns: Callable[[Op], IntoDim | None], bias: int | None = None, *extra: str) -> Work:
    """Return the work of a matrix product: a MAC per element of the first output and `columns`.

    A bias (input `bias`) and each present attribute in `extra` add one operation per element.
    """

    def count(op: Op, outputs: Outputs) -> Operations | None:
        inner, out = columns(op), outputs[0]
        if inner is None or out is None:
            return None
        added = int(bias is not None and op.has(bias)) + sum(bool(op.attr(name)) for name in extra)
        return Operations(out.numel * as_dim(inner), out.numel.scale(added))

    return Work(count)


def last_of(i: int = 0) -> Callable[[Op], Dim | None]:
    """Return a function of an `Op`: the last size of input `i`."""

    def last(op: Op) -> Dim | None:
        shape = op.shape(i)
        return shape[-1] if shape else None

    return last


def number(name: str) -> Callable[[Op], int]:
    """Return a function of an `Op`: an integer attribute."""
    return lambda op: op.int_attr(name, None)


def per(shape: Shape | None, n: IntoDim) -> Operations | None:
    """`n` operations for each element."""
    return None if shape is None else Operations(other=shape.numel * as_dim(n))


def attend(batch: Dim, heads: Dim, queries: Dim, keys: Dim, size: Dim, value_size: Dim) -> Operations:
    """Return the operations of an attention: scores, softmax (5 operations per score, and one to scale), and weighted
    sum.

    A causal mask saves nothing, because most kernels compute the masked scores too.
    """
    scores = product((batch, heads, queries, keys))
    return Operations(scores * (size + value_size), scores.scale(6))


def taps(source: Shape | None, out: Shape | None, per_axis: int) -> Operations | None:
    """Return an interpolation that reads `per_axis` elements along each axis whose size changes."""
    if source is None or out is None or len(source) != len(out):
        return None
    axes = sum(a is not b for a, b in zip(source, out, strict=True))
    return Operations(out.numel.scale(per_axis**axes)) if axes else Operations()


def _window(op: Op, outputs: Outputs) -> Operations | None:
    kernel = op.ints_attr("kernel_shape")
    return None if kernel is None else per(outputs[0], product(map(constant, kernel)))


#: one operation per element of the window (attribute kernel_shape) and of the first output
POOLS = Work(_window)
