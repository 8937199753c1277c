"""Over the caps of what is followed one by one, ranks and bounds stay: held against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve

from ..building import session

ort = pytest.importorskip("onnxruntime")
node = helper.make_node


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes), "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(c), n) for n, c in (constants or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _run(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...] | None:
    try:
        feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        return tuple(np.shape(session(model).run(["y"], feeds)[0]))
    except Exception:
        return None


def _sizes(n: int, then: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """The sizes of `n` vectors in a row, and nodes that make y of it."""
    shapes = [node("Shape", [f"x{k}"], [f"s{k}"]) for k in range(n)]
    row = node("Concat", [f"s{k}" for k in range(n)], ["all"], axis=0)
    return _model([*shapes, row, *then], {f"x{k}": [f"A{k}"] for k in range(n)})


def _join(n: int) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(n)]
    return _model([node("Concat", names, ["y"], axis=0)], {name: [f"A{name}", 3] for name in names})


MANY = {
    "sizes in a row": _sizes(1100, [node("Identity", ["all"], ["y"])]),
    "sizes as a float": _sizes(1025, [node("Cast", ["all"], ["y"], to=TensorProto.FLOAT)]),
    "largest of sizes": _sizes(1200, [node("ReduceMax", ["all"], ["y"])]),
    "sum of sizes": _sizes(600, [node("ReduceSum", ["all"], ["p"]), node("ConstantOfShape", ["p"], ["y"])]),
    "least of sizes": _sizes(40, [node("ReduceMin", ["all"], ["p"]), node("ConstantOfShape", ["p"], ["y"])]),
    "product of sizes": _sizes(
        12, [node("ReduceProd", ["all"], ["p"]), node("ConstantOfShape", ["p"], ["y"])]
    ),
    "joined tensors": _join(600),
}


@pytest.mark.parametrize("name", MANY)
def test_over_a_cap_the_rank_stays_and_numbers_decide(name: str) -> None:
    model = MANY[name]
    analysis = shapesolve.analyze(model)
    sizes = {symbol: 2 if k < 2 else 1 for k, symbol in enumerate(analysis.symbols)}
    shapes = {n: [sizes.get(str(d), 3) for d in analysis.shapes[n]] for n in analysis.inputs}
    real = _run(model, shapes)
    assert real is not None
    assert len(analysis.shapes["y"]) == len(real)
    assert analysis.evaluate(sizes)["y"] == real
    assert not analysis.check_inputs(shapes)


def _columns(n: int, *tops: int) -> Any:
    return np.stack([np.arange(n) % top for top in tops], axis=-1).astype(np.int64)


def _taken(indices: Any, *more: onnx.NodeProto, **others: Any) -> onnx.ModelProto:
    return _model(
        [*more, node("GatherND", ["x", "i"], ["y"])],
        {"x": ["T", "S", 2]},
        {"i" if not more else "a": indices, **others},
    )


INDICES = {
    "GatherND": _taken(_columns(3000, 7, 5)),
    "GatherND of a matrix of tuples": _taken(_columns(1200, 7, 5).reshape(40, 30, 2)),
    "negative": _taken(_columns(2000, 7, 5) - np.array([7, 5])),
    "joined": _taken(_columns(700, 7, 3), node("Concat", ["a", "b"], ["i"], axis=0), b=_columns(700, 3, 5)),
    "joined columns": _taken(_columns(1500, 7), node("Concat", ["a", "b"], ["i"], axis=1), b=_columns(1500, 5)),
    "ScatterND": _model(
        [node("ScatterND", ["x", "i", "u"], ["y"])], {"x": ["T", "S", 2]},
        {"i": _columns(4096, 7, 5), "u": np.zeros((4096, 2), np.float32)},
    ),
    "three columns": _model([node("GatherND", ["x", "i"], ["y"])], {"x": ["T", "S", 2]}, {"i": _columns(2000, 7, 5, 2)}),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_columns_of_many_indices_keep_their_ranges(name: str) -> None:
    model = INDICES[name]
    analysis = shapesolve.analyze(model)
    for t, s in ((7, 5), (6, 5), (7, 4), (5, 7), (9, 9)):
        refused = bool(analysis.check_inputs({"x": (t, s, 2)}))
        assert refused == (_run(model, {"x": (t, s, 2)}) is None), (t, s)


def test_a_row_of_many_numbers_keeps_its_range() -> None:
    parts = {f"i{k}": np.arange(300, dtype=np.int64) + k for k in range(5)}
    model = _model(
        [node("Concat", [*parts], ["i"], axis=0), node("Gather", ["x", "i"], ["y"])], {"x": ["T"]}, parts
    )
    analysis = shapesolve.analyze(model)
    for t in (303, 304, 305):
        assert bool(analysis.check_inputs({"x": (t,)})) == (_run(model, {"x": (t,)}) is None)


@pytest.mark.parametrize(("start", "end", "step"), [
    (0, -100, -(2**63)), (-1, 0, -(2**63) + 1), (0, 2**63 - 1, 2**63 - 1), (2**62, -(2**63), -(2**62)),
    (-(2**63), 2**63 - 1, 2**40), (5, -(2**63), -1), (-(2**63), -(2**63), 2**63 - 1),
])  # fmt: skip
def test_steps_at_the_ends_of_int64_can_be_shown(start: int, end: int, step: int) -> None:
    constants = {"s": [start], "e": [end], "a": [0], "st": [step]}
    model = _model(
        [node("Slice", ["x", "s", "e", "a", "st"], ["y"])], {"x": ["M + 1"]},
        {n: np.array(v, np.int64) for n, v in constants.items()},
    )  # fmt: skip
    analysis = shapesolve.analyze(model)
    assert str(analysis)
    assert str(analysis.shape("y", "simple"))
    assert analysis.prove("y[0] >= 0")
    for m in (1, 2, 6):
        assert analysis.evaluate({"M": m - 1})["y"] == _run(model, {"x": (m,)})
