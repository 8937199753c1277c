"""Does a warning mean something? Models that run as they are declared have no finding above info; sizes that stay behind have.

Models with such a size are made as exporters make them: a tensor that is computed from sizes alone becomes the constant that it
is at the first sizes of `truth.json`, for one node. Those that onnxruntime refuses at the next sizes count.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import shapesolve
from benchmarks.corpus import model_files
from benchmarks.culprit import run
from benchmarks.latency import feeds_of, with_weights

from ..building import EVERYTHING, parsed

FILES = model_files(Path(__file__).resolve().parents[1] / "models", "")
#: models that have a size of each kind
HAVE_ALL = ("bert_eager__ts", "lstm_tagger__ts", "t5_encoder__ts", "unet_interp__dynamo")

#: what is baked in -> operators, and which of their inputs
KINDS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "target of Reshape": (("Reshape",), (1,)),
    "target of Expand": (("Expand",), (1,)),
    "bounds of Slice": (("Slice",), (1, 2)),
    "limit of Range": (("Range",), (1,)),
    "indices of Gather": (("Gather", "GatherElements", "GatherND"), (1,)),
    "sizes of Resize": (("Resize",), (3,)),
    "shape of ConstantOfShape": (("ConstantOfShape",), (0,)),
    "state of a recurrent operator": (("LSTM", "GRU", "RNN"), (5, 6)),
    "table of positions": (("Add", "Sub", "Mul"), (0, 1)),
    "mask": (("Add", "Mul", "Where", "And", "Or"), (0, 1, 2)),
}
#: kinds that are told from others of the same operators by how many axes of the tensor follow the sizes
_AXES = {"table of positions": (1,), "mask": (2, 3, 4), "state of a recurrent operator": (1, 2, 3)}
#: places of one kind in one model
_MOST = 2
_FROM_SIZES = ("Shape", "Size")
_RANDOM = (
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
)


@dataclass(frozen=True)
class Case:
    """A model that does not run at sizes at which the original does, and the most severe finding of it."""

    model: str
    kind: str
    place: str
    severity: str


def worst(model: Any) -> str:
    """The most severe finding of a model."""
    found = {f.severity for f in shapesolve.analyze(model).diagnostics}
    return next((s for s in ("error", "warning", "info") if s in found), "none")


def baked_cases(file: Path, most: int = _MOST, besides: Container[str] = ()) -> Iterator[Case]:
    """What the models that are made of one say, `most` of each kind that is not among `besides`."""
    model = with_weights(file)
    feeds = feeds_of(file, model)
    places = dict(_places(model))
    names = sorted({name for found in places.values() for _, _, name in found})
    if len(feeds) < 2 or not names:
        return
    held = [run(model, one, names) for one in feeds]
    if held[0] is None or held[1] is None:
        return
    at, other = (dict(zip(names, values, strict=True)) for values in held if values is not None)
    for kind, found in places.items():
        count = 0
        for k, i, name in found:
            if count < most and kind not in besides and _follows(kind, at[name], other[name]):
                changed = _baked(model, k, i, at[name])
                if run(changed, feeds[0], []) is not None and run(changed, feeds[1], []) is None:
                    count += 1
                    node = model.graph.node[k]
                    yield Case(file.parent.name, kind, node.name or node.output[0], worst(changed))


def _places(model: onnx.ModelProto) -> Iterator[tuple[str, list[tuple[int, int, str]]]]:
    """By kind: index of a node, of its input, and the tensor there, which is computed from sizes alone."""
    stored = {t.name for t in model.graph.initializer}
    known, made = set(stored), set[str]()
    for node in model.graph.node:
        alone = all(name in known for name in node.input if name) and not any(
            a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute
        )
        if node.op_type not in _RANDOM and (alone or node.op_type in _FROM_SIZES):
            known.update(node.output)
            if not alone or made.intersection(node.input):
                made.update(node.output)
    for kind, (operators, inputs) in KINDS.items():
        found = [
            (k, i, node.input[i])
            for k, node in enumerate(model.graph.node)
            if node.op_type in operators and not (kind in _AXES and made.issuperset(node.input))
            for i in inputs
            if i < len(node.input) and node.input[i] in made
        ]
        yield kind, found


def _follows(kind: str, at: Any, other: Any) -> bool:
    """Does the tensor follow the sizes as those of this kind do?"""
    if kind in _AXES:
        return at.ndim == other.ndim and sum(a != b for a, b in zip(at.shape, other.shape)) in _AXES[kind]
    return at.shape != other.shape or bool((at != other).any())


def _baked(model: onnx.ModelProto, k: int, i: int, value: Any) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.graph.initializer.append(numpy_helper.from_array(value, "baked_in"))
    changed.graph.node[k].input[i] = "baked_in"
    return changed


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.parent.name)
def test_a_model_that_runs_as_it_is_declared_has_no_finding_above_info(file: Path) -> None:
    assert worst(file) in ("info", "none")


def test_every_kind_of_size_that_stays_behind_is_a_warning() -> None:
    cases: list[Case] = []
    for file in FILES:
        if EVERYTHING or file.parent.name in HAVE_ALL:
            cases += (
                baked_cases(file, 2) if EVERYTHING else baked_cases(file, 1, {case.kind for case in cases})
            )
    assert {case.kind for case in cases} == set(KINDS)
    assert [case for case in cases if case.severity not in ("error", "warning")] == []


def test_a_table_of_positions_beside_a_class_token_is_a_size_of_the_example() -> None:
    """Its condition also holds at sizes that leave no patches: the token alone is broadcast."""
    text = """g (float[1, 1, h, h] x) => (y) {
        pooled = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (x)
        patches = Reshape (pooled, target)
        tokens = Concat <axis = 1> (token, patches)
        y = Add (tokens, positions)
    }"""
    tables = {"token": [1, 1], "positions": [1, 257], "target": np.array([1, -1])}
    (finding,) = [
        f for f in shapesolve.analyze(parsed(text, **tables)).diagnostics if f.severity == "warning"
    ]
    assert finding.code == "SS404"
    assert "64 <= h <= 67" in finding.condition
    assert "[1, 1]" not in finding.help


def test_that_not_every_size_is_0_is_no_restriction() -> None:
    text = """g (float[batch, seq] x) => (y) {
        sizes = Shape <start = 1> (x)
        target = Concat <axis = 0> (rest, sizes)
        y = Reshape <allowzero = 1> (x, target)
    }"""
    analysis = shapesolve.analyze(parsed(text, rest=np.array([-1])))
    assert [term.text for term in analysis.contract] == ["batch >= 1 or seq >= 1"]
    assert list(analysis.diagnostics) == []
