"""Models, sessions and model files for the tests of all rooms."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper, parser

ROOT = Path(__file__).resolve().parents[1]
#: folder with ``models/*/model.onnx`` and ``broken/*/model.onnx``; a folder that does not exist where none is named
CORPUS = Path(os.environ.get("SHAPESOLVE_CORPUS") or "nowhere")
#: True if every corpus model and every expensive case is wanted, not the fixed tenth
EVERYTHING = bool(os.environ.get("SHAPESOLVE_ALL"))

T = TypeVar("T")

ort.set_default_logger_severity(4)


def share(cases: Iterable[T], every: int) -> list[T]:
    """Every so-manieth case, all with `EVERYTHING`."""
    return list(cases)[:: 1 if EVERYTHING else every]


def seeds(first: int, end: int, step: int = 1, share: int = 8) -> range:
    """Seeds of random cases: a fixed eighth of them (or less), all with `EVERYTHING`."""
    return range(first, end if EVERYTHING else first + max((end - first) // share, step), step)


def corpus_files(*kinds: str) -> list[Path]:
    """Model files of the corpus (``models`` and ``broken``, or the kinds named): a fixed tenth, all with `EVERYTHING`."""
    found = sorted(f for kind in kinds or ("models", "broken") for f in (CORPUS / kind).glob("*/model.onnx"))
    return [f for f in found if EVERYTHING or zlib.crc32(f.parent.name.encode()) % 10 == 0]


def bundled_files(*, broken: bool = False) -> list[Path]:
    """Model files of ``tests/models`` and ``examples``; those that cannot run only with `broken`."""
    found = [*(ROOT / "tests/models").glob("**/model.onnx"), *(ROOT / "examples").glob("*.onnx")]
    return sorted(f for f in found if broken or "broken" not in str(f.relative_to(ROOT)))


def session(model: onnx.ModelProto | Path, *, optimized: bool = True) -> ort.InferenceSession:
    """A session of onnxruntime on the CPU that logs nothing."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto | Path, feeds: dict[str, Any], *, optimized: bool = True) -> list[Any]:
    """All outputs of one run."""
    return list(session(model, optimized=optimized).run(None, feeds))


def parsed(text: str, opset: int = 17, **weights: Sequence[int] | np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A model in ONNX's text syntax, ``g (float[N] x) => (y) {...}``; weights are shapes (filled with zeros) or arrays."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
    for name, given in weights.items():
        array = given if isinstance(given, np.ndarray) else np.zeros(tuple(given), np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def built(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto],
    stored: Sequence[onnx.TensorProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    """A model from nodes; outputs given by name declare no type."""
    declared = [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), declared, list(stored))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
