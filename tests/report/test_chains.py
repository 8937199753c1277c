"""Findings name the node that is at fault, where its sizes come from, and what makes it run."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import shapesolve as ss

from ..building import parsed
from ..nodes import info, model, run, z


def patches(table: int) -> onnx.ModelProto:
    """Patches of 4 x 4 with a token before them, to which a table of positions is added."""
    return parsed(
        """g (float[n, 3, h, w_] x) => (y) <int64[3] flat = {0, 8, -1}, int64[2] rest = {1, 8}> {
        [patch] c = Conv<strides = [4, 4]>(x, w) f = Reshape(c, flat) p = Transpose<perm = [0, 2, 1]>(f)
        batch = Shape<end = 1>(x) wide = Concat<axis = 0>(batch, rest) t = Expand(token, wide) e = Concat<axis = 1>(t, p)
        [embed] y = Add(e, table) }""",
        18,
        w=[8, 3, 4, 4],
        token=[1, 1, 8],
        table=[1, table, 8],
    )


def test_a_table_of_positions_is_named_where_it_decides() -> None:
    m = patches(5)
    assert run(m, x=z(1, 3, 8, 8))[0].shape == (1, 5, 8)
    with pytest.raises(Exception, match="embed"):
        run(m, x=z(1, 3, 12, 12))
    a = ss.analyze(m)
    (term,) = (t for t in a.contract if set(t.symbols) == {"h", "w_"})
    assert "embed" in term.nodes
    (found,) = (f for f in a.diagnostics if f.code == "SS404")
    assert (found.node, [name for name, _, _ in found.operands]) == ("embed", ["e", "table"])


def scores(swapped: bool) -> onnx.ModelProto:
    """Scores of queries against keys, whose heads were joined along the wrong axis (`swapped`: the operands are)."""
    return parsed(f"""g (float[n, s, 32] x, float[n, 2, s, 16] past) => (y) <int64[4] heads = {{0, 0, 2, 16}}> {{
        [split] q = Reshape(x, heads) qt = Transpose<perm = [0, 2, 1, 3]>(q) k = Concat<axis = 1>(past, qt)
        kt = Transpose<perm = [0, 1, 3, 2]>(k) [scores] y = MatMul({"kt, qt" if swapped else "qt, kt"}) }}""")


@pytest.mark.parametrize("swapped", [False, True])
def test_operands_that_fit_no_way_round_are_not_advised_to(swapped: bool) -> None:
    for one in (False, True):
        with pytest.raises(Exception, match="scores"):
            run(scores(one), x=z(1, 3, 32), past=z(1, 2, 3, 16))
    (found,) = ss.analyze(scores(swapped)).diagnostics
    assert found.node == "scores"
    assert "scores computes" not in found.help
    assert "Transpose" not in found.help


def test_an_element_is_not_taken_for_the_number_of_elements() -> None:
    m = parsed(
        "g (float[n, 8] x) => (y) <int64[3] t = {0, 2, 3}> { r = Reshape(x, t) [mul] y = Mul(r, w) }", w=[2]
    )
    (found, *_) = ss.analyze(m).diagnostics
    assert not any("t has shape" in step.text for step in found.steps)


def test_what_a_fix_settles_as_well_is_not_told() -> None:
    def fully_connected(transposed: int) -> onnx.ModelProto:
        node = f"[fc] y = Gemm<transB = {transposed}>(x, w, b)" if transposed else "[fc] y = Gemm(x, w, b)"
        return parsed(f"g (float[n, 64] x) => (y) {{ {node} }}", w=[10, 64], b=[10])

    assert run(fully_connected(1), x=z(2, 64))[0].shape == (2, 10)
    (found,) = ss.analyze(fully_connected(0)).diagnostics
    assert found.help.startswith("set transB = 1 on fc (now 0)")
    assert not ss.analyze(fully_connected(1)).diagnostics


def test_a_weight_is_advised_with_those_that_must_fit_beside_it() -> None:
    def normed(n: int) -> onnx.ModelProto:
        text = "g (float[n, 6, w] x) => (y) { y = BatchNormalization(x, a, b, c, d) }"
        return parsed(text, **{name: [n] for name in "abcd"})

    (found,) = ss.analyze(normed(4)).diagnostics
    assert found.help == "change the shape of a, b, c, and d from [4] to [6]"
    assert run(normed(6), x=z(2, 6, 3))[0].shape == (2, 6, 3)


def test_a_body_that_cannot_run_even_once_is_told() -> None:
    """The first trip makes a vector of what must have the rank of the carried value; data tells whether there is one."""
    m = parsed("""g (int64 n, float[a, b] X) => (Y) {
        [loop] Y = Loop(n, , X) <body = b (int64 i, bool c, float[p, q] x) => (co, xo) {
            co = Identity(c) r = ReduceMax<axes = [1], keepdims = 0>(x) [join] xo = Concat<axis = -1>(x, r) }> }""")
    m.graph.node[0].attribute[0].g.input[2].type.tensor_type.ClearField("shape")
    assert run(m, n=np.array(0), X=z(2, 3))[0].shape == (2, 3)
    with pytest.raises(Exception, match="join"):
        run(m, n=np.array(1), X=z(2, 3))
    (found,) = ss.analyze(m).diagnostics
    assert (found.code, found.op_type) == ("SS204", "Concat")
    assert found.title.endswith("so the loop around it must have no iterations")
    assert any("(_v0: n)" in note for note in found.notes)


def test_a_function_that_is_called_as_a_loop_is_none() -> None:
    m = parsed("""g (float[a, b] x) => (y) <int64 one = {1}> {
        s = Shape(x) n = ReduceMin<keepdims = 0>(s) c = Equal(n, one)
        y = If(c) <then_branch = t () => (t) { [call] t = own.Loop(x) }, else_branch = o () => (e) { e = Identity(x) }> }
        <domain: "own", opset_import: ["": 17]> Loop (q) => (r) {
        m = ReduceMax<axes = [1]>(q) wider = Concat<axis = 1>(q, m) t = Transpose<perm = [1, 0]>(q)
        [product] r = MatMul(wider, t) }""")
    m.opset_import.add(domain="own", version=1)
    assert run(m, x=z(2, 3))[0].shape == (2, 3)
    with pytest.raises(Exception, match="MatMul"):
        run(m, x=z(1, 3))
    told = [f.title for f in ss.analyze(m).diagnostics if f.code == "SS204"]
    assert told == ["MatMul cannot run, so the branch around it must not be taken"]


def test_a_broadcast_that_an_open_one_settles_is_told_with_it() -> None:
    m = parsed(
        "g (float[a] x, float[b] y, float[a] z) => (w) { [first] m = Add(x, y) [second] w = Mul(m, z) }"
    )
    (found,) = ss.analyze(m).diagnostics
    assert found.nodes == ("first", "second")
    for sizes in ((3, 3), (3, 1), (1, 3)):
        assert run(m, x=z(sizes[0]), y=z(sizes[1]), z=z(sizes[0]))[0].shape == (3,)
    (assumed,) = (word for word in found.help.split('"') if "==" in word)
    assert not ss.analyze(m, assume=[assumed]).diagnostics


def test_names_that_follow_from_a_failed_node_are_not_told_of() -> None:
    nodes = "[fails] t = Add(x, w) c = Concat<axis = 1>(t, y) o = Mul(c, z) p = Add(o, y)"
    m = parsed(f"g (float[n, 4] x, float[b, 3] y, float[b, 1] z) => (p) {{ {nodes} }}", w=[5])
    (found,) = ss.analyze(m).diagnostics
    assert found.node == "fails"


def test_what_comes_of_a_shape_that_cannot_be_made_is_not_told_of() -> None:
    """The sizes of a Reshape are those of a Concat along an axis that it has not."""
    m = parsed("""g (float[n, s, 8] x, float[n, 2, 4, s] k, float[n, 1, s, s] m) => (v)
        <int64[1] zero = {0}, int64[3] rest = {-1, 2, 4}, int64[3] flat = {0, 0, -1}> {
        h = Shape(x) b = Gather<axis = 0>(h, zero) [fails] t = Concat<axis = 1>(b, rest) r = Reshape(x, t)
        p = Transpose<perm = [0, 2, 1, 3]>(r) q = MatMul(p, k) u = Add(q, m) v = Reshape(u, flat) }""")
    (found,) = ss.analyze(m).diagnostics
    assert (found.code, found.node) == ("SS202", "fails")


def test_conditions_that_contradict_each_other_only_together_are_an_error() -> None:
    """Quarters of the rows beside all of them, of rows in fours of which there must be one."""
    m = parsed("""g (float[n, 1] x) => (y, g) <int64[2] fours = {-1, 4}, int64[1] one = {1}, int64 zero = {0}> {
        r = Reshape(x, fours) q = ReduceMean<axes = [1], keepdims = 0>(r) a = Unsqueeze(q, one) y = Concat<axis = 1>(x, a)
        g = Gather<axis = 0>(x, zero) }""")
    for n in range(9):
        with pytest.raises(Exception, match=r"Concat|Reshape|Gather"):
            run(m, x=z(n, 1))
    a = ss.analyze(m)
    assert a.contract.impossible
    (found,) = a.diagnostics
    assert (found.severity, found.op_type in ("Concat", "Gather")) == ("error", True)


def test_a_size_is_followed_through_any_number_of_nodes() -> None:
    n = 500
    nodes = "".join(f"[r{i}] t{i + 1} = Relu(t{i}) " for i in range(n))
    m = parsed(f"g (float[b, 6] t0) => (y) {{ {nodes} [product] y = MatMul(t{n}, w) }}", w=[7, 3])
    (found,) = ss.analyze(m).diagnostics
    assert "it comes from input t0 [b, 6], through 500 nodes" in found.steps[0].text
    assert "r0" in found.nodes


def test_windows_of_a_padded_image_need_one_line() -> None:
    """Windows of 7 by 7, put together again: a computed 0 copies an axis, which matters for empty images only."""
    m = parsed("""g (float[batch, height, width, 4] x) => (y)
          <int64[1] s = {7}, int64[1] c = {4}, int64[5] z = {0, 0, 0, 0, 0}, int64[1] o = {0}, int64[3] rows = {-1, 49, 4},
           int64[2] from = {0, 0}, int64[2] axes = {1, 2}> {
          b = Shape<start = 0, end = 1>(x) h = Shape<start = 1, end = 2>(x) w = Shape<start = 2, end = 3>(x)
          h1 = Mod(h, s) h2 = Sub(s, h1) ph = Mod(h2, s) w1 = Mod(w, s) w2 = Sub(s, w1) pw = Mod(w2, s)
          pads = Concat<axis = 0>(z, ph, pw, o) p = Pad(x, pads)
          H = Shape<start = 1, end = 2>(p) W = Shape<start = 2, end = 3>(p) nh = Div(H, s) nw = Div(W, s)
          t1 = Concat<axis = 0>(b, nh, s, nw, s, c) v1 = Reshape(p, t1) v2 = Transpose<perm = [0, 1, 3, 2, 4, 5]>(v1)
          v3 = Reshape(v2, rows) t2 = Concat<axis = 0>(b, nh, nw, s, s, c) v4 = Reshape(v3, t2)
          v5 = Transpose<perm = [0, 1, 3, 2, 4, 5]>(v4) t3 = Concat<axis = 0>(b, H, W, c) v6 = Reshape(v5, t3)
          hw = Concat<axis = 0>(h, w) v7 = Slice(v6, from, hw, axes) y = Add(v7, x)
        }""")
    a = ss.analyze(m)
    assert [t.text for t in a.contract] == ["batch == 0 or height >= 1", "batch == 0 or width >= 1"]
    assert not a.ambiguities
    for b, h, w in product((0, 1, 2), (0, 1, 7, 9), (0, 3, 14)):
        accepted = not a.check_inputs({"x": (b, h, w, 4)})
        assert accepted == (b == 0 or (h > 0 and w > 0))
        if accepted:
            assert run(m, x=z(b, h, w, 4))[0].shape == (b, h, w, 4)
        else:
            with pytest.raises(Exception, match="Reshape"):
                run(m, x=z(b, h, w, 4))


@pytest.mark.parametrize(
    ("text", "shapes", "contract"),
    [
        (
            "g (float[N, 3, 4, 4] x, float[2, 3, 1, 1] w) => (y) { t = Squeeze(x) y = Conv(t, w) }",
            [(n, 3, 4, 4) for n in range(4)],
            ["N != 1"],
        ),
        (
            "g (float[N, 1, M] x) => (y) { t = Squeeze(x) y = Transpose<perm = [1, 0]>(t) }",
            [(n, 1, k) for n in range(4) for k in range(4)],
            ["N != 1", "M != 1"],
        ),
        (
            "g (float[N, 3, 4, 4, K] x, float[2, 3, 1, 1] w) => (y) { t = Squeeze(x) y = Conv(t, w) }",
            [(n, 3, 4, 4, k) for n in (1, 2) for k in (1, 2)],
            None,
        ),
    ],
)
def test_a_batch_of_one_that_is_squeezed_away_is_told(text: str, shapes: Any, contract: Any) -> None:
    m = parsed(text)
    a = ss.analyze(m)
    if contract is not None:
        assert all(a.prove(term) for term in contract)
    for shape in shapes:
        feeds = {i.name: z(*(d.dim_value for d in i.type.tensor_type.shape.dim)) for i in m.graph.input}
        feeds["x"] = z(*shape)
        try:
            real = run(m, **feeds)[0].shape
        except Exception:
            real = None
        accepted = not a.check_inputs({n: v.shape for n, v in feeds.items()})
        if real is None:
            assert not accepted or contract is None  # which of two axes is left matters to the channels
        else:
            assert accepted
            sizes = [d.evaluate(a.bind_inputs({"x": shape})) for d in a.shapes["y"]]
            assert [s for s in sizes if s is not None] == [
                n for s, n in zip(sizes, real, strict=True) if s is not None
            ]


@pytest.mark.parametrize(
    "text",
    [
        "g (float[6] x, int64[n] t) => (y, w) { y, w = Split(x, t) }",
        "g (float[6] x, int64[n] t) => (y) { y = Pad(x, t) }",
        "g (float[6, 2] x, int64[n] t) => (y) { y = Tile(x, t) }",
        "g (float[1, 1, 6, 6] x, float[n] t) => (y) { y = Resize(x, , t) }",
    ],
)
def test_how_many_numbers_a_node_reads_is_required(text: str) -> None:
    m = parsed(text, 18)
    a = ss.analyze(m)
    shape = tuple(d.dim_value for d in m.graph.input[0].type.tensor_type.shape.dim)
    kind = np.int64 if m.graph.input[1].type.tensor_type.elem_type == TensorProto.INT64 else np.float32
    for n in range(1, 6):
        t = np.full(n, 3 if "Split" in text else 1, kind)
        accepted = not a.check_inputs({"x": shape, "t": (n,)})
        try:
            run(m, x=z(*shape), t=t)
        except Exception:
            assert not accepted
        else:
            assert accepted


@pytest.mark.parametrize("needed", [None, 1, 2])
def test_several_axes_that_data_names_are_squeezed(needed: int | None) -> None:
    """Sizes are excluded at which no axes do: held against onnxruntime on all pairs of them."""
    after = f"y = Transpose<perm = {list(range(needed))}>(s)" if needed else "y = Identity(s)"
    m = parsed(f"g (float[a, b, c] x, int64[2] axes) => (y) {{ [squeeze] s = Squeeze(x, axes) {after} }}", 18)
    analysis = ss.analyze(m)
    for shape in product((1, 2), repeat=3):
        runs = False
        for axes in product(range(3), repeat=2):
            try:
                run(m, x=z(*shape), axes=np.array(axes))
            except Exception:
                continue
            runs = True
        assert runs is (not analysis.check_inputs({"x": shape, "axes": (2,)})), shape


def test_an_axis_may_be_squeezed_twice() -> None:
    m = parsed("g (float[1, 3, 4] x, int64[2] t) => (y) { y = Squeeze(x, t) }", 18)
    assert run(m, x=z(1, 3, 4), t=np.array([0, 0]))[0].shape == (3, 4)
    assert "y" not in ss.analyze(m).shapes


def test_what_is_assumed_of_a_name_that_is_no_word_can_be_read_back() -> None:
    m = model(
        [helper.make_node("Add", ["x", "y"], ["z"])], [info("x", ["batch-size"]), info("y", [5])], ["z"]
    )
    assert run(m, x=z(1), y=z(5))[0].shape == (5,)
    a = ss.analyze(m)
    (told,) = a.prove("`batch-size` == 5").assumptions
    assert told == a.bindings.why("batch-size").assumption
    assert ss.parse_cond(told).free == {"batch-size"}
    assert ss.analyze(m, assume=[told]).prove("`batch-size` == 5")


def test_a_long_way_to_a_conflict_names_few_nodes() -> None:
    """Each of 40 slices makes a row of the table that does not fit: all take part, the story names where sizes are made."""
    rows = "".join(f"[row{i}] r{i} = Slice(x, s{i}, s{i + 1}) " for i in range(40))
    relus = "".join(f"[relu{i}] t{i + 1} = Relu(t{i}) " for i in range(60))
    joined = ", ".join(f"r{i}" for i in range(40))
    m = parsed(
        f"g (float[50, b] x, float[39, b] z) => (out) {{ {rows} [rows] t0 = Concat<axis = 0>({joined}) {relus}"
        " [add] y = Add(t60, z) [last] out = Relu(y) }",
        **{f"s{i}": np.array([i]) for i in range(41)},
    )
    a = ss.analyze(m)
    (conflict,) = a.conflicts
    assert len(conflict.nodes) > 60
    assert set(conflict.finding.named) == {"rows", "relu0", "relu59", "add"}
    assert len(conflict.core) == 3
    assert "through 60 nodes, from relu0 to relu59" in conflict.message
    table = str(a).split("contract")[0]
    assert "[?, ?]" in table
    assert "?  unknown, because add cannot run" in " ".join(table.split("\n")[-3:]).replace("   ", " ")
    assert "_d" not in table
