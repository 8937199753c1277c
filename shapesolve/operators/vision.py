"""Operators on images, regions and boxes: RoiAlign, GridSample and the like."""

from __future__ import annotations

from ..expr import (
    ONE,
    ZERO,
    Dim,
    Shape,
    all_of,
    any_of,
    constant,
    divides,
    eq,
    floor_div,
    ge,
    maximum,
    minimum,
    product,
)
from ..lower.axes import TOGETHER, mixes
from ..lower.op import InvalidNode, Op
from ..lower.reads import GRID, between, one_of, rows
from ..lower.registry import lower
from ..lower.signature import Signature
from ..lower.types import Known
from ..lower.work import Operations, Outputs, Work, reads

# ---------------------------------------------------------------------- sampling


def _grid_sample(op: Op, rank: int | None) -> Known:
    image, grid = op.shape(0, rank), op.shape(1, rank)
    if rank is None and image is None and grid is not None:
        image = op.shape(0, len(grid))
    elif rank is None and grid is None and image is not None:
        grid = op.shape(1, len(image))
    if image is None or grid is None:
        return op.out(None)
    if len(image) != len(grid) or len(image) < 3:
        raise InvalidNode(f"the grid {grid} must have the rank of the image {image}, 3 or more")
    cubic = op.text_attr("mode", "linear").endswith("cubic")
    if cubic and len(image) != 4 and op.as_onnxruntime("gridsample-cubic-volumes"):
        raise InvalidNode(f"cubic interpolation requires images (rank 4), got {image}")
    n = len(image)
    op.require(eq(image[0], grid[0]), "the grid must have the batch of the image", (0, 0), (1, 0))
    op.require(eq(grid[-1], n - 2), "grid must have one coordinate per spatial axis", (1, n - 1))
    for i in range(2, n):
        op.require(ge(image[i], 1), "an empty image cannot be sampled", (0, i))
    return op.out([*image[:2], *grid[1:-1]])


def _grid_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of a GridSample: one MAC per element read for each output point."""
    mode, out = op.text_attr("mode", "linear"), outputs[0]
    reads = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode)
    if reads is None or out is None:
        return None
    return Operations(out.numel.scale(reads ** (len(out) - 2))) if reads else Operations()


# https://onnx.ai/onnx/operators/onnx__GridSample.html
_PADDINGS = ("zeros", "border", "reflection")


@lower(
    "GridSample",
    since=16,
    choices={"mode": ("bilinear", "nearest", "bicubic"), "padding_mode": _PADDINGS},
    work=Work(_grid_work),
    axes="N C *s, N *Q d -> N C *Q",
)
def grid_sample_16(op: Op) -> Known:
    return _grid_sample(op, None if op.as_onnxruntime("gridsample-volumes") else 4)


@lower(
    "GridSample",
    since=20,
    choices={"mode": ("linear", "nearest", "cubic"), "padding_mode": _PADDINGS},
    work=Work(_grid_work),
    axes="N C *s, N *Q d -> N C *Q",
)
def grid_sample(op: Op) -> Known:
    return _grid_sample(op, None)


# https://onnx.ai/onnx/operators/onnx__AffineGrid.html
@lower("AffineGrid", reads={1: GRID}, data=(1,), vectors=(1,), axes="N i j, # -> N *S")
def affine_grid(op: Op) -> Known:
    theta, size = op.shape(0, 3), op.ints(1)
    if size is None:
        return op.out(None)
    n = len(size) - 2
    if n not in (2, 3):
        raise InvalidNode(f"size must have 4 or 5 elements, got {len(size)}")
    if theta is not None:
        op.require(eq(theta[0], size[0]), "theta must have the batch that size gives", (0, 0), (1, 0))
        op.require(eq(theta[1], n), f"theta must have {n} rows", (0, 1))
        op.require(eq(theta[2], n + 1), f"theta must have {n + 1} columns", (0, 2))
    for d in size[2:]:
        op.require(ge(d, 1), "a grid must not be empty", (1, 0))
    return op.out([theta[0] if theta is not None else size[0], *size[2:], constant(n)])


# https://onnx.ai/onnx/operators/onnx__Col2Im.html
@lower(
    "Col2Im",
    reads={1: between(1, 16, "sizes of the image"), 2: between(1, 4, "sizes of a block")},
    data=(1, 2),
    vectors=(1, 2),
    work=reads(),
    axes="N c l, #, # -> N *S",
)
def col2im(op: Op) -> Known:
    columns, image, block = op.shape(0, 3), op.ints(1), op.ints(2)
    if columns is None or image is None:
        return op.out(None)
    n = len(image)
    if block is None:
        return op.out([columns[0], op.fresh("channels of the image"), *image])
    strides, dilations = op.ints_attr("strides") or (1,) * n, op.ints_attr("dilations") or (1,) * n
    pads = op.ints_attr("pads") or (0,) * (2 * n)
    if not len(block) == len(strides) == len(dilations) == len(pads) // 2 == n or min(strides) < 1:
        raise InvalidNode(f"block_shape, strides, dilations and pads must be given for {n} spatial axes")
    places: list[Dim] = []
    for size in block:
        op.require(ge(size, 1), "a block must not be empty", (2, 0))
    for i, size in enumerate(image):
        room = size + (pads[i] + pads[i + n]) - ((block[i] - 1) * dilations[i] + 1)
        op.require(all_of((ge(size, 1), ge(room, 0))), "block must not exceed padded image", (1, 0), (2, 0))
        places.append(floor_div(room, constant(strides[i])) + 1)
    op.require(eq(columns[2], product(places)), "expected one column per position of the block", (0, 2))
    taps = product(block)
    rule = "the rows must be a positive multiple of the elements of a block"
    op.require(all_of((divides(taps, columns[1]), ge(columns[1], 1))), rule, (0, 1))
    channels = columns[1] // taps if taps.value != 0 else op.fresh("channels of the image")
    return op.out([columns[0], channels, *image])


# ---------------------------------------------------------------------- regions


# https://onnx.ai/onnx/operators/onnx__RoiAlign.html
_REGIONS = Signature(
    "_ C _ _, number_of_regions 4, number_of_regions -> number_of_regions C h w",
    (),
    {"h": "output_height=1", "w": "output_width=1"},
)


@lower("RoiAlign", choices={"mode": ("avg", "max")}, reads={2: rows(0)}, axes="n C h w, R four, R -> R C H W")
def roi_align(op: Op) -> list[Known | None]:
    _in_an_image(op)
    return _REGIONS(op)


def _in_an_image(op: Op) -> None:
    image, regions = op.shape(0), op.shape(1)
    if image and regions:
        lies = any_of((ge(image[0], 1), eq(regions[0], 0)))
        op.require(lies, "a region lies in one of the images, so there is one", (0, 0), (1, 0))


# https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
@lower("MaxRoiPool")
def max_roi_pool(op: Op) -> Known:
    image, regions, pooled = op.shape(0, 4), op.shape(1, 2), op.ints_attr("pooled_shape")
    if pooled is None or len(pooled) != 2 or min(pooled) < 1:
        raise InvalidNode("MaxRoiPool needs the attribute pooled_shape with two positive sizes")
    if regions is not None:
        op.require(eq(regions[1], 5), "a region is given by its image and four coordinates", (1, 1))
    if image is None or regions is None:
        return op.out(None)
    _in_an_image(op)
    return op.out([regions[0], image[1], *map(constant, pooled)])


# https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
@lower(
    "NonMaxSuppression",
    reads={
        2: between(0, 8, "a count of boxes"),
        3: one_of((0.25, 0.5, 0.75), "a threshold"),
        4: one_of((0.0, 0.5), "a threshold"),
    },
    data=(2,),
    axes=mixes(TOGETHER),
)
def non_max_suppression(op: Op) -> Known:
    """Lower NonMaxSuppression: one row per kept box, at most a given number per batch and class."""
    boxes, scores = op.shape(0, 3), op.shape(1, 3)
    if boxes is not None and scores is not None:
        op.require(eq(boxes[0], scores[0]), "boxes and scores must have the same batch", (0, 0), (1, 0))
        op.require(eq(boxes[1], scores[2]), "expected one score per box", (0, 1), (1, 2))
    if boxes is not None:
        op.require(eq(boxes[2], 4), "a box is given by four numbers", (0, 2))
    most: Dim | None = ZERO
    if op.has(2):
        known = op.const_ints(2)
        value = op.value(2)
        most = (
            value.bounds[1] if value is not None and known is None else constant(known[0]) if known else None
        )
    if most is not None and most.hi is not None and most.hi <= 0:
        return op.out([ZERO, constant(3)])
    hi: Dim | None = None
    if scores is not None:
        per_class = scores[2] if most is None else minimum(scores[2], maximum(most, 0))
        hi = scores[0] * scores[1] * per_class
    return op.out([op.fresh("the number of boxes that NonMaxSuppression keeps", hi=hi), constant(3)])


# https://onnx.ai/onnx/operators/onnx__ImageDecoder.html
@lower("ImageDecoder", runtime=("no kernel",))
def image_decoder(op: Op) -> Known:
    op.shape(0, 1)
    channels = ONE if op.text_attr("pixel_format", "RGB") == "Grayscale" else constant(3)
    return op.out(Shape((op.fresh("height of the image"), op.fresh("width of the image"), channels)))
