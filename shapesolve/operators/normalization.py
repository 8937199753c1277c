"""Normalization operators: the output has the input's shape."""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from ..expr import ONE, Shape, any_of, constant, divides, eq, ge
from ..lower.axes import Links, along_axis, by_letters, links_along, rank
from ..lower.needed import one_type, vector
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reason import EMPTY_GROUPS
from ..lower.records import Place
from ..lower.registry import lower, signature
from ..lower.signature import Signature
from ..lower.types import Known
from ..lower.work import Operations, Outputs, Work, each, per
from ..model.types import type_name


def _lrn_work(op: Op, outputs: Outputs) -> Operations | None:
    return per(outputs[0], op.int_attr("size", None) + 5)


def _batch_norm_work(op: Op, outputs: Outputs) -> Operations | None:
    """Work of a BatchNormalization in inference mode: a product and a sum per element. Training is not counted."""
    return per(outputs[0], 2) if op.n_out == 1 and not op.int_attr("training_mode", 0) else None


def _batch_norm_axes(op: Op, outputs: Outputs) -> Links:
    trains = op.attr("training_mode", 0) or sum(map(bool, op.node.outputs)) > 1
    return (
        links_along(op, range(rank(op)))
        if trains
        else by_letters("N C *S, C, C, C, C -> N C *S", op, outputs)
    )


# https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html
signature(
    "InstanceNormalization",
    "N C L *S, C, C -> N C L *S",
    fault="has parameters for another number of channels",
    work=each(7),
    axes="N C *S, ?, ? -> N ^C ^*S",
)
# https://onnx.ai/onnx/operators/onnx__LRN.html
_ODD = ("n >= 1", "n % 2 == 1")
_LRN_ANY = Signature("N C *S -> N C *S", _ODD, {"n": "size"})
_LRN_IMAGE = Signature("N C H W -> N C H W", _ODD, {"n": "size"})


@lower("LRN", ranks="first", work=Work(_lrn_work), axes="N c *S -> N C *S")
def lrn(op: Op) -> list[Known | None]:
    return (_LRN_IMAGE if op.as_onnxruntime("lrn-rank") else _LRN_ANY)(op)


# https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
@lower(
    "MeanVarianceNormalization",
    ranks="first",
    runtime=("early",),
    work=each(5),
    axes=lambda op, _: links_along(op, op.attr("axes", (0, 2, 3))),
)
def mean_variance_normalization(op: Op) -> Known:
    half = op.version >= 12 and op.version != 13  # the constants of Pow-7 and of Add-13 in its body are float
    takes = (0, TensorProto.FLOAT, TensorProto.FLOAT16) if half else (0, TensorProto.FLOAT)
    if op.dtype(0) not in takes and op.as_onnxruntime("body-types"):
        raise InvalidNode(f"input {op.name_of(0)} must have element type float, got {type_name(op.dtype(0))}")
    return op.like()


# https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
def batch_normalization(op: Op, always_spatial: bool) -> list[Known]:
    """Lower BatchNormalization: the output and, in training mode, statistics.

    They are per channel; an input of rank 1 has one channel. Before version 9 they could be per feature.
    """
    x, statistics = op.shape(0), None
    if x is not None and (always_spatial or op.int_attr("spatial", 1)):
        statistics = x[1:2] if len(x) > 1 else Shape([ONE])
    elif x is not None:
        statistics = x[1:]
    if x is not None and not x:
        raise InvalidNode(f"input {op.name_of(0)} needs at least one axis")
    if op.version >= 14 and op.n_out != (3 if op.int_attr("training_mode", 0) else 1):
        raise MalformedNode(
            f"BatchNormalization must have 3 outputs in training mode, 1 otherwise, got {op.n_out}"
        )
    why = "scale, bias, mean, and variance must have one element per channel"
    if statistics is None:
        statistics = op.same_shapes(range(1, 5), why)
    else:
        rank = len(statistics)
        for i in range(1, 5):
            given = op.shape(i, rank)
            for k, d in enumerate(given or ()):
                op.same(statistics[k], d, why, (0, k + 1 if x is not None and len(x) > 1 else None), (i, k))
    return [op.out(x), *(op.out(statistics) for _ in range(1, op.n_out))]


lower(
    "BatchNormalization",
    ranks="first",
    fault="has parameters for another number of channels",
    work=Work(_batch_norm_work, "over"),
    axes=_batch_norm_axes,
)(partial(batch_normalization, always_spatial=False))
lower(
    "BatchNormalization",
    since=9,
    ranks="first",
    fault="has parameters for another number of channels",
    work=Work(_batch_norm_work, "over"),
    axes=_batch_norm_axes,
)(partial(batch_normalization, always_spatial=True))


# https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
def group_normalization(op: Op, per_channel: bool) -> Known:
    """Lower GroupNormalization, whose scale and bias are per channel, or (before version 21) per group.

    onnxruntime runs the standard's function body: its reshape fails on an empty tensor, and it broadcasts
    a scale or bias of size 1.
    """
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    if len(shape) < 2:
        raise InvalidNode(f"input {op.name_of(0)} must have rank 2 or more, got {shape}")
    groups = op.int_attr("num_groups", 0)
    if groups < 1:
        raise InvalidNode(f"num_groups must be at least 1, got {groups}")
    op.require(divides(groups, shape[1]), f"the channels must split into {groups} groups", (0, 1))
    for k, d in enumerate(shape):
        op.require(ge(d, 1), EMPTY_GROUPS, (0, k))
    size = shape[1] if per_channel else constant(groups)
    for i in (1, 2):
        given = vector(op, i)
        if given is not None:
            why = f"scale and bias must have one element per {'channel' if per_channel else 'group'}"
            op.require(any_of((eq(given, size), eq(given, 1))), why, (i, None), (0, 1))
    return op.out(shape)


_group = partial(
    lower,
    "GroupNormalization",
    ranks="first",
    fault="has parameters of the wrong size for its input",
    runtime=("no kernel", "kept"),
    work=each(7),
    axes="N C *S, ?, ? -> N ^C ^*S",
)
_group()(partial(group_normalization, per_channel=False))
_group(since=21)(partial(group_normalization, per_channel=True))


def broadcasts_to(op: Op, i: int, target: Shape, why: str) -> None:
    """Require that input `i` broadcasts to `target`, the shape of input 0."""
    given = op.shape(i)
    if given is None:
        return
    shift = len(target) - len(given)
    if shift < 0:
        raise InvalidNode(f"{why}: {op.name_of(i)} {given} has more axes than {op.name_of(0)} {target}")
    for k, d in enumerate(given):
        places: tuple[Place, ...] = ((i, k), (0, shift + k))
        op.require(any_of((eq(d, target[shift + k]), eq(d, 1))), why, *places)


def _scaled(op: Op) -> tuple[Shape | None, int]:
    """Shape and first normalized axis; requires that scale and bias broadcast to the input."""
    shape = op.shape(0)
    if shape is None:
        return None, 0
    axis = op.axis(op.int_attr("axis", -1), len(shape))
    for k in range(axis, len(shape)):
        op.require(ge(shape[k], 1), "the normalized axes must not be empty", (0, k))
    for i in range(1, op.n_in):
        broadcasts_to(op, i, shape, "scale and bias must broadcast to the input")
    return shape, axis


# https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
@lower(
    "LayerNormalization",
    ranks="first",
    fault="has parameters of the wrong size for its input",
    runtime=("early", "any attribute"),
    work=each(5, 1, 2),
    axes=along_axis(-1, rest=True),
)
def layer_normalization(op: Op) -> list[Known]:
    shape, axis = _scaled(op)
    statistics = None if shape is None else Shape([*shape[:axis], *(ONE,) * (len(shape) - axis)])
    stash = op.int_attr("stash_type", 1)
    return [op.out(shape), op.out(statistics, stash), op.out(statistics, stash)]


# https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
@lower(
    "RMSNormalization",
    ranks="first",
    fault="has parameters of the wrong size for its input",
    work=each(3, 1),
    axes=along_axis(-1, rest=True),
)
def rms_normalization(op: Op) -> Known:
    if op.as_onnxruntime("body-types"):
        one_type(op, 0, 1)
    return op.out(_scaled(op)[0])


# https://onnx.ai/onnx/operators/onnx__LpNormalization.html
@lower("LpNormalization", choices={"p": (1, 2)}, ranks="first", work=each(3), axes=along_axis(-1))
def lp_normalization(op: Op) -> Known:
    shape = op.shape(0)
    if shape is not None:
        op.axis(op.int_attr("axis", -1), len(shape))
    return op.out(shape)
