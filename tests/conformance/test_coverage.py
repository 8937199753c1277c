"""Every operator of the installed onnx, at every version, is lowered by a rule or by its schema's body."""

from __future__ import annotations

from collections import defaultdict

import onnx

from shapesolve.lower import Rule
from shapesolve.operators import default_registry

SCHEMAS = onnx.defs.get_all_schemas_with_history()


def missing() -> dict[str, list[int]]:
    """Since-versions that have neither a rule nor a body, by operator."""
    registry = default_registry()
    found: dict[str, list[int]] = defaultdict(list)
    for schema in SCHEMAS:
        body = schema.has_function or schema.has_context_dependent_function
        if not body and registry.lookup(schema.domain, schema.name, schema.since_version) is None:
            found[f"{schema.domain or 'ai.onnx'}.{schema.name}"].append(schema.since_version)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def test_every_operator_at_every_version_is_covered() -> None:
    assert missing() == {}


def rules_of_standard_domains() -> list[Rule]:
    domains = {schema.domain for schema in SCHEMAS} - {""}  # runtimes add operators of their own to ""
    return [rule for rule in default_registry() if rule.domain in domains]


def test_rules_of_standard_domains_name_operators_that_exist() -> None:
    names = {(schema.domain, schema.name) for schema in SCHEMAS}
    assert [r.op_type for r in rules_of_standard_domains() if (r.domain, r.op_type) not in names] == []


def test_signatures_parse() -> None:
    for rule in default_registry():
        if rule.form == "signature":
            assert getattr(rule.lower, "parsed", None) is not None, rule.op_type
