"""The extension for Google's Model Explorer. SHAPESOLVE_MODEL_EXPLORER=1 makes its absence a failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import shapesolve as ss

ROOT = Path(__file__).resolve().parents[2]
ATTENTION = ROOT / "examples/attention.onnx"
NESTED = ROOT / "tests/models/script_loop_if__ts/model.onnx"
BERT = ROOT / "tests/models/bert_eager__ts/model.onnx"

if os.environ.get("SHAPESOLVE_MODEL_EXPLORER") != "1":
    pytest.importorskip(
        "model_explorer", reason="left out: pip install '.[model-explorer]'", exc_type=ImportError
    )

from shapesolve.model_explorer.main import ShapesolveAdapter, graphs_of  # noqa: E402 -- optional


def shown(path: Path) -> list[Any]:
    return graphs_of(ss.analyze(path))


def test_the_server_finds_the_extension() -> None:
    from model_explorer.extension_manager import ExtensionManager

    manager = ExtensionManager(["shapesolve.model_explorer"])
    manager.load_extensions()
    assert "shapesolve" in [e["id"] for e in manager.get_extensions_metadata()]


def test_shapes_and_findings_are_shown() -> None:
    (graph,) = ShapesolveAdapter().convert(str(ATTENTION), {})["graphs"]
    by_name = {a.value: n for n in graph.nodes for a in n.attrs if a.key == "name"}
    add = by_name["/attn/Add"]
    assert [a.key for a in add.attrs if a.key.startswith("SS")] == ["SS301"]
    assert add.style is not None
    assert add.namespace == "attn"
    concat = by_name["/attn/Concat_3"]
    tags = {a.key: a.value for a in concat.outputsMetadata[0].attrs}
    assert tags["tensor_shape"] == "float32 [batch, 4, past_seq + seq, 16]"
    about = graph.groupNodeAttributes[""]
    assert about["contract 1"] == "total_seq == 1 or total_seq == past_seq + seq"
    assert about["findings"] == "1 warning"


def test_bodies_are_graphs_of_their_own() -> None:
    nested = shown(NESTED)
    ids = {g.id for g in nested}
    assert len(nested) > 1
    assert all(s in ids for g in nested for n in g.nodes for s in n.subgraphIds)


def test_constants_go_where_they_are_read() -> None:
    (graph,) = shown(BERT)
    constants = [n for n in graph.nodes if n.label == "Constant"]
    assert constants
    assert all(n.namespace for n in constants)


def test_layers_are_found_without_scopes_in_the_names_of_nodes() -> None:
    (graph,) = shown(ROOT / "tests/models/bert_eager__dynamo/model.onnx")
    inside = [n for n in graph.nodes if n.namespace]
    assert len(inside) > 0.9 * len(graph.nodes)
