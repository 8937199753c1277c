"""Models to measure, brought to the same state for every engine."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """A model, without value_info and with a name for every input dim.

    `ranks` holds what is scored: the tensors that nodes of the outer graph compute, with their ranks as
    measured at run time (`truth.json`); it is None where nobody measured.
    """

    name: str
    model: onnx.ModelProto
    symbols: frozenset[str]
    ranks: dict[str, int] | None

    @property
    def nodes(self) -> int:
        """Nodes of the outer graph."""
        return len(self.model.graph.node)


def default_corpus() -> Path:
    """$SHAPESOLVE_CORPUS, else the corpus beside the checkout, else the bundled models."""
    named = os.environ.get("SHAPESOLVE_CORPUS")
    if named:
        return Path(named)
    beside = ROOT.parent / "shared" / "corpus"
    return beside if beside.is_dir() else ROOT / "tests" / "models"


def model_files(corpus: Path, pattern: str) -> list[Path]:
    """The model files of a corpus whose folder's name matches, in order of names."""
    folder = corpus / "models" if (corpus / "models").is_dir() else corpus
    return [f for f in sorted(folder.glob("*/model.onnx")) if re.search(pattern, f.parent.name)]


def read_case(path: Path) -> Case:
    """Read a model and the measured ranks beside it."""
    model = onnx.load_model(path, load_external_data=False)
    del model.graph.value_info[:]
    symbols = set()
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") is None:
                dim.dim_param = f"{value.name}_d{axis}"
            if dim.dim_param:
                symbols.add(dim.dim_param)
    return Case(
        path.parent.name, model, frozenset(symbols), _measured_ranks(path.with_name("truth.json"), model)
    )


def _measured_ranks(truth: Path, model: onnx.ModelProto) -> dict[str, int] | None:
    if not truth.exists():
        return None
    given = {v.name for v in model.graph.input} | {t.name for t in model.graph.initializer}
    ranks: dict[str, int] = {}
    for run in json.loads(truth.read_text("utf-8"))["runs"]:
        for name, dims in run["tensors"].items():
            if dims is not None and name not in given:
                ranks[name] = len(dims)
    return ranks


@contextmanager
def stand_in_weights(model: onnx.ModelProto) -> Iterator[None]:
    """Work in a folder where the external weights of the model exist, as sparse files of zeros.

    Corpora leave big weights out, and some peers insist on the files.
    """
    sizes: dict[str, int] = {}
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = {e.key: e.value for e in tensor.external_data}
            end = int(entry.get("offset", 0)) + int(entry.get("length", 0))
            sizes[entry["location"]] = max(sizes.get(entry["location"], 1), end)
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="shapesolve-weights-") as home:
        for location, size in sizes.items():
            file = Path(home, location).resolve()
            if not file.is_relative_to(Path(home).resolve()):
                raise ValueError(f"external data outside the model's folder: {location}")
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                stream.truncate(size)
        os.chdir(home)
        try:
            yield
        finally:
            os.chdir(before)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for subgraph in attribute.graphs:
                    yield from _tensors(subgraph)
