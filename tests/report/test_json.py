"""The JSON report: one layout, everything in it, the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path

import shapesolve as ss

from ..building import parsed

ROOT = Path(__file__).resolve().parents[2]


def test_layout() -> None:
    data = json.loads(ss.analyze(ROOT / "examples/attention.onnx").to_json())
    assert data["version"] == 1
    assert data["model"] == "attention.onnx"
    assert data["tensors"]["present_key"] == {"dtype": "float32", "shape": ["batch", 4, "past_seq + seq", 16]}
    assert data["contract"][0]["condition"] == "total_seq == 1 or total_seq == past_seq + seq"
    found = {f["code"]: f for f in data["findings"]}
    assert (found["SS301"]["severity"], found["SS301"]["usual"]) == ("info", True)


def test_the_same_bytes_every_time() -> None:
    texts = {ss.analyze(ROOT / f"examples/{n}.onnx").to_json() for n in ("unet", "unet", "unet")}
    assert len(texts) == 1


def test_a_model_with_conflicts_has_no_contract() -> None:
    data = json.loads(ss.analyze(ROOT / "examples/broken_matmul.onnx").to_json())
    assert data["ok"] is False
    assert data["contract"] == []
    assert data["findings"][0]["steps"]


def test_the_largest_value_of_a_size_that_depends_on_data_is_told() -> None:
    """As text and as data."""
    a = ss.analyze(
        parsed("g (bool[h, w] m) => (int64[k, 2] y) { z = NonZero(m) y = Transpose<perm = [1, 0]>(z) }")
    )
    (name,) = a.shapes["y"].free_symbols()
    assert json.loads(a.to_json())["bounds"] == {name: ["h*w"]}
    assert f"{name}  number of non-zero elements, at most h*w" in str(a)
    assert json.loads(ss.analyze(ROOT / "examples/unet.onnx").to_json())["bounds"] == {}
