"""Sliding windows of convolutions and pooling: geometry, and output sizes."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from ..expr import Dim, Shape, ceil_div, constant, floor_div, ge
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reason import KERNEL, detailed


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a sliding window: extent, stride and padding per spatial axis. ``auto`` is the auto_pad mode."""

    kernel: tuple[Dim, ...]
    extent: tuple[Dim, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    auto: str

    @property
    def same(self) -> bool:
        """True if the input is padded so that the output has ceil(size / stride) elements."""
        return self.auto.startswith("SAME")


def window_of(op: Op, kernel: Seq[Dim]) -> Window:
    """Return the window of a node, from its strides, dilations, pads and auto_pad."""
    n = len(kernel)
    strides, dilations = per_axis(op, "strides", n), per_axis(op, "dilations", n)
    auto = op.text_attr("auto_pad", "NOTSET") or "NOTSET"
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise InvalidNode(f"unknown auto_pad {auto!r}")
    pads = op.ints_attr("pads") if auto == "NOTSET" else None
    if pads is not None and len(pads) != 2 * n:
        raise InvalidNode(f"pads must have {2 * n} elements, two per spatial axis, got {list(pads)}")
    pads = pads or (0,) * (2 * n)
    # The standard requires pads >= 0; onnxruntime checks this if it knows the kernel before the run, and crops
    # otherwise.
    checked = op.node.op_type != "MaxUnpool" and all(k.value is not None for k in kernel)
    if checked and min(pads, default=0) < 0:
        raise MalformedNode(f"pads must not be negative, got {list(pads)}")
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    return Window(tuple(kernel), extent, strides, pads[:n], pads[n:], auto)


def require_small_pads(op: Op, kernel: Seq[Dim]) -> None:
    """Raise `MalformedNode` if a pad is not smaller than the kernel, in the semantics of onnxruntime."""
    pads = op.ints_attr("pads") or ()
    if op.as_onnxruntime("pool-pads") and any(p >= k.const for p, k in zip(pads, (*kernel, *kernel))):
        raise MalformedNode(f"pads {list(pads)} must be smaller than the kernel {[k.const for k in kernel]}")


def per_axis(op: Op, name: str, n: int) -> tuple[int, ...]:
    """One number per spatial axis, 1 by default; raises `InvalidNode` unless all are positive."""
    values = op.ints_attr(name) or (1,) * n
    if len(values) != n:
        raise InvalidNode(f"{name} must have {n} elements, one per spatial axis, got {list(values)}")
    if min(values, default=1) < 1:
        raise InvalidNode(f"{name} {list(values)} must be positive")
    return values


def room(size: Dim, w: Window, i: int) -> Dim:
    """Padded size minus window extent along spatial axis `i`: the last offset of the window."""
    return size + (w.begin[i] + w.end[i]) - w.extent[i]


def slide(op: Op, x: int, spatial: Shape, w: Window) -> list[Dim]:
    """Spatial output sizes of a convolution of input `x`; requires that the kernel fits."""
    out: list[Dim] = []
    for i, size in enumerate(spatial):
        stride = constant(w.strides[i])
        if w.same:
            op.require(ge(size, 1), "a convolution needs a non-empty image", (x, i + 2))
            out.append(ceil_div(size, stride))
        else:
            free = room(size, w, i)
            op.require(ge(free, 0), _kernel_rule(w, i), (x, i + 2))
            out.append(floor_div(free, stride) + 1)
    return out


def _kernel_rule(w: Window, i: int) -> str:
    """Return the reason that the kernel must fit along spatial axis `i`, with its size and pads."""
    kernel, extent, begin, end = w.kernel[i], w.extent[i], w.begin[i], w.end[i]
    if kernel.terms or extent.terms:
        return KERNEL
    span = f"kernel {kernel}" if kernel is extent else f"kernel {kernel}, dilated to {extent},"
    pads = f"pads {begin}" if begin == end else f"pads {begin} and {end}"
    return detailed(KERNEL, f"{span} must not exceed the input with {pads}")


def kernel_attr(op: Op) -> tuple[Dim, ...] | None:
    """Return the kernel_shape attribute as dims; None without it. Raises `InvalidNode` unless all are positive."""
    kernel = op.ints_attr("kernel_shape")
    if not kernel:
        return None
    if min(kernel) < 1:
        raise InvalidNode(f"kernel_shape {list(kernel)} must be positive")
    return tuple(constant(k) for k in kernel)


def spatial_rank(op: Op, *inputs: int) -> int | None:
    """Return the number of spatial axes, by an input's rank or kernel_shape; None if unknown. Raises `InvalidNode` if 0."""
    kernel = op.ints_attr("kernel_shape")
    for i in inputs:
        rank = op.rank(i)
        if rank is not None and rank < 3:
            raise InvalidNode(f"{op.node.op_type} requires rank 3 or more, got {rank}")
        if rank is not None:
            return rank - 2
    return len(kernel) if kernel else None
