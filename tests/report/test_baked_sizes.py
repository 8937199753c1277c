"""Constants in which a size of the example stayed behind: what is advised is carried out, and onnxruntime runs the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx
import pytest

import shapesolve as ss
from shapesolve.causes import repair
from shapesolve.causes.finding import Finding
from shapesolve.lower.fixpoint import lower_model
from shapesolve.lower.lowered import Lowered
from shapesolve.lower.request import Request, Watch
from shapesolve.model import Model

from .. import building
from .broken import model

#: sizes of x, alone and as vectors
_SIZES = "s = Shape(x) b = Slice(s, zero1, one1) n = Slice(s, one1, two1) n0 = Squeeze(n, zero1)"
_X = "float[batch, seq, 8] x"


class Case(NamedTuple):
    """A graph with a line for each constant that an export bakes, of which the finding at `node` names one."""

    text: str
    constants: dict[str, str]
    node: str
    weights: Mapping[str, list[int]] = MappingProxyType({})
    functions: str = ""


def _ints(name: str, *values: int) -> str:
    listed = ", ".join(map(str, values))
    return f"{name} = Constant<value_ints = [{listed}]>()"


_FN = """
<domain: "own", opset_import: ["": 17]>
split (x) => (y) {{ {sizes} {t} y = Reshape(x, t) }}"""

CASES: dict[str, Case] = {
    "one_target": Case(
        f"g ({_X}) => (float[p, q, r, s] y) {{{{ {{sizes}} {{t}} y = Reshape(x, t) }}}}",
        {"t": _ints("t", -1, 9, 2, 4)},
        "Reshape(y)",
    ),
    "keys_and_values": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{u}} h = Constant<value_ints = [8]>()
        tt = Concat<axis = 0>(b, t, h) uu = Concat<axis = 0>(b, u, h)
        k = Reshape(x, tt) v = Reshape(x, uu) y = Add(k, v) }}}}""",
        {"t": _ints("t", 9), "u": _ints("u", 9)},
        "Reshape(k)",
    ),
    "expanded_mask": Case(
        f"""g ({_X}, float[batch, 1, seq] mask) => (float[p, q, r] y) {{{{ {{sizes}} {{t}}
        k = Transpose<perm = [0, 2, 1]>(x) d = MatMul(x, k) m = Expand(mask, t) y = Add(d, m) }}}}""",
        {"t": _ints("t", 1, 9, 9)},
        "Expand(m)",
    ),
    "table_and_target": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{e}}
        part = Slice(table, zero1, e, one1) r = Reshape(x, t) y = Add(r, part) }}}}""",
        {"t": _ints("t", -1, 9, 8), "e": _ints("e", 9)},
        "Reshape(r)",
        {"table": [1, 64, 8]},
    ),
    "end_of_a_table": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}}
        part = Slice(table, zero1, e, one1) y = Add(x, part) }}}}""",
        {"e": _ints("e", 9)},
        "Add(y)",
        {"table": [1, 64, 8]},
    ),
    "state": Case(
        f"""g ({_X}) => (float[p, q, r, s] y) {{{{ {{sizes}} {{t}}
        h = ConstantOfShape(t) y, last = RNN<hidden_size = 4>(x, W, R, , , h) }}}}""",
        {"t": _ints("t", 1, 9, 4)},
        "RNN(y)",
        {"W": [1, 4, 8], "R": [1, 4, 4]},
    ),
    "range": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}} z = Constant<value_int = 0>() i = Constant<value_int = 1>()
        r = Range(z, e, i) part = Gather(table, r) y = Add(x, part) }}}}""",
        {"e": "e = Constant<value_int = 9>()"},
        "Add(y)",
        {"table": [64, 8]},
    ),
    "floats": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{e}}
        z = Constant<value_float = 0.0>() i = Constant<value_float = 1.0>()
        r = Range(z, e, i) ax = Constant<value_ints = [1]>() part = Unsqueeze(r, ax) y = Add(x, part) }}}}""",
        {"e": "e = Constant<value_float = 9.0>()"},
        "Add(y)",
    ),
    "three_places": Case(
        f"""g ({_X}) => (float[p, q, r] y) {{{{ {{sizes}} {{t}} {{e}} {{m}}
        z = Constant<value_int = 0>() i = Constant<value_int = 1>()
        r = Range(z, e, i) part = Gather(table, r) ones = ConstantOfShape(m)
        w = Reshape(x, t) v = Add(w, part) y = Add(v, ones) }}}}""",
        {
            "t": _ints("t", -1, 9, 8),
            "e": "e = Constant<value_int = 9>()",
            "m": _ints("m", 9, 1),
        },
        "Reshape(w)",
        {"table": [64, 8]},
    ),
    "number_of_rows": Case(
        f"""g ({_X}) => (float[p, q] y) {{{{ {{sizes}} {{t}} h = Constant<value_ints = [8]>()
        rows = Mul(b, t) tt = Concat<axis = 0>(rows, h) y = Reshape(x, tt) }}}}""",
        {"t": _ints("t", 9)},
        "Reshape(y)",
    ),
    "branches": Case(
        f"""g ({_X}, bool c) => (float[p, q, r] y) {{{{ {{sizes}} y = If(c) <
        then_branch = a () => (float[p, q, r] y1) {{{{ {{t}} y1 = Reshape(x, t) }}}},
        else_branch = e () => (float[p, q, r] y2) {{{{ {{u}} w = Reshape(x, u) y2 = Relu(w) }}}}> }}}}""",
        {
            "t": _ints("t", -1, 9, 8),
            "u": _ints("u", -1, 9, 8),
        },
        "If(y)/then_branch/Reshape(y1)",
    ),
    "loop": Case(
        f"""g ({_X}) => (float[o, p, q, r] y) {{{{ {{sizes}} trips = Constant<value_int = 2>()
        go = Constant<value_int = 1>() g = Cast<to = 9>(go)
        last, y = Loop(trips, g, go) <body = l (int64 i, bool on, int64 v) => (bool again, int64 w, float[p, q, r] z) {{{{
        again = Identity(on) w = Identity(v) {{t}} z = Reshape(x, t) }}}}> }}}}""",
        {"t": _ints("t", -1, 9, 8)},
        "",
    ),
    "function": Case(
        f"g ({_X}) => (float[p, q, r, s] y) {{{{ y = own.split(x) }}}}",
        {"t": _ints("t", -1, 9, 2, 4)},
        "split(y)/Reshape(y)",
        functions=_FN,
    ),
}


def exported(case: Case, seq: int | None = None) -> onnx.ModelProto:
    """The model that an export at batch = 2 and this `seq` gives; without one that at 9, its inputs declared dynamic."""
    lines = {n: re.sub(r"\b9\b", str(seq or 9), line) for n, line in case.constants.items()}
    inner = "zero1 = Constant<value_ints = [0]>() one1 = Constant<value_ints = [1]>() two1 = Constant<value_ints = [2]>() "
    text = case.text.format(sizes="" if case.functions else inner + _SIZES, **lines)
    if seq is not None:
        text = text.replace("float[batch, seq, 8]", f"float[2, {seq}, 8]")
        text = text.replace("float[batch, 1, seq]", f"float[2, 1, {seq}]")
    if case.functions:
        text = f"{text}\n{case.functions.format(sizes=inner + _SIZES, **lines)}"
        header = '<ir_version: 8, opset_import: ["": 17, "own": 1]>\n'
        return onnx.parser.parse_model(header + text)
    return model(text, **case.weights)


def refusal(proto: onnx.ModelProto, batch: int, seq: int) -> str:
    """What onnxruntime says at these sizes, on ones; nothing when it runs."""
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


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_makes_the_model_run_at_other_sizes(name: str) -> None:
    case = CASES[name]
    baked = exported(case)
    (finding,) = limits(baked)
    (constant,) = finding.constants
    assert constant.rpartition("/")[2] in case.constants
    advice = " ".join((finding.help, *finding.notes))
    assert constant in advice
    assert "shapesolve generalize" in advice or "input's Shape" in advice
    assert case.node in (finding.node, "")
    runs, fails = dict(finding.runs), dict(finding.fails)
    if runs and fails:
        assert not refusal(baked, runs["batch"], runs["seq"])
        assert refusal(baked, fails["batch"], fails["seq"])
    names = {"x[1]": "seq", "mask[2]": "seq"} if "mask" in case.text else {"x[1]": "seq"}
    freed = ss.generalize([exported(case, 9), exported(case, 7)], names)
    assert not limits(freed)
    for seq in (4, 7, 9, 12):
        assert not refusal(freed, 2, seq), seq


def test_findings_of_many_limits_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve inputs that have nothing to do with each other, each with the size of its example in three constants."""
    inputs = ", ".join(f"float[batch{k}, seq{k}, 8] x{k}" for k in range(12))
    outputs = ", ".join(f"float[p{k}, q{k}, r{k}] y{k}" for k in range(12))
    body = " ".join(
        f"""{_ints(f"t{k}", -1, 9, 8)} {_ints(f"m{k}", 9, 1)} e{k} = Constant<value_int = 9>() r{k} = Range(z, e{k}, i)
        part{k} = Gather(table, r{k}) ones{k} = ConstantOfShape(m{k}) w{k} = Reshape(x{k}, t{k})
        v{k} = Add(w{k}, part{k}) y{k} = Add(v{k}, ones{k})"""
        for k in range(12)
    )
    text = f"g ({inputs}) => ({outputs}) {{ z = Constant<value_int = 0>() i = Constant<value_int = 1>() {body} }}"
    a = ss.analyze(model(text, table=[64, 8]))
    assert len(a.contract) == 12
    lowered: list[int] = []
    monkeypatch.setattr(repair, "lower_model", _counted(lowered))
    found = [f for f in a.diagnostics if f.code in ("SS401", "SS404")]
    assert [f.constants for f in found] == [(f"t{k}",) for k in range(12)]
    assert sum(lowered) <= repair.MAX_LOWERED


def _counted(lowered: list[int]) -> Callable[..., Lowered]:
    def counted(model: Model, request: Request, watch: Watch | None = None) -> Lowered:
        lowered.append(len(model.graph.nodes))
        return lower_model(model, request, watch)

    return counted
