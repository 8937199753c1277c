"""The whole constraint system of a model: what is in it, how one selects and prints it, that its definitions are true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import shapesolve
from shapesolve.constraints.constraints import ConstraintSystem
from shapesolve.constraints.local import Definition

from ..building import share

ROOT = Path(__file__).parents[2]
BUNDLED = sorted(
    p for p in (ROOT / "tests" / "models").glob("*/model.onnx") if (p.parent / "truth.json").exists()
)


def model(text: str, **weights: list[int] | np.ndarray) -> onnx.ModelProto:
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')
    for name, given in weights.items():
        array = given if isinstance(given, np.ndarray) else np.zeros(given, np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def texts(system: ConstraintSystem) -> list[str]:
    return [c.text for c in system]


@pytest.fixture(scope="module")
def attention() -> shapesolve.Analysis:
    return shapesolve.analyze(ROOT / "examples" / "attention.onnx")


def test_every_dim_of_every_tensor_is_defined(attention):
    defined = {(c.tensor, c.axis) for c in attention.constraints.role("input", "definition")}
    assert defined == {(t, i) for t, shape in attention.shapes.items() for i in range(len(shape))}


def test_a_definition_speaks_of_one_node_and_of_the_inputs(attention):
    (row,) = (
        attention.constraints.for_tensor("/attn/MatMul_output_0", 3)
        .for_node("/attn/MatMul")
        .role("definition")
    )
    assert row.text == "/attn/MatMul_output_0[3] == /attn/Transpose_3_output_0[3]"
    assert str(row) == row.text_over_inputs == "/attn/MatMul_output_0[3] == past_seq + seq"
    assert (row.node, row.op_type, row.tensor, row.axis) == (
        "/attn/MatMul",
        "MatMul",
        "/attn/MatMul_output_0",
        3,
    )


def test_requirements_and_broadcasts_have_their_node_rule_and_place(attention):
    found = attention.constraints.for_node("/attn/Add").role("requirement")
    assert all(c.rule == "broadcast sizes must be equal or 1" for c in found)
    assert any("total_seq" in c.over_inputs.free and c.tensor for c in found)
    (rows,) = attention.constraints.for_node("/attn/q_proj/MatMul").role("requirement")
    assert rows.text == "attn.q_proj.weight[0] == hidden_states[2]"
    assert [str(s) for s in rows.origin.sites] == ["hidden_states[2]", "attn.q_proj.weight[0]"]


def test_selections_are_systems(attention):
    system = attention.constraints
    assert len(system[3:9]) == 6
    assert system[3:9][0] is system[3]
    assert {c.role for c in system.role("input")} == {"input"}
    needs = system.role("requirement").for_symbol("total_seq")
    assert 0 < len(needs) < len(system.for_symbol("total_seq"))
    assert sum(system.counts.values()) == len(system)
    assert repr(system.role("input")) == "<ConstraintSystem of 27: 27 input sizes>"
    assert len(system.for_node("no such node")) == len(system.for_tensor("no such tensor")) == 0


def test_its_text_is_plain_wherever_it_is_made(attention, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    text = str(attention.constraints[:5])
    assert "\x1b" not in text
    assert text.count("hidden_states[") == 3


def test_it_prints_as_a_table_here_and_in_a_notebook(attention):
    rows = attention.constraints.for_node("/attn/MatMul")
    text, page = str(rows), rows._repr_html_()
    assert "/attn/MatMul_output_0[3] == past_seq + seq" in text
    assert page.count("<tr>") == len(rows) + 1
    assert "past_seq + seq" in page
    assert "more: select by" in str(
        attention.constraints[:] if len(attention.constraints) > 200 else "more: select by"
    )


def test_a_name_cannot_steer_a_terminal_or_a_page():
    proto = model("g (float[n] x) => (float[m] y) { y = Relu(x) }")
    proto.graph.node[0].output[0] = proto.graph.output[0].name = "<b>\x1b[2J"
    system = shapesolve.analyze(proto).constraints
    assert "\x1b" not in str(system)
    assert "<b>" not in system._repr_html_()
    assert "\\x1b[2J" in str(system)


def test_an_analysis_does_not_make_it(monkeypatch):
    def fail(model, analysed):
        raise AssertionError("made")

    monkeypatch.setattr("shapesolve.constraints.constraints.LocalWalk", fail)
    a = shapesolve.analyze(ROOT / "examples" / "attention.onnx")
    assert a.contract is not None
    assert a.conflicts == ()
    with pytest.raises(AssertionError, match="made"):
        len(a.constraints)


def test_what_the_user_and_the_model_say_is_in_it():
    proto = model("g (float[n, 4] x, float[m, 4] z) => (float[n, 4] y) { y = Add(x, z) }")
    system = shapesolve.analyze(proto, bind={"n": 3}, assume=["m <= 7"], broadcast="equal").constraints
    assert texts(system.role("user")) == ["n == 3", "m <= 7"]
    assert texts(system.role("assumption")) == ["m == 3"]
    assert texts(system.for_tensor("z").role("input")) == ["z[0] == m", "z[1] == 4"]


def test_a_tensor_whose_dim_has_the_name_of_a_dim_is_told_apart():
    proto = model("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "y[0]"
    system = shapesolve.analyze(proto).constraints
    assert texts(system) == ["x[0] == y[0]", "y[0]' == x[0]"]
    assert [c.text_over_inputs for c in system] == ["x[0] == y[0]", "y[0]' == y[0]"]


def test_a_node_that_no_size_can_run_is_in_it():
    """The contradiction is between two tensors' sizes, and stated as such."""
    proto = model("g (float[n, 64] x) => (float[n, 8] y) { y = MatMul(x, w) }", w=[768, 8])
    system = shapesolve.analyze(proto).constraints
    assert texts(system.role("requirement")) == ["w[0] == x[2]".replace("2", "1")]
    assert "x[1] == 64" in texts(system)
    assert "w[0] == 768" in texts(system)


def _definitions(system: ConstraintSystem):
    content = system.content
    for number in system.numbers:
        row = content.rows[number]
        if isinstance(row, Definition) and row.axis >= 0:
            yield row.tensor, row.axis, content.composition.dim(row.dim)


@pytest.mark.parametrize("path", share(BUNDLED, 3), ids=lambda p: p.parent.name)
def test_definitions_give_the_sizes_that_a_runtime_measured(path):
    truth = json.loads((path.parent / "truth.json").read_text("utf-8"))
    system = shapesolve.analyze(str(path)).constraints
    definitions = list(_definitions(system))
    judged = 0
    for run in truth["runs"]:
        for tensor, axis, dim in definitions:
            measured = run["tensors"].get(tensor)
            size = dim.evaluate(run["symbols"])
            if measured is not None and size is not None:
                judged += 1
                assert size == measured[axis], f"{tensor}[{axis}] == {dim}"
    assert judged >= len(truth["runs"])


@pytest.mark.parametrize("path", share(BUNDLED, 3), ids=lambda p: p.parent.name)
def test_rows_are_local(path):
    """A definition speaks of dims of tensors, and of the names that stand for what depends on data: of no input's name."""
    a = shapesolve.analyze(str(path))
    local = [c for c in a.constraints.role("definition") if c.node]
    assert local
    strange = [c for c in local if not (c.cond.free | c.guard.free).isdisjoint(a.symbols)]
    restated = set(a.constraints.content.walk.restated)
    assert [str(c) for c in strange if c.node not in restated] == []
