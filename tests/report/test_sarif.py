"""SARIF 2.1.0 and GitHub annotations. With SHAPESOLVE_SARIF_SCHEMA naming the official schema's file, validation against it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from shapesolve.findings.diagnose import CODES
from shapesolve.report.sarif import command, github_text, sarif_text

from .broken import CASES, analyzed


def document() -> dict[str, object]:
    found = [(f"models/{name} 1.onnx", analyzed(name).findings) for name in CASES]
    data: dict[str, object] = json.loads(sarif_text(found, {"/tmp/bad.onnx": "is truncated"}))
    return data


def test_what_the_standard_asks_for() -> None:
    data = document()
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]  # type: ignore[misc]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == list(CODES)
    findings = [f for name in CASES for f in analyzed(name).findings]
    assert {f.severity for f in findings} == {"error", "warning", "info"}
    for result, finding in zip(run["results"], findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert result["level"] == {"error": "error", "warning": "warning", "info": "note"}[finding.severity]
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert " " not in location["physicalLocation"]["artifactLocation"]["uri"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "is truncated"


@pytest.mark.skipif(
    "SHAPESOLVE_SARIF_SCHEMA" not in os.environ, reason="SHAPESOLVE_SARIF_SCHEMA names no schema file"
)
def test_it_validates_against_the_official_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(Path(os.environ["SHAPESOLVE_SARIF_SCHEMA"]).read_text("utf-8"))
    jsonschema.Draft4Validator(schema).validate(document())


def test_github_commands_are_escaped() -> None:
    assert (
        command("error", "50%\nbad", "a,b:c.onnx", "x: y")
        == "::error file=a%2Cb%3Ac.onnx,title=x%3A y::50%25%0Abad"
    )
    (line,) = github_text([("m.onnx", analyzed("SS201").diagnostics)]).splitlines()
    assert line.startswith("::error file=m.onnx,title=SS201 MatMul cannot multiply these shapes::")
    assert "\n" not in line
