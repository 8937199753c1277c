"""Recurrent layers (RNN, GRU, LSTM)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ..expr import Dim, IntoDim, any_of, as_dim, constant, eq, exact_quotient, floor_div, ge, le, minimum
from ..lower.axes import Links, by_letters
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reads import LENGTHS
from ..lower.reason import detailed
from ..lower.records import Place
from ..lower.registry import lower
from ..lower.types import Known
from ..lower.work import Operations, Outputs, Work

#: as onnxruntime's kernels write them
_ACTIVATIONS = frozenset((
    "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "ScaledTanh", "Elu", "Softsign",
    "Softplus",
))  # fmt: skip
_DIRECTIONS = {"forward": 1, "foward": 1, "reverse": 1, "bidirectional": 2}  # GRU-1's default is misspelt


# https://onnx.ai/onnx/operators/onnx__LSTM.html
# https://onnx.ai/onnx/operators/onnx__GRU.html
# https://onnx.ai/onnx/operators/onnx__RNN.html
def recurrent(op: Op, gates: int, not_empty: str = "", activations: int = 0) -> list[Known]:
    """Outputs of a recurrent layer with `gates` gates. `not_empty` are the sizes that onnxruntime needs to be >= 1.

    A cell has so many `activations`.

    With ``layout=1`` the batch comes first in X, in the states and in the outputs.
    """
    direction = op.text_attr("direction", "forward")
    if direction not in _DIRECTIONS:
        raise InvalidNode(f"direction must be 'forward', 'reverse', or 'bidirectional', got {direction!r}")
    directions = constant(_DIRECTIONS[direction])
    if op.as_onnxruntime("recurrent-attributes"):
        _check_attributes(op, activations, _DIRECTIONS[direction])
    batch_first = op.int_attr("layout", 0)
    x = op.sized(0, 3)
    batch, length = (x[0], x[1]) if batch_first else (x[1], x[0])
    hidden = _hidden_size(op, gates)
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    for name, size in (("S", length), ("B", batch), ("I", x[2])):
        if name in not_empty:
            op.require(ge(size, 1), "onnxruntime cannot run this layer on an empty input", (0, None))
    rows = 0 if batch_first else 1
    per_row: dict[int, Place] = {rows: (0, rows)}
    count, width = "the number of directions", "the hidden size"
    of_state = ("the batch", count, width) if batch_first else (count, "the batch", width)
    _needs(
        op,
        1,
        "W",
        (directions, gates * hidden, x[2]),
        (count, f"{gates} * {width}", "the input size"),
        {2: (0, 2)},
    )
    _needs(op, 2, "R", (directions, gates * hidden, hidden), (count, f"{gates} * {width}", width))
    _needs(op, 3, "B", (directions, 2 * gates * hidden), (count, f"{2 * gates} * {width}"))
    _needs(op, 4, "sequence_lens", (batch,), ("the batch",), {0: (0, rows)})
    _needs(op, 5, "initial_h", state, of_state, per_row)
    _needs(op, 6, "initial_c", state, of_state, per_row)
    _needs(op, 7, "P", (directions, 3 * hidden), (count, f"3 * {width}"))
    lengths = op.value(4)
    if lengths is not None and lengths.reached:
        (lo, hi), nobody = lengths.bounds, eq(batch, 0)
        if lo is not None:
            op.require(any_of((ge(lo, 0), nobody)), "sequence_lens must not be negative", (4, None))
        if hi is not None:
            fits, places = any_of((le(hi, length), nobody)), ((4, None), (0, 1 - batch_first))
            op.require(fits, "sequence_lens must not exceed the sequence", *places)
    y = (batch, length, directions, hidden) if batch_first else (length, directions, batch, hidden)
    return [op.out(y), *(op.out(state) for _ in range(1, op.n_out))]


def _check_attributes(op: Op, activations: int, directions: int) -> None:
    """Raise `InvalidNode` for attributes that onnxruntime's kernel rejects at load time."""
    simple = activations == 1  # RNN's kernel reads no clip, and its names as they are written
    clip, named = op.attr("clip"), op.attr("activations")
    if isinstance(clip, (int, float)) and clip <= 0 and not simple:
        raise MalformedNode(f"{op.node.op_type} requires clip > 0, got {clip}")
    if not isinstance(named, tuple) or not named:
        return
    known = _ACTIVATIONS if simple else {name.lower() for name in _ACTIVATIONS}
    for name in map(str, named):
        if (name if simple else name.lower()) not in known:
            raise MalformedNode(f"{op.node.op_type} has no activation {name!r}")
    if len(named) != activations * directions and not (simple and len(named) == 2):
        raise MalformedNode(
            f"{op.node.op_type} needs {activations * directions} activations, got {len(named)}"
        )


def _hidden_size(op: Op, gates: int) -> Dim:
    """Return the hidden size: the attribute, or by the weights ``[directions, gates*hidden, hidden]``."""
    size = op.int_attr("hidden_size", 0)
    if size:
        return constant(size)
    r, w = op.shape(2), op.shape(1)
    if r is not None and len(r) == 3:
        return r[2]
    if w is not None and len(w) == 3:
        exact = exact_quotient(w[1], constant(gates))
        return exact if exact is not None else floor_div(w[1], constant(gates))
    return op.fresh("hidden size")


def _needs(
    op: Op,
    i: int,
    what: str,
    dims: Iterable[IntoDim],
    meanings: Sequence[str],
    of: Mapping[int, Place] | None = None,
) -> None:
    """Require that input `i`, if connected, has these dims. `of`: by axis, the place of another input that has the size."""
    if not op.has(i):
        return
    needs = [*map(as_dim, dims)]
    for k, (d, need) in enumerate(zip(op.shape(i, len(needs)) or (), needs, strict=False)):
        place: Place = (i, k)
        why = f"axis {k} of {what} must be {meanings[k]}"
        rule = why if need.terms else detailed(why, f"{why}, {need}")
        op.same(d, need, rule, *([of[k]] if of and k in of else []), place)


def recurrent_work(op: Op, outputs: Outputs, gates: int, cell: int) -> Operations | None:
    """Operations of a recurrent layer: the products with both weights at each step, and the cells. Per cell: an activation
    and two sums per gate, one sum more for a bias, and `cell` operations to join them. All sequences count as full.
    """
    x, w, r = op.shape(0), op.shape(1), op.shape(2)
    if x is None or w is None or r is None or not len(x) == len(w) == len(r) == 3:
        return None
    rows = x[0] * x[1]
    cells = (
        rows * r[0] * minimum(r[1], r[2])
    )  # the sizes of the recurrence are hidden and gates * hidden, in some order
    return Operations(rows * (w.numel + r.numel), cells.scale(gates * (2 + op.has(3)) + cell))


def recurrent_axes(op: Op, outputs: Outputs) -> Links:
    letters = "t B i, d g i, d g h, d b, B, d B h, d B h, d p -> T d B H, d B H, d B H"
    if op.attr("layout", 0):
        letters = "B t i, d g i, d g h, d b, B, B d h, B d h, d p -> B T d H, B d H, B d H"
    return by_letters(letters, op, outputs)


# onnxruntime's kernels abort on these empty inputs
for name, gates, cell, not_empty, activations in (
    ("LSTM", 4, 5, "B", 3),
    ("GRU", 3, 5, "SBI", 2),
    ("RNN", 1, 0, "", 1),
):
    lower(
        name,
        reads={4: LENGTHS},
        elements=(4,),
        fault="has weights of mismatched sizes",
        work=Work(partial(recurrent_work, gates=gates, cell=cell)),
        axes=recurrent_axes,
    )(partial(recurrent, gates=gates, not_empty=not_empty, activations=activations))
