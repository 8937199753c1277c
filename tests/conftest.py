"""Settings for all tests: property tests draw the same cases on every machine, documents are valid, written models load."""

import gc
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import onnx
from hypothesis import settings

from shapesolve.model import Model, saving
from shapesolve.report import json as documents

os.environ.pop("COLUMNS", None)  # pipes are wrapped at it
EXAMPLES = 100 if os.environ.get("SHAPESOLVE_ALL") else 25
settings.register_profile(
    "steady", derandomize=True, deadline=None, max_examples=EXAMPLES, database=None, print_blob=True
)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_finish() -> None:
    """Collected tests live to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


_envelope = documents.envelope


@cache
def _valid() -> jsonschema.Draft202012Validator:
    text = (Path(__file__).parents[1] / "docs/schema.json").read_text("utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def envelope(command: str, data: Mapping[str, Any]) -> str:
    """What a command prints with ``--json``, held against the schema."""
    text = _envelope(command, data)
    _valid().validate(json.loads(text))
    return text


documents.envelope = envelope


_with_weights, _save = saving.with_weights, saving.save


def _refusal(model: bytes | str) -> str:
    """Why onnxruntime does not load a model, in a file or serialized. Empty if it does."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def _check_loads(made: bytes | str, given: bytes | str, original: Model) -> None:
    """A written model loads if the original does. A model that runs at no size may show it by its shapes."""
    why = _refusal(made) if find_spec("onnxruntime") else ""
    if why and not _refusal(given):
        from shapesolve import analyze

        assert analyze(original).contract.impossible, f"onnxruntime loads only the original: {why}"


def with_weights(proto: onnx.ModelProto, model: Model) -> onnx.ModelProto:
    """A changed model as a function returns it."""
    made = _with_weights(proto, model)
    if proto is not model.proto:
        given = _with_weights(model.proto, model)
        _check_loads(made.SerializeToString(), given.SerializeToString(), model)
    return made


def save(proto: onnx.ModelProto, model: Model, target: Path) -> None:
    """Writes a changed model."""
    _save(proto, model, target)
    _check_loads(str(target), str(model.path or "") or model.proto.SerializeToString(), model)


# before the modules that import them
saving.with_weights, saving.save = with_weights, save
