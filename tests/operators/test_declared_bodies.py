"""Bodies of If, Loop and Scan as onnxruntime reads them: what they declare, and branches that never run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss

from ..building import built, run, session

Dims = Any


def info(name: str, dims: Dims = None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def body(
    nodes: list[onnx.NodeProto], outputs: list[Any], inputs: Any = (), said: Any = ()
) -> onnx.GraphProto:
    outs = [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs]
    return helper.make_graph(nodes, "body", list(inputs), outs, value_info=list(said))


def loads(model: onnx.ModelProto) -> bool:
    try:
        session(model)
    except Exception:
        return False
    return True


def runs(model: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
    try:
        run(model, feeds)
    except Exception:
        return False
    return True


def judged(model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """What runs is accepted; what does not is refused, or a finding tells of the declaration, or what data must satisfy."""
    a = ss.analyze(model)
    accepted = not a.check_inputs({name: np.shape(array) for name, array in feeds.items()})
    if runs(model, feeds):
        assert accepted
    else:
        assert not accepted or any(f.code in ("SS102", "SS302") for f in a.diagnostics)


# ---------------------------------------------------------------------- shapes that bodies declare


def branch(given: Dims, said: Dims, between: Dims) -> onnx.ModelProto:
    inside = [info("h", between)] if between else []
    then = body(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["a"])],
        [info("a", said)],
        said=inside,
    )
    other = body([helper.make_node("Neg", ["x"], ["b"])], ["b"])
    node = helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=other)
    return built([node], [info("x", given), info("p", [], TensorProto.BOOL)], ["y"], opset=17)


@pytest.mark.parametrize("given", [["N", 4], ["N", "M"], [None, 4]])
@pytest.mark.parametrize("said", [[3, 4], [3, None], [None, 4], [2, 4], ["K", "L"], [3, "M"], None])
@pytest.mark.parametrize("between", [None, [3, 4]])
def test_what_a_branch_declares(given: Dims, said: Dims, between: Dims) -> None:
    model = branch(given, said, between)
    if said == [2, 4] and between:
        return  # the two contradict each other, and onnxruntime believes neither: a finding tells of that
    for rows in (2, 3):
        judged(model, {"x": np.zeros((rows, 4), np.float32), "p": np.array(True)})
        a = ss.analyze(model)
        assert not a.check_inputs({"x": (rows, 4), "p": ()})  # the other branch runs
    constant = onnx.ModelProto()
    constant.CopyFrom(model)
    constant.graph.input.pop()
    constant.graph.initializer.append(numpy_helper.from_array(np.array(True), "p"))
    for rows in (2, 3):
        feeds = {"x": np.zeros((rows, 4), np.float32)}
        assert runs(constant, feeds) == (not ss.analyze(constant).check_inputs({"x": (rows, 4)}))


@pytest.mark.parametrize(
    ("x", "xs", "said"),
    [
        (["N"], ["T", "N"], {"e": [3]}),
        (["N"], ["T", "N"], {"e": [3], "st": [3]}),
        (["N"], ["T", "N"], {"st": [3]}),
        (["N"], ["T", "N"], {"e": ["K"], "o": [3]}),
        (["N"], ["T", "N"], {"o": [3]}),
        (["N"], ["T", "N"], {"st2": [3]}),
        (["N"], ["T", "N"], {"e": [1], "st": [3]}),
        (["N"], ["T", "N"], {"e": [3, 3]}),
        (["N"], ["T", "N"], {"st": [3, 3]}),
        (["N"], ["T", "N"], {"e": []}),
        ([2], ["T", 2], {"e": [3]}),
        ([2], ["T", 2], {"st": [3]}),
        ([2], ["T", 2], {"o": [2]}),
    ],
)
def test_what_the_body_of_a_scan_declares(x: Dims, xs: Dims, said: dict[str, Dims]) -> None:
    nodes = [helper.make_node("Add", ["st", "e"], ["st2"]), helper.make_node("Relu", ["st2"], ["o"])]
    inside = {name: info(name, said.get(name)) for name in ("st", "e", "st2", "o")}
    graph = body(nodes, [inside["st2"], inside["o"]], [inside["st"], inside["e"]])
    node = helper.make_node("Scan", ["x", "xs"], ["sN", "ys"], num_scan_inputs=1, body=graph)
    model = built([node], [info("x", x), info("xs", xs)], ["sN", "ys"], opset=17)
    assert ss.analyze(model).ok == loads(model)
    for n in (2, 3):
        feeds = {"x": np.zeros(n, np.float32), "xs": np.zeros((4, n), np.float32)}
        if x == ["N"] or x == [n]:
            judged(model, feeds)


@pytest.mark.parametrize(
    "said", [{"v": [3]}, {"v": [3, 3]}, {"w": [3]}, {"o": [3]}, {"v": [3], "w": [3], "o": [3]}]
)
def test_what_the_body_of_a_loop_declares_is_not_looked_at(said: dict[str, Dims]) -> None:
    nodes = [
        helper.make_node("Neg", ["v"], ["w"]),
        helper.make_node("Relu", ["w"], ["o"]),
        helper.make_node("Identity", ["c"], ["c2"]),
    ]
    ends = [info("c2", [], TensorProto.BOOL), info("w", said.get("w")), info("o", said.get("o"))]
    starts = [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("v", said.get("v"))]
    node = helper.make_node("Loop", ["m", "", "x"], ["y", "ys"], body=body(nodes, ends, starts))
    model = built(
        [node], [info("x", ["N"])], ["y", "ys"], [numpy_helper.from_array(np.array(2), "m")], opset=17
    )
    for n in (2, 3):
        judged(model, {"x": np.zeros(n, np.float32)})


# ---------------------------------------------------------------------- branches that never run

BAD: list[tuple[str, Any, dict[str, Any]]] = [
    ("Squeeze", np.array([1]), {}),
    ("MatMul", np.zeros((7, 3), np.float32), {}),
    ("Concat", np.zeros((7, 3), np.float32), {"axis": 0}),
    ("Add", np.zeros((7, 3), np.float32), {}),
    ("Add", np.array(7), {}),
    ("Gemm", np.zeros(7, np.float32), {}),
    ("Reshape", np.array([3, 4]), {}),
    ("Expand", np.array([3, 4]), {}),
    ("Conv", np.zeros((3, 4, 5), np.float32), {}),
    ("Neg", None, {}),
]


@pytest.mark.parametrize("taken", [None, False])
@pytest.mark.parametrize(("op_type", "constant", "attributes"), BAD)
def test_an_ill_shaped_branch_stops_loading(
    op_type: str, constant: Any, attributes: Any, taken: bool | None
) -> None:
    """Never taken by the sizes, or by data that nobody knows (`taken` None)."""
    names = ["x"] if constant is None else ["x", "k"]
    then = body([helper.make_node(op_type, names, ["bad"], name="inner", **attributes)], ["bad"])
    other = body([helper.make_node("Identity", ["x"], ["good"])], ["good"])
    stored = [] if constant is None else [numpy_helper.from_array(constant, "k")]
    stored += [] if taken is None else [numpy_helper.from_array(np.array(taken), "p")]
    inputs = [info("x", [1, 10])] + ([info("p", [], TensorProto.BOOL)] if taken is None else [])
    model = built(
        [helper.make_node("If", ["p"], ["y"], name="if", then_branch=then, else_branch=other)],
        inputs,
        ["y"],
        stored,
        13,
    )
    a = ss.analyze(model)
    if loads(model):
        assert "SS206" not in {f.code for f in a.diagnostics}
        return
    assert (
        any("inner" in f.node and "load" in " ".join((f.title, *f.notes)) for f in a.diagnostics) or not a.ok
    )
    if taken is not None:
        assert loads(ss.simplify(model))


@pytest.mark.parametrize("said", [["N", 3], ["N", 2, 1], [7, 7], ["M", 5], ["N"]])
def test_a_wrong_declaration_does_not_make_a_branch_dead(said: Dims) -> None:
    then = body(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["a"])],
        ["a"],
        said=[info("h", said)],
    )
    other = body([helper.make_node("Neg", ["x"], ["b"])], ["b"])
    node = helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=other)
    model = built([node], [info("x", ["N", 2]), info("p", [], TensorProto.BOOL)], ["y"], opset=17)
    assert runs(model, {"x": np.zeros((4, 2), np.float32), "p": np.array(True)})
    codes = {f.code for f in ss.analyze(model).diagnostics}
    assert "SS102" in codes
    assert "SS204" not in codes
