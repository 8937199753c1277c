"""The contract as a document: it judges sizes as the contract does, and its ranges are no wider where they suffice."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import shapesolve as ss
from shapesolve.report.json import contract_data, data_of

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted((ROOT / "examples").glob("*.onnx"))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_what_is_read_back_judges_sizes_as_before(path: Path) -> None:
    a = ss.analyze(path)
    data = json.loads(json.dumps(data_of(contract_data(a))))
    again = ss.Contract.from_json(data)
    rng = Random(0)
    for _ in range(200):
        sizes = {n: rng.choice((0, 1, 2, 3, 8, 12, 16, 64)) for n in a.symbols}
        assert again.holds(sizes) == a.contract.holds(sizes), sizes
        inside = all(
            r["min"] <= sizes[n]
            and (r["max"] is None or sizes[n] <= r["max"])
            and sizes[n] % r["multiple"] == 0
            for n, r in data["ranges"].items()
        )
        if data["ranges_suffice"]:
            assert inside is (a.contract.holds(sizes) is not False), sizes
        elif a.contract.holds(sizes):
            assert inside, sizes


def test_shapes_and_ranges_of_a_model() -> None:
    data = data_of(contract_data(ss.analyze(ROOT / "examples/unet.onnx")))
    assert data["inputs"] == {"image": ["batch", 3, "height", "width"]}
    assert data["outputs"] == {"mask": ["batch", 1, "height", "width"]}
    assert data["ranges"]["height"] == {"min": 1, "max": None, "multiple": 8}
    assert data["ranges_suffice"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"terms": [3]}',
        '{"terms": [{"condition": "a =="}]}',
        "nothing",
        '{"version": 2, "terms": []}',
    ],
)
def test_a_document_that_is_no_contract_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ss.Contract.from_json(text)


MERGED = """<ir_version: 8, opset_import: ["": 17]>
g (float[b, seq] X, float[b, past] P, bool use_cache) => (float[b, n] Y) {
    Y = If (use_cache) <
        then_branch = yes () => (float[b, m] A) { A = Concat <axis = 1> (P, X) },
        else_branch = no () => (float[b, k] B) { W = Constant <value = float[1, 4] {1.0, 1.0, 1.0, 1.0}> () B = Add (X, W) }
    >
}"""


def test_a_boolean_input_gets_a_contract_for_each_value():
    import onnx.parser

    a = ss.analyze(onnx.parser.parse_model(MERGED))
    text = str(a)
    assert "if use_cache = true: any input size runs" in text
    assert "if use_cache = false, input sizes must satisfy" in text
    assert "seq == 1 or seq == 4" in text or "seq == 4 or seq == 1" in text


def test_a_model_of_fixed_sizes_says_so():
    import onnx.parser

    a = ss.analyze(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[1, 3] x) => (float[1, 3] y) { y = Relu (x) }'
        )
    )
    assert str(a.contract) == "all input sizes are fixed"
    assert "x [1, 3]" in str(a)
