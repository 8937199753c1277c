"""Scan: its body is lowered once, for all iterations."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from onnx import TensorProto

from ..expr import FALSE, TRUE, ZERO, Dim, any_of, eq, ge, lt
from ..lower.join import change_sizes
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.records import Place, Steps
from ..lower.registry import lower_bodies
from ..lower.types import Known, Tensor
from ..lower.values import Value
from ..model import TensorType
from .control import Trips, lower_inside, require_room, rows_of, visible_symbols


# https://onnx.ai/onnx/operators/onnx__Scan.html
@lower_bodies("Scan", bodies="trips", since=9)
def scan(op: Op) -> Steps:
    n_scans = _scanned(op, len(op.node.inputs))
    n = len(op.node.inputs) - n_scans
    axes = op.ints_attr("scan_input_axes") or (0,) * n_scans
    return (yield from _scan(op, n, [op.known(i) for i in range(n)], list(range(n, n + n_scans)), axes))


def _scan(
    op: Op, n: int, first: list[Known | None], scans: list[int], axes: Seq[int], before: Seq[Dim] = ()
) -> Steps:
    """Lower a Scan with `n` states over the inputs `scans`; `before` is version 8's batch axis."""
    body = op.graph_attr("body")
    if len(axes) != len(scans):
        raise InvalidNode(f"expected {len(scans)} scan_input_axes, got {len(axes)}")
    if len(body.inputs) != n + len(scans) or op.n_out < n or len(body.outputs) != op.n_out:
        raise MalformedNode(
            f"the body takes {len(body.inputs)} inputs and gives {len(body.outputs)} outputs: unfit for"
            f" {n} states, {len(scans)} scanned inputs and {op.n_out} outputs"
        )
    _check_directions(op, len(scans), len(body.outputs) - n)
    length, slices = _slices(op, scans, axes, len(before))
    op.require(ge(length, 1), "expected at least one element to scan", (scans[0], None))
    trips = Trips(length, True, ge(length, 1))
    trips.record(op)
    # states keep their shape between iterations, but their data changes
    states = [change_sizes(op, known, lambda d: d) for known in first]
    _check_declared(op, [*states, *slices])
    outs = yield from lower_inside(op, "body", [*states, *slices], trips.ran)
    require_room(op, "body", outs, TRUE)
    visible = visible_symbols(op)
    after = [_state(op, a, b, length, visible) for a, b in zip(states, outs[:n], strict=True)]
    out_axes = op.ints_attr("scan_output_axes") or (0,) * (len(outs) - n)
    rows = [rows_of(op, out, ZERO, trips, axis) for out, axis in zip(outs[n:], out_axes, strict=False)]
    if before:
        return [_batched(op, before, known) for known in (*after, *rows)]
    return [*after, *rows]


def _check_declared(op: Op, given: Seq[Known | None]) -> None:
    """Raise `MalformedNode` if an input contradicts the body's declared shape, as onnxruntime does."""
    for (name, declared), known in zip(op.graph_attr("body").inputs, given, strict=False):
        dims = declared.dims if isinstance(declared, TensorType) else None
        shape = known.shape if isinstance(known, Tensor) else None
        if dims is None or shape is None or not op.as_onnxruntime("declared-bodies"):
            continue
        pairs = zip(dims, shape, strict=False)
        if len(dims) != len(shape) or any(isinstance(d, int) and eq(d, e).is_false for d, e in pairs):
            raise MalformedNode(f"the input {name} of its body must be {list(dims)}, got {shape}")


def _scanned(op: Op, n_inputs: int) -> int:
    n = op.int_attr("num_scan_inputs", 0)
    if not 1 <= n <= n_inputs:
        raise InvalidNode(f"num_scan_inputs must be between 1 and {n_inputs}, got {n}")
    return n


def _check_directions(op: Op, n_scans: int, n_rows: int) -> None:
    """Raise `MalformedNode` unless lists of directions and axes have the right length."""
    for name, n in (("scan_input_directions", n_scans), ("scan_output_directions", n_rows)):
        given = op.ints_attr(name)
        if given and (len(given) != n or not {0, 1}.issuperset(given)):
            raise MalformedNode(f"{name} must have {n} elements, each 0 or 1, got {list(given)}")
    axes = op.ints_attr("scan_output_axes")
    if axes and len(axes) != n_rows:
        raise MalformedNode(f"scan_output_axes must have {n_rows} elements, got {list(axes)}")


def _slices(op: Op, scans: list[int], axes: Seq[int], skip: int) -> tuple[Dim, list[Known | None]]:
    """Return the length of the scanned inputs, required to be one, and a slice of each as the body reads it."""
    length: Dim | None = None
    at: Place = (scans[0], None)
    slices: list[Known | None] = []
    for i, axis in zip(scans, axes, strict=True):
        shape = op.shape(i)
        rest = None
        if shape is not None:
            k = op.axis(axis, len(shape) - skip, "scan_input_axes") + skip
            same = "all scanned inputs must have the same length"
            length = shape[k] if length is None else op.same(length, shape[k], same, at, (i, k))
            at = (i, k)
            rest = shape[skip:k] + shape[k + 1 :]
        value = op.value(i)
        bounds = (
            Value.between(*value.bounds) if value is not None and op.dtype(i) != TensorProto.BOOL else None
        )
        slices.append(op.walk.interner.tensor(op.dtype(i), rest, bounds))
    return op.fresh("the length of a scan", 1) if length is None else length, slices


def _state(
    op: Op, start: Known | None, out: Known | None, length: Dim, visible: frozenset[str]
) -> Known | None:
    """Return a state after the last iteration.

    Its shape must not change. onnxruntime allocates the initial shape or, if the body's sizes are all numbers, the
    body's shape,
    which a single iteration may then return.
    """
    if not isinstance(out, Tensor) or out.shape is None:
        return op.out(None, out.dtype) if isinstance(out, Tensor) else None
    begin = start.shape if isinstance(start, Tensor) else None
    if begin is None or len(begin) != len(out.shape):
        return op.out(
            [d if d.free <= visible else op.fresh("a size of a state") for d in out.shape], out.dtype
        )
    dims = []
    once = FALSE if out.shape.free_symbols() else lt(length, 2)
    for a, b in zip(begin, out.shape, strict=True):
        if a is not b:
            op.require(any_of((once, eq(a, b))), "state must keep its shape between iterations")
        dims.append(b if b.free <= visible else op.fresh("a size of a state"))
    return op.out(dims, out.dtype)


# https://github.com/onnx/onnx/blob/main/docs/Changelog.md#Scan-8
@lower_bodies("Scan", bodies="trips", until=9)
def scan_batches(op: Op) -> Steps:
    n_scans = _scanned(op, len(op.node.inputs) - 1)
    n = len(op.node.inputs) - 1 - n_scans
    batch: Dim | None = None
    for i in range(1, len(op.node.inputs)):
        shape = op.shape(i)
        if shape is not None:
            if len(shape) < (1 if i <= n else 2):
                raise InvalidNode(f"{op.name_of(i)} {shape} has no axes for the batch and the sequence")
            batch = shape[0] if batch is None else op.same(batch, shape[0], "expected the same batch", (i, 0))
    if op.has(0):
        lens = op.shape(0, 1)
        if lens is not None and batch is not None:
            batch = op.same(batch, lens[0], "expected one length per batch item", (0, 0))
    first: list[Known | None] = []
    for i in range(1, n + 1):
        shape = op.shape(i)
        first.append(op.walk.interner.tensor(op.dtype(i), None if shape is None else shape[1:]))
    before = (op.fresh("the batch of a scan") if batch is None else batch,)
    return (yield from _scan(op, n, first, list(range(n + 1, n + 1 + n_scans)), (0,) * n_scans, before))


def _batched(op: Op, before: Seq[Dim], known: Known | None) -> Known | None:
    if not isinstance(known, Tensor):
        return known
    return op.out(None if known.shape is None else (*before, *known.shape), known.dtype)
