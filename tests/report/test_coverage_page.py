"""The operator table is current and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx

from shapesolve.report.coverage import coverage

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/operators.md"


def test_no_operator_of_the_installed_onnx_is_missing() -> None:
    rows = {(r.domain, r.op_type, r.since) for r in coverage()}
    schemas = onnx.defs.get_all_schemas_with_history()
    assert {(s.domain, s.name, s.since_version) for s in schemas} <= rows


def test_every_row_says_how() -> None:
    assert {r.how for r in coverage()} <= {"signature", "function", "body", "fallback", "schema"}
    assert any(r.values for r in coverage() if r.op_type == "Reshape")


def test_the_page_is_current(tmp_path: Path) -> None:
    """`python .ci/operators.py docs/reference/operators.md` writes it again."""
    text = PAGE.read_text("utf-8")
    if f"of onnx {onnx.__version__} " in text:  # another onnx has other operators
        page = tmp_path / "operators.md"  # in a process of its own: other tests register operators
        subprocess.run([sys.executable, ROOT / ".ci/operators.py", page], check=True, cwd=ROOT)
        assert text == page.read_text("utf-8")
