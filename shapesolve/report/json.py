"""JSON with a stable layout: what `shapesolve.report.schema` says of each command, in one envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .lines import json_text
from .names import dtype_name

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding

VERSION = 1


def envelope(command: str, data: Mapping[str, Any]) -> str:
    """What a command prints with ``--json``: the version of the layout, the command, and its data."""
    return json_text({"version": VERSION, "command": command, **data})


def render_json(analysis: Analysis) -> str:
    """The report as JSON text."""
    return json_text({"version": VERSION, **report_data(analysis)})


def report_data(analysis: Analysis) -> dict[str, Any]:
    """The report as plain data, without the version of the layout."""
    model = analysis.model
    outputs = [name for name, _ in model.graph.outputs]
    return {
        "model": model.path.name if model.path is not None else model.graph.name,
        "nodes": len(model.graph.nodes),
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        "ok": analysis.ok,
        "inputs": list(analysis.inputs),
        "outputs": outputs,
        "tensors": {
            name: {
                "dtype": dtype_name(dtype),
                "shape": _shape(analysis, name),
            }
            for name, dtype in analysis.dtypes.items()
        },
        "bindings": dict(analysis.bindings),
        "contract": [] if analysis.conflicts else _contract(analysis),
        "unjudged": [] if analysis.conflicts else list(analysis.contract.unjudged),
        "findings": [finding_data(f) for f in analysis.diagnostics],
    }


def _shape(analysis: Analysis, name: str) -> list[int | str] | None:
    shape = analysis.shapes.get(name)
    return None if shape is None else [str(d) if d.terms else d.const for d in shape]


def _contract(analysis: Analysis) -> list[dict[str, Any]]:
    return [{"condition": t.text, "nodes": list(t.nodes)} for t in analysis.contract]


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    sizes = {"runs": dict(finding.runs), "fails": dict(finding.fails)}
    return {"severity": finding.severity, **asdict(finding), "nodes": list(finding.named), **sizes}


def findings_json(found: Iterable[tuple[str, bool, Iterable[Finding]]], broken: Mapping[str, str]) -> str:
    """Findings only, of any number of models (path, without conflict, findings); `broken`: path -> why it is unusable."""
    models = [
        {"model": name, "ok": ok, "findings": [finding_data(f) for f in findings]}
        for name, ok, findings in found
    ]
    unusable = [{"model": name, "error": text} for name, text in broken.items()]
    return envelope("check", {"models": models, "unusable": unusable})
