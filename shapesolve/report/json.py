"""JSON with a stable layout: the data described by `shapesolve.report.schema`, in a common envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import lcm
from typing import TYPE_CHECKING, Any, cast

from ..explain.names import dtype_name
from ..expr import Cond, Dim, eq, symbol
from ..expr.traverse import atoms_of
from ..lines import json_text

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding
    from ..propagate.constraint import Constraint
    from .documents import AnalysisData, ConditionData, ConstraintsData, FindingData

VERSION = 1


def envelope(command: str, data: Mapping[str, Any]) -> str:
    """Return a command's ``--json`` output: the version of the layout, the command, and its data."""
    return json_text({"version": VERSION, "command": command, **data})


def data_of(value: Any) -> Any:
    """Convert a dataclass or named tuple to plain data, recursively. Dims and conditions become numbers or strings."""
    if isinstance(value, Dim):
        return str(value) if value.terms else value.const
    if is_dataclass(value):
        return {f.name: data_of(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: data_of(v) for name, v in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: data_of(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [data_of(v) for v in value]
    return str(value) if isinstance(value, Cond) else value


def render_json(analysis: Analysis) -> str:
    """Return the report of an analysis as a JSON string."""
    return json_text({"version": VERSION, **report_data(analysis)})


def report_data(analysis: Analysis) -> AnalysisData:
    """Return the report of an analysis as plain data."""
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
        "findings": [finding_data(f) for f in analysis.findings],
    }


def _shape(analysis: Analysis, name: str) -> list[int | str] | None:
    shape: list[int | str] | None = data_of(analysis.shapes.get(name))
    return shape


def _contract(analysis: Analysis) -> list[ConditionData]:
    return [{"condition": t.text, "nodes": list(t.nodes)} for t in analysis.contract]


def contract_data(analysis: Analysis) -> dict[str, Any]:
    """Return the contract with its input shapes, and with output shapes as expressions of the input sizes.

    `ranges` has the minimum, the maximum, and a divisor of each symbol; if `ranges_suffice`, they imply the whole
    contract.
    """
    graph = analysis.model.graph
    ranges, suffice = _ranges(analysis)
    return {
        **analysis.contract.to_json(),
        "inputs": {name: _shape(analysis, name) for name in analysis.inputs},
        "outputs": {name: _shape(analysis, name) for name, _ in graph.outputs},
        "ranges": ranges,
        "ranges_suffice": suffice,
    }


def _ranges(analysis: Analysis) -> tuple[dict[str, dict[str, int | None]], bool]:
    """Return bounds and a divisor of each input symbol, and True if these imply all conditions of the contract."""
    ranges: dict[str, dict[str, int | None]] = {
        name: {"min": 0, "max": None, "multiple": 1} for name in analysis.symbols
    }
    suffice = not analysis.contract.impossible and not analysis.contract.unjudged
    for term in (*analysis.contract.terms, *analysis.contract.assumed):
        waiting, known = [term.cond], True
        while waiting:
            cond = waiting.pop()
            if cond.kind == "and":
                waiting += [c for c in cond.args if isinstance(c, Cond)]
            else:
                known &= _narrowed(cond, ranges)
        suffice &= known
    return ranges, suffice


def _narrowed(cond: Cond, ranges: Mapping[str, dict[str, int | None]]) -> bool:
    """Merge a condition into the ranges if it is a bound, equation, or divisor; return False for others."""
    name = next(iter(cond.free)) if len(cond.free) == 1 else ""
    if name not in ranges or cond.kind not in (">=", "=="):
        return False
    own, d = ranges[name], cond.args[0]
    if not isinstance(d, Dim) or len(d.terms) != 1:
        step = _step(cond, name)
        if step:
            own["multiple"] = lcm(own["multiple"] or 1, step)
        return bool(step)
    (monomial, factor), const = d.terms[0], d.const
    if len(monomial) != 1 or monomial[0].kind != "sym":
        return False
    if cond.kind == "==":
        if const % factor:
            return False
        own["min"] = own["max"] = -const // factor
    elif factor > 0:
        own["min"] = max(own["min"] or 0, -(const // factor))
    else:
        most = const // -factor
        own["max"] = most if own["max"] is None else min(own["max"], most)
    return True


def _step(cond: Cond, name: str) -> int:
    """Return the divisor k of a condition ``name % k == 0``, or 0 for other conditions."""
    steps = {
        atom.args[1].value
        for atom in atoms_of(cond)
        if atom.kind == "//" and isinstance(atom.args[1], Dim) and atom.args[1].value
    }
    k = steps.pop() if len(steps) == 1 else 0
    return k if k and cond is eq(symbol(name) % k, 0) else 0


def finding_data(finding: Finding) -> FindingData:
    """Return a finding as plain data."""
    sizes = {"runs": dict(finding.runs), "fails": dict(finding.fails)}
    data = {"severity": finding.severity, **data_of(finding), "nodes": list(finding.named), **sizes}
    return cast("FindingData", data)


def constraints_data(rows: Iterable[Constraint]) -> ConstraintsData:
    """Return the rows of a constraint system as plain data."""
    return {
        "constraints": [
            {
                "role": c.role,
                "node": c.node,
                "op_type": c.op_type,
                "condition": c.text,
                "over_inputs": c.text_over_inputs,
                "rule": c.rule,
                "sites": [{"tensor": s.tensor, "axis": s.axis, "element": s.data} for s in c.origin.sites],
            }
            for c in rows
        ]
    }


def findings_data(
    found: Iterable[tuple[str, bool, Iterable[Finding]]], broken: Mapping[str, str]
) -> dict[str, Any]:
    """Return the findings of several models. `broken` maps the path of an unusable model to the reason."""
    models = [
        {"model": name, "ok": ok, "findings": [finding_data(f) for f in findings]}
        for name, ok, findings in found
    ]
    unusable = [{"model": name, "error": text} for name, text in broken.items()]
    return {"models": models, "unusable": unusable}
