"""Generated inputs run, and lie where the model reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.cli import app

from ..building import session

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [ROOT / f"examples/{n}.onnx" for n in ("attention", "unet")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_generated_inputs_run(path: Path) -> None:
    runs = session(onnx.load(path))
    made = ss.generate_inputs(path, count=12, seed=3, edge=True)
    assert len(made) == len(made.sizes) == 12
    for feed in made:
        runs.run(None, feed)
    assert len({tuple(s.items()) for s in made.sizes}) > 6
    assert any(1 in s.values() for s in made.sizes)


def test_the_first_inputs_are_usual_and_no_others_are_empty() -> None:
    made = ss.generate_inputs(ROOT / "examples/unet.onnx", count=8)
    assert made.sizes[0] == {"batch": 1, "height": 224, "width": 224}
    assert all(min(sizes.values()) >= 1 for sizes in made.sizes)
    decoder = ss.generate_inputs(ROOT / "examples/attention.onnx", count=8)
    first, prefill, *others = decoder.sizes
    assert (first["batch"], prefill["past_seq"], prefill["total_seq"]) == (1, 0, prefill["seq"])
    for sizes in (first, *others):
        assert sizes["past_seq"] >= 1
    assert all(s["total_seq"] == s["past_seq"] + s["seq"] for s in decoder.sizes)


def reader(
    nodes: list[onnx.NodeProto], dtype: int, dims: list[object], *more: TensorProto
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("i", dtype, dims),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m", 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(more),
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


INT = TensorProto.INT64
READERS = {
    "rows of a dynamic axis": reader([helper.make_node("Gather", ["x", "i"], ["y"], axis=1)], INT, ["k"]),
    "rows of a stored table": reader(
        [helper.make_node("Gather", ["t", "i"], ["y"])], INT, ["k"], floats("t", 3, 2)
    ),
    "after a cast and a reshape": reader(
        [
            helper.make_node("Cast", ["i"], ["c"], to=TensorProto.INT64),
            helper.make_node("Unsqueeze", ["c", "one"], ["u"]),
            helper.make_node("GatherElements", ["x", "u"], ["y"], axis=1),
        ],
        TensorProto.INT32,
        ["n", "m"],
        numpy_helper.from_array(np.array([2]), "one"),
    ),
    "a target shape": reader([helper.make_node("Expand", ["x", "i"], ["y"])], INT, [3]),
    "a count": reader([helper.make_node("TopK", ["x", "i"], ["y", "z"], axis=-1)], INT, [1]),
    "a shape of a new tensor": reader([helper.make_node("ConstantOfShape", ["i"], ["y"])], INT, [2]),
    "places in several axes": reader([helper.make_node("GatherND", ["x", "i"], ["y"])], INT, ["k", 3]),
    "places after a batch axis": reader(
        [helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=1)], INT, ["n", "k", 2]
    ),
    "places that are set": reader(
        [
            helper.make_node("GatherND", ["x", "i"], ["u"]),
            helper.make_node("ScatterND", ["x", "i", "u"], ["y"]),
        ],
        INT,
        ["k", 2],
    ),
    "positions of tokens": reader(
        [
            helper.make_node("Unsqueeze", ["x", "one"], ["heads"]),
            helper.make_node("RotaryEmbedding", ["heads", "i", "c", "c"], ["y"], domain="com.microsoft"),
        ],
        INT,
        ["n", "m"],
        numpy_helper.from_array(np.array([1]), "one"),
        floats("c", 200, 2),
    ),
    "an axis to sum": reader([helper.make_node("ReduceMax", ["x", "i"], ["y"])], INT, [1]),
    "images of regions": reader(
        [
            helper.make_node("Unsqueeze", ["x", "one"], ["image"]),
            helper.make_node("Shape", ["i"], ["count"]),
            helper.make_node("Concat", ["count", "four"], ["size"], axis=0),
            helper.make_node("Expand", ["box", "size"], ["boxes"]),
            helper.make_node("RoiAlign", ["image", "boxes", "i"], ["y"]),
        ],
        INT,
        ["k"],
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.array([4]), "four"),
        floats("box", 1, 4),
    ),
    "inside a branch": reader(
        [
            helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
            helper.make_node(
                "If",
                ["yes"],
                ["y"],
                then_branch=helper.make_graph(
                    [helper.make_node("Gather", ["t", "i"], ["a"])],
                    "then",
                    [],
                    [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Identity", ["t"], ["b"])],
                    "else",
                    [],
                    [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
                ),
            ),
        ],
        INT,
        ["k"],
        floats("t", 5, 2),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_integers_lie_where_they_are_read(name: str) -> None:
    model = READERS[name]
    runs = session(model)
    made = ss.generate_inputs(model, count=10, seed=1, edge=False)
    for feed in made:
        runs.run(None, feed)
    assert any(g.startswith("i: ") for g in made.guesses)


def test_indices_use_the_whole_range() -> None:
    made = ss.generate_inputs(READERS["rows of a stored table"], count=10, edge=False)
    assert set(np.concatenate([f["i"] for f in made])) == {0, 1, 2}
    assert any(g.startswith("i: 0 to 2, read as indices by ") for g in made.guesses)


def test_a_computed_index_lies_in_the_axis_of_its_column() -> None:
    """Each column of places has a greatest one of its own: what fits the second axis alone is not outside of it."""
    nodes = [
        helper.make_node("Add", ["i", "far"], ["j"]),
        helper.make_node("GatherND", ["t", "j"], ["y"]),
    ]
    for far, told in (([0, 8], False), ([80, 0], True)):
        model = reader(
            nodes, INT, ["k", 2], numpy_helper.from_array(np.array(far), "far"), floats("t", 2, 10)
        )
        made = ss.generate_inputs(model, count=4, edge=False)
        assert any("out of range" in guess for guess in made.guesses) is told
        if not told:
            for feed in made:
                session(model).run(None, feed)


def test_values_and_sizes_can_be_given() -> None:
    model = READERS["rows of a stored table"]
    made = ss.generate_inputs(
        model, count=3, bind={"k": 5}, values={"i": 2, "x": lambda s, d: np.full(s, 7, d)}
    )
    assert all(f["i"].tolist() == [2] * 5 for f in made)
    assert all((f["x"] == 7).all() for f in made)
    with pytest.raises(ValueError, match="no input 'z'"):
        ss.generate_inputs(model, values={"z": 1})
    with pytest.raises(ValueError, match="no input of the model has a dim named 'q'"):
        ss.generate_inputs(model, bind={"q": 1})
    with pytest.raises(ValueError, match=r"must have shape \[5\], got \[3\]"):
        ss.generate_inputs(model, count=1, bind={"k": 5}, values={"i": [0, 1, 2]})


def test_a_model_that_cannot_run_gets_none() -> None:
    with pytest.raises(ss.NoSizes):
        ss.generate_inputs(ROOT / "examples/broken_matmul.onnx")


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, same, other = (ss.generate_inputs(EXAMPLES[1], count=4, seed=s) for s in (1, 1, 2))
    assert one.sizes == same.sizes
    assert all((array == same[k][name]).all() for k in range(4) for name, array in one[k].items())
    assert one.sizes != other.sizes


def test_files_are_read_back(tmp_path: Path) -> None:
    made = ss.generate_inputs(EXAMPLES[0], count=2)
    made.save(tmp_path, "npz")
    read = np.load(tmp_path / "inputs_1.npz")
    assert {n: a.tolist() for n, a in read.items()} == {n: a.tolist() for n, a in made[1].items()}
    made.save(tmp_path, "pb")
    for i, (name, array) in enumerate(made[0].items()):
        tensor = TensorProto.FromString((tmp_path / f"test_data_set_0/input_{i}.pb").read_bytes())
        assert tensor.name == name
        assert (numpy_helper.to_array(tensor) == array).all()


def test_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["inputs", str(EXAMPLES[1]), "-n", "4", "-o", str(tmp_path / "feeds")])
    assert done.exit_code == 0, done.output
    assert "wrote 4 input sets" in done.output
    assert len(list((tmp_path / "feeds").iterdir())) == 4
    done = CliRunner().invoke(app, ["inputs", str(ROOT / "examples/broken_matmul.onnx")])
    assert done.exit_code == 1


def test_sizes_fit_the_branch_that_data_chooses() -> None:
    """Either branch may run, so that the contract asks for one of them; generated sizes fit both."""
    then = helper.make_graph(
        [helper.make_node("Gather", ["t", "at"], ["a"])],
        "then",
        [],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["t"], ["b"])],
        "else",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Sub", ["n", "one"], ["at"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            floats("t", 4, 2),
            numpy_helper.from_array(np.array(0), "zero"),
            numpy_helper.from_array(np.array(1), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    runs = session(model)
    for feed in ss.generate_inputs(model, count=12, seed=5):
        runs.run(None, feed)


def counted(table: int, offset: int) -> onnx.ModelProto:
    """Positions counted along a mask, as exporters of OPT, MPNet and M2M100 write them, in a table of so many rows."""
    nodes = [
        helper.make_node("CumSum", ["attention_mask", "one"], ["counted"]),
        helper.make_node("Mul", ["counted", "attention_mask"], ["kept"]),
        helper.make_node("Shape", ["x"], ["sizes"], start=0, end=2),
        helper.make_node("Expand", ["offset", "sizes"], ["offsets"]),
        helper.make_node("Add", ["kept", "offsets"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["positions"]),
        helper.make_node("Add", ["positions", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("attention_mask", INT, ["batch", "seq"]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(1), "one"),
            numpy_helper.from_array(np.array(offset), "offset"),
            floats("table", table, 4),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_positions_that_the_model_counts_stay_within_their_table(domain: str) -> None:
    model = counted(table=12, offset=2)
    for node in model.graph.node:
        node.domain = domain
    runs = session(model)
    made = ss.generate_inputs(model, count=20, seed=2)
    assert len(made) == 20
    for feed in made:
        runs.run(None, feed)
    assert max(s["seq"] for s in made.sizes) > 4
    assert not any("out of range" in guess for guess in made.guesses)


def test_as_many_as_are_asked_for() -> None:
    """Sizes come again where the model accepts fewer, and none are drawn where none are wanted."""
    nodes = [helper.make_node("Reshape", ["i", "target"], ["y"], allowzero=1)]
    model = reader(nodes, TensorProto.FLOAT, ["N"], numpy_helper.from_array(np.array([0]), "target"))
    runs = session(model)
    for count in (0, 1, 5):
        made = ss.generate_inputs(model, count)
        assert [s["N"] for s in made.sizes] == [0] * count
        for feed in made:
            runs.run(None, feed)
    with pytest.raises(ValueError, match="count must be at least 0, got -1"):
        ss.generate_inputs(model, -1)


def test_an_index_that_is_always_outside_is_told() -> None:
    made = ss.generate_inputs(counted(table=2, offset=9), count=3, edge=False)
    assert len(made) == 3
    assert any("may be out of range" in guess for guess in made.guesses)


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("RNN", 1)])
def test_lengths_of_sequences_without_steps_are_zero(op_type: str, gates: int) -> None:
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "w", "r", "", "lens"], ["y"], hidden_size=3)],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["seq", "batch", 2]),
            helper.make_tensor_value_info("lens", TensorProto.INT32, ["batch"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [floats("w", 1, gates * 3, 2), floats("r", 1, gates * 3, 3)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    runs = session(model)
    made = ss.generate_inputs(model, count=16, seed=1, edge=True, bind={"batch": 2})
    for feed in made:
        runs.run(None, feed)
    assert {s["seq"] for s in made.sizes} >= {0, 1}
    assert all(feed["lens"].min() >= 1 for feed, s in zip(made, made.sizes, strict=True) if s["seq"])
    assert "lens: min(seq, 1) to seq, read as" in made.guesses[0]


def test_numbers_from_which_indices_are_computed_lead_into_the_table() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
        helper.make_node("Sub", ["n", "i"], ["at"]),
        helper.make_node("Gather", ["x", "at"], ["y"]),
    ]
    model = reader(nodes, TensorProto.INT64, ["lags"])
    made = ss.generate_inputs(model, count=20)
    runs = session(model)
    for feed in made:
        runs.run(None, feed)
    assert max(sizes["lags"] for sizes in made.sizes) > 20
    assert any("in range" in guess for guess in made.guesses)


def test_what_onnxruntime_divides_by_is_not_zero() -> None:
    """The size that a Reshape computes from others becomes a -1 when the model is optimized."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Shape", ["a"], ["b"], start=0, end=1),
        helper.make_node("Shape", ["a"], ["s"]),
        *(helper.make_node("Gather", ["s", f"k{k}"], [f"s{k}"]) for k in range(3)),
        helper.make_node("Mul", ["s1", "s2"], ["p"]),
        *(helper.make_node("Unsqueeze", [n, "axis"], [f"{n}_"]) for n in ("s0", "p")),
        helper.make_node("Concat", ["s0_", "p_", "one"], ["to"], axis=0),
        helper.make_node("Reshape", ["a", "to"], ["r"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["t"], keepdims=0),
        helper.make_node("Add", ["r", "t"], ["y"]),
    ]
    stored = [numpy_helper.from_array(np.array(k), f"k{k}") for k in range(3)]
    stored += [numpy_helper.from_array(np.array([k]), n) for n, k in (("axis", 0), ("one", 1))]
    model = reader(nodes, TensorProto.INT64, [3], *stored)
    runs = session(model)
    with pytest.raises(Exception, match="size != 0"):
        runs.run(None, {"x": np.zeros((0, 2, 4), np.float32), "i": np.zeros(3, np.int64)})
    made = ss.generate_inputs(model, count=20, edge=True)
    for feed in made:
        runs.run(None, feed)
    assert any(0 in sizes.values() for sizes in made.sizes)


def test_distinct_elements_are_read_as_the_elements_are() -> None:
    nodes = [
        helper.make_node("Unique", ["i"], ["u", "", "", "c"]),
        helper.make_node("Gather", ["x", "u"], ["y"]),
    ]
    model = reader(nodes, TensorProto.INT64, ["k"])
    runs = session(model)
    for feed in ss.generate_inputs(model, count=20):
        runs.run(None, feed)
        assert np.all(feed["i"] < max(feed["x"].shape[0], 1))


def test_sizes_of_0_are_left_out_where_floats_decide_what_becomes_of_them() -> None:
    """An image is scaled until its longer side is 64; of nothing, nothing can be made that is 1 high."""
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["x"], ["hw"], start=2),
            helper.make_node("Cast", ["hw"], ["f"], to=1),
            helper.make_node("ReduceMax", ["f"], ["longest"]),
            helper.make_node("Div", ["side", "longest"], ["ratio"]),
            helper.make_node("Mul", ["f", "ratio"], ["g"]),
            helper.make_node("Cast", ["g"], ["k"], to=7),
            helper.make_node("Max", ["k", "one"], ["size"]),
            helper.make_node("Shape", ["x"], ["nc"], end=2),
            helper.make_node("Concat", ["nc", "size"], ["sizes"], axis=0),
            helper.make_node("Resize", ["x", "", "", "sizes"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(64), "side"), numpy_helper.from_array(np.array(1), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    runs = session(model)
    with pytest.raises(Exception, match="Input dim is zero"):
        runs.run(None, {"x": np.zeros((1, 3, 0, 8), np.float32)})
    made = ss.generate_inputs(model, count=20)
    for feed in made:
        runs.run(None, feed)
