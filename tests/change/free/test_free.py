"""Numbers of rows that were baked in are freed: models of the corpus against onnxruntime, refusals by their node."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.change.verify import verify
from shapesolve.cli import app

from .test_free_rows import run

ROOT = Path(__file__).resolve().parents[3]


def model(
    nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: list[int | str], opset: int = 18
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "fixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def node(op_type: str, inputs: str, output: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], f"the_{op_type}_{output}", **attributes)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def attention() -> onnx.ModelProto:
    """One head split of a transformer, with every size as a number."""
    return model(
        [
            node("Reshape", "x split", "a"),
            node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
            node("Transpose", "b", "bt", perm=[0, 1, 3, 2]),
            node("MatMul", "b bt", "scores"),
            node("Softmax", "scores", "p", axis=-1),
            node("MatMul", "p b", "c"),
            node("Transpose", "c", "d", perm=[0, 2, 1, 3]),
            node("Reshape", "d flat", "e"),
            helper.make_node("Gemm", ["e", "w"], ["f"], "the_Gemm"),
            node("Reshape", "f back", "g"),
            node("Concat", "cls g", axis=1),
        ],
        {
            "split": ints(1, 7, 2, 4),
            "flat": ints(7, 8),
            "w": np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32),
            "back": ints(1, 7, 8),
            "cls": np.ones((1, 1, 8), np.float32),
        },
        [1, 7, 8],
    )


def test_what_people_ask_for() -> None:
    fixed = attention()
    freed = ss.free(fixed, {"x[0]": "batch"})
    assert [d.dim_param or d.dim_value for d in freed.graph.output[0].type.tensor_type.shape.dim] == [
        "batch",
        8,
        8,
    ]
    x = np.random.default_rng(1).standard_normal((5, 7, 8)).astype(np.float32)
    single = np.concatenate([run(fixed, x[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(run(freed, x), single, rtol=1e-4, atol=1e-5)
    assert [r.sizes["batch"] for r in verify(fixed, freed, {"x[0]": "batch"})] == [1, 2, 3]


def test_the_model_that_is_given_stays_as_it_is() -> None:
    fixed = attention()
    before = fixed.SerializeToString()
    ss.free(fixed, {"x[0]": "batch"})
    assert fixed.SerializeToString() == before


#: what mixes rows, and the node that the refusal names
MIXING = {
    "softmax over rows": ([node("Softmax", "x", axis=0)], {}, "the_Softmax_y"),
    "mean over rows": ([node("ReduceMean", "x k", keepdims=1)], {"k": ints(0)}, "the_ReduceMean_y"),
    "running sum over rows": ([node("CumSum", "x k")], {"k": np.array(0)}, "the_CumSum_y"),
    "rows in features": ([node("Reshape", "x k", "a"), node("Softmax", "a", axis=0)], {"k": ints(12)}, "the_Softmax_y"),
    "rows against rows": (
        [node("Flatten", "x", "a", axis=1), node("Transpose", "a", "b"), node("MatMul", "a b")], {}, "the_MatMul_y",
    ),
    "the first row": ([node("Gather", "x k", axis=0)], {"k": ints(0)}, "the_Gather_y"),
    "rows backwards": (
        [node("Slice", "x a b c a")], {"a": ints(-1), "b": ints(-100), "c": ints(0)}, "the_Slice_y",
    ),
    "training": (
        [helper.make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"], "the_Norm", training_mode=1)],
        {"s": np.ones(3, np.float32)}, "the_Norm",
    ),
    "scale of all": (
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "the_Quantize"),
            node("DequantizeLinear", "q s z"),
        ], {}, "the_Quantize",
    ),
    "the number of rows": (
        [node("Shape", "x", "n"), node("Cast", "n", "f", to=1), node("ReduceProd", "f", "p", keepdims=0), node("Div", "x p")],
        {}, "the_Shape_n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "stored", "culprit"), MIXING.values(), ids=MIXING)
def test_mixing_is_refused_with_the_node(nodes, stored, culprit) -> None:
    with pytest.raises(ss.Refused, match=culprit) as refused:
        ss.free(model(nodes, stored, [1, 3, 4]), {"x[0]": "batch"})
    assert refused.value.node == culprit


def test_a_table_of_one_row_per_place_is_said_again_for_each_row() -> None:
    fixed = model(
        [node("Reshape", "x k", "a"), node("Add", "a table", "b"), node("Reshape", "b l")],
        {"k": ints(6, 4), "table": np.arange(24, dtype=np.float32).reshape(6, 4), "l": ints(1, 6, 4)},
        [1, 6, 4],
    )
    freed = ss.free(fixed, {"x[0]": "n"})
    x = np.random.default_rng(2).standard_normal((3, 6, 4)).astype(np.float32)
    np.testing.assert_allclose(run(freed, x), np.concatenate([run(fixed, x[i : i + 1]) for i in range(3)]))


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, "no axis to make dynamic"),
        ({"x": "n"}, "is not an axis of an input"),
        ({"z[0]": "n"}, "unknown input 'z'"),
        ({"x[3]": "n"}, "no axis 3"),
        ({"x[0]": "n + m"}, "is not the size of an input axis"),
        ({"x[0]": "7"}, "not a name"),
    ],
)
def test_what_makes_no_sense(dims: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.free(model([node("Relu", "x")], {}, [1, 3, 4]), dims)


def test_a_size_that_is_free_already() -> None:
    with pytest.raises(ValueError, match="is n already"):
        ss.free(model([node("Relu", "x")], {}, ["n", 3, 4]), {"x[0]": "n"})


def test_the_command_writes_and_verifies(tmp_path: Path) -> None:
    source, target = tmp_path / "fixed.onnx", tmp_path / "free.onnx"
    onnx.save(attention(), source)
    done = CliRunner().invoke(
        app, ["free", str(source), "--dim", "x[0]=batch", "-o", str(target), "--verify"]
    )
    assert done.exit_code == 0, done.output
    assert "items of batch are independent" in done.stdout
    assert "same outputs, largest difference 0 (at batch = 1; batch = 2; batch = 3)" in done.stdout
    assert ss.analyze(target).shapes["x"] == ss.Shape(["batch", 7, 8])


def test_a_large_file_keeps_its_weights(tmp_path: Path) -> None:
    source, target = tmp_path / "fixed.onnx", tmp_path / "free.onnx"
    weights = np.random.default_rng(3).standard_normal((512, 600)).astype(np.float32)
    fixed = model(
        [node("Reshape", "x k", "a"), node("MatMul", "a w")], {"k": ints(512), "w": weights}, [1, 512]
    )
    fixed.graph.node[0].input[1] = "kept"
    fixed.graph.initializer.append(numpy_helper.from_array(ints(1, 512), "kept"))
    onnx.save(fixed, source)
    done = CliRunner().invoke(app, ["free", str(source), "--dim", "x[0]=n", "-o", str(target), "--verify"])
    assert done.exit_code == 0, done.output
    x = np.random.default_rng(4).standard_normal((3, 512)).astype(np.float32)
    np.testing.assert_allclose(run(onnx.load(target), x), x @ weights, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(run(ss.free(source, {"x[0]": "n"}), x), x @ weights, rtol=1e-3, atol=1e-3)


def test_the_command_refuses_and_writes_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "fixed.onnx", tmp_path / "free.onnx"
    nodes, stored, culprit = MIXING["softmax over rows"]
    onnx.save(model(nodes, stored, [1, 3, 4]), source)
    done = CliRunner().invoke(app, ["free", str(source), "--dim", "x[0]=batch", "-o", str(target)])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert culprit in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("bad", ["x[0]", "=batch", "x[0]="])
def test_the_command_reads_its_options(tmp_path: Path, bad: str) -> None:
    source = tmp_path / "fixed.onnx"
    onnx.save(attention(), source)
    done = CliRunner().invoke(app, ["free", str(source), "--dim", bad, "-o", str(tmp_path / "out.onnx")])
    assert done.exit_code == 2


def test_a_run_that_differs_is_noticed() -> None:
    fixed = attention()
    freed = ss.free(fixed, {"x[0]": "batch"})
    weights = next(t for t in freed.graph.initializer if t.name == "w")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * 2, "w"))
    with pytest.raises(ss.Refused, match="differs from the original's"):
        verify(fixed, freed, {"x[0]": "batch"})


def test_a_named_size_that_is_freed_is_verified() -> None:
    fixed = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 18]>
    flat (float[batch, 4] x) => (float y)
    <int64[2] target = {1, 4}>
    { r = Reshape (x, target) y = Tanh (r) }""")
    runs = verify(fixed, ss.free(fixed, {"batch": "batch"}), {"batch": "batch"})
    assert [run.sizes for run in runs] == [{"batch": 1}, {"batch": 2}, {"batch": 3}]


def picked(second: str) -> onnx.ModelProto:
    """One of two tensors, by way of a sequence."""
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18]>
    pick (float[1, 3, 4] x) => (float y)
    <int64 last = {{-1}}>
    {{
        a = Tanh (x)
        {second}
        both = SequenceConstruct (a, b)
        y = SequenceAt (both, last)
    }}""")


def test_rows_stay_apart_in_a_sequence() -> None:
    fixed = picked("b = Sigmoid (x)")
    x = np.random.default_rng(8).standard_normal((3, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(ss.free(fixed, {"x[0]": "batch"}), x), 1 / (1 + np.exp(-x)), rtol=1e-5)


@pytest.mark.parametrize(
    "second",
    ["b = Softmax <axis = 0> (x)", "b = Transpose <perm = [2, 1, 0]> (x)"],
    ids=["mixed", "elsewhere"],
)
def test_a_sequence_with_other_rows_is_refused(second: str) -> None:
    with pytest.raises(ss.Refused):
        ss.free(picked(second), {"x[0]": "batch"})


def parts(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18]>
    parts (float[1, 6, 4] x) => (float y)
    <int64 first = {{0}}, int64 last = {{1}}, int64[2] lengths = {{2, 4}}>
    {{ {text} }}""")


COLUMNS = "[split] s = SplitToSequence <axis = 2, keepdims = 0> (x) a = SequenceAt (s, first) b = SequenceAt (s, last) "
LENGTHS = (
    "[split] s = SplitToSequence <axis = 1> (x, lengths) a = SequenceAt (s, first) b = SequenceAt (s, last) "
)


@pytest.mark.parametrize("text", [f"{LENGTHS} y = Concat <axis = 1> (b, a)", f"{COLUMNS} y = Sub (a, b)"])
def test_parts_of_a_tensor_keep_its_rows(text: str) -> None:
    fixed = parts(text)
    changed = ss.free(fixed, {"x[0]": "batch"})
    x = np.random.default_rng(2).standard_normal((4, 6, 4)).astype(np.float32)
    want = np.concatenate([run(fixed, x[i : i + 1]) for i in range(4)])
    np.testing.assert_array_equal(run(changed, x), want)


def test_parts_of_rows_that_meet_other_rows_are_refused() -> None:
    with pytest.raises(ss.Refused, match="MatMul"):
        ss.free(parts(f"{COLUMNS} t = Transpose (b) y = MatMul (a, t)"), {"x[0]": "batch"})


def test_a_sequence_of_rows_is_refused() -> None:
    text = "[split] s = SplitToSequence <axis = 0> (x) y = SequenceAt (s, first)"
    with pytest.raises(ss.Refused, match="split"):
        ss.free(parts(text), {"x[0]": "batch"})
