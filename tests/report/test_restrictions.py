"""Restrictions of dynamic dims: baked in at export (a warning) or natural (info), with sizes that onnxruntime confirms."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve as ss
from shapesolve.causes.finding import Finding

from .. import building
from ..operators.conftest import RunFailed, run, text
from .broken import CASES, ints, model

#: what a size of the example leaves behind in an export: name -> (model, what holds the size)
BAKED: dict[str, tuple[onnx.ModelProto, str]] = {
    "reshape_of_rows": (
        model(
            "g (float[batch, seq, 8] x) => (float[a, b, c] y) { y = Reshape(x, target) }",
            target=ints(-1, 9, 8),
        ),
        "target",
    ),
    "reshape_window": (
        model(
            """g (float[batch, 3, height, 32] x) => (float[a, b] y) {
            c = Conv<kernel_shape: ints = [3, 3], strides: ints = [8, 8]>(x, w)
            y = Reshape(c, target) }""",
            w=[8, 3, 3, 3],
            target=ints(0, 8 * 4 * 4),
        ),
        "target",
    ),
    "flattened_rows": (
        model(
            """g (float[batch, 3, height, width] x) => (float[a, b] y) {
            c = Conv<kernel_shape: ints = [3, 3], strides: ints = [2, 2]>(x, w)
            y = Reshape(c, target) }""",
            w=[2, 3, 3, 3],
            target=ints(-1, 2 * 7 * 7),
        ),
        "target",
    ),
    "expanded_mask": (
        model(
            """g (float[batch, seq, 8] x, float[batch, 1, seq] mask) => (float[a, b, c] y) {
            k = Transpose<perm: ints = [0, 2, 1]>(x) s = MatMul(x, k)
            m = Expand(mask, shape) y = Add(s, m) }""",
            shape=ints(1, 9, 9),
        ),
        "shape",
    ),
    "positions_of_the_example": (
        model(
            """g (int64[batch, seq] ids) => (float[a, b, c] y) {
            e = Gather(words, ids) p = Gather(table, positions) y = Add(e, p) }""",
            words=[4, 8],
            table=[64, 8],
            positions=np.arange(9)[None],
        ),
        "positions",
    ),
    "mask_of_the_example": (
        model(
            """g (float[batch, seq, 8] x) => (float[a, b, c] y) {
            k = Transpose<perm: ints = [0, 2, 1]>(x) s = MatMul(x, k) y = Add(s, causal) }""",
            causal=[1, 9, 9],
        ),
        "causal",
    ),
    "sliced_table": (
        model(
            """g (float[batch, seq, 8] x) => (float[a, b, c] y) {
            p = Slice(table, start, end, axis) y = Add(x, p) }""",
            table=[1, 64, 8],
            start=ints(0),
            end=ints(9),
            axis=ints(1),
        ),
        "end",
    ),
    "sliced_input": (
        model(
            """g (float[batch, seq, 8] x) => (float[a, b, c] y) {
            p = Slice(x, start, end, axis) y = Concat<axis: int = 2>(x, p) }""",
            start=ints(0),
            end=ints(9),
            axis=ints(1),
        ),
        "end",
    ),
    "resized_to_a_size": (
        model(
            """g (float[batch, 3, height, width] x) => (float[a, b, c, d] y) {
            p = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
            r = Resize<mode: string = "nearest">(p, , , sizes) y = Concat<axis: int = 1>(x, r) }""",
            sizes=ints(2, 3, 16, 16),
        ),
        "sizes",
    ),
    "repeated_token": (
        model(
            """g (float[batch, seq, 8] x) => (float[a, b, c] y) {
            t = Tile(token, repeats) y = Concat<axis: int = 1>(t, x) }""",
            token=[1, 1, 8],
            repeats=ints(2, 1, 1),
        ),
        "repeats",
    ),
    "state_of_the_example": (
        model(
            """g (float[seq, batch, 8] x) => (float[a, b, c, d] y) {
            h = ConstantOfShape(shape) y, last = RNN<hidden_size: int = 4>(x, W, R, , , h) }""",
            shape=ints(1, 3, 4),
            W=[1, 4, 8],
            R=[1, 4, 4],
        ),
        "shape",
    ),
    "range_of_the_example": (
        model(
            """g (int64[batch, seq] ids) => (float[a, b, c] y) {
            e = Gather(words, ids) r = Range(zero, end, one) p = Gather(table, r) y = Add(e, p) }""",
            words=[4, 8],
            table=[64, 8],
            zero=np.array(0),
            end=np.array(9),
            one=np.array(1),
        ),
        "end",
    ),
    "range_of_floats": (
        model(
            """g (float[batch, seq, 8] x) => (float[a, b, c] y) {
            r = Range(zero, end, one) axes = Constant<value_ints = [0, 2]>() p = Unsqueeze(r, axes) y = Add(x, p) }""",
            zero=np.array(0, "f4"),
            end=np.array(9, "f4"),
            one=np.array(1, "f4"),
        ),
        "end",
    ),
    "grid_of_positions": (
        model(
            """g (float[batch, 3, height, width] x) => (float[a, b, c] y) {
            p = Conv<kernel_shape: ints = [4, 4], strides: ints = [4, 4]>(x, w) f = Reshape(p, flat)
            t = Transpose<perm: ints = [0, 2, 1]>(f) y = Add(t, positions) }""",
            w=[8, 3, 4, 4],
            flat=ints(0, 8, -1),
            positions=[1, 16, 8],
        ),
        "positions",
    ),
}

#: what models need by their nature
NATURAL: dict[str, onnx.ModelProto] = {
    "multiples": model(
        "g (float[N, 4, H, W] x) => (float[a, b, c, d] y) { y = SpaceToDepth<blocksize = 2>(x) }"
    ),
    "frames_of_clips": model(
        "g (float[frames, 4, 8] x) => (float[a, b, c, d] y) { y = Reshape(x, target) }",
        target=ints(-1, 8, 4, 8),
    ),
    "chunks": model(
        "g (float[batch, seq, 8] x) => (float[a, b, c, d] y) { y = Reshape(x, target) }",
        target=ints(0, -1, 16, 8),
    ),
    "kernel": model(
        "g (float[batch, 3, samples] x) => (float[a, b, c] y) { y = Conv<kernel_shape: ints = [9]>(x, w) }",
        w=[4, 3, 9],
    ),
    "table": model(
        """g (int64[batch, seq] ids) => (float[a, b, c] y) {
        s = Shape(ids) one = Constant<value_ints = [1]>() n = Gather(s, one)
        p = Slice(table, zero, n, one) w = Gather(words, ids) y = Add(w, p) }""",
        words=[4, 8],
        table=[1, 16, 8],
        zero=ints(0),
    ),
    "last_of_the_most": model(
        "g (float[batch, items] x) => (float[a, b] v, int64[a, b] i) { v, i = TopK(x, k) }", k=ints(20)
    ),
    "channels": model(
        "g (float[batch, channels, 9, 9] x) => (float[a, b, c, d] y) { y = Conv<kernel_shape: ints = [3, 3]>(x, w) }",
        w=[4, 3, 3, 3],
    ),
    "width": model("g (float[batch, width] x) => (float[a, b] y) { y = MatMul(x, w) }", w=[8, 4]),
}


def _limits(m: onnx.ModelProto) -> list[Finding]:
    return [f for f in ss.analyze(m).diagnostics if f.code in ("SS401", "SS403", "SS404", "SS405")]


def _runs(m: onnx.ModelProto, sizes: dict[str, int]) -> bool:
    session = building.session(m)
    feeds = {
        i.name: np.zeros(
            [sizes[d] if isinstance(d, str) else d for d in i.shape], "int64" if i.name == "ids" else "f4"
        )
        for i in session.get_inputs()
    }
    try:
        session.run(None, feeds)
    except Exception:  # onnxruntime raises a dozen classes of its own
        return False
    return True


@pytest.mark.parametrize("name", BAKED)
def test_a_size_that_was_baked_in_is_a_warning_with_its_constant(name: str) -> None:
    m, constant = BAKED[name]
    found = _limits(m)
    warned = [f for f in found if f.severity == "warning"]
    assert warned, found
    assert all(constant in {name for name, _, _ in f.operands} for f in warned)


@pytest.mark.parametrize("name", NATURAL)
def test_what_a_model_needs_by_nature_is_no_warning(name: str) -> None:
    found = _limits(NATURAL[name])
    assert found
    assert {f.severity for f in found} == {"info"}, found


@pytest.mark.parametrize("name", [*BAKED, *NATURAL])
def test_the_sizes_that_show_a_restriction_are_true(name: str) -> None:
    m = NATURAL[name] if name in NATURAL else BAKED[name][0]
    shown = [f for f in _limits(m) if f.code in ("SS403", "SS404")]
    for f in shown:
        assert _runs(m, dict(f.runs)), f
        assert not _runs(m, dict(f.fails)), f
        assert len([n for n, size in f.runs if dict(f.fails)[n] != size]) == 1


#: pooling windows larger than their input, which onnxruntime accepts: a term has its usual form for larger inputs
POOLED = {
    "product": model(
        """g (float[1, 1, h, w] x) => (y) { p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)
        f = Flatten(p) y = MatMul(f, weights) }""",
        weights=[2, 10],
    ),
    "sum": model(
        """g (float[1, 1, h] a, float[1, 1, w] b) => (y) { p = MaxPool<kernel_shape=[2], strides=[2]>(a)
        q = MaxPool<kernel_shape=[2], strides=[2]>(b) c = Concat<axis=2>(p, q) y = Reshape(c, target) }""",
        target=ints(1, 3),
    ),
    "equal": model(
        """g (float[1, 1, h] a, float[1, 1, w] b) => (y) { p = MaxPool<kernel_shape=[4], strides=[2]>(a)
        q = MaxPool<kernel_shape=[3], strides=[2]>(b) y = Concat<axis=1>(p, q) }"""
    ),
}


@pytest.mark.parametrize("name", POOLED)
def test_sizes_outside_the_scope_of_a_term_are_not_said_to_fail_if_they_run(name: str) -> None:
    (found,) = (f for f in _limits(POOLED[name]) if f.code == "SS404")
    assert _runs(POOLED[name], dict(found.runs))
    assert not _runs(POOLED[name], dict(found.fails))


@pytest.mark.parametrize("name", ["reshape_of_rows", "reshape_window", "grid_of_positions"])
def test_the_reason_is_that_of_the_node_which_is_shown(name: str) -> None:
    m = BAKED[name][0]
    a = ss.analyze(m)
    (f,) = [f for f in a.diagnostics if f.code == "SS404"]
    rules = {v.constraint.origin.rule for v in a._solved.violations_at(dict(f.fails)) if v.constraint}
    counts = re.fullmatch(r"\w+ has .* elements, but \w+ requires .*", f.notes[0])
    stored = re.fullmatch(r"\w+ has size \d+ on axis \d+|at .* makes \[.*", f.notes[0])
    assert counts or stored or f.notes[0].partition(" (")[0] in rules
    assert f.node in {
        v.constraint.origin.node for v in a._solved.violations_at(dict(f.fails)) if v.constraint
    }


def test_every_term_beyond_not_empty_has_its_finding() -> None:
    for m in [*NATURAL.values(), *(m for m, _ in BAKED.values())]:
        a = ss.analyze(m)
        told = {name for f in _limits(m) for name in a.symbols if re.search(rf"\b{name}\b", f.title)}
        assert told == {s for t in a.contract.usual if t.kind != "nonempty" for s in t.symbols}


@pytest.mark.parametrize(
    ("given", "nodes", "node", "holds", "feeds", "fails"),
    [
        ("int64[1] k", "v, i = TopK(x, k)", "TopK", "`0 <= _v0 <= 3`", {"k": [3]}, {"k": [4]}),
        (
            "int64[2] s",
            "r = ConstantOfShape(s) v = MatMul(r, x)",
            "MatMul",
            "`N == _v1`",
            {"s": [1, 2]},
            {"s": [2, 1]},
        ),
        ("int64[1] s", "v = Reshape(x, s)", "Reshape", "`_v0 >= -1`", {"s": [6]}, {"s": [-2]}),
        (
            "bool c",
            "y = If(c) <then_branch = a () => (p) { ax = Constant<value_ints=[0]>() p = Unsqueeze(x, ax) },"
            " else_branch = e () => (q) { q = Relu(x) }> v = Transpose<perm=[1, 0, 2]>(y)",
            "If",
            "`_d0 == 1`",
            {"c": True},
            {"c": False},
        ),
    ],
)
def test_what_only_data_decides_is_told(
    given: str, nodes: str, node: str, holds: str, feeds: dict[str, Any], fails: dict[str, Any]
) -> None:
    """onnxruntime runs on some data and not on other, of the same shapes."""
    model = text(f"float[N, 3] x, {given}", nodes, "v")
    dtype = bool if given.startswith("bool") else np.int64
    run(model, {n: np.array(v, dtype) for n, v in feeds.items()}, {"N": 2})
    with pytest.raises(RunFailed):
        run(model, {n: np.array(v, dtype) for n, v in fails.items()}, {"N": 2})
    found = [f for f in ss.analyze(model).diagnostics if f.code == "SS302"]
    assert [f.op_type for f in found if holds in f.title] == [node]
    assert any("element" in note or "truth" in note for f in found for note in f.notes)


@pytest.mark.parametrize(("a", "b"), [("height", "width"), ("w", "h")])
def test_an_example_has_sizes_alike_where_these_run(a: str, b: str) -> None:
    """49 windows of 32 x 32: the solver alone would show a strip of them."""
    m = model(
        f"""g (float[1, 1, {a}, {b}] x) => (float[p, q] y) {{
        m = MaxPool<kernel_shape: ints = [32, 32], strides: ints = [32, 32]>(x) y = Reshape(m, target) }}""",
        target=ints(1, 49),
    )
    (finding,) = ss.analyze(m).diagnostics
    assert dict(finding.runs) == {a: 224, b: 224}
    run(m, {}, dict(finding.runs))
    with pytest.raises(RunFailed):
        run(m, {}, dict(finding.fails))


def test_sizes_at_which_a_model_fails_are_told_of_all_dims_of_a_condition() -> None:
    """``not at batch = 3`` alone would speak of (3, 2), too, which runs."""
    m = model(
        "g (float[batch, seq, 2] x) => (float[a, b, c] y) { y = Reshape(x, target) }", target=ints(2, 3, 2)
    )
    (finding,) = ss.analyze(m).diagnostics
    (note,) = [n for n in finding.notes if n.startswith("runs at ")]
    for told, good in zip(note.removeprefix("runs at ").split(", not at "), (True, False), strict=True):
        sizes = dict(part.split(" = ") for part in told.split(", "))
        x = np.zeros((int(sizes["batch"]), int(sizes["seq"]), 2), np.float32)
        session = building.session(m)
        if good:
            session.run(None, {"x": x})
        else:
            with pytest.raises(Exception, match="cannot be reshaped"):
                session.run(None, {"x": x})


def test_a_target_that_repeats_sizes_of_its_data_is_not_to_be_derived_from_shape() -> None:
    """It is right at every size: what fails is that their means have lost an axis."""
    m = model(
        """g (float[batch, seq, 12] x) => (float[a, b] y) {
        rows = Reshape(x, target)
        means = ReduceSum<keepdims: int = 0>(rows, last)
        y = Sub(rows, means) }""",
        target=ints(-1, 12),
        last=ints(1),
    )
    warned = ss.analyze(m).diagnostics
    assert warned
    assert not any("target is a constant" in f.help for f in warned)
    rows = model(
        "g (float[batch, seq, 12] x) => (float[a, b] y) { y = Reshape(x, target) }", target=ints(-1, 12)
    )
    session = building.session(rows)
    for shape in ((2, 6, 12), (3, 6, 12)):
        assert session.run(None, {"x": np.zeros(shape, np.float32)})[0].shape == (shape[0] * shape[1], 12)


def test_all_nodes_that_a_condition_comes_from_are_named() -> None:
    """One needs the lower bound, another the upper one, and sizes that break the lower alone are no multiples of the others."""
    m = model(
        """g (float[N, 1, T] x) => (float[a, b, c] y, float[d, e] q) {
        c = Conv<kernel_shape = [2]>(x, w)
        y = Add(c, v)
        q = Reshape(x, t) }""",
        w=[1, 1, 2],
        v=[1, 1, 2],
        t=ints(-1, 6),
    )
    (term,) = [t for t in ss.analyze(m).contract.usual if t.symbols == ("T",)]
    assert str(term) == "2 <= T <= 3"
    failing = set()
    for size in (1, 4):
        with pytest.raises(RunFailed) as said:
            run(m, {}, {"N": 6, "T": size})
        failing.add("Conv" if "Conv" in str(said.value) else "Add")
    assert failing == {n.partition("(")[0] for n in term.nodes}


def test_nodes_in_the_finding_are_those_of_the_contract() -> None:
    m = model(
        """g (float[batch, 3, height, 32] x) => (float[a, b, c, d] y, float[e, f, g, h] z, float[k, l, m] r) {
        y = Conv<kernel_shape = [3, 3]>(x, w)
        z = Conv<kernel_shape = [3, 3]>(x, w)
        third = Constant<value_int = 2>()
        r = Gather<axis = 2>(x, third) }""",
        w=[4, 3, 3, 3],
    )
    a = ss.analyze(m)
    (finding,) = [f for f in a.diagnostics if f.code == "SS403"]
    (term,) = [t for t in a.contract.usual if t.symbols == ("height",)]
    told = re.search(r"\((.*)\)", finding.notes[0])
    assert told is not None
    assert len(set(term.nodes)) == 3
    assert {finding.node, *re.findall(r"\w+\(\w+\)", told[1])} == set(term.nodes)
    assert told[1] == "Conv(z) needs this, too, and Gather(r) needs it for a different reason"


def test_a_model_that_runs_on_empty_inputs_only_is_a_warning() -> None:
    m, _ = CASES["SS406"]
    (finding,) = ss.analyze(m).diagnostics
    assert (finding.code, finding.severity) == ("SS406", "warning")
    for batch, seq in ((1, 1), (2, 3), (3, 2), (6, 6), (4, 1)):
        with pytest.raises(RunFailed, match=finding.node):
            run(m, {}, {"batch": batch, "seq": seq})
    run(m, {}, {"batch": 2, "seq": 0})
    run(m, {}, {"batch": 0, "seq": 3})


@pytest.mark.parametrize(
    ("given", "nodes", "unread"),
    [
        ("float[n, 8] x, float[m] z", "y = Relu(x)", ["z"]),
        ("float[n, 8] x, float[m] z", "s = Shape(z) y = Neg(x)", []),  # read for nothing, but read
        ("float[n, 8] y, float[n, 8] z", "q = Relu(z)", []),  # an input that is an output
        (
            "bool c, float[n, 8] x, float[n, 8] z, float[m] w",
            "y = If (c) <then_branch = t () => (float[n, 8] a) { a = Neg(x) },"
            " else_branch = e () => (float[n, 8] b) { b = Abs(z) }>",
            ["w"],
        ),
    ],
)
def test_an_input_that_no_node_reads_changes_nothing(given: str, nodes: str, unread: list[str]) -> None:
    m = text(given, nodes)
    found = [f for f in ss.analyze(m).diagnostics if f.code == "SS407"]
    assert [f.title for f in found] == [f"input {n} is unused: no output depends on it" for n in unread]
    less = onnx.ModelProto.FromString(m.SerializeToString())
    for info in m.graph.input:
        if info.name in unread:
            less.graph.input.remove(info)
    results = [run(model, {}, {"n": 2, "m": 3}) for model in (m, less)]
    assert np.array_equal(*(r[0] for r in results))


def test_a_default_that_is_read_by_no_node_is_not_told() -> None:
    m = model("g (float[n] x, float[4] z) => (y) { y = Neg(x) }", z=[4])
    assert not ss.analyze(m).diagnostics


def test_what_follows_from_bound_sizes_alone_has_no_finding() -> None:
    """Without them the broadcast is open; a target that holds a size is told of either way."""
    m = model(
        """g (float[N, 4] x, float[M, 4] z, float[B, T, 4] w) => (float[a, b] y, float[c, d, e] v) {
        y = Add(x, z) v = Reshape(w, target) }""",
        target=ints(-1, 9, 4),
    )
    found = [f for f in ss.analyze(m, bind={"N": 5}).diagnostics if f.code in ("SS403", "SS404")]
    assert [f.op_type for f in found] == ["Reshape"]


@pytest.mark.parametrize(("joined", "advised"), [("p", True), ("q", False)])
def test_only_what_a_person_can_judge_is_advised_as_an_assumption(joined: str, advised: bool) -> None:
    m = model(
        f"""g (float[N, 2, H] x, float[N, 2, M] z) => (float[a, b, c] y) {{
        p = MaxPool<kernel_shape = [2], strides = [2]>(x)
        s = Shape(z) n = Gather(s, two) e = Min(n, five) q = Slice(p, zero, e, two)
        y = Add({joined}, z) }}""",
        two=ints(2),
        five=ints(5),
        zero=ints(0),
    )
    (finding,) = [f for f in ss.analyze(m).diagnostics if f.code == "SS301"]
    assert bool(finding.help) == advised


def test_a_window_is_told_with_both_of_its_ends() -> None:
    m = BAKED["reshape_window"][0]
    (f,) = [f for f in ss.analyze(m).diagnostics if f.code == "SS404"]
    told = [re.fullmatch(r"runs at height = (\d+), not at height = (\d+)", note) for note in f.notes]
    ends = [tuple(map(int, found.groups())) for found in told if found]
    (least, below), (most, above) = sorted(ends)
    assert (below, above) == (least - 1, most + 1)
    ran = [n for n in range(1, 64) if _runs(m, {"batch": 2, "height": n})]
    assert ran == list(range(least, most + 1))


PATCHES = model(
    """g (float[batch, 3, n] x) => (float[a, b, c] y) {
    c = Conv<strides: ints = [16]>(x, w) y = Add(c, positions) }""",
    w=[8, 3, 16],
    positions=[8, 4],
)


@pytest.mark.parametrize("mode", ["named", "strict"])
def test_the_example_is_one_at_which_only_the_node_that_is_told_fails(mode: str) -> None:
    """Below 16 the Conv fails before the Add that has a table for four patches: onnxruntime names the node."""
    (f,) = [f for f in ss.analyze(PATCHES, broadcast=mode).diagnostics if f.code == "SS404"]
    assert f.op_type == "Add"
    assert _runs(PATCHES, dict(f.runs))
    session = building.session(PATCHES)
    sizes = dict(f.fails)
    with pytest.raises(Exception, match="Add node"):
        session.run(None, {"x": np.zeros([sizes["batch"], 3, sizes["n"]], "f4")})


def test_the_nearest_size_that_fails_is_told_whatever_else_it_breaks() -> None:
    m = model(
        """g (float[n] x) => (float[a, b] y, float[k] z, int64[k] i) {
        y = Reshape(x, rows) z, i = TopK(x, most) }""",
        rows=ints(-1, 32),
        most=ints(64),
    )
    (f,) = [f for f in ss.analyze(m).diagnostics if f.op_type == "TopK"]
    assert "runs at n = 64, not at n = 63" in f.notes
    assert (dict(f.runs), dict(f.fails)) == ({"n": 64}, {"n": 63})
    assert _runs(m, {"n": 64})
    assert not _runs(m, {"n": 63})


@pytest.mark.parametrize(("pooled", "verb"), [(1, "fixes"), (4, "limits")])
def test_a_dim_is_fixed_only_if_single_sizes_run(pooled: int, verb: str) -> None:
    """Groups of 4 positions, of which the rest is dropped, run from 36 to 39."""
    m = model(
        f"""g (float[batch, 1, seq] x) => (float[a, b, c] y) {{
        p = AveragePool<kernel_shape: ints = [{pooled}], strides: ints = [{pooled}]>(x)
        y = Add(p, table) }}""",
        table=[1, 1, 9],
    )
    (f,) = [f for f in ss.analyze(m).findings if f.code == "SS404"]
    assert f.title == f"seq is dynamic, but table {verb} it"
    assert _runs(m, {"batch": 2, "seq": 9 * pooled + pooled - 1})
