"""`python .ci/schemas.py FILE`: write the interfaces of onnxruntime's own operators, those that onnx does not declare.

A line is an operator at the opset version that brought it. An input or output is `name:T`, with `?` if it is optional, `*` if
it repeats, `#` if it repeats with types of its own; `+` says that at least one is needed. `T` is a type or a letter of `types`.
A required attribute ends with `!`. What is `withdrawn` was an experiment of onnx, whose checker looks at none of its counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema


def rows() -> list[dict[str, Any]]:
    """Return the rows of the table in order."""
    known = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    found = [s for s in get_all_operator_schema() if (s.domain, s.name, s.since_version) not in known]
    withdrawn = {(s.domain, s.name) for s in found if s.deprecated}
    kept = sorted((s for s in found if not s.deprecated), key=lambda s: (s.domain, s.name, s.since_version))
    return [{**_row(s), "withdrawn": True} if (s.domain, s.name) in withdrawn else _row(s) for s in kept]


def _row(schema: Any) -> dict[str, Any]:
    return {
        "op": f"{schema.domain}.{schema.name}".lstrip("."),
        "since": schema.since_version,
        "inputs": " ".join(_formal(p, i < schema.min_input) for i, p in enumerate(schema.inputs)),
        "outputs": " ".join(_formal(p, i < schema.min_output) for i, p in enumerate(schema.outputs)),
        "types": {c.type_param_str: _types(c.allowed_type_strs) for c in schema.type_constraints},
        "attributes": {n: a.type.name + "!" * a.required for n, a in sorted(schema.attributes.items())},
    }


def _formal(formal: Any, needed: bool) -> str:
    kind = formal.option.name
    repeats = "*" if formal.isHomogeneous else "#"
    mark = {"Single": "", "Optional": "?", "Variadic": repeats + "+" * needed}[kind]
    return f"{formal.name}:{_types([formal.typeStr])}{mark}".replace(" ", "_")


def _types(texts: list[str]) -> str:
    short = (t[7:-1] if t.startswith("tensor(") else t for t in texts)
    return " ".join(sorted(t.replace(" ", "") for t in short))


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows())
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n", "utf-8")
