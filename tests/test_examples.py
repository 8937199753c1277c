"""The bundled examples are what their script writes, and do at run time what they are said to do."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from examples.make_examples import MODELS

from . import building

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def session(name: str) -> Any:
    return building.session(EXAMPLES / f"{name}.onnx")


@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_what_the_script_writes(name: str) -> None:
    model = onnx.load_model(EXAMPLES / f"{name}.onnx")
    assert model == MODELS[name]()
    onnx.checker.check_model(model)
    assert not model.graph.value_info


@pytest.mark.parametrize(("past", "total", "runs"), [(4, 7, True), (4, 1, True), (0, 3, True), (4, 6, False)])
def test_the_mask_of_attention(past: int, total: int, runs: bool) -> None:
    cache = np.zeros((2, 4, past, 16), "f4")
    inputs = {
        "hidden_states": np.zeros((2, 3, 64), "f4"),
        "attention_mask": np.zeros((2, 1, 3, total), "f4"),
        "past_key": cache,
        "past_value": cache,
    }
    if runs:
        out, key, value = session("attention").run(None, inputs)
        assert (out.shape, key.shape, value.shape) == ((2, 3, 64), (2, 4, past + 3, 16), (2, 4, past + 3, 16))
    else:
        with pytest.raises(Exception, match="/attn/Add"):
            session("attention").run(None, inputs)


@pytest.mark.parametrize(
    ("height", "width", "runs"), [(8, 16, True), (24, 32, True), (12, 16, False), (16, 12, False)]
)
def test_unet_needs_multiples_of_eight(height: int, width: int, runs: bool) -> None:
    image = np.zeros((2, 3, height, width), "f4")
    if runs:
        assert session("unet").run(None, {"image": image})[0].shape == (2, 1, height, width)
    else:
        with pytest.raises(Exception, match="Concat"):
            session("unet").run(None, {"image": image})


@pytest.mark.parametrize(
    ("name", "node"), [("broken_residual", "/block/Add"), ("broken_matmul", "/encoder/out_proj/MatMul")]
)
def test_broken_models_cannot_run(name: str, node: str) -> None:
    with pytest.raises(Exception, match=node):
        session(name)
