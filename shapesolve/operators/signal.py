"""Signal processing operators: DFT, STFT, windows."""

from __future__ import annotations

from ..expr import Dim, Shape, any_of, constant, eq, floor_div, ge, le
from ..lines import join_names
from ..lower.axes import Links, links_along, numbers, rank
from ..lower.op import InvalidNode, Op
from ..lower.reads import AXES, between, one_of
from ..lower.registry import lower
from ..lower.standard import one_number, ranked_at_load
from ..lower.types import Known
from ..lower.work import Outputs

_PARTS = {1: "1 (real)", 2: "2 (real and imaginary part)"}


def _last_holds(op: Op, shape: Shape, *parts: int) -> None:
    """Require that the last axis has size 1 (real) or 2 (complex), as `parts` allows."""
    words = join_names([_PARTS[p] for p in parts], last="or")
    allowed = any_of(eq(shape[-1], p) for p in parts)
    op.require(allowed, f"the last size of this signal must be {words}", (0, len(shape) - 1))


def _bins(length: Dim, onesided: bool) -> Dim:
    """Return the number of frequencies for this length; about half as many if `onesided`."""
    return floor_div(length, constant(2)) + 1 if onesided else length


# https://onnx.ai/onnx/operators/onnx__DFT.html
def dft(op: Op, axis: int | None) -> Known:
    """Lower DFT along `axis`, which is None if it is an unknown input.

    A one-sided transform is of a real signal, its inverse of a spectrum. (onnxruntime refuses a complex
    signal when it loads a model that declares it, and does not look again at run time.)
    """
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    if len(shape) < 2:
        raise InvalidNode(f"signal must have rank 2 or more, got {op.name_of(0)} {shape}")
    inverse, onesided = bool(op.int_attr("inverse", 0)), bool(op.int_attr("onesided", 0))
    real = inverse and onesided
    _last_holds(op, shape, *((2,) if real else (1,) if onesided else (1, 2)))
    if axis is None:
        if not op.has(1) and not onesided:  # as long as the signal, whichever axis it is
            return op.out([*shape[:-1], 2])
        return op.out([*op.fresh_dims(len(shape) - 1, "transformed along an unknown axis"), 1 if real else 2])
    axis = op.axis(axis, len(shape))
    if axis == len(shape) - 1:
        raise InvalidNode("cannot transform the last axis: it holds the real and imaginary parts")
    size = shape[axis]
    if op.has(1):
        length = op.scalar(1)
        if length is None:
            length = op.fresh("length of a transform")
        op.require(ge(length, 1), "the length of a transform must be positive", (1, None))
    elif real:
        op.require(ge(size, 1), "a one-sided spectrum has at least one frequency", (0, axis))
        length = 2 * size - 2
    else:
        length = size
    out = list(shape)
    out[axis], out[-1] = length if real else _bins(length, onesided), constant(1 if real else 2)
    nothing = eq(Shape(out).numel, 0)
    op.require(any_of((ge(size, 1), nothing)), "an empty signal has no spectrum", (0, axis))
    return op.out(out)


def _dft_axes(op: Op, _: Outputs) -> Links:
    axis = numbers(op, 2)[0] if op.has(2) else op.int_attr("axis", 1 if op.version < 20 else -2)
    return links_along(op, [axis % rank(op), rank(op) - 1])


lower("DFT", reads={1: between(1, 16, "a length")}, data=(1,), axes=_dft_axes)(
    lambda op: dft(op, op.int_attr("axis", 1))
)


@lower("DFT", since=20, reads={1: between(1, 16, "a length"), 2: AXES}, data=(1, 2), axes=_dft_axes)
def dft_axis_input(op: Op) -> Known:
    for i in (1, 2):
        one_number(op, i)
    axes = op.const_ints(2) if op.has(2) else (-2,)
    return dft(op, axes[0] if axes is not None and len(axes) == 1 else None)


# https://onnx.ai/onnx/operators/onnx__STFT.html
@lower(
    "STFT",
    reads={1: between(1, 4, "a step"), 3: between(1, 8, "a length")},
    data=(1, 3),
    axes="N t *p, #, w, # -> N F B c",
)
def stft(op: Op) -> Known:
    """Lower STFT: ``[batch, frames, frequencies, 2]``, with complete frames."""
    signal = op.shape(0)
    one_number(op, 3)
    if signal is None:
        signal = op.fresh_dims(3, f"dim of {op.name_of(0)}")
    if not 2 <= len(signal) <= 3:
        raise InvalidNode(f"signal must have shape [batch, length, 1 or 2], got {op.name_of(0)} {signal}")
    if len(signal) == 3:
        _last_holds(op, signal, 1, 2)
    length, frame = signal[1], _frame_length(op, signal[1])
    step = op.scalar(1)
    op.require(ge(frame, 1), "a frame must not be empty", (3 if op.has(3) else 2, None))
    op.require(le(frame, length), "a frame must not be longer than the signal", (0, 1))
    if step is None:
        frames = op.fresh("frames", lo=1, hi=length - frame + 1)
    else:
        op.require(ge(step, 1), "the step between frames must be positive", (1, None))
        frames = floor_div(length - frame, step) + 1
    return op.out([signal[0], frames, _bins(frame, bool(op.int_attr("onesided", 1))), 2])


def _frame_length(op: Op, length: Dim) -> Dim:
    """Return the frame length from the inputs frame_length and window, or the signal's length without both."""
    given = ranked_at_load(op, 2, 1) if op.has(2) else None
    window = None if given is None else given.numel
    if op.has(3):
        frame = op.scalar(3)
        if frame is None:
            return window if window is not None else op.fresh("frame length")
        if window is not None:
            op.same(window, frame, "the window must be as long as a frame", (2, 0), (3, None))
        return frame
    return window if window is not None else length


# https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
@lower(
    "MelWeightMatrix",
    reads={
        0: between(1, 8, "a count of bands"),
        1: between(16, 64, "a length"),
        2: between(22_050, 48_000, "a rate"),
        3: one_of((0.0, 20.0), "a frequency"),
        4: one_of((2_000.0, 3_000.0), "a frequency"),
    },
    data=(0, 1),
    axes="#, #, #, #, # -> *S",
)
def mel_weight_matrix(op: Op) -> Known:
    """Lower MelWeightMatrix: ``[dft_length // 2 + 1, num_mel_bins]``."""
    for i in range(5):
        one_number(op, i)
    mel, length = op.scalar(0), op.scalar(1)
    if mel is not None:
        op.require(ge(mel, 0), "the number of mel bins must not be negative", (0, None))
    else:
        mel = op.fresh("mel bins")
    rows = op.fresh("frequencies") if length is None else _bins(length, onesided=True)
    return op.out([rows, mel], op.int_attr("output_datatype", 1))
