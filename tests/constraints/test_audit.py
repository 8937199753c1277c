"""The second opinion: Z3 alone, from the local statements of the nodes, agrees with the analysis and with what was measured.

With ``$SHAPESOLVE_AUDIT`` set the models of that folder are judged, else every fourth of the bundled ones, all at night.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import z3

import shapesolve
from shapesolve.constraints.local import Definition
from shapesolve.expr import symbol

from ..building import share
from .test_constraints import model

ROOT = Path(__file__).parents[2]
#: a folder of models with measured sizes to judge, large ones too (minutes); the bundled models otherwise
_FOLDER = Path(os.environ.get("SHAPESOLVE_AUDIT") or ROOT / "tests" / "models")
#: of its sizes Z3 is not sure in the budget of a test
_HARD = {"optimum_t5__decoder__merged", "optimum_whisper__decoder__merged"}


def models() -> list[Path]:
    found = sorted(p for p in _FOLDER.glob("*/model.onnx") if (p.parent / "truth.json").exists())
    return found if "SHAPESOLVE_AUDIT" in os.environ else share(found, 4)


def _truth(path: Path):
    return json.loads((path.parent / "truth.json").read_text("utf-8"))


@pytest.mark.parametrize("path", models(), ids=lambda p: p.parent.name)
def test_z3_alone_agrees_with_the_analysis_and_with_the_measured_sizes(path):
    runs = _truth(path)["runs"]
    measured = [run["tensors"] for run in runs]
    audit = shapesolve.analyze(str(path)).audit(
        [run["symbols"] for run in runs], measured=measured, changes=50, samples=3, rlimit=1_000_000
    )
    assert audit.wrong == []
    assert audit.runs == {"sat": len(runs)} or path.parent.name in _HARD
    assert audit.changed["unsat"] >= 0.9 * audit.changed.total() > 0


def test_sizes_are_chosen_where_none_are_given():
    audit = shapesolve.analyze(ROOT / "examples" / "attention.onnx").audit()
    assert audit.ok
    assert (audit.runs, audit.changed, audit.entailed) == ({"sat": 1}, {"unsat": 50}, {"unsat": 10})
    assert str(audit).splitlines() == [
        "satisfiable at 1 of 1 sizes",
        "refuted 50 of 50 changed dims",
        "entails 10 of 10 reported dims",
        "0 questions without an answer",
    ]


def test_measured_sizes_that_cannot_be_are_wrong():
    a = shapesolve.analyze(ROOT / "examples" / "attention.onnx")
    sizes = {"batch": 2, "seq": 4, "past_seq": 3, "total_seq": 7}
    assert a.audit([sizes], measured=[{"/attn/MatMul_output_0": [2, 4, 4, 7]}], changes=0, samples=0).ok
    audit = a.audit([sizes], measured=[{"/attn/MatMul_output_0": [2, 4, 4, 8]}], changes=0, samples=0)
    assert not audit.ok
    assert audit.wrong == [f"the model runs at {sizes}, the system says that it does not"]


@pytest.mark.parametrize("change", [1, 3])
def test_a_wrong_shape_is_found(change):
    """The audit judges what the analysis reports: a reported shape that is off does not follow, and is told with sizes."""
    a = shapesolve.analyze(
        model(
            "g (float[n, 4] x) => (float[m, 8] y) { t = Concat <axis = 0> (x, x) y = MatMul(t, w) }", w=[4, 8]
        )
    )
    assert a.audit(samples=20).ok
    a.shapes["y"] = shapesolve.Shape([2 * symbol("n") + change, 8])
    audit = a.audit(changes=0, samples=20)
    assert [w.partition(": ")[0] for w in audit.wrong] == [
        f"y[0] is reported as 2*n + {change}, which does not follow"
    ]


def test_a_wrong_rule_is_found():
    """A definition that is off contradicts what a runtime measured."""
    a = shapesolve.analyze(model("g (float[n, 4] x) => (float[m, 8] y) { y = MatMul(x, w) }", w=[4, 8]))
    rows = a.constraints.content.walk.rows
    (row,) = (r for r in rows if isinstance(r, Definition) and (r.tensor, r.axis) == ("y", 0))
    row.dim = row.dim + 1
    audit = a.audit([{"n": 3}], measured=[{"y": [3, 8]}], changes=0, samples=0)
    assert audit.runs == {str(z3.unsat): 1}
    assert not audit.ok


def test_the_budget_is_kept():
    audit = shapesolve.analyze(ROOT / "examples" / "attention.onnx").audit(rlimit=10)
    assert audit.unknown == audit.runs.total() + audit.changed.total() + audit.entailed.total() > 0
    assert not audit.ok
    assert audit.wrong == []
