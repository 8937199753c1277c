"""Resize and Upsample.

With scales, an output size is ``floor(size * scale)``, computed in float32 by the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from fractions import Fraction
from math import isfinite
from struct import pack, unpack

import numpy as np
from onnx import TensorProto

from ..expr import TRUE, Cond, Dim, Shape, all_of, any_of, constant, eq, floor_div, ge, le, truth
from ..lower.axes import Links, Unfollowed, links_kept, made, sizes
from ..lower.limits import MAX_DENOMINATOR
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.precision import stands_for
from ..lower.reads import NEW_SIZES, SCALES, one_of
from ..lower.registry import lower
from ..lower.types import Known
from ..lower.values import Elem, Ratio
from ..lower.work import Operations, Outputs, Work, taps

# ---------------------------------------------------------------------- scales


def scaled(op: Op, size: Dim, scale: Elem, axis: int) -> Dim:
    """``floor(size * scale)`` as float32 computes it; a new symbol if that is not exact."""
    what = f"axis {axis} of {op.name_of(0)} resized"
    if isinstance(scale, Ratio):
        if scale.rounded or scale.den > MAX_DENOMINATOR or scale.den & (scale.den - 1):
            return op.fresh(what)
        return floor_div(size * scale.num, constant(scale.den))
    if not isinstance(scale, float):
        return op.fresh(what)
    if scale == 1.0:
        return size
    if size.value is not None:
        return constant(int(_single(_single(size.const) * _single(scale))))
    ratio = Fraction(_single(scale))
    exact = ratio.denominator <= MAX_DENOMINATOR  # a short binary fraction: the product is exact below 2**24
    simple = ratio if exact else stands_for(float(ratio), TensorProto.FLOAT, "floor")
    if simple is not None and (exact or op.sizes_below(size)):
        return floor_div(size * simple.numerator, constant(simple.denominator))
    low = floor_div(size * ratio.numerator, constant(ratio.denominator))
    found = op.fresh(what)  # float32 may round the product to either side of an integer
    spread = size // (1 << 22) + 1
    op.define(ge(found, low - spread), what)
    op.define(le(found, low + spread), what)
    return found


def _single(x: float) -> float:
    """`x` rounded to float32; the double product of two such numbers is exact."""
    found: float = unpack("f", pack("f", x))[0]
    return found


def _require_scale(op: Op, scale: Elem, i: int, k: int, at_least: float | None) -> None:
    if isinstance(scale, float) and not isfinite(scale):
        raise InvalidNode(f"a scale must be a number, element {k} is {scale}")
    if isinstance(scale, float) and (scale <= 0 if at_least is None else scale < at_least):
        needed = "positive" if at_least is None else f"at least {at_least:g}"
        raise InvalidNode(f"a scale must be {needed}, element {k} is {scale:g}")
    if isinstance(scale, Ratio):
        op.require(ge(scale.num, 1), "a scale must be positive", (i, None))


def _interpolates(op: Op, rank: int, keeps: Mapping[int, Cond], grows: Mapping[int, Cond]) -> None:
    """Require that onnxruntime can interpolate along the axes that change. `keeps` and `grows` are, by axis, that it
    keeps its size and that it does not shrink.
    """
    mode = op.text_attr("mode", "nearest")
    if mode == "nearest" or not op.as_onnxruntime("resize-modes"):
        return
    if not 2 <= rank <= 5 or (mode == "cubic" and rank not in (2, 4)):
        raise InvalidNode(f"mode {mode} cannot resize {rank} axes")
    if rank < 4:
        return
    fits = [all_of((keeps.get(0, TRUE), keeps.get(1, TRUE)))]
    if rank == 4:
        inside = [grows.get(1, TRUE), grows.get(2, TRUE)]
        free = mode == "linear" or bool(op.int_attr("antialias", 0))
        fits.append(all_of((keeps.get(0, TRUE), keeps.get(3, TRUE), *(() if free else inside))))
    op.require(any_of(fits), f"mode {mode} interpolates only along the inner axes", (0, None))


def _by_scales(
    op: Op, shape: Shape, axes: Seq[int], scales: Seq[Elem], i: int, least: float | None = None
) -> Known:
    if len(scales) != len(axes):
        raise InvalidNode(f"expected {len(axes)} scales for {op.name_of(0)} {shape}, got {len(scales)}")
    out = list(shape)
    if all(isinstance(s, float) for s in scales):
        at = {a: s for a, s in zip(axes, scales, strict=True) if isinstance(s, float)}
        keeps = {a: truth(s == 1.0) for a, s in at.items()}
        _interpolates(op, len(shape), keeps, {a: truth(s >= 1.0) for a, s in at.items()})
    for k, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        _require_scale(op, scale, i, k, least)
        out[axis] = scaled(op, shape[axis], scale, axis)
    return op.out(out)


def _scales(op: Op, i: int) -> tuple[Elem, ...] | None:
    """Return the elements of a scales input, unknown ones as None; None if their number is unknown."""
    value, shape = op.value(i), op.shape(i)
    if value is not None and value.elems is not None:
        return value.elems
    n = shape.numel.value if shape is not None else None
    return None if n is None or n > 64 else (None,) * n


# ---------------------------------------------------------------------- sizes

_POSITIVE = "a size can only be resized to a positive size, and nothing only to nothing"


def _by_sizes(op: Op, shape: Shape, axes: Seq[int], sizes: Seq[Dim]) -> Known:
    if len(sizes) != len(axes):
        raise InvalidNode(f"expected {len(axes)} sizes for {op.name_of(0)} {shape}, got {len(sizes)}")
    out = list(shape)
    policy = op.text_attr("keep_aspect_ratio_policy", "stretch")
    positive = {a: any_of((eq(shape[a], 0), ge(size, 1))) for a, size in zip(axes, sizes, strict=True)}
    for axis, size in zip(axes, sizes, strict=True):
        legal = any_of((ge(shape[axis], 1), eq(size, 0)))
        legal = legal if policy == "not_smaller" else all_of((legal, positive[axis]))
        op.require(legal, _POSITIVE, (0, axis), (3, None))
        out[axis] = size
    if policy == "not_smaller" and axes:  # the largest factor applies to all axes
        op.require(any_of(positive.values()), "one of the sizes must be positive", (0, None), (3, None))
    if policy == "stretch":
        pairs = [(a, shape[a], s) for a, s in zip(axes, sizes, strict=True)]
        keeps, grows = {a: eq(s, d) for a, d, s in pairs}, {a: ge(s, d) for a, d, s in pairs}
        _interpolates(op, len(shape), keeps, grows)
    if policy in ("not_larger", "not_smaller") and len(axes) > 1:
        for axis, d in zip(axes, _keeping_aspect(op, policy, [shape[a] for a in axes], sizes), strict=True):
            out[axis] = d
    return op.out(out)


def _keeping_aspect(op: Op, policy: str, dims: list[Dim], sizes: Seq[Dim]) -> list[Dim]:
    """Output sizes with one scale factor for all axes, by `policy` within or at least `sizes`.

    onnxruntime forgets axes that are given as negative numbers here; the standard does not.
    """
    larger = policy == "not_smaller"
    known = [d.value for d in dims if d.value]
    wanted = [s.value for s in sizes if s.value is not None]
    if len(known) == len(dims) and len(wanted) == len(sizes):
        factors = [np.float32(s) / np.float32(d) for s, d in zip(wanted, known, strict=True)]
        factor = max(factors) if larger else min(factors)
        return [constant(int(np.floor(factor * np.float32(d) + np.float32(0.5)))) for d in known]
    if all(d is dims[0] for d in dims) and all(s is sizes[0] for s in sizes):
        return list(sizes)
    out: list[Dim] = []
    for size in sizes:
        d = op.fresh("a size that keeps the aspect ratio", hi=None if larger else size)
        if larger:
            op.define(ge(d, size), "a size that keeps the aspect ratio")
        out.append(d)
    return out


# ---------------------------------------------------------------------- operators


def _axes(op: Op, n: int | None) -> tuple[Shape, tuple[int, ...]] | None:
    """Return the shape of the input and the axes to resize, for `n` sizes or scales."""
    given = op.ints_attr("axes")
    shape = op.shape(0) if given or n is None else op.shape(0, n)
    if shape is None:
        return None
    return shape, op.axes(given, len(shape)) if given else tuple(range(len(shape)))


def _given(op: Op, i: int) -> bool:
    """Return True if input `i` is connected and not the empty tensor that means absent."""
    shape = op.shape(i) if op.has(i) else None
    return op.has(i) and not (shape is not None and len(shape) == 1 and shape[0].value == 0)


def _open(op: Op) -> Known:
    shape = op.shape(0)
    return op.out(None if shape is None else op.fresh_shape(len(shape), "a size resized by unknown factors"))


def resize_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of an interpolation, by the elements read along each axis that changes. Linear reads two, cubic four;
    nearest only moves elements.
    """
    mode = op.text_attr("mode", "nearest")
    reads = {"nearest": 0, "linear": 2, "cubic": 4}.get(mode)
    return Operations() if reads == 0 else None if reads is None else taps(op.shape(0), outputs[0], reads)


_MODES = {"mode": ("nearest", "linear", "cubic")}
_RESIZE = {
    **_MODES,
    "coordinate_transformation_mode": (
        "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", ""),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
}  # fmt: skip


def _resize_axes(op: Op, outputs: Outputs) -> Links:
    """Return the links of a Resize: axes that keep their size."""
    if op.text_attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        raise Unfollowed
    return links_kept(op, [a is b for a, b in zip(sizes(op), made(outputs), strict=True)])


# https://onnx.ai/onnx/operators/onnx__Resize.html
@lower(
    "Resize",
    since=10,
    choices=_MODES,
    reads={1: SCALES},
    data=(1,),
    ranks="first",
    work=Work(resize_work),
    axes=_resize_axes,
)
def resize_10(op: Op) -> Known:
    return _resize_by_scales(op, 1)


def _resize_by_scales(op: Op, i: int, least: float | None = None) -> Known:
    scales = _scales(op, i)
    found = _axes(op, None if scales is None else len(scales))
    if scales is None or found is None:
        shape = op.shape(0)
        if shape is not None and op.attr("axes") is None:
            op.counted(i, len(shape), "expected one scale per axis")
        return _open(op)
    return _by_scales(op, *found, scales, i, least)


@lower(
    "Resize",
    since=11,
    choices=_RESIZE,
    reads={2: SCALES, 3: NEW_SIZES},
    data=(1, 2, 3),
    ranks="first",
    work=Work(resize_work),
    axes=_resize_axes,
)
def resize(op: Op) -> Known:
    scales = op.shape(2) if op.has(2) and op.has(3) else None
    if scales is not None:
        op.require(eq(scales.numel, 0), "Resize takes scales or sizes, not both", (2, None), (3, None))
    if _given(op, 3):
        sizes = op.ints(3)
        found = _axes(op, None if sizes is None else len(sizes))
        if sizes is None or found is None:
            return _open(op)
        return _by_sizes(op, *found, sizes)
    if not _given(op, 2):
        raise InvalidNode("Resize needs scales or sizes")
    if op.text_attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise MalformedNode("keep_aspect_ratio_policy goes with sizes, not with scales")
    if op.text_attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return _crop_and_resize(op)
    return _resize_by_scales(op, 2)


def _crop_and_resize(op: Op) -> Known:
    """Lower Resize in mode tf_crop_and_resize; known only where onnxruntime follows the standard."""
    scales, value = _scales(op, 2), op.value(1)
    found = _axes(op, None if scales is None else len(scales))
    roi = value.elems if value is not None else None
    if scales is None or found is None:
        return _open(op)
    shape, axes = found
    n = len(axes)
    kept: list[Elem] = [None] * n
    if roi is not None and len(roi) == 2 * n and len(scales) == n:
        kept = [s if (roi[k], roi[k + n]) == (0.0, 1.0) else None for k, s in enumerate(scales)]
    return _by_scales(op, shape, axes, kept if len(scales) == n else scales, 2)


# https://onnx.ai/onnx/operators/onnx__Upsample.html
@lower("Upsample", since=1, choices=_MODES, ranks="first", work=Work(resize_work), axes=_resize_axes)
def upsample_1(op: Op) -> Known:
    shape = op.shape(0, 4)
    height, width = op.attr("height_scale"), op.attr("width_scale")
    if not isinstance(height, float) or not isinstance(width, float):
        raise InvalidNode("Upsample needs the attributes height_scale and width_scale")
    return op.out(None) if shape is None else _by_scales(op, shape, (2, 3), (height, width), 0, 1.0)


@lower("Upsample", since=7, choices=_MODES, ranks="first", work=Work(resize_work), axes=_resize_axes)
def upsample_7(op: Op) -> Known:
    scales = op.attr("scales")
    if not isinstance(scales, tuple):
        raise InvalidNode("Upsample needs the attribute scales")
    shape = op.shape(0, len(scales))
    return op.out(None) if shape is None else _by_scales(op, shape, range(len(shape)), scales, 0, 1.0)


@lower(
    "Upsample",
    since=9,
    choices=_MODES,
    reads={1: one_of((1.0, 2.0), "scales")},
    data=(1,),
    ranks="first",
    work=Work(resize_work),
    axes=_resize_axes,
)
def upsample(op: Op) -> Known:
    return _resize_by_scales(op, 1, 1.0)
