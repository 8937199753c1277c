"""If, Loop and Scan: what is predicted of them and of their bodies, against onnxruntime."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import helper

import shapesolve

from .conftest import agrees, shapes, text

SIZES = (0, 1, 2, 5)
SEQ = "sh = Shape(x) zero = Constant<value_ints=[0]>() n1 = Gather(sh, zero) n = Squeeze(n1)"
YES = "yes = Constant<value=bool {1}>()"


def analyze(inputs: str, nodes: str, outputs: str = "y") -> shapesolve.Analysis:
    return shapesolve.analyze(text(inputs, nodes, outputs))


# ---------------------------------------------------------------------- If


BRANCHES = "<then_branch = t () => (a) {{ {} }}, else_branch = e () => (b) {{ {} }}>"


def choose(cond: str, then: str, other: str) -> str:
    return f"{cond} y = If(c) {BRANCHES.format(then, other)}"


SIZE_IS_BIG = f"{SEQ} k = Constant<value_int=2>() c = Greater(n, k)"


@pytest.mark.parametrize(
    ("cond", "then", "other", "expected"),
    [
        ("c = Constant<value=bool {1}>()", "a = Relu(x)", "b = Flatten(x)", "[N, 3]"),
        ("c = Constant<value=bool {0}>()", "a = Relu(x)", "b = Transpose(x)", "[3, N]"),
        (SIZE_IS_BIG, "a = Relu(x)", "b = Transpose(x)", "[(N if N >= 3 else 3), (3 if N >= 3 else N)]"),
        (SIZE_IS_BIG, "a = Relu(x)", "b = Neg(x)", "[N, 3]"),
        (SIZE_IS_BIG, "a = Shape(x)", "s = Shape(x) b = Neg(s)", "[2]"),
        (SIZE_IS_BIG, "a = Relu(x)", "b = ReduceSum<keepdims=0>(x)", None),
    ],
)
def test_branches_on_sizes(cond: str, then: str, other: str, expected: str | None) -> None:
    model = text("float[N, 3] x", choose(cond, then, other))
    assert shapes(model) == [expected]
    agrees(model, N=SIZES)


def test_condition_on_data() -> None:
    model = text("float[N, 3] x, bool c", choose("", "a = Concat<axis=0>(x, x)", "b = Neg(x)"))
    for truth in (True, False):
        agrees(model, {"c": np.array(truth)}, N=SIZES)
    analysis = shapesolve.analyze(model)
    size, three = analysis.shapes["y"]
    assert three == 3
    assert size.name in analysis._solved.walk.state.reasons
    same = text(
        "float[N, 3] x, bool c",
        choose("", "a = Concat<axis=0>(x, x)", "b = Neg(x)")
        + f"z = If(c) {BRANCHES.format('a = Concat<axis=0>(x, x)', 'b = Neg(x)')}",
        "y, z",
    )
    first, second = shapes(same)
    assert first == second  # the same condition chooses the same


def test_branch_that_cannot_run() -> None:
    """A node that cannot run says that its branch is not taken, which settles the result."""
    bad = "k = Constant<value=float[7] {1, 2, 3, 4, 5, 6, 7}>() a = Add(x, k)"
    model = text("float[N, 3] x, bool c", choose("", bad, "b = Transpose(x)"))
    analysis = shapesolve.analyze(model)
    assert not analysis._solved.walk.state.clashes
    assert str(analysis.shapes["y"]) == "[3, N]"
    for truth in (0, 1):
        fixed = choose(f"c = Constant<value=bool {{{truth}}}>()", bad, "b = Neg(x)")
        assert bool(shapesolve.analyze(text("float[N, 3] x", fixed))._solved.walk.state.clashes) == bool(
            truth
        )


def test_branch_does_not_leak() -> None:
    """What a branch needs holds under its condition only."""
    then = "four = Constant<value_ints=[4, 3]>() a = Reshape(x, four)"
    model = text("float[N, 3] x", choose(SIZE_IS_BIG, then, "b = Neg(x)") + " z = Relu(x)", "y, z")
    analysis = agrees(model, N=(0, 1, 2, 3, 4, 5))
    assert str(analysis.shapes["z"]) == "[N, 3]"
    ranked = choose("", "a = Transpose<perm=[1, 0]>(x)", "b = Relu(x)")
    assert shapes(text("float[] x, bool c", ranked + " z = Relu(x)", "z")) == [None]


def test_names_of_tensors_inside() -> None:
    analysis = analyze(
        "float[N, 3] x, bool c",
        "[pick] y = If(c) " + BRANCHES.format("h = Relu(x) a = Concat<axis=1>(h, x)", "b = Neg(x)"),
    )
    assert str(analysis.shapes["pick/then_branch/a"]) == "[N, 6]"
    assert "pick/else_branch/b" in analysis.shapes
    assert "pick/then_branch/x" not in analysis.shapes


def nested(depth: int, same_condition: bool) -> onnx.ModelProto:
    """Ifs in the else branch of an If, and so on; built in place, as a copy of it nests too deep."""
    model = text("float[N, 3] x, bool flag", SEQ, "n")
    graph = model.graph
    for k in range(depth):
        condition = "flag"
        if not same_condition:
            graph.node.append(helper.make_node("Constant", [], [f"k{k}"], value_int=k))
            graph.node.append(helper.make_node("Greater", ["n", f"k{k}"], [f"c{k}"]))
            condition = f"c{k}"
        graph.output.add(name=f"y{k}")
        node = graph.node.add(op_type="If", name=f"if{k}", input=[condition], output=[f"y{k}"])
        then, other = node.attribute.add(name="then_branch"), node.attribute.add(name="else_branch")
        then.type = other.type = onnx.AttributeProto.GRAPH
        then.g.node.add(op_type="Relu" if k % 2 else "Transpose", input=["x"], output=[f"t{k}"])
        then.g.output.add(name=f"t{k}")
        graph = other.g
    graph.node.add(op_type="Neg", input=["x"], output=["last"])
    graph.output.add(name="last")
    return model


@pytest.mark.parametrize("same_condition", [True, False])
def test_deep_nesting(same_condition: bool) -> None:
    start = time.perf_counter()
    found = shapesolve.analyze(nested(200, same_condition)).shapes["y0"]
    assert time.perf_counter() - start < 10
    if not same_condition:
        assert found.evaluate({"N": 2}) in ([3, 2], [2, 3], None)


def test_a_branch_knows_its_condition() -> None:
    """Inside a branch the same condition is settled."""
    inner = """a = If(c) <then_branch = t1 () => (d) { d = Relu(x) },
        else_branch = e1 () => (e) { e = Flatten<axis=0>(x) }>"""
    assert shapes(text("float[N, 3] x, bool c", choose("", inner, "b = Neg(x)"))) == ["[N, 3]"]


# ---------------------------------------------------------------------- Loop


def looped(body: str, given: str, outs: str, carried: str = "") -> str:
    """A loop of N trips; what it makes is put where ``{}`` stands."""
    first = f", {carried}" if carried else ""
    head = f"(int64 i, bool ci{given}) => (bool co{outs})"
    return f"{SEQ} {YES} {{}} = Loop(n, yes{first}) <body = b {head} {{ {body} }}>"


KEEP = "co = Identity(ci)"


@pytest.mark.parametrize(
    ("made", "loop", "expected"),
    [
        # scan outputs: as many rows as trips; without any, onnxruntime makes the sizes 0 that it does not know
        # beforehand, and what it knows is open to us but for what the body declares
        ("y", looped(f"{KEEP} s = Transpose(x)", "", ", s"), ["[N, (_d1 if N == 0 else 3), N]"]),
        (
            "y",
            looped(f"{KEEP} s = Relu(w)", "", ", s"),
            ["[N, (0 if N == 0 else M), (_d1 if N == 0 else 2)]"],
        ),
        ("y", looped(f"{KEEP} s = Relu(w)", "", ", float[K, 2] s"), ["[N, (0 if N == 0 else M), 2]"]),
        # here it does not know the 1, because it does not follow the data that Range takes
        (
            "y",
            looped(
                f"{KEEP} z = Constant<value_int=0>() k = Constant<value_int=2>()"
                " h = Constant<value_int=1>() e = Mul(k, h) s = Range(z, e, h)",
                "",
                ", s",
            ),
            ["[N, (_d1 if N == 0 else 2)]"],
        ),
        # carried values that stay, grow, shrink to a size of their own, move
        ("y", looped(f"{KEEP} o = Relu(v)", ", float[K, 3] v", ", o", carried="x"), ["[N, 3]"]),
        (
            "y",
            looped(f"{KEEP} o = Concat<axis=0>(v, w)", ", float[K, 2] v", ", o", carried="w"),
            ["[M*N + M, 2]"],
        ),
        ("y", looped(f"{KEEP} o = Transpose(x)", ", float[K, L] v", ", o", carried="x"), None),
        (
            "y, z",
            looped(
                f"{KEEP} o = Identity(u) p = Concat<axis=0>(v, w)",
                ", float[K, 2] v, float[L, 2] u",
                ", o, p",
                carried="w, w",
            ),
            None,
        ),
    ],
)
def test_loop_over_a_size(made: str, loop: str, expected: list[str] | None) -> None:
    model = text("float[N, 3] x, float[M, 2] w", loop.replace("{}", made), made)
    if expected:
        assert shapes(model) == expected
    agrees(model, N=(0, 1, 2, 3), M=(0, 1, 4))


@pytest.mark.parametrize("stop", range(8))
def test_loop_that_ends_by_a_size(stop: int) -> None:
    """``while i + 1 < N - stop``, at most 4 times."""
    loop = f"""{SEQ} {YES} four = Constant<value_int=4>() one = Constant<value_int=1>()
        k = Constant<value_int={stop}>()
        y = Loop(four, yes) <body = b (int64 i, bool ci) => (bool co, s)
            {{ j = Add(i, one) m = Sub(n, k) co = Less(j, m) s = Identity(j) }}>"""
    analysis = agrees(text("float[N, 3] x", loop), N=range(9))
    assert analysis.shapes["y"][0].evaluate({"N": 3}) is not None


ONE_BY_ONE = "g (int64 i, bool t, float[K, L] v) => (c, o)"


def few(count: int, body: str) -> str:
    """A loop of so many trips over x."""
    return f"m = Constant<value_int={count}>() {YES} y = Loop(m, yes, x) <body = {ONE_BY_ONE} {{ {body} }}>"


@pytest.mark.parametrize(
    ("count", "keep", "body", "expected"),
    [
        (3, "c = Identity(t)", "o = Concat<axis=0>(v, v)", "[8*N, 3]"),
        (2, "c = Identity(t)", "o = Concat<axis=0>(v, v)", "[4*N, 3]"),
        (3, "c = Identity(t)", "o = Transpose(v)", "[3, N]"),
        (4, "c = Identity(t)", "o = Transpose(v)", "[N, 3]"),
        (2, "c = Identity(t)", "ax = Constant<value_ints=[0]>() o = Unsqueeze(v, ax)", "[1, 1, N, 3]"),
        (5, "two = Constant<value_int=2>() c = Less(i, two)", "o = Concat<axis=0>(v, v)", "[8*N, 3]"),
    ],
)
def test_a_few_trips_are_followed_one_by_one(count: int, keep: str, body: str, expected: str) -> None:
    model = text("float[N, 3] x", few(count, f"{keep} {body}"))
    assert shapes(model) == [expected]
    agrees(model, N=(0, 1, 2, 3))


DATA_ENDS = "s = ReduceSum<keepdims=0>(v) z = Constant<value_float=1.0>() c = Less(s, z)"


@pytest.mark.parametrize(("count", "keep"), [(9, "c = Identity(t)"), (3, DATA_ENDS)])
def test_many_trips_and_trips_that_data_ends_are_not_followed(count: int, keep: str) -> None:
    model = text("float[N, 3] x", few(count, f"{keep} o = Concat<axis=0>(v, v)"))
    (shape,) = shapes(model)
    assert shape.startswith("[_d")
    agrees(model, N=(0, 1, 2))


def test_loop_that_ends_by_data() -> None:
    loop = f"""{SEQ} {YES}
        y, z = Loop(n, yes, x) <body = b (int64 i, bool ci, float[K, 3] v) => (bool co, o, s)
            {{ m = ReduceMax<keepdims=0>(v) zf = Constant<value_float=0.5>() co = Less(m, zf)
               o = Identity(v) s = Relu(v) }}>"""
    model = text("float[N, 3] x", loop, "y, z")
    analysis = agrees(model, N=(1, 2, 5))
    rows = analysis.shapes["z"][0]
    assert rows.name in analysis._solved.walk.state.reasons
    assert str(analysis.shapes["y"]) == "[N, 3]"


def test_values_are_followed() -> None:
    """A counter that a loop carries is known after it."""
    loop = f"""{SEQ} {YES} two = Constant<value_int=2>() seven = Constant<value_int=7>()
        k = Loop(n, yes, seven) <body = b (int64 i, bool ci, int64 c) => (bool co, d)
            {{ {KEEP} d = Add(c, two) }}>
        shp = Reshape(k, n1one) y = ConstantOfShape(shp)"""
    model = text("float[N, 3] x", "n1one = Constant<value_ints=[1]>() " + loop)
    assert shapes(model) == ["[2*N + 7]"]
    agrees(model, N=SIZES)


def test_requirements_of_all_trips() -> None:
    """What every trip needs is stated for the first and the last trip, so sizes decide it."""
    loop = f"""{SEQ} {YES}
        y = Loop(n, yes) <body = b (int64 i, bool ci) => (bool co, s) {{ {KEEP} s = Gather(t, i) }}>"""
    analysis = agrees(text("float[N, 3] x, float[4] t", loop), N=range(7))
    assert not analysis._solved.walk.state.clashes
    fixed = text("float[7, 3] x, float[4] t", loop)
    assert shapesolve.analyze(fixed)._solved.walk.state.clashes


def test_what_a_first_trip_requires() -> None:
    """Where a carried value changes shape, the trips that are surely made are lowered on their own."""
    for trips in ("3", "20"):
        loop = f"""n = Constant<value_int={trips}>() {YES}
            y = Loop(n, yes, x) <body = b (int64 i, bool ci, v) => (bool co, o) {{ {KEEP} o = Add(v, w) }}>"""
        agrees(text("float[A, 4] x, float[B, 4] w", loop), A=(1, 2, 3), B=(1, 2, 3))


def test_rows_of_no_rank_of_a_loop_without_trips() -> None:
    loop = looped(f"{KEEP} o = Concat<axis=0>(v, x) r = Identity(o)", ", v", ", o, r", "x").replace(
        "{}", "y, z"
    )
    for seen in ("float[0, 3] x", "float[N, 3] x"):
        model = text(seen, loop, "y, z")
        sizes = {"N": (0, 1)} if "N" in seen else {}
        agrees(model, **sizes)


#: rows of which onnxruntime knows no rank beforehand: the body declares no shapes
ROWS = "co = Identity(ci) o = Add(v, w) s = Identity(o)"


@pytest.mark.parametrize(
    ("reader", "needed"),
    [
        ("q = Transpose<perm=[1, 0, 2]>(z)", "N >= 1"),
        ("q = Transpose<perm=[0]>(z)", "N == 0"),
        ("a = Relu(z) q = Neg(a)", None),
        ("q = Transpose<perm=[1, 0]>(y)", None),
    ],
)
def test_rows_whose_rank_later_nodes_need(reader: str, needed: str | None) -> None:
    """Without a trip the rows have one axis: a node that needs another rank needs a trip."""
    loop = looped(ROWS, ", v", ", o, s", "w").replace("{}", "y, z")
    analysis = agrees(text("float[N, 3] x, float[1, 2] w", f"{loop} {reader}", "y, q"), N=(0, 1, 3))
    contract = str(analysis.contract.terms)
    assert (needed in contract) if needed else "N" not in contract
    told = [f.title for f in analysis.diagnostics if f.code == "SS103"]
    assert bool(told) == (needed is None)
    assert all("z has 3 axes" in title for title in told)


def test_rows_of_one_axis_without_trips() -> None:
    loop = looped(f"{KEEP} o = Identity(v) s = ReduceSum<keepdims=0>(v)", ", v", ", o, s", "x")
    model = text("float[N, 3] x", loop.replace("{}", "y, z"), "z")
    assert shapes(model) == ["[N]"]
    agrees(model, N=(0, 1, 2))


RANKS = BRANCHES.format("ax = Constant<value_ints=[0]>() a = Unsqueeze(x, ax)", "b = Relu(x)")


@pytest.mark.parametrize(
    ("reader", "contract", "judged"),
    [
        ("z = Transpose<perm=[1, 0, 2]>(y)", "N >= 3", True),
        ("z = Transpose<perm=[1, 0]>(y)", "N <= 2", True),
        ("z = Transpose<perm=[0]>(y)", "no input sizes", True),
        ("z = Relu(y)", "no known conditions: y has unknown rank", False),
    ],
)
def test_branches_of_different_ranks(reader: str, contract: str, judged: bool) -> None:
    """A node that needs the rank of one branch needs the sizes that lead there; else what is not known is told."""
    analysis = agrees(text("float[N, 3] x", f"{SIZE_IS_BIG} y = If(c) {RANKS} {reader}", "z"), N=range(5))
    assert str(analysis.contract).startswith(contract)
    assert ([f.code for f in analysis.diagnostics] == ["SS103"]) is not judged
    by_data = text("float[N, 3] x, bool c", f"y = If(c) {RANKS} {reader}", "z")
    assert ("z" in shapesolve.analyze(by_data).shapes) is judged


@pytest.mark.parametrize(("axes", "contract"), [("0", "N <= 2"), ("1, 0", "N >= 4"), ("2, 1, 0", "N == 3")])
def test_a_rank_that_is_needed_of_what_is_inside(axes: str, contract: str) -> None:
    """Of a branch, and of a function, a node needs what it needs of the result."""
    sizes = "n = Size(x) t = Constant<value_int=3>() c = Greater(n, t) e = Equal(n, t)"
    two = "<then_branch = p () => (d) { k = Constant<value_ints=[0]>() d = Unsqueeze(x, k) }, "
    two += "else_branch = q () => (f) { f = Relu(x) }>"
    three = "k = Constant<value_ints=[0, 1]>() a = Unsqueeze(x, k)"
    nodes = f"{sizes} y = If(e) {BRANCHES.format(three, f'b = If(c) {two}')}"
    model = text("float[N] x", f"{nodes} z = Transpose<perm=[{axes}]>(y)", "z")
    assert str(agrees(model, N=range(6)).contract.terms) == contract
    called = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21, "own": 1]>
        g (float[N] x) => (z) {{ y = own.chosen(x) z = Transpose<perm=[{axes}]>(y) }}
        <opset_import: ["": 21], domain: "own"> chosen (x) => (y) {{ {nodes} }}"""
    )
    assert str(agrees(called, N=range(6)).contract.terms) == contract


def test_what_is_said_of_tensors_without_a_rank() -> None:
    """Where the ranks end that are known is a finding, and the contract says what it does not judge."""
    nodes = "a = Relu(x) b = Reshape(a, s) c = Neg(b) y = Add(c, c)"
    analysis = shapesolve.analyze(text("float[N, 3] x, int64[K] s", nodes))
    (found,) = analysis.diagnostics
    assert (found.code, found.op_type) == ("SS103", "Reshape")
    assert analysis.contract.unjudged == ("b", "c")
    assert "b and 1 more tensor" in str(analysis.contract)


def test_loop_without_trips_needs_nothing() -> None:
    bad = "k = Constant<value=float[7] {1, 2, 3, 4, 5, 6, 7}>() o = Add(v, k)"
    loop = looped(f"{KEEP} {bad}", ", float[A, B] v", ", o", "x").replace("{}", "y")
    analysis = shapesolve.analyze(text("float[N, 3] x", loop))
    assert not analysis._solved.walk.state.clashes
    agrees(text("float[N, 3] x", loop), N=(0,))


def test_names_inside_a_loop() -> None:
    loop = looped(f"{KEEP} o = Concat<axis=0>(v, x)", ", float[A, B] v", ", o", "x").replace("{}", "[rep] y")
    analysis = shapesolve.analyze(text("float[N, 3] x", loop))
    inside, after = analysis.shapes["rep/body/v"], analysis.shapes["y"]
    assert after.evaluate({"N": 2}) == [6, 3]
    (trip,) = inside.free_symbols() - {"N"}
    assert inside.evaluate({"N": 2, trip: 1}) == [4, 3]


# ---------------------------------------------------------------------- Scan


@pytest.mark.parametrize(
    ("attributes", "given", "body", "args", "expected"),
    [
        ("num_scan_inputs=1", "float[B, C] a", "o = Relu(a)", "z", ["[A, B, C]"]),
        ("num_scan_inputs=1, scan_input_axes=[1]", "float[A, C] a", "o = Transpose(a)", "z", ["[B, C, A]"]),
        (
            "num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[-1]",
            "float[A, B] a",
            "o = Neg(a)",
            "z",
            ["[A, B, C]"],
        ),
        (
            "num_scan_inputs=2",
            "float[B, C] a, float[K] b",
            "o = Add(a, b)",
            "z, w",
            ["[A, B, broadcast(C, K)]"],
        ),
    ],
)
def test_scan(attributes: str, given: str, body: str, args: str, expected: list[str]) -> None:
    nodes = f"y = Scan<{attributes}, body = b ({given}) => (o) {{ {body} }}>({args})"
    model = text("float[A, B, C] z, float[A, K] w" if "w" in args else "float[A, B, C] z", nodes)
    assert shapes(model) == expected
    if "," not in args:
        agrees(model, A=(1, 3), B=(1, 2), C=(1, 2))  # onnxruntime dies of a division when a size is 0
        return
    agrees(model, A=(1, 3), B=(1, 2), C=(1, 2), K=(1, 2))


def test_scan_needs_equal_lengths() -> None:
    nodes = "y = Scan<num_scan_inputs=2, body = b (float p, float q) => (o) { o = Add(p, q) }>(v, w)"
    agrees(text("float[N] v, float[M] w", nodes), N=(0, 1, 2), M=(0, 1, 2))


def test_scan_state_keeps_its_shape() -> None:
    nodes = """k = Constant<value_ints=[3]>()
        y = Scan<num_scan_inputs=1,
            body = b (float[K] s, float q) => (float[L] o) { o = Expand(q, k) }>(v, w)"""
    agrees(text("float[N] v, float[M] w", nodes), N=(1, 2, 3), M=(1, 2))
    added = """y = Scan<num_scan_inputs=1,
        body = b (float[K] s, float[C] q) => (float[L] o) { o = Add(s, q) }>(v, w)"""
    agrees(text("float[N] v, float[M, C] w", added), N=(1, 2, 3), M=(1, 2), C=(1, 2))


def test_a_bound_of_the_trips_whose_size_nobody_knows() -> None:
    """It is there all the same: the body's own condition may never end the loop."""
    loop = f"""{YES} three = Constant<value_int=3>()
        q = Squeeze(w) s = Shape<start = 0, end = 1>(q)
        y = Loop(s, yes) <body = b (int64 i, bool ci) => (bool co, e) {{ co = Less(i, three) e = Identity(i) }}>"""
    analysis = agrees(text("float[N, 2] w", loop), N=(0, 1, 2, 3, 4, 7))
    assert analysis.shapes["y"][0].value is None


def test_a_body_that_is_only_tried_takes_no_sizes_to_be_equal() -> None:
    """Rows of a loop without trips have the sizes that onnxruntime knows beforehand: 5 here, not what it is added to."""
    source = """<ir_version: 10, opset_import: ["": 21]> g (float[N] x, int64 m) => (y) <int64[1] never = {-1}> {
        y = Loop (never, , ) <body = b (int64 i, bool go) => (go2, row) <float[5] five = {1, 1, 1, 1, 1}> {
            go2 = Identity (go)  more = Concat <axis = 0> (x, x)  row = Add (more, five)
        }>
    }"""
    model = onnx.parser.parse_model(source)
    for mode in ("named", "equal", "strict"):
        found = shapesolve.analyze(model, broadcast=mode).shapes["y"]  # type: ignore[arg-type]
        assert found[0] == 0
        assert found[1] != 0, mode


def test_rows_that_a_loop_never_makes_may_have_sizes_that_a_scan_inside_hides() -> None:
    """onnxruntime knows the 2 beforehand, behind a Scan over the same axis that a Loop may not run at all."""
    source = """<ir_version: 10, opset_import: ["": 21]> g (float[N] x, float[2] two, bool go) => (y) {
        n = Size (x)
        y = Loop (n, go, ) <body = b (int64 i, bool c) => (c2, rows) {
            c2 = Identity (c)
            rows = Scan <num_scan_inputs = 1, body = s (e) => (row) { row = Add (e, two) }> (x)
        }>
    }"""
    rows = shapesolve.analyze(onnx.parser.parse_model(source)).shapes["y"]
    assert rows[2].subs({"N": 0, rows[0].name: 0}).value != 0
