"""`shapesolve constraints`: selections, formats, and refusals."""

import json
from pathlib import Path

import pytest
import z3
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app

MODEL = str(Path(__file__).parents[2] / "examples/attention.onnx")


def run(*words: str):
    return CliRunner().invoke(app, ["constraints", MODEL, *words])


def test_rows_of_a_node_are_those_of_the_analysis() -> None:
    data = json.loads(run("--node", "/attn/Concat_3", "--json").stdout)
    rows = ss.analyze(MODEL).constraints.for_node("/attn/Concat_3")
    assert [(r["role"], r["condition"], r["over_inputs"]) for r in data["constraints"]] == [
        (c.role, c.text, c.text_over_inputs) for c in rows
    ]
    assert {r["role"] for r in data["constraints"]} == {"definition", "requirement"}


def test_selections_are_combined() -> None:
    data = json.loads(run("--symbol", "past_seq", "--role", "definition", "--json").stdout)
    assert data["constraints"]
    assert all(r["role"] == "definition" and "past_seq" in r["over_inputs"] for r in data["constraints"])


def test_smtlib_is_read_by_z3() -> None:
    solver = z3.Solver(ctx=z3.Context())
    solver.from_string(run("--node", "/attn/*", "--format", "smtlib").stdout)
    assert solver.check() == z3.sat


def test_the_formulas_of_a_node_define_its_output() -> None:
    rows = ss.analyze(MODEL).constraints.for_node("/attn/q_proj/MatMul")
    solver = z3.Solver()
    solver.add(rows.z3())
    solver.add(z3.Int("seq") != z3.Int("/attn/q_proj/MatMul_output_0[1]"))
    assert solver.check() == z3.unsat


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node", "nothing"], "no node matches 'nothing'"),
        (["--symbol", "sq"], "unknown dim 'sq'"),
        (["--role", "rule"], "unknown role 'rule'; expected one of: input, definition"),
    ],
)
def test_what_is_unknown_is_an_error(words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.stderr
