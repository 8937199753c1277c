"""Convolutions, pools, and what changes the resolution of images and signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..builder import Builder, Unfit
from .registry import kind
from .shaping import size


def window(b: Builder, dims: int, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a sliding window."""
    options: dict[str, Any] = {"kernel_shape": [b.choice(1, 2, 3) for _ in range(dims)]}
    if b.chance(0.6):
        options["strides"] = [b.choice(1, 2, 3) for _ in range(dims)]
    if dilated and b.chance(0.25):
        options["dilations"] = [b.choice(1, 2) for _ in range(dims)]
    if b.chance(0.25):
        options["auto_pad"] = b.choice("SAME_UPPER", "SAME_LOWER", "VALID")
    elif b.chance(0.6):
        options["pads"] = [b.choice(0, 1) for _ in range(2 * dims)]
    return options


def image(b: Builder) -> str:
    """A tensor of a batch, channels, and 1 to 3 more dims that are not empty."""
    return b.pick((3, 5), where=lambda a: a.size > 0)


@kind("Conv", weight=5)
def conv(b: Builder) -> None:
    x = image(b)
    options = window(b, b.rank(x) - 2)
    channels = b.shape(x)[1]
    group = b.choice(*[g for g in (1, 1, 2, channels) if channels % g == 0])
    out = group * b.choice(1, 2)
    weight = b.const(np.ones((out, channels // group, *options["kernel_shape"])), np.float32)
    if b.chance(0.4):
        del options["kernel_shape"]
    bias = [b.const(np.ones(out), np.float32)] if b.chance(0.4) else []
    b.add("Conv", [x, weight, *bias], **options, **({"group": group} if group > 1 else {}))


@kind("ConvTranspose", weight=2)
def conv_transpose(b: Builder) -> None:
    x = image(b)
    dims = b.rank(x) - 2
    options = window(b, dims)
    channels = b.shape(x)[1]
    weight = b.const(np.ones((channels, b.choice(1, 2), *options["kernel_shape"])), np.float32)
    if options.get("strides") and b.chance(0.3):
        options["output_padding"] = [b.random.randrange(s) for s in options["strides"]]
    elif b.chance(0.1):
        options["output_shape"] = [d * 2 for d in b.shape(x)[2:]]
    b.add("ConvTranspose", [x, weight], **options)


@kind("MaxPool", "AveragePool", "LpPool", weight=4)
def pool(b: Builder, name: str) -> None:
    x = image(b)
    dilated = (
        (name == "MaxPool")
        or (name == "AveragePool" and b.opset >= 19)
        or (name == "LpPool" and b.opset >= 18)
    )
    options = window(b, b.rank(x) - 2, dilated)
    if b.chance(0.35) and (name != "LpPool" or b.opset >= 18):
        options["ceil_mode"] = 1
    if name == "AveragePool" and b.chance(0.3):
        options["count_include_pad"] = 1
    outputs = 2 if name == "MaxPool" and b.chance(0.15) else 1
    b.add(name, [x], outputs, **options)


@kind("MaxUnpool", weight=0.6)
def unpool(b: Builder) -> None:
    x = image(b)
    dims = b.rank(x) - 2
    options = {"kernel_shape": [2] * dims, "strides": [2] * dims}
    pooled = b.add("MaxPool", [x], 2, **options)
    indices = b.nodes[-1].output[1]
    wanted = [b.add("Shape", [x])] if b.chance(0.5) else []
    b.add("MaxUnpool", [pooled, indices, *wanted], **options)


@kind("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", weight=1)
def global_pool(b: Builder, name: str) -> None:
    b.add(name, [image(b)])


@kind("BatchNormalization", weight=1)
def batch_norm(b: Builder) -> None:
    x = b.pick((2, 4))
    c = b.shape(x)[1]
    b.add("BatchNormalization", [x, *(b.const(np.ones(c), np.float32) for _ in range(4))])


@kind("InstanceNormalization", weight=0.7)
def instance_norm(b: Builder) -> None:
    x = image(b)
    c = b.shape(x)[1]
    b.add("InstanceNormalization", [x, *(b.const(np.ones(c), np.float32) for _ in range(2))])


@kind("GroupNormalization", weight=0.7)
def group_norm(b: Builder) -> None:
    x = image(b)
    c = b.shape(x)[1]
    groups = b.choice(*[g for g in (1, 2, c) if c % g == 0])
    n = c if b.opset >= 21 else groups
    b.add("GroupNormalization", [x, *(b.const(np.ones(n), np.float32) for _ in range(2))], num_groups=groups)


@kind("LRN", weight=0.4)
def lrn(b: Builder) -> None:
    b.add("LRN", [b.pick((3, 4))], size=3)


@kind("Resize", since=11, weight=3)
def resize(b: Builder) -> None:
    x = b.pick((1, 4), where=lambda a: a.size > 0)
    rank = b.rank(x)
    options: dict[str, Any] = {"mode": b.choice("nearest", "nearest", "linear")}
    options["coordinate_transformation_mode"] = b.choice("asymmetric", "half_pixel", "align_corners")
    axes = list(range(rank))
    if b.opset >= 18 and b.chance(0.4):
        axes = b.random.sample(axes, b.random.randint(1, min(2, rank)))
        options["axes"] = axes
    empty = b.const([], np.float32)
    roi = b.choice("", empty) if b.opset >= 13 else empty
    if b.chance(0.5):
        scales = [b.choice(1, 1, 2, 0.5, 1.5, 3) for _ in axes]
        b.add("Resize", [x, roi, b.const(scales, np.float32)], **options)
        return
    if b.opset >= 18 and b.chance(0.3):
        options["keep_aspect_ratio_policy"] = b.choice("not_larger", "not_smaller", "stretch")
    parts = [
        b.size_at(x, i) if b.chance(0.5) else size(b) if b.chance(0.5) else b.const([b.choice(1, 2, 5)])
        for i in axes
    ]
    sizes = b.add("Concat", parts, axis=0)
    b.add("Resize", [x, roi, "" if b.opset >= 13 else empty, sizes], **options)


@kind("GridSample", weight=0.7)
def grid_sample(b: Builder) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    n = b.shape(x)[0]
    grid = b.const(np.zeros((n, b.choice(1, 2), 3, 2)), np.float32)
    b.add("GridSample", [x, grid])


@kind("AffineGrid", weight=0.5)
def affine_grid(b: Builder) -> None:
    n = b.choice(1, 2)
    parts = [b.const([n]), b.const([b.choice(1, 3)]), size(b), size(b)]
    theta = b.const(np.zeros((n, 2, 3)), np.float32)
    b.add("AffineGrid", [theta, b.add("Concat", parts, axis=0)])


@kind("RoiAlign", weight=0.6)
def roi_align(b: Builder) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    rois, at = b.const(np.zeros((2, 4)), np.float32), b.const([0, 0])
    b.add("RoiAlign", [x, rois, at], output_height=b.choice(1, 2), output_width=2)


@kind("Col2Im", weight=0.5)
def col_to_im(b: Builder) -> None:
    x = b.pick(3, where=lambda a: a.size > 0)
    c, n = b.shape(x)[1:]
    k = b.choice(1, 2)
    if c % k:
        raise Unfit
    b.add("Col2Im", [x, b.const([1, n + k - 1]), b.const([1, k])])


@kind("DFT", since=17, weight=0.7)
def dft(b: Builder) -> None:
    x = b.pick((1, 3), where=lambda a: a.size > 0)
    signal = b.unsqueeze(x, [-1])
    length = [b.add("Squeeze", [size(b)])] if b.chance(0.3) else []
    options = {"onesided": b.choice(0, 1)}
    if b.opset < 20:
        b.add("DFT", [signal, *length], axis=b.random.randrange(b.rank(x)), **options)
    else:
        axis = b.const(b.random.randrange(b.rank(x)))
        b.add("DFT", [signal, *(length or [""]), axis], **options)


@kind("STFT", weight=0.6)
def stft(b: Builder) -> None:
    x = b.pick(2, where=lambda a: a.size > 0)
    signal = b.unsqueeze(x, [-1])
    width = b.choice(2, 4)
    frame = ["", b.const(width)] if b.chance(0.5) else [b.const(np.ones(width), np.float32)]
    b.add("STFT", [signal, b.const(b.choice(1, 2)), *frame], onesided=b.choice(0, 1))
