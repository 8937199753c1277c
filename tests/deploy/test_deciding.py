"""Numbers that decide sizes are inputs of these models: what is drawn for them runs, and differs from draw to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import shapesolve as ss
from shapesolve.deploy.inputs.values import deciding_inputs

from ..building import EVERYTHING, session

#: element types: float, int64
FLOAT, INT = 1, 7
given, node = helper.make_tensor_value_info, helper.make_node
X = given("x", FLOAT, ["n", "c"])
X4 = given("x", FLOAT, ["n", 3, "h", "w"])


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[tuple[str, int]],
    stored: Sequence[tuple[str, Any]] = (),
    op: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [given(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.array(v), name) for name, v in stored],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", op)], ir_version=9)


MODELS = {
    "split_reshape": model(
        [node("Reshape", ["x", "t"], ["r"]), node("Split", ["r", "s"], ["a", "b"], axis=0)],
        [X, given("t", INT, [2]), given("s", INT, [2])],
        [("a", FLOAT), ("b", FLOAT)],
    ),
    "seq": model(
        [node("SplitToSequence", ["x", "s"], ["q"], axis=1), node("SequenceAt", ["q", "k"], ["y"])],
        [X, given("s", INT, [3]), given("k", INT, [])],
        [("y", FLOAT)],
    ),
    "concat_target": model(
        [node("Concat", ["t", "m1"], ["tt"], axis=0), node("Reshape", ["x", "tt"], ["y"])],
        [X, given("t", INT, [1])],
        [("y", FLOAT)],
        [("m1", np.array([-1]))],
    ),
    "shared": model(
        [node("Slice", ["x", "k", "big", "a"], ["y"]), node("Slice", ["x", "z", "k", "a"], ["w"])],
        [X, given("k", INT, [1])],
        [("y", FLOAT), ("w", FLOAT)],
        [("big", np.array([2**31 - 1])), ("z", np.array([0])), ("a", np.array([1]))],
    ),
    "shared_pad": model(
        [node("Slice", ["x", "z", "k", "a"], ["w"]), node("MatMul", ["w", "wt"], ["y"])],
        [X, given("k", INT, [1])],
        [("y", FLOAT)],
        [("z", np.array([0])), ("a", np.array([1])), ("wt", np.ones((4, 3), np.float32))],
    ),
    "scalar": model(
        [
            node("Unsqueeze", ["k", "ax"], ["u"]),
            node("Add", ["u", "one"], ["v"]),
            node("Slice", ["x", "z", "v", "a"], ["w"]),
        ],
        [X, given("k", INT, [])],
        [("w", FLOAT)],
        [("ax", np.array([0])), ("one", np.array([1])), ("z", np.array([0])), ("a", np.array([1]))],
    ),
    "pad": model(
        [node("Pad", ["x", "p", "", "a"], ["y"])],
        [X4, given("p", INT, [4]), given("a", INT, [2])],
        [("y", FLOAT)],
    ),
    "pad_reflect": model(
        [node("Pad", ["x", "p"], ["y"], mode="reflect")], [X, given("p", INT, [4])], [("y", FLOAT)]
    ),
    "resize_sizes": model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="linear")], [X4, given("s", INT, [4])], [("y", FLOAT)]
    ),
    "resize_scales": model(
        [node("Resize", ["x", "", "s"], ["y"], mode="nearest")], [X4, given("s", FLOAT, [4])], [("y", FLOAT)]
    ),
    "tile": model([node("Tile", ["x", "r"], ["y"])], [X, given("r", INT, [2])], [("y", FLOAT)]),
    "expand_add": model(
        [node("Expand", ["x", "e"], ["y"]), node("Add", ["y", "z"], ["w"])],
        [given("x", FLOAT, ["n", 1]), given("z", FLOAT, ["n", "k"]), given("e", INT, [2])],
        [("w", FLOAT)],
    ),
    "cos_range": model(
        [node("Range", ["a", "b", "c"], ["r"]), node("Gather", ["x", "r"], ["y"], axis=0)],
        [X, given("a", INT, []), given("b", INT, []), given("c", INT, [])],
        [("y", FLOAT)],
    ),
    "onehot": model(
        [node("OneHot", ["k", "d", "v"], ["y"])],
        [given("k", INT, ["n"]), given("d", INT, []), given("v", FLOAT, [2])],
        [("y", FLOAT)],
    ),
    "topk": model(
        [node("TopK", ["x", "k"], ["y", "z"])], [X, given("k", INT, [1])], [("y", FLOAT), ("z", INT)]
    ),
    "unsq": model([node("Unsqueeze", ["x", "a"], ["y"])], [X, given("a", INT, [2])], [("y", FLOAT)]),
    "sq": model(
        [node("Squeeze", ["x", "a"], ["y"])],
        [given("x", FLOAT, ["n", 1, "c", 1]), given("a", INT, [1])],
        [("y", FLOAT)],
    ),
    "reduce": model([node("ReduceMean", ["x", "a"], ["y"])], [X4, given("a", INT, [2])], [("y", FLOAT)]),
    "ccp": model([node("CenterCropPad", ["x", "s"], ["y"])], [X, given("s", INT, [2])], [("y", FLOAT)]),
    "col2im": model(
        [node("Col2Im", ["x", "s", "b"], ["y"])],
        [given("x", FLOAT, ["n", 12, "l"]), given("s", INT, [2]), given("b", INT, [2])],
        [("y", FLOAT)],
    ),
    "affine": model(
        [node("AffineGrid", ["x", "s"], ["y"])],
        [given("x", FLOAT, ["n", 2, 3]), given("s", INT, [4])],
        [("y", FLOAT)],
        op=20,
    ),
    "dft": model(
        [node("DFT", ["x", "l"], ["y"], axis=1)],
        [given("x", FLOAT, ["n", "c", 1]), given("l", INT, [])],
        [("y", FLOAT)],
    ),
    "stft": model(
        [node("STFT", ["x", "st", "", "l"], ["y"])],
        [given("x", FLOAT, ["n", "c", 1]), given("st", INT, []), given("l", INT, [])],
        [("y", FLOAT)],
    ),
    "hann": model(
        [node("HannWindow", ["k"], ["w"]), node("Mul", ["x", "w"], ["y"])],
        [given("x", FLOAT, ["n", "c"]), given("k", INT, [])],
        [("y", FLOAT)],
    ),
    "mel": model(
        [node("MelWeightMatrix", ["a", "b", "c", "d", "e"], ["y"])],
        [
            given("a", INT, []),
            given("b", INT, []),
            given("c", INT, []),
            given("d", FLOAT, []),
            given("e", FLOAT, []),
        ],
        [("y", FLOAT)],
    ),
    "nms": model(
        [node("NonMaxSuppression", ["b", "s", "k", "t", "u"], ["y"])],
        [
            given("b", FLOAT, ["n", "m", 4]),
            given("s", FLOAT, ["n", "k", "m"]),
            given("k", INT, [1]),
            given("t", FLOAT, [1]),
            given("u", FLOAT, [1]),
        ],
        [("y", INT)],
    ),
    "unpool": model(
        [node("MaxUnpool", ["x", "k"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
        [X4, given("k", INT, ["n", 3, "h", "w"])],
        [("y", FLOAT)],
    ),
    "div": model(
        [node("Div", ["k", "d"], ["y"])], [given("k", INT, ["n"]), given("d", INT, ["n"])], [("y", INT)]
    ),
    "divshape": model(
        [node("Shape", ["x"], ["s"]), node("Div", ["s", "d"], ["t"]), node("ConstantOfShape", ["t"], ["y"])],
        [X, given("d", INT, [2])],
        [("y", FLOAT)],
    ),
    "cos": model(
        [node("ConstantOfShape", ["t"], ["y"]), node("MatMul", ["x", "y"], ["w"])],
        [X, given("t", INT, [2])],
        [("w", FLOAT)],
    ),
    "trilu": model([node("Trilu", ["x", "k"], ["y"])], [X, given("k", INT, [])], [("y", FLOAT)]),
    "cumsum": model([node("CumSum", ["x", "k"], ["y"])], [X, given("k", INT, [])], [("y", FLOAT)]),
    "steps": model(
        [node("Slice", ["x", "a", "b", "c", "d"], ["y"])],
        [X, given("a", INT, [1]), given("b", INT, [1]), given("c", INT, [1]), given("d", INT, [1])],
        [("y", FLOAT)],
    ),
    "embpos": model(
        [
            node("Gather", ["t", "ids"], ["e"]),
            node("Slice", ["e", "z", "k", "one"], ["f"]),
            node("Reshape", ["f", "s"], ["y"]),
        ],
        [given("ids", INT, ["b", "s"]), given("k", INT, [1]), given("s", INT, [3])],
        [("y", FLOAT)],
        [("t", np.ones((50, 8), np.float32)), ("z", np.array([0])), ("one", np.array([1]))],
    ),
    "eye": model(
        [
            node("Concat", ["k", "k2"], ["t"], axis=0),
            node("ConstantOfShape", ["t"], ["y"]),
            node("Conv", ["y", "w"], ["v"]),
        ],
        [given("k", INT, [2]), given("k2", INT, [2])],
        [("v", FLOAT)],
        [("w", np.ones((2, 3, 3, 3), np.float32))],
    ),
    "bshift": model(
        [node("BitShift", ["x8", "k"], ["y"], direction="LEFT")],
        [given("x8", 2, ["n"]), given("k", 2, [1])],
        [("y", 2)],
    ),
    "mod": model([node("Mod", ["k", "d"], ["y"])], [given("k", 6, ["n"]), given("d", 6, [])], [("y", 6)]),
    "modcast": model(
        [node("Cast", ["d"], ["e"], to=7), node("Mod", ["k", "e"], ["y"])],
        [given("k", 7, ["n"]), given("d", 6, [])],
        [("y", 7)],
    ),
    "compress": model(
        [node("Compress", ["x", "c"], ["y"], axis=0)], [X, given("c", 9, ["k"])], [("y", FLOAT)]
    ),
    "scatnd": model(
        [node("ScatterND", ["x", "k", "u"], ["y"])],
        [X, given("k", INT, ["p", 1]), given("u", FLOAT, ["p", "c"])],
        [("y", FLOAT)],
    ),
    "revseq": model(
        [node("ReverseSequence", ["x", "l"], ["y"], time_axis=0, batch_axis=1)],
        [given("x", FLOAT, ["t", "b", "c"]), given("l", INT, ["b"])],
        [("y", FLOAT)],
    ),
    "negslice": model(
        [node("Neg", ["k"], ["nk"]), node("Slice", ["x", "nk", "e", "a"], ["y"])],
        [X, given("k", INT, [1])],
        [("y", FLOAT)],
        [("e", np.array([2**31 - 1])), ("a", np.array([1]))],
    ),
    "subk": model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "one"], ["c"]),
            node("Sub", ["c", "k"], ["d"]),
            node("Slice", ["x", "d", "big", "a"], ["y"]),
        ],
        [X, given("k", INT, [1])],
        [("y", FLOAT)],
        [("one", np.array([1])), ("big", np.array([2**31 - 1])), ("a", np.array([1]))],
    ),
    "reshape_split_concat": model(
        [
            node("Reshape", ["x", "t"], ["r"]),
            node("Transpose", ["r"], ["q"]),
            node("MatMul", ["r", "q"], ["y"]),
        ],
        [X, given("t", INT, [2])],
        [("y", FLOAT)],
    ),
    "unpooled_img": model(
        [node("Reshape", ["x", "t"], ["r"]), node("Conv", ["r", "w"], ["y"])],
        [given("x", FLOAT, ["n", "k"]), given("t", INT, [4])],
        [("y", FLOAT)],
        [("w", np.ones((2, 3, 3, 3), np.float32))],
    ),
    "parts of many": model(
        [node("SplitToSequence", ["x", "s"], ["q"], axis=0), node("SequenceAt", ["q", "k"], ["y"])],
        [X, given("s", INT, ["parts"]), given("k", INT, [])],
        [("y", FLOAT)],
        [("k0", np.array(0))],
    ),
    "divided before it is a target": model(
        [
            node("Shape", ["x"], ["s"]),
            node("Div", ["s", "d"], ["q"]),
            node("Mul", ["q", "d"], ["t"]),
            node("Reshape", ["x", "t"], ["y"]),
        ],
        [X, given("d", INT, [1])],
        [("y", FLOAT)],
    ),
    "an image of known blocks": model(
        [node("Col2Im", ["x", "s", "b"], ["y"])],
        [given("x", FLOAT, ["n", 12, "l"]), given("s", INT, [2])],
        [("y", FLOAT)],
        [("b", np.array([2, 2]))],
    ),
    "places in what is made": model(
        [node("ConstantOfShape", ["s"], ["o"]), node("Gather", ["o", "k"], ["y"])],
        [given("s", INT, [2]), given("k", INT, ["n"])],
        [("y", FLOAT)],
    ),
    "places in what computed sizes make": model(
        [
            node("Concat", ["count", "three"], ["s"], axis=0),
            node("ConstantOfShape", ["s"], ["z"]),
            node("Unsqueeze", ["segment", "one"], ["i"]),
            node("Shape", ["x"], ["xs"]),
            node("Expand", ["i", "xs"], ["full"]),
            node("ScatterElements", ["z", "full", "x"], ["y"], axis=0, reduction="add"),
        ],
        [given("x", FLOAT, ["n", 3]), given("segment", INT, ["n"]), given("count", INT, [1])],
        [("y", FLOAT)],
        [("three", np.array([3])), ("one", np.array([1]))],
    ),
    "offsets": model(
        [
            node("Slice", ["cu", "one", "big"], ["hi"]),
            node("Slice", ["cu", "zero", "minus1"], ["lo"]),
            node("Sub", ["hi", "lo"], ["d"]),
            node("SplitToSequence", ["x", "d"], ["parts"], axis=0),
            node("SequenceAt", ["parts", "first"], ["y"]),
        ],
        [given("x", FLOAT, ["total", 4]), given("cu", INT, ["ends"])],
        [("y", FLOAT)],
        [
            ("one", np.array([1])),
            ("zero", np.array([0])),
            ("minus1", np.array([-1])),
            ("big", np.array([2**31])),
            ("first", np.array(0)),
        ],
    ),
    "one scale for two axes": model(
        [
            node("Concat", ["ones", "scale", "scale"], ["s"], axis=0),
            node("Resize", ["x", "", "s"], ["r"], mode="nearest"),
            node("Conv", ["r", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        ],
        [X4, given("scale", FLOAT, [1])],
        [("y", FLOAT)],
        [("ones", np.ones(2, np.float32)), ("w", np.ones((8, 3, 3, 3), np.float32))],
    ),
    "a ratio of sizes": model(
        [
            node("Shape", ["x"], ["hw"], start=2),
            node("Cast", ["hw"], ["hwf"], to=1),
            node("Cast", ["target"], ["tf"], to=1),
            node("Div", ["tf", "hwf"], ["ratios"]),
            node("ReduceMin", ["ratios"], ["ratio"]),
            node("Mul", ["hwf", "ratio"], ["nf"]),
            node("Cast", ["nf"], ["n2"], to=7),
            node("Concat", ["nc", "n2"], ["sizes"], axis=0),
            node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
        ],
        [given("x", FLOAT, [1, 3, "h", "w"]), given("target", INT, [2])],
        [("y", FLOAT)],
        [("nc", np.array([1, 3]))],
    ),
    "where rows begin in a whole": model(
        [
            node("Slice", ["splits", "k0", "last"], ["from"]),
            node("Slice", ["splits", "k1", "end"], ["to"]),
            node("Sub", ["to", "from"], ["lengths"]),
            node("ReduceMax", ["lengths"], ["most"], keepdims=0),
            node("Range", ["zero", "most", "one"], ["steps"]),
            node("Unsqueeze", ["lengths", "k1"], ["column"]),
            node("Less", ["steps", "column"], ["valid"]),
            node("Unsqueeze", ["from", "k1"], ["first"]),
            node("Add", ["first", "steps"], ["at"]),
            node("Where", ["valid", "at", "zero"], ["rows"]),
            node("Gather", ["x", "rows"], ["y"]),
        ],
        [X, given("splits", INT, ["parts"])],
        [("y", FLOAT)],
        [("k0", [0]), ("k1", [1]), ("last", [-1]), ("end", [2**31 - 1]), ("zero", 0), ("one", 1)],
    ),
    "a ratio": model(
        [node("Dropout", ["x", "r", "t"], ["y"])],
        [X, given("r", FLOAT, []), given("t", 9, [])],
        [("y", FLOAT)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_that_decide_sizes_run(name: str) -> None:
    runs = session(MODELS[name])
    for feed in ss.generate_inputs(MODELS[name], count=20 if EVERYTHING else 4):
        runs.run(None, feed)


@pytest.mark.parametrize("name", ["split_reshape", "topk", "tile", "resize_sizes"])
def test_numbers_differ(name: str) -> None:
    feeds = ss.generate_inputs(
        MODELS[name], count=20, bind=dict.fromkeys(ss.analyze(MODELS[name]).symbols, 6)
    )
    short = [n for n in feeds[0] if len(n) == 1 and n != "x"]
    assert all(len({tuple(np.ravel(f[n])) for f in feeds}) > 2 for n in short)


def test_sizes_that_no_numbers_suit_are_none() -> None:
    thirds = model(
        [node("Reshape", ["x", "t"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        [given("x", FLOAT, ["n", 5]), given("t", INT, [2])],
        [("y", FLOAT)],
        [("w", np.ones((3, 3), np.float32))],
    )
    runs = session(thirds)
    for feed in ss.generate_inputs(thirds, count=12):
        runs.run(None, feed)
    with pytest.raises(ValueError, match=r"input t|n"):
        ss.generate_inputs(thirds, count=2, bind={"n": 2})


def test_sizes_and_numbers_that_hang_together_are_found_together() -> None:
    """Few pairs of sizes suit any number of repeats: those drawn are moved to some that do, and numbers are not always 1."""
    repeated = model(
        [
            node("Concat", ["beams", "one"], ["r"], axis=0),
            node("Tile", ["x", "r"], ["t"]),
            node("Add", ["t", "y"], ["z"]),
        ],
        [given("x", FLOAT, ["batch", 4]), given("y", FLOAT, ["rows", 4]), given("beams", INT, [1])],
        [("z", FLOAT)],
        [("one", np.array([1]))],
    )
    runs = session(repeated)
    feeds = ss.generate_inputs(repeated, count=10)
    for feed in feeds:
        runs.run(None, feed)
    assert len({int(feed["beams"][0]) for feed in feeds}) > 2
    assert all(feed["y"].shape == (12, 4) for feed in ss.generate_inputs(repeated, 4, bind={"rows": 12}))


def test_what_only_gives_its_shape_decides_nothing() -> None:
    """Tokens whose shape is the target of an Expand are drawn as indices, not tried."""
    tokens = model(
        [
            node("Shape", ["ids"], ["s"]),
            node("Expand", ["zero", "s"], ["types"]),
            node("Add", ["ids", "types"], ["i"]),
            node("Gather", ["table", "i"], ["y"]),
        ],
        [given("ids", INT, ["batch", "seq"])],
        [("y", FLOAT)],
        [("zero", np.array([[0]])), ("table", np.ones((9, 2), np.float32))],
    )
    assert deciding_inputs(ss.analyze(tokens)) == []


def test_what_is_guessed_is_said_once_in_the_sizes_of_the_model() -> None:
    guesses = ss.generate_inputs(MODELS["places in what computed sizes make"], 20).guesses
    assert len([g for g in guesses if g.startswith("segment: 0 to ")]) == 1
