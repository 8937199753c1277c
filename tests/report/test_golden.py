"""The text of findings, whole, for one model of each kind of bug. `SHAPESOLVE_UPDATE_GOLDEN=1` writes the files again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shapesolve.findings.diagnose import CODES
from shapesolve.report.text import findings_text

from .broken import CASES, analyzed

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


#: the others are printed on their pages
_GOLDEN = [name for name in CASES if name not in CODES]


@pytest.mark.parametrize("name", _GOLDEN)
def test_findings_read_as_agreed(name: str) -> None:
    analysis = analyzed(name)
    text = findings_text(analysis.diagnostics) + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("SHAPESOLVE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    labels = {n.name for n in CASES[name][0].graph.node}
    for conflict in analysis.conflicts:
        assert conflict.finding.node == "" or conflict.finding.node in conflict.nodes
        assert conflict.finding.node.split("/")[0] in labels | {""}


def test_no_golden_file_is_left_over() -> None:
    assert {f.stem for f in GOLDEN.glob("*.txt")} == set(_GOLDEN)
