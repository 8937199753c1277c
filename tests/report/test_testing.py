"""`shapesolve.testing` and the pytest plugin."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import onnx
import onnx.parser
import pytest

from shapesolve.testing import assert_contract, assert_ok, assert_shapes

from .test_gate import BAKED

ROOT = Path(__file__).resolve().parents[2]
ATTENTION = ROOT / "examples/attention.onnx"
UNET = ROOT / "examples/unet.onnx"
BROKEN = ROOT / "examples/broken_residual.onnx"

pytest_plugins = ["pytester"]


def test_shapes() -> None:
    a = assert_shapes(
        ATTENTION, {"present_key": ["batch", 4, "seq + past_seq", 16], "attn_output": [None, "seq", 64]}
    )
    assert_shapes(a, {"present_value": ["batch", 4, "past_seq + seq", 16]})
    with pytest.raises(AssertionError) as caught:
        assert_shapes(a, {"present_key": ["batch", 4, "seq", 17], "attn_output": ["batch"], "nothing": []})
    first, key, *rest = str(caught.value).splitlines()
    assert first == "shapes differ"
    assert re.fullmatch(
        r"  present_key\[2\]: expected seq, got past_seq \+ seq \(they differ at past_seq = [1-9]\d*\)", key
    )
    assert rest == [
        "  present_key[3]: expected 17, got 16",
        "  attn_output: expected ['batch'], got [batch, seq, 64]",
        "  nothing: unknown tensor",
    ]


def test_contracts() -> None:
    assert_contract(UNET, ["height % 4 == 0", "height % 8 == 0", "width == 8*(width//8)"])
    assert_contract(UNET, ["height % 4 == 0"], exact=False)
    with pytest.raises(AssertionError, match="the model also requires width % 8 == 0"):
        assert_contract(UNET, ["height % 8 == 0"])
    with pytest.raises(AssertionError, match="the model does not require height % 16 == 0"):
        assert_contract(UNET, ["height % 16 == 0", "width % 8 == 0"])
    with pytest.raises(AssertionError, match="expected a number"):
        assert_contract(UNET, ["height =="])


def test_conflicts() -> None:
    assert_ok(UNET)
    with pytest.raises(AssertionError, match="Add cannot broadcast these shapes"):
        assert_ok(BROKEN)


def test_plugin(pytester: pytest.Pytester) -> None:
    for path in (UNET, BROKEN):
        shutil.copy(path, pytester.path)
    onnx.save(onnx.parser.parse_model(BAKED), pytester.path / "baked.onnx")
    plugin = ("-p", "shapesolve.pytest_plugin") if "shapesolve" not in _installed() else ()
    pytester.runpytest(*plugin).assert_outcomes()
    result = pytester.runpytest(*plugin, "--shapesolve")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*error*SS201*: Add cannot broadcast these shapes"])
    pytester.runpytest(*plugin, "--shapesolve-strict").assert_outcomes(passed=1, failed=2)


def _installed() -> set[str]:
    from importlib.metadata import entry_points

    return {e.name for e in entry_points(group="pytest11")}
