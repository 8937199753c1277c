"""Generated inputs run, and lie where the model reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, numpy_helper

import shapesolve as ss
from shapesolve.cli import app

from ..building import parsed, session

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


def reader(nodes: str, given: str = "int64[k] i", **stored: Any) -> onnx.ModelProto:
    """A model that reads `i` in some way."""
    model = parsed(f"g ({given}, float[n, m, 4] x) => (y) {{ {nodes} }}", 18, **stored)
    model.opset_import.add(domain="com.microsoft", version=1)
    return model


READERS = {
    "rows of a dynamic axis": reader("y = Gather<axis = 1>(x, i)"),
    "rows of a stored table": reader("y = Gather(t, i)", t=[3, 2]),
    "after a cast and a reshape": reader(
        "c = Cast<to = 7>(i) u = Unsqueeze(c, one) y = GatherElements<axis = 1>(x, u)",
        "int32[n, m] i",
        one=np.array([2]),
    ),
    "a target shape": reader("y = Expand(x, i)", "int64[3] i"),
    "a count": reader("y, z = TopK<axis = -1>(x, i)", "int64[1] i"),
    "a shape of a new tensor": reader("y = ConstantOfShape(i)", "int64[2] i"),
    "places in several axes": reader("y = GatherND(x, i)", "int64[k, 3] i"),
    "places after a batch axis": reader("y = GatherND<batch_dims = 1>(x, i)", "int64[n, k, 2] i"),
    "places that are set": reader("u = GatherND(x, i) y = ScatterND(x, i, u)", "int64[k, 2] i"),
    "positions of tokens": reader(
        "heads = Unsqueeze(x, one) y = com.microsoft.RotaryEmbedding(heads, i, c, c)",
        "int64[n, m] i",
        one=np.array([1]),
        c=[200, 2],
    ),
    "an axis to sum": reader("y = ReduceMax(x, i)", "int64[1] i"),
    "images of regions": reader(
        "image = Unsqueeze(x, one) count = Shape(i) size = Concat<axis = 0>(count, four) boxes = Expand(box, size)"
        " y = RoiAlign(image, boxes, i)",
        one=np.array([1]),
        four=np.array([4]),
        box=[1, 4],
    ),
    "inside a branch": reader(
        "yes = Constant<value = bool {1}>()"
        " y = If(yes) <then_branch = t () => (a) { a = Gather(t, i) }, else_branch = e () => (b) { b = Identity(t) }>",
        t=[5, 2],
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
    for far, told in (([0, 8], False), ([80, 0], True)):
        model = reader("j = Add(i, far) y = GatherND(t, j)", "int64[k, 2] i", far=np.array(far), t=[2, 10])
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
    with pytest.raises(ValueError, match="unknown input 'z'"):
        ss.generate_inputs(model, values={"z": 1})
    with pytest.raises(ValueError, match="unknown dim 'q'"):
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
    model = parsed(
        "g (float[n] x, bool flag) => (y) <int64 zero = {0}, int64 one = {1}> {"
        " s = Shape(x) n = Gather(s, zero) at = Sub(n, one)"
        " y = If(flag) <then_branch = t () => (a) { a = Gather(t, at) }, else_branch = e () => (b) { b = Identity(t) }> }",
        t=[4, 2],
    )
    runs = session(model)
    for feed in ss.generate_inputs(model, count=12, seed=5):
        runs.run(None, feed)


def counted(table: int, offset: int) -> onnx.ModelProto:
    """Positions counted along a mask, as exporters of OPT, MPNet and M2M100 write them, in a table of so many rows."""
    return parsed(
        "g (int64[batch, seq] attention_mask, float[batch, seq, 4] x) => (y) <int64 one = {1}> {"
        " counted = CumSum(attention_mask, one) kept = Mul(counted, attention_mask) sizes = Shape<start = 0, end = 2>(x)"
        " offsets = Expand(offset, sizes) places = Add(kept, offsets) positions = Gather(table, places)"
        " y = Add(positions, x) }",
        offset=np.array(offset),
        table=[table, 4],
    )


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
    model = reader("y = Reshape<allowzero = 1>(i, target)", "float[N] i", target=np.array([0]))
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
    model = parsed(
        f"g (float[seq, batch, 2] x, int32[batch] lens) => (y) {{ y = {op_type}<hidden_size = 3>(x, w, r, , lens) }}",
        w=[1, gates * 3, 2],
        r=[1, gates * 3, 3],
    )
    runs = session(model)
    made = ss.generate_inputs(model, count=16, seed=1, edge=True, bind={"batch": 2})
    for feed in made:
        runs.run(None, feed)
    assert {s["seq"] for s in made.sizes} >= {0, 1}
    assert all(feed["lens"].min() >= 1 for feed, s in zip(made, made.sizes, strict=True) if s["seq"])
    assert "lens: min(seq, 1) to seq, read as" in made.guesses[0]


def test_numbers_from_which_indices_are_computed_lead_into_the_table() -> None:
    model = reader("n = Shape<start = 0, end = 1>(x) at = Sub(n, i) y = Gather(x, at)", "int64[lags] i")
    made = ss.generate_inputs(model, count=20)
    runs = session(model)
    for feed in made:
        runs.run(None, feed)
    assert max(sizes["lags"] for sizes in made.sizes) > 20
    assert any("in range" in guess for guess in made.guesses)


def test_what_onnxruntime_divides_by_is_not_zero() -> None:
    """The size that a Reshape computes from others becomes a -1 when the model is optimized."""
    model = reader(
        "a = Abs(x) b = Shape<start = 0, end = 1>(a) s = Shape(a) s0 = Gather(s, k0) s1 = Gather(s, k1) s2 = Gather(s, k2)"
        " p = Mul(s1, s2) u = Unsqueeze(s0, axis) v = Unsqueeze(p, axis) to = Concat<axis = 0>(u, v, one) r = Reshape(a, to)"
        " f = Cast<to = 1>(i) t = ReduceSum<keepdims = 0>(f) y = Add(r, t)",
        "int64[3] i",
        **{f"k{k}": np.array(k) for k in range(3)},
        axis=np.array([0]),
        one=np.array([1]),
    )
    runs = session(model)
    with pytest.raises(Exception, match="size != 0"):
        runs.run(None, {"x": np.zeros((0, 2, 4), np.float32), "i": np.zeros(3, np.int64)})
    made = ss.generate_inputs(model, count=20, edge=True)
    for feed in made:
        runs.run(None, feed)
    assert any(0 in sizes.values() for sizes in made.sizes)


def test_distinct_elements_are_read_as_the_elements_are() -> None:
    model = reader("u, p, q, c = Unique(i) y = Gather(x, u)")
    runs = session(model)
    for feed in ss.generate_inputs(model, count=20):
        runs.run(None, feed)
        assert np.all(feed["i"] < max(feed["x"].shape[0], 1))


def test_sizes_of_0_are_left_out_where_floats_decide_what_becomes_of_them() -> None:
    """An image is scaled until its longer side is 64; of nothing, nothing can be made that is 1 high."""
    model = parsed(
        """g (float[n, 3, height, width] x) => (y) <float side = {64}, int64 one = {1}> {
            hw = Shape<start = 2>(x) f = Cast<to = 1>(hw) longest = ReduceMax(f) ratio = Div(side, longest) g = Mul(f, ratio)
            k = Cast<to = 7>(g) size = Max(k, one) nc = Shape<end = 2>(x) sizes = Concat<axis = 0>(nc, size)
            y = Resize(x, , , sizes)
        }""",
        18,
    )
    runs = session(model)
    with pytest.raises(Exception, match="Input dim is zero"):
        runs.run(None, {"x": np.zeros((1, 3, 0, 8), np.float32)})
    made = ss.generate_inputs(model, count=20)
    for feed in made:
        runs.run(None, feed)
