"""Operator coverage, computed from onnx's schemas and the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from ..lines import Row, row
from ..lower import Registry
from ..operators import default_registry


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of one operator at one opset version: its kind of rule, and whether data is propagated."""

    domain: str
    op_type: str
    since: int
    how: str
    values: bool
    deprecated: bool = False
    standard: bool = True


def coverage(registry: Registry | None = None) -> list[Coverage]:
    """Return every operator and since-version of the installed onnx, then the registry's own operators."""
    rules = registry or default_registry()
    rows: dict[tuple[str, str, int], Coverage] = {}
    schemas: Any = onnx.defs.get_all_schemas_with_history()
    for schema in schemas:
        rule = rules.lookup(schema.domain, schema.name, schema.since_version)
        body = schema.has_function or schema.has_context_dependent_function
        how = rule.form if rule is not None else "body" if body else "fallback"
        key = (schema.domain, schema.name, schema.since_version)
        rows[key] = Coverage(*key, how, rule is not None and rule.values, schema.deprecated)
    standard = {(domain, name) for domain, name, _ in rows}
    for rule in rules:
        if (rule.domain, rule.op_type) not in standard:
            key = (rule.domain, rule.op_type, rule.since)
            rows[key] = Coverage(*key, rule.form, rule.values, standard=False)
    return [rows[key] for key in sorted(rows, key=lambda k: (not rows[k].standard, k))]


def coverage_table(rows: Iterable[Coverage]) -> Iterator[tuple[str, str, str, str, str]]:
    """Return one row per operator: domain, operator, opset versions, kind of rule, data propagation."""
    grouped: dict[tuple[str, str], list[Coverage]] = {}
    for r in rows:
        grouped.setdefault((r.domain, r.op_type), []).append(r)
    for (domain, op_type), versions in grouped.items():
        ways: dict[str, list[str]] = {}
        for v in versions:
            since = str(v.since) if v.since else "all"
            ways.setdefault(v.how, []).append(since + (" (deprecated)" if v.deprecated else ""))
        how = "; ".join(
            f"{way} {', '.join(numbers)}" if len(ways) > 1 else way for way, numbers in ways.items()
        )
        since = ", ".join(n for numbers in ways.values() for n in numbers)
        values = "yes" if any(v.values for v in versions) else ""
        yield domain or "ai.onnx", op_type, since, how, values


def coverage_lines(rows: Iterable[Coverage]) -> Iterator[Row]:
    """Return the table for a terminal."""
    table = list(coverage_table(rows))
    heads = ("domain", "operator", "since", "rule", "propagates values")
    yield row(*(("dim", h) for h in heads))
    for domain, op_type, since, how, values in table:
        style = "good" if "fallback" not in how else "warning"
        yield row(("dim", domain), ("bold", op_type), ("dim", since), (style, how), ("dim", values))
