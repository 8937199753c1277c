"""The explorer's tables: complete, consistent, small; scopes; sample sizes."""

import json
import random
import time
from pathlib import Path
from typing import Any

import onnx.helper as oh
import pytest

import shapesolve as ss
from shapesolve.explorer.expressions import Expressions
from shapesolve.explorer.limits import MAX_LOOSE
from shapesolve.explorer.scopes import Scoped, find_scopes
from shapesolve.explorer.tables import explorer_data
from shapesolve.expr import Cond, Dim, divides, eq, ge, ite, parse_dim, symbol

from ..building import share
from ..operators.conftest import text

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted([*ROOT.glob("examples/*.onnx"), *ROOT.glob("tests/models/*/model.onnx")])


OPERATORS: dict[str, Any] = {
    "/": lambda a, b: a // b if b else None,
    "p": lambda a: max(a, 0),
    "b": lambda *parts: next((a for a in parts if a != 1), 1),
    "==": lambda a: a == 0,
    "!=": lambda a: a != 0,
    ">=": lambda a: a >= 0,
}


def evaluate(rows: list[list[Any]], sizes: list[int | None]) -> list[Any]:
    """What the page computes, in Python: the meaning of the table is the same in both."""
    values: list[Any] = []
    for kind, *cells in rows:
        args = [values[c] for c in cells] if kind not in ("s", "+") else []
        value: Any = None
        if kind == "s":
            value = sizes[cells[0]]
        elif kind == "+":
            value = int(cells[0])
            for coefficient, *factors in cells[1:]:
                product = int(coefficient)
                for f in factors:
                    product = None if product is None or values[f] is None else product * values[f]
                value = None if value is None or product is None else value + product
        elif kind in ("and", "or"):
            settles = kind == "or"
            value = settles if settles in args else None if None in args else not settles
        elif kind == "?":
            value = None if args[0] is None else args[1 if args[0] else 2]
        elif kind in ("true", "false"):
            value = kind == "true"
        elif None not in args:
            value = OPERATORS[kind](*args)
        values.append(value)
    return values


def expressions() -> list[Dim | Cond]:
    h, w, n = symbol("h"), symbol("w"), symbol("n", None)
    texts = [
        "7", "h", "3*h*w - 5", "h**3 - 2*w", "(h + 31)//32", "h % 7", "max(h, w, 5)", "min(h, 3*w) + 1",
        "broadcast(h, w)", "(h*w)//(w + 1)", "h//w", "max(h//2 - 1, 0)*w",
    ]  # fmt: skip
    huge = h * 10**30 + 2**70
    chosen = ite(ge(h, w), h // 2, w // (n + 3))
    conds = [
        eq(h, w),
        ~eq(h, w),
        divides(32, h),
        ge(n, -2),
        eq(h, w) & ge(h, 3),
        eq(h, 1) | divides(2, w // n),
    ]
    return [*map(parse_dim, texts), huge, chosen, n // 3, *conds]


def test_the_table_means_what_the_expressions_mean() -> None:
    table = Expressions()
    wanted = {table.shown(e): e for e in expressions()}
    rng = random.Random(0)
    for _ in range(200):
        sizes = {"h": rng.randrange(40), "w": rng.randrange(40), "n": rng.randrange(-9, 9)}
        if rng.random() < 0.2:
            del sizes[rng.choice("hwn")]
        values = evaluate(table.rows, [sizes.get(name) for name in table.symbols])
        for row, e in wanted.items():
            assert values[row] == e.evaluate(sizes), (str(e), sizes)


def test_rows_refer_backwards_and_are_shared() -> None:
    table = Expressions()
    numbers = [table.number(e) for e in expressions()]
    assert [table.number(e) for e in expressions()] == numbers
    for i, (kind, *cells) in enumerate(table.rows):
        refs = [] if kind == "s" else [r for t in cells[1:] for r in t[1:]] if kind == "+" else cells
        assert all(r < i for r in refs)


def test_deep_expressions_are_no_problem() -> None:
    d = symbol("x")
    for i in range(3000):
        d = (d * symbol("y") + i) // (symbol("z") + 1) if i % 50 == 0 else d + 1
    table = Expressions()
    table.number(d)
    assert json.loads(json.dumps(table.rows)) == table.rows


@pytest.mark.parametrize(
    "path",
    share(MODELS, 5),
    ids=lambda p: p.stem if p.stem != "model" else p.parent.name,
)
def test_tables_are_consistent(path: Path) -> None:
    a = ss.analyze(path)
    data = json.loads(json.dumps(explorer_data(a)))
    tensors, nodes, shapes = data["tensors"], data["nodes"], data["shapes"]
    names = [t[0] for t in tensors]
    assert len(set(names)) == len(names)
    for name, dtype, shape, kind, producer in tensors:
        known = a.shapes.get(name)
        assert 0 <= dtype < len(data["dtypes"])
        assert (shape >= 0) == (known is not None)
        if known is not None:
            assert [data["texts"][str(r)] for r in shapes[shape]] == [
                str(d) for d in a._solved.simple_shapes[name]
            ]
        assert (producer >= 0) == (kind != 2), name
    labels = {n[0] for n in nodes}
    assert {n.label for n in a.model.graph.nodes if any(n.outputs)} <= labels
    for _, op, scope, reads, makes, _, *more in nodes:
        assert 0 <= op < len(data["ops"])
        assert -1 <= scope < len(data["scopes"])
        assert all(-1 <= t < len(tensors) for t in (*reads, *makes, *(t for ts in more for t in ts)))
    assert all(parent < i for i, (parent, _) in enumerate(data["scopes"]))
    symbols = explorer_data(a)["symbols"]
    sizes = {s["name"]: s["sample"] for s in symbols if "sample" in s}
    values = evaluate(data["rows"], [sizes.get(s["name"]) for s in data["symbols"]])
    expected = a.evaluate(sizes)
    for name, _, shape, _, _ in tensors:
        if shape >= 0 and name in expected and None not in (got := [values[r] for r in shapes[shape]]):
            assert tuple(got) == expected[name]


@pytest.mark.parametrize("name", ["attention", "unet"])
def test_sample_sizes_run(name: str) -> None:
    a = ss.analyze(ROOT / "examples" / f"{name}.onnx")
    symbols = explorer_data(a)["symbols"]
    sizes = {s["name"]: s["sample"] for s in symbols if "sample" in s}
    assert set(sizes) == set(a.symbols)
    assert a.contract.holds(sizes)


@pytest.mark.parametrize("name", ["attention", "unet", "broken_residual"])
def test_the_explorer_is_green_where_sizes_are_accepted(name: str) -> None:
    """As `sizes.ts` counts what is violated: terms of the contract and of what is assumed."""
    a = ss.analyze(ROOT / "examples" / f"{name}.onnx")
    data = explorer_data(a)
    contract = data["contract"]
    assert contract.keys() == {"impossible", "nothing", "limits", "scope", "terms"}
    assert contract["nothing"].lower() == f"{a.contract.nothing}.".lower()
    needed = [t["row"] for t in contract["terms"] if t["kind"] in ("", "assumed")]
    for n in (0, 1, 2, 3, 8, 16, 24, 30):
        for m in (1, 8, 16):
            sizes = {s: (n, m)[i % 2] for i, s in enumerate(a.symbols)}
            values = evaluate(data["rows"], [sizes.get(s["name"]) for s in data["symbols"]])
            green = not contract["impossible"] and all(values[row] is not False for row in needed)
            assert green == (not a._solved.violations_at(sizes)), sizes
            usual = [values[t["row"]] for t in contract["terms"] if t["kind"] == "usual"]
            assert not green or False not in usual, sizes


@pytest.mark.parametrize("name", ["attention", "unet"])
def test_sizes_and_costs_for_deployment_are_those_of_the_verbs(name: str) -> None:
    a = ss.analyze(ROOT / "examples" / f"{name}.onnx")
    data = explorer_data(a)
    found, cost = data["deployment"], ss.cost(a)
    names = [data["symbols"][s]["name"] for s in found["names"]]
    usual = dict(zip(names, found["usual"], strict=True))
    assert [dict(zip(names, sizes, strict=True)) for sizes in found["accepted"]] == ss.enumerate_sizes(a, 10)
    at = [
        dict(zip(names, p[corner], strict=True))
        for p in found["profiles"]
        for corner in ("min", "opt", "max")
    ]
    assert at
    for way in found["ways"]:
        name, follows = data["symbols"][way["symbol"]]["name"], way["follows"]
        assert len(way["sizes"]) > 3
        for k, size in enumerate(way["sizes"]):
            along = {data["symbols"][follows]["name"]: way["following"][k]} if follows >= 0 else {}
            at.append({**usual, name: size, **along})
    for sizes in at:
        assert a.contract.holds(sizes)
        values = evaluate(data["rows"], [sizes.get(s["name"]) for s in data["symbols"]])
        told, numbers = found["cost"], cost.at(sizes)
        assert [values[told[k]] for k in ("macs", "flops", "activations")] == [
            numbers.macs, numbers.flops, numbers.activation_bytes,
        ]  # fmt: skip
        peaks = [max(values[row] for row in told[k]) for k in ("peak", "shared")]
        assert peaks == [numbers.peak, numbers.peak_reused]


def test_where_one_size_grows_another_follows() -> None:
    data = explorer_data(ss.analyze(ROOT / "examples/attention.onnx"))
    names = [s["name"] for s in data["symbols"]]
    follows = {names[w["symbol"]]: w["follows"] for w in data["deployment"]["ways"]}
    assert follows["batch"] == -1
    assert names[follows["seq"]] == "total_seq"


def test_a_model_that_runs_at_no_sizes_is_not_deployed() -> None:
    assert explorer_data(ss.analyze(ROOT / "examples/broken_residual.onnx"))["deployment"] is None


def test_scopes_come_from_names() -> None:
    inside = [
        f"{layer}/{node}" for layer in ("layers.0", "layers.1") for node in ("Add", "attn/MatMul", "attn/Mul")
    ]
    labels = [*(f"/m/{x}" for x in inside), "/Relu"]
    scopes = find_scopes([Scoped(x, "Op") for x in labels])
    assert scopes.rows == [(-1, "m"), (0, "layers.0"), (0, "layers.1"), (1, "attn"), (2, "attn")]
    assert scopes.of == [1, 3, 3, 2, 4, 4, -1]


def test_a_scope_in_which_one_node_is_shown_is_none() -> None:
    labels = ["/m/q/MatMul", "/m/k/Constant", "/m/k/MatMul", "/m/Add"]
    scopes = find_scopes([Scoped(x, "Op", hidden="Constant" in x) for x in labels])
    assert scopes.rows == [(-1, "m")]
    assert scopes.of == [0, 0, 0, 0]


def test_scopes_that_repeat_share_one() -> None:
    labels = [f"/m/layers.{i}/{op}" for i in range(12) for op in ("Add", "Mul")] + [
        "/m/norm/Mul",
        "/m/norm/Pow",
    ]
    scopes = find_scopes([Scoped(x, "Op") for x in labels])
    assert scopes.rows[:3] == [(-1, "m"), (0, "layers.0–11"), (0, "norm")]
    assert [name for parent, name in scopes.rows if parent == 1] == [f"layers.{i}" for i in range(12)]


def test_arithmetic_on_sizes_has_a_box_of_its_own() -> None:
    data = explorer_data(ss.analyze(ROOT / "tests/models/t5_encoder__ts/model.onnx"))
    inside = {s for s, (_, name) in enumerate(data["scopes"]) if name == "shapes"}
    ops = {kind: {data["ops"][n[1]] for n in data["nodes"] if n[5] == kind} for kind in (0, 4)}
    assert {n[2] in inside for n in data["nodes"] if n[5] == 4} == {True}
    assert {n[2] in inside for n in data["nodes"] if n[5] != 4} == {False}
    assert {"Shape", "Concat", "Range"} <= ops[4]
    assert ops[0].isdisjoint({"Shape", "Range"})
    assert {"MatMul", "Softmax", "Reshape"} <= ops[0]
    assert ops[4].isdisjoint({"MatMul", "Softmax"})


def test_attributes_small_tensors_and_the_file_are_told() -> None:
    x = oh.make_tensor_value_info("x", 1, ["n", 3])
    small = oh.make_tensor("small", 7, [2], [-1, 3])
    large = oh.make_tensor("large", 1, [40], [0.0] * 40)
    nodes = [
        oh.make_node("Reshape", ["x", "small"], ["y"], name="r", allowzero=0),
        oh.make_node("Constant", [], ["c"], name="c", value=oh.make_tensor("", 1, [2], [0.5, 1e-7])),
        oh.make_node("Add", ["large", "large"], ["z"], name="a"),
    ]
    graph = oh.make_graph(nodes, "g", [x], [oh.make_empty_tensor_value_info("y")], [small, large])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], producer_name="me", ir_version=8)
    oh.set_model_props(model, {"author": "Ada"})
    data = explorer_data(ss.analyze(model))
    label = [n[0] for n in data["nodes"]]
    assert data["attributes"][label.index("r")] == [("allowzero", "0")]
    assert data["attributes"][label.index("c")] == [("value", "float32 [2] [0.5, 1e-07]")]
    assert {data["tensors"][t][0]: text for t, text in data["contents"].items()} == {"small": "[-1, 3]"}
    about = dict(data["model"]["about"])
    assert (about["producer"], about["author"], about["weights"]) == ("me", "Ada", "2 tensors, 42 elements")


def test_scopes_come_from_weights_where_names_have_none() -> None:
    parts = ["0.fc.weight", "0.fc.bias", "", "0.out.weight", "0.out.bias", "1.fc.weight", "1.fc.bias"]
    weights = [(f"net.layers.{p}",) if p else () for p in parts]
    scopes = find_scopes([Scoped(f"node_{i}", "Op", w) for i, w in enumerate(weights)])
    names = [scopes.rows[s][1] for s in scopes.of]
    assert names == ["fc", "fc", "layers.0", "out", "out", "layers.1/fc", "layers.1/fc"]


def test_long_scopes_are_cut_into_runs() -> None:
    scopes = find_scopes([Scoped(f"n{i}", "Add" if i % 3 else "Mul") for i in range(1000)])
    assert max(scopes.of.count(s) for s in set(scopes.of)) <= MAX_LOOSE
    assert {name for _, name in scopes.rows} == {"Add, Mul"}


def test_a_large_model_is_written_quickly() -> None:
    path = ROOT / "tests/models/t5_encoder__ts/model.onnx"
    a = ss.analyze(path)
    start = time.perf_counter()
    text = a.to_html()
    assert time.perf_counter() - start < 2
    assert len(text) < 1_500_000


def test_what_is_not_judged_is_said_wherever_the_contract_is() -> None:
    nodes = "a = Relu(x) b = Reshape(a, s) c = Neg(b) m = MatMul(x, w) y = Add(c, c)"
    analysis = ss.analyze(text("float[N, K] x, float[3, 4] w, int64[R] s", nodes, "y, m"))
    told = "b and 1 more tensor have unknown rank, so their requirements are not part of the contract"
    contract = analysis.contract
    assert str(contract) == f"K == 3 ({told})"
    assert contract.to_json()["unjudged"] == json.loads(analysis.to_json())["unjudged"] == ["b", "c"]
    assert told in analysis.to_html()
    assert told in analysis._repr_html_()
    assert told[1:] in explorer_data(analysis)["contract"]["limits"]
