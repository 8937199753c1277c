"""Settings that hold for all tests: property tests draw the same cases on every machine, and documents are valid."""

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
from hypothesis import settings

from shapesolve.report import json as documents
from shapesolve.report.schema import schema

os.environ.pop("COLUMNS", None)  # pipes are wrapped at it
settings.register_profile("steady", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

_envelope = documents.envelope


@cache
def _valid() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def envelope(command: str, data: Mapping[str, Any]) -> str:
    """What a command prints with ``--json``, held against the schema."""
    text = _envelope(command, data)
    _valid().validate(json.loads(text))
    return text


documents.envelope = envelope
