"""The nearest accepted sizes are accepted, and no others change fewer names: compared with trying them all."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy import NoSizes, Sizes

from ..building import parsed, session

ROOT = Path(__file__).resolve().parents[2]


def split_in(parts: int) -> ss.Analysis:
    """Two sizes that add up to a multiple, and one that is their sum."""
    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["a", "b"], ["c"], axis=0),
            helper.make_node("Add", ["c", "t"], ["s"]),
            helper.make_node("SpaceToDepth", ["p"], ["q"], blocksize=parts),
        ],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["past", 2]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["seq", 2]),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, ["total", 2]),
            helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 1, "past", 4 * parts]),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "sq"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ss.analyze(model, assume=["total >= 2"])


@pytest.mark.parametrize("wanted", [(3, 4, 9), (0, 0, 5), (5, 5, 5), (8, 1, 2), (7, 3, 12)])
@pytest.mark.parametrize("side", ["above", "below", "both"])
def test_no_accepted_sizes_change_fewer_of_those_given(wanted: tuple[int, ...], side: str) -> None:
    question = Sizes(split_in(4))
    names = question.names
    start = dict(zip(("past", "seq", "total"), wanted, strict=True))
    reach = 8
    best = None
    for moves in product(range(-reach, reach + 1), repeat=3):
        if (side == "above" and min(moves) < 0) or (side == "below" and max(moves) > 0):
            continue
        trial = {n: start[n] + m for n, m in zip(("past", "seq", "total"), moves, strict=True)}
        if min(trial.values()) >= 0 and question.accepted(trial):
            changed = sum(map(bool, moves))
            best = changed if best is None else min(best, changed)
    if best is None:
        try:
            found = question.nearest(start, side)  # type: ignore[arg-type]
        except NoSizes:
            return
        assert max(abs(found[n] - start[n]) for n in names) > reach
        return
    found = question.nearest(start, side)  # type: ignore[arg-type]
    assert question.accepted(found)
    assert sum(found[n] != start[n] for n in names) <= best


def test_the_command_says_what_is_broken() -> None:
    unet = str(ROOT / "examples/unet.onnx")
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "height=1081,width=1920", "--json"])
    assert done.exit_code == 1, done.output
    told = json.loads(done.output)
    assert told["above"]["height"] == 1088
    assert told["below"]["height"] == told["both"]["height"] == 1080
    assert any("height" in text for text in told["broken"])
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "height=1080,width=1920"])
    assert (done.exit_code, done.output.strip()) == (
        0,
        "accepted: height = 1080, width = 1920, with batch = 1",
    )
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "hight=8"])
    assert done.exit_code == 2


def test_what_is_assumed_holds_for_what_the_solver_finds() -> None:
    attention = ss.analyze(ROOT / "examples/attention.onnx", assume=["total_seq == past_seq + seq"])
    wanted = {"batch": 1, "seq": 1, "past_seq": 1, "total_seq": 1}
    assert Sizes(attention).nearest(wanted, "above") == {**wanted, "total_seq": 2}


def test_where_every_size_is_bound_nothing_is_near() -> None:
    bound = {"batch": 1, "height": 12, "width": 8}
    with pytest.raises(NoSizes, match="height"):
        Sizes(ss.analyze(ROOT / "examples/unet.onnx"), bound).nearest(bound)


def test_sizes_that_are_not_given_take_what_the_others_need() -> None:
    """They are no part of what is refused, and no side is kept by them."""
    question = Sizes(ss.analyze(ROOT / "examples/unet.onnx"))
    assert question.completed({"height": 64}) == {"batch": 1, "height": 64, "width": 224}
    assert question.completed({"height": 60}) is None
    assert question.nearest({"height": 60}, "below") == {"batch": 1, "height": 56, "width": 224}
    assert question.nearest({"height": 60}, "above") == {"batch": 1, "height": 64, "width": 224}
    done = CliRunner().invoke(app, ["sizes", str(ROOT / "examples/unet.onnx"), "--near", "height=60"])
    assert "height must be a multiple of 8, got 60" in done.output
    assert "width must" not in done.output


def _pinned() -> onnx.ModelProto:
    """`k` is 6 in every run; `n` is 5 or, since the addition repeats one row, 1."""
    return onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[n, k] x) => (float[5, 3] y) {
            w = Constant<value = float[3] {1, 2, 3}>()
            s = Constant<value_ints=[6, 3]>()
            v = Expand(w, s)
            m = MatMul(x, v)
            t = Constant<value_ints=[5, 3]>()
            c = Expand(w, t)
            y = Add(m, c)
        }""")


def test_a_size_that_only_an_assumption_gives_is_not_fixed() -> None:
    a = ss.analyze(_pinned())
    assert dict(a.bindings) == {"n": 5, "k": 6}
    question = Sizes(a)
    assert question.completed({"n": 1}) == {"n": 1, "k": 6}
    assert question.completed({}) == {"n": 5, "k": 6}
    assert question.nearest({"n": 2}) == {"n": 5, "k": 6}  # 1 is a corner of the broadcast
    assert question.nearest({"n": 2}, "below") == {"n": 1, "k": 6}
    assert [dict(s) for s in ss.enumerate_sizes(a, 5)] == [{"n": 1, "k": 6}, {"n": 5, "k": 6}]
    assert {s["n"] for s in question.edges(Random(0))} == {1, 5}
    (profile,) = ss.profile(a, {"n": 1})
    assert [corner["n"] for corner in (profile.min, profile.opt, profile.max)] == [1, 1, 1]
    (profile,) = ss.profile(a, {})
    assert [corner["n"] for corner in (profile.min, profile.opt, profile.max)] == [5, 5, 5]
    assert ss.profile(a, {"n": 1}, max={"n": 5})[0].conditions == ("n == 5 or n == 1",)


def test_another_size_than_the_only_one_is_not_near() -> None:
    question = Sizes(ss.analyze(_pinned()))
    assert question.completed({"k": 9}) is None
    assert question.nearest({"k": 9}) == question.nearest({"k": 9}, "below") == {"n": 5, "k": 6}
    with pytest.raises(NoSizes, match="k = 6 in every run, which is not above k = 9"):
        question.nearest({"k": 9}, "above")


def test_inputs_are_told_as_they_were_given() -> None:
    a = ss.analyze(_pinned())
    assert a._solved.sizes_at({"n": 2, "k": 7})["x"] == (2, 7)
    assert a._solved.sizes_at({})["y"] == (5, 3)


def test_at_refused_sizes_evaluate_holds_what_a_run_makes_before_it_stops() -> None:
    path = ROOT / "examples/unet.onnx"
    a, sizes = ss.analyze(path), {"batch": 1, "height": 12, "width": 8}
    found = a.evaluate(sizes)
    assert "height must be a multiple of 8, got 12" in str(found.violations[0])
    assert "not accepted" in repr(found)
    model = onnx.load(path)
    for name in found:  # a run that ends at this tensor makes it with that shape
        if name in a.inputs or name in {t.name for t in model.graph.initializer}:
            continue
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.output[:]
        part.graph.output.append(helper.make_tensor_value_info(name, a.dtypes[name], None))
        nodes = [n for n in part.graph.node if a.shapes.get(n.output[0]) is not None]
        kept, needed = [], {name}
        for node in reversed(nodes):
            if needed.intersection(node.output):
                kept.insert(0, node)
                needed.update(node.input)
        del part.graph.node[:]
        part.graph.node.extend(kept)
        (made,) = session(part).run(None, {"image": np.zeros((1, 3, 12, 8), np.float32)})
        assert made.shape == found[name], name
    assert 5 < len(found) < len(a.evaluate({"batch": 1, "height": 16, "width": 8}))


def test_part_of_the_sizes_is_refused_as_the_contract_refuses_it() -> None:
    """No single node's condition fails whatever the batch is; together they are a term that does."""
    a = ss.analyze(ROOT / "tests/models/gpt2_past__ts/model.onnx")
    (term,) = [t for t in a.contract if len(t.symbols) > 1][:1]
    part = dict(term.fails or {})
    part = {n: part[n] for n in term.symbols}
    assert a.contract.holds(part) is False
    assert a.evaluate(part).violations
    assert [v.text for v in a.evaluate(part).violations] == [term.text]


def test_usual_sizes_follow_from_the_axis() -> None:
    """One item, images of 224, short sequences; the length of a cache is no side of an image."""

    def preferred(inputs: str, body: str = "y = Shape(x)") -> dict[str, int]:
        text = f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => (int64[r] y) {{ {body} }}'
        return Sizes.usual(ss.analyze(onnx.parser.parse_model(text))).preferred()

    assert preferred("float[n, 3, h, w] x") == {"n": 1, "h": 224, "w": 224}
    assert preferred("float[n, h, w, 3] x") == {"n": 1, "h": 224, "w": 224}
    assert preferred("float[n, 1, 32, w] x") == {"n": 1, "w": 224}
    assert preferred("float[seq, batch, 64] x") == {"seq": 8, "batch": 1}
    assert preferred("int64[n, seq] x, float[n, 2, past, 16] k, float[n, 2, past, 16] v") == {
        "n": 1,
        "seq": 8,
        "past": 8,
    }


def test_typical_sizes_are_small_square_and_of_one_role() -> None:
    """A window of 6,000 is not taken for a size, half the positions of a table are no side, audio is long."""
    pool = "k = AveragePool<kernel_shape=[6000, 6000], strides=[6000, 6000], ceil_mode=1>(x) y = Squeeze<axes=[2, 3]>(k)"
    text = f'<ir_version: 8, opset_import: ["": 11]> g (float[n, 3, h, w] x) => (y) {{ {pool} }}'
    assert Sizes.usual(ss.analyze(onnx.parser.parse_model(text))).preferred() == {"n": 1, "h": 224, "w": 224}
    vit = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 3, h, w] x) => (y) {
        k = AveragePool<kernel_shape=[16, 16], strides=[16, 16]>(x) s = Constant<value_ints=[0, 3, 196]>()
        y = Reshape(k, s) }"""
    a = ss.analyze(onnx.parser.parse_model(vit))
    assert Sizes.usual(a).preferred() == {"n": 1, "h": 224, "w": 224}
    assert ss.enumerate_sizes(a, 1) == [{"n": 1, "h": 224, "w": 224}]
    wave = '<ir_version: 8, opset_import: ["": 17]> g (float[n, samples] x) => (int64[r] y) { y = Shape(x) }'
    assert Sizes.usual(ss.analyze(onnx.parser.parse_model(wave))).preferred() == {"n": 1, "samples": 16_000}


def test_the_smallest_sizes_may_be_large() -> None:
    text = "g (float[n] x) => (float[m] y) { k = Constant<value_ints = [1000]>() y, i = TopK(x, k) }"
    (sizes,) = ss.enumerate_sizes(parsed(text), 1)
    assert sizes == {"n": 1000}


def test_sizes_of_which_no_term_speaks_are_accepted_where_they_run() -> None:
    a = ss.analyze(parsed("g (float[a, b, c] x) => (y) { s = Squeeze(x) y = Add(s, w) }", w=[3]))
    assert a.contract.unjudged
    for shape in product((1, 2, 3), repeat=3):
        sizes = dict(zip("abc", shape, strict=True))
        runs = [n for n in shape if n != 1][-1:] in ([], [3])
        assert Sizes(a).accepted(sizes) == (a.check_inputs({"x": shape}) == []) == runs, shape


@pytest.mark.parametrize("height", [63, 224])
def test_a_side_that_was_not_given_is_free_and_square_sizes_are_proposed(height: int) -> None:
    """Patches of 4 x 4 that must be 64: at a height of 64 a width of 16 runs, and squares run from 32 to 35."""
    model = parsed("""
        agraph (float[1,3,height,width] x) => (float[1,n] y) {
            p = AveragePool<kernel_shape: ints = [4, 4], strides: ints = [4, 4]>(x)
            s = Constant<value_ints: ints = [1, 192]>() f = Reshape(p, s) y = Identity(f) }""")
    a = ss.analyze(model)
    runs = [h for h in range(4, 300) if 64 % (h // 4) == 0]
    (finding,) = a.why({"height": height}).findings
    assert finding.help == "use 32 for height and width"
    below, above = a.nearest({"height": height}).values()
    assert below is not None
    assert above is not None
    assert below["height"] == max(h for h in runs if h < height)
    assert above["height"] == min(h for h in runs if h > height)
    (finding,) = a.why({"height": 40, "width": 40}).findings
    assert finding.help == "use height = 35, width = 35 or height = 32, width = 32 (round)"
