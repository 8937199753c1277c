"""Dynamic models, fixed by onnxruntime as an export would, and freed again: they compute what they did, or are refused."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import shapesolve as ss
from shapesolve.change.verify import verify

from ..running import weighted

MODELS = Path(__file__).resolve().parents[2] / "models"
ROWS = ("batch", "batch_size")
#: name -> sizes that are freed, alone and together
CASES = {
    "bert_eager__ts": [["batch"]],
    "gpt2_past__ts": [["batch"]],
    "llama_past__dynamo": [["batch"]],
    "lstm_tagger__ts": [["batch"], ["seq"], ["batch", "seq"]],
    "resnet50__ts": [["batch"], ["height"]],
    "t5_encoder__ts": [["batch"]],
    "unet_interp__dynamo": [["batch"], ["height"], ["width"], ["height", "width"]],
    "unet_pad__ts": [["batch"], ["height"]],
    "vit_interp__ts": [["batch"], ["height"]],
}


def session(model: onnx.ModelProto, level: str = "ORT_DISABLE_ALL", save: str = "") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if save:
        options.optimized_model_filepath = save
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def fixed(model: onnx.ModelProto, shapes: dict[str, list[int]]) -> onnx.ModelProto:
    """As an export with these sizes has it: shape arithmetic is folded away."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True):
            dim.Clear()
            dim.dim_value = size
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    with tempfile.TemporaryDirectory() as folder:
        session(copy, "ORT_ENABLE_BASIC", f"{folder}/fixed.onnx")
        return onnx.load(f"{folder}/fixed.onnx")


def feeds(model: onnx.ModelProto, shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    made = {}
    for value in model.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes[value.name]
        array = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 2, shape)
        made[value.name] = (np.ones(shape) if "mask" in value.name else array).astype(kind)
    return made


def outcome(name: str, freed: list[str]) -> str:
    truth = json.loads((MODELS / name / "truth.json").read_text())
    model = weighted(MODELS / name / "model.onnx")
    base = {**truth["runs"][0]["symbols"], **{row: 1 for row in ROWS if row in truth["runs"][0]["symbols"]}}

    def at(sizes: dict[str, int]) -> dict[str, list[int]]:
        return {
            key: [ss.parse_dim(d).evaluate(sizes) if isinstance(d, str) else d for d in shape]
            for key, shape in truth["inputs"].items()
        }

    baked = fixed(model, at(base))
    places = {
        f"{key}[{axis}]": d
        for key, shape in truth["inputs"].items()
        for axis, d in enumerate(shape)
        if d in freed
    }
    try:
        changed = ss.free(baked, places)
    except ss.Refused:
        return "refused"
    before, after = session(model), session(changed)
    for factor in (1, 2, 3):
        sizes = {**base, **{symbol: base[symbol] * factor for symbol in freed}}
        given = feeds(model, at(sizes))
        for a, b in zip(before.run(None, given), after.run(None, given), strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-3)
    assert verify(baked, changed, places)
    return "right"


@pytest.mark.parametrize("name", CASES)
def test_what_was_fixed_is_free_again(name: str) -> None:
    found = Counter(outcome(name, freed) for freed in CASES[name])
    assert found["right"] >= 1, found
