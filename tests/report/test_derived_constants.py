"""Constants in which a size of the example stayed behind: what is advised is carried out by hand, and onnxruntime runs it.

Each model has its constants in two forms, as an export bakes them and as they are derived from Shape. With those derived that
the finding names, it runs at other sizes, and with any of them left as it was, it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx
import pytest

import shapesolve as ss
from shapesolve.explain.finding import Finding
from shapesolve.solve.effort import Effort

from .. import building
from .broken import model

#: what the derived forms start from: the sizes of x, alone and as vectors
_SIZES = "s = Shape(x) b = Slice(s, zero1, one1) n = Slice(s, one1, two1) n0 = Squeeze(n, zero1)"
_X = "float[batch, seq, 8] x"


class Case(NamedTuple):
    """A graph with a line for each constant in both forms, and which the finding at `node` has to name."""

    text: str
    constants: dict[str, tuple[str, str]]
    node: str
    weights: Mapping[str, list[int]] = MappingProxyType({})
    functions: str = ""


def _ints(name: str, *values: int) -> str:
    listed = ", ".join(map(str, values))
    return f"{name} = Constant<value_ints = [{listed}]>()"


def _joined(name: str, *parts: str | int) -> str:
    made = "".join(
        f"{name}_{i} = Constant<value_ints = [{p}]>() " for i, p in enumerate(parts) if isinstance(p, int)
    )
    listed = ", ".join(p if isinstance(p, str) else f"{name}_{i}" for i, p in enumerate(parts))
    return f"{made}{name} = Concat<axis = 0>({listed})"


_FN = """
<domain: "own", opset_import: ["": 17]>
split (x) => (y) {{ {sizes} {t} y = Reshape(x, t) }}"""

CASES: dict[str, Case] = {
    "one_target": Case(
        f"g ({_X}) => (float[p, q, r, s] y) {{{{ {{sizes}} {{t}} y = Reshape(x, t) }}}}",
        {"t": (_ints("t", -1, 9, 2, 4), _joined("t", -1, "n", 2, 4))},
        "Reshape(y)",
    ),
    "keys_and_values": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{u}} h = Constant<value_ints = [8]>()
        tt = Concat<axis = 0>(b, t, h) uu = Concat<axis = 0>(b, u, h)
        k = Reshape(x, tt) v = Reshape(x, uu) y = Add(k, v) }}}}""",
        {"t": (_ints("t", 9), "t = Identity(n)"), "u": (_ints("u", 9), "u = Identity(n)")},
        "Reshape(k)",
    ),
    "expanded_mask": Case(
        f"""g ({_X}, float[batch, 1, seq] mask) => (float[p, q, r] y) {{{{ {{sizes}} {{t}}
        k = Transpose<perm = [0, 2, 1]>(x) d = MatMul(x, k) m = Expand(mask, t) y = Add(d, m) }}}}""",
        {"t": (_ints("t", 1, 9, 9), _joined("t", 1, "n", "n"))},
        "Expand(m)",
    ),
    "table_and_target": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{e}}
        part = Slice(table, zero1, e, one1) r = Reshape(x, t) y = Add(r, part) }}}}""",
        {"t": (_ints("t", -1, 9, 8), _joined("t", -1, "n", 8)), "e": (_ints("e", 9), "e = Identity(n)")},
        "Reshape(r)",
        {"table": [1, 64, 8]},
    ),
    "end_of_a_table": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}}
        part = Slice(table, zero1, e, one1) y = Add(x, part) }}}}""",
        {"e": (_ints("e", 9), "e = Identity(n)")},
        "Add(y)",
        {"table": [1, 64, 8]},
    ),
    "state": Case(
        f"""g ({_X}) => (float[p, q, r, s] y) {{{{ {{sizes}} {{t}}
        h = ConstantOfShape(t) y, last = RNN<hidden_size = 4>(x, W, R, , , h) }}}}""",
        {"t": (_ints("t", 1, 3, 4), _joined("t", 1, "n", 4))},
        "RNN(y)",
        {"W": [1, 4, 8], "R": [1, 4, 4]},
    ),
    "range": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}} z = Constant<value_int = 0>() i = Constant<value_int = 1>()
        r = Range(z, e, i) part = Gather(table, r) y = Add(x, part) }}}}""",
        {"e": ("e = Constant<value_int = 9>()", "e = Identity(n0)")},
        "Add(y)",
        {"table": [64, 8]},
    ),
    "floats": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}}
        z = Constant<value_float = 0.0>() i = Constant<value_float = 1.0>()
        r = Range(z, e, i) ax = Constant<value_ints = [1]>() part = Unsqueeze(r, ax) y = Add(x, part) }}}}""",
        {"e": ("e = Constant<value_float = 9.0>()", "e = Cast<to = 1>(n0)")},
        "Add(y)",
    ),
    "three_places": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{e}} {{m}}
        z = Constant<value_int = 0>() i = Constant<value_int = 1>()
        r = Range(z, e, i) part = Gather(table, r) ones = ConstantOfShape(m)
        w = Reshape(x, t) v = Add(w, part) y = Add(v, ones) }}}}""",
        {
            "t": (_ints("t", -1, 9, 8), _joined("t", -1, "n", 8)),
            "e": ("e = Constant<value_int = 9>()", "e = Identity(n0)"),
            "m": (_ints("m", 9, 1), _joined("m", "n", 1)),
        },
        "Reshape(w)",
        {"table": [64, 8]},
    ),
    "number_of_rows": Case(
        f"""g ({_X}) => (float[p, q] y) {{{{ {{sizes}} {{t}} h = Constant<value_ints = [8]>()
        rows = Mul(b, t) tt = Concat<axis = 0>(rows, h) y = Reshape(x, tt) }}}}""",
        {"t": (_ints("t", 9), "t = Identity(n)")},
        "Reshape(y)",
    ),
    "branches": Case(
        f"""g ({_X}, bool c) => (float[p, q, r] y) {{{{ {{sizes}} y = If(c) <
        then_branch = a () => (float[p, q, r] y1) {{{{ {{t}} y1 = Reshape(x, t) }}}},
        else_branch = e () => (float[p, q, r] y2) {{{{ {{u}} w = Reshape(x, u) y2 = Relu(w) }}}}> }}}}""",
        {
            "t": (_ints("t", -1, 9, 8), _joined("t", -1, "n", 8)),
            "u": (_ints("u", -1, 9, 8), _joined("u", -1, "n", 8)),
        },
        "If(y)/then_branch/Reshape(y1)",
    ),
    "loop": Case(
        f"""g ({_X}) => (float[o, p, q, r] y) {{{{ {{sizes}} trips = Constant<value_int = 2>()
        go = Constant<value_int = 1>() g = Cast<to = 9>(go)
        last, y = Loop(trips, g, go) <body = l (int64 i, bool on, int64 v) => (bool again, int64 w, float[p, q, r] z) {{{{
        again = Identity(on) w = Identity(v) {{t}} z = Reshape(x, t) }}}}> }}}}""",
        {"t": (_ints("t", -1, 9, 8), _joined("t", -1, "n", 8))},
        "",
    ),
    "function": Case(
        f"g ({_X}) => (float[p, q, r, s] y) {{{{ y = own.split(x) }}}}",
        {"t": (_ints("t", -1, 9, 2, 4), _joined("t", -1, "n", 2, 4))},
        "split(y)/Reshape(y)",
        functions=_FN,
    ),
}


def made(case: Case, derived: Collection[str]) -> onnx.ModelProto:
    lines = {name: forms[name in derived] for name, forms in case.constants.items()}
    inner = "zero1 = Constant<value_ints = [0]>() one1 = Constant<value_ints = [1]>() two1 = Constant<value_ints = [2]>() "
    text = case.text.format(sizes="" if case.functions else inner + _SIZES, **lines)
    if case.functions:
        text = f"{text}\n{case.functions.format(sizes=inner + _SIZES, **lines)}"
        header = '<ir_version: 8, opset_import: ["": 17, "own": 1]>\n'
        return onnx.parser.parse_model(header + text)
    return model(text, **case.weights)


def refusal(proto: onnx.ModelProto, batch: int, seq: int) -> str:
    """What onnxruntime says at these sizes, on zeros; nothing when it runs."""
    session = building.session(proto, optimized=False)
    sizes = {"batch": batch, "seq": seq}
    feeds = {}
    for i in session.get_inputs():
        shape = [sizes[d] if isinstance(d, str) else d for d in i.shape]
        kind = {"tensor(bool)": "bool", "tensor(int64)": "int64"}.get(i.type, "f4")
        feeds[i.name] = np.ones(shape, kind)
    said = ""
    for c in (True, False) if "c" in feeds else (True,):
        if "c" in feeds:
            feeds["c"] = np.array(c)
        try:
            session.run(None, feeds)
        except Exception as e:  # onnxruntime raises a dozen classes of its own
            said = said or str(e)
    return said


def limits(proto: onnx.ModelProto) -> list[Finding]:
    return [f for f in ss.analyze(proto).diagnostics if f.code in ("SS401", "SS404")]


def advised(finding: Finding) -> set[str]:
    """The constants that a help line says to derive."""
    told = re.match(r"(.*) (is a constant|are constants), as if baked in at export: derive ", finding.help)
    named = re.split(", | and ", told[1]) if told else []
    more = re.fullmatch(r"(\d+) more \(--json names all\)", named[-1]) if named else None
    if more is None:
        assert tuple(named) == finding.constants
    else:
        assert (*named[:-1], int(more[1])) == (*finding.constants[:3], len(finding.constants) - 3)
    assert len(named) <= 4
    return set(finding.constants)


def test_where_deriving_a_constant_is_not_enough_nothing_is_advised() -> None:
    """A stored operand has the size as well, and cannot be derived: onnxruntime fails with the target derived."""
    text = f"g ({_X}) => (float[p, q, r] y, float[a, b, c] z) {{{{ {{sizes}} {{t}} y = Expand(x, t) z = Add(x, c) }}}}"
    case = Case(text, {"t": (_ints("t", 1, 9, 8), _joined("t", 1, "n", 8))}, "", {"c": [1, 9, 8]})
    (finding,) = limits(made(case, ()))
    assert not advised(finding)
    assert finding.notes[-1] == "it is not enough to derive t from Shape: c holds the size as well, at Add(z)"
    assert finding.help.startswith("declare `seq` as 9")
    assert refusal(made(case, ["t"]), 2, 4)
    shared = f"""g ({_X}) => (float[p, q, r] y, float[o] z) {{{{ {{sizes}} {{t}} h = Constant<value_ints = [8]>()
    tt = Concat<axis = 0>(b, t, h) y = Reshape(x, tt) z = Reshape(c, t) }}}}"""
    case = Case(shared, {"t": (_ints("t", 9), "t = Identity(n)")}, "", {"c": [9]})
    (finding,) = limits(made(case, ()))
    assert not advised(finding)
    assert refusal(made(case, ["t"]), 2, 4)


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_makes_the_model_run_at_other_sizes(name: str) -> None:
    case = CASES[name]
    baked = made(case, ())
    (finding,) = limits(baked)
    runs, fails = dict(finding.runs), dict(finding.fails)
    names = {n.rpartition("/")[2] for n in advised(finding)}
    assert names == set(case.constants), finding
    assert case.node in (finding.node, "")
    for batch, seq in ((2, 4), (3, 7), (1, 12), (5, 9)):
        assert not refusal(made(case, names), batch, seq), (batch, seq)
    if runs and fails:
        assert not refusal(baked, runs["batch"], runs["seq"])
        assert refusal(baked, fails["batch"], fails["seq"])
    assert not limits(made(case, names))
    for left in names:
        still = made(case, names - {left})
        assert any(refusal(still, batch, seq) for batch, seq in ((2, 4), (3, 7), (1, 12)))
        assert limits(still) or "SS302" in {f.code for f in ss.analyze(still).diagnostics}


def _beside_each_other(count: int) -> str:
    """Inputs that have nothing to do with each other, each with the size of its example in three constants."""
    inputs = ", ".join(f"float[batch{k}, seq{k}, 8] x{k}" for k in range(count))
    outputs = ", ".join(f"float[p{k}, q{k}, r{k}] y{k}" for k in range(count))
    body = " ".join(
        f"""{_ints(f"t{k}", -1, 9, 8)} {_ints(f"m{k}", 9, 1)} e{k} = Constant<value_int = 9>() r{k} = Range(z, e{k}, i)
        part{k} = Gather(table, r{k}) ones{k} = ConstantOfShape(m{k}) w{k} = Reshape(x{k}, t{k})
        v{k} = Add(w{k}, part{k}) y{k} = Add(v{k}, ones{k})"""
        for k in range(count)
    )
    return f"g ({inputs}) => ({outputs}) {{ z = Constant<value_int = 0>() i = Constant<value_int = 1>() {body} }}"


def test_all_trials_of_a_model_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve limits of three constants each are trials of minutes, one by one; the findings have to come in about a second."""
    a = ss.analyze(model(_beside_each_other(12), table=[64, 8]))
    assert len(a.contract) == 12
    asked: list[int] = []
    monkeypatch.setattr(Effort, "count", _counting(asked))
    found = [f for f in a.diagnostics if f.code in ("SS401", "SS404")]
    assert advised(found[0]) == {"t0", "e0", "m0"}
    assert len(found) == 12
    assert len(asked) < 600


def _counting(asked: list[int]) -> Callable[[Effort, int], None]:
    count = Effort.count

    def counted(self: Effort, relations: int) -> None:
        asked.append(relations)
        count(self, relations)

    return counted


def test_of_many_constants_three_are_named_and_deriving_all_makes_the_model_run() -> None:
    def built(derived: Collection[str]) -> onnx.ModelProto:
        body = ["b = Shape<start = 0, end = 1>(x) n = Shape<start = 1, end = 2>(x)"]
        for k in range(6):
            name = f"t{k}"
            body.append(_joined(name, "b", "n", 8) if name in derived else _ints(name, -1, 9, 8))
            body.append(f"y{k} = Reshape(x, {name})")
        listed = ", ".join(f"y{k}" for k in range(6))
        return model(f"g ({_X}) => (float[p, q, r] z) {{ {' '.join(body)} z = Sum({listed}) }}")

    (finding,) = limits(built(()))
    names = {n.rpartition("/")[2] for n in advised(finding)}
    assert names == {f"t{k}" for k in range(6)}
    assert " and 3 more (--json names all) are constants" in finding.help
    after = built(names)
    assert not limits(after)
    for batch, seq in ((2, 4), (3, 7)):
        assert not refusal(after, batch, seq)
