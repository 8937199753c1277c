"""`python -m benchmarks.severity`: does a warning mean something?

Models that run as they are declared must have no finding above info. Models in which a size of the example stayed behind must
have one. These are made of the same models, as exporters make them: a tensor that is computed from sizes alone becomes the
constant that it is at the first sizes of `truth.json`, for one node. Those that onnxruntime refuses at the next sizes count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

import shapesolve
from shapesolve.lines import plain, row

from .corpus import default_corpus, model_files
from .latency import with_weights

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
Feeds = dict[str, Any]


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


def baked_cases(file: Path, most: int = _MOST) -> Iterator[Case]:
    """What the models that are made of one say, `most` of each kind."""
    model = with_weights(file)
    feeds = _feeds(file, model)
    places = dict(_places(model))
    names = sorted({name for found in places.values() for _, _, name in found})
    if len(feeds) < 2 or not names:
        return
    held = [_run(model, one, names) for one in feeds]
    if held[0] is None or held[1] is None:
        return
    at, other = (dict(zip(names, values, strict=True)) for values in held if values is not None)
    for kind, found in places.items():
        count = 0
        for k, i, name in found:
            if count < most and _follows(kind, at[name], other[name]):
                changed = _baked(model, k, i, at[name])
                if _run(changed, feeds[0], []) is not None and _run(changed, feeds[1], []) is None:
                    count += 1
                    node = model.graph.node[k]
                    yield Case(file.parent.name, kind, node.name or node.output[0], worst(changed))


def _feeds(file: Path, model: onnx.ModelProto) -> list[Feeds]:
    """Inputs at the first two sizes at which the model was measured."""
    analysis = shapesolve.analyze(model)
    out = []
    for run in json.loads(file.with_name("truth.json").read_text("utf-8"))["runs"][:2]:
        bind = {name: size for name, size in run["symbols"].items() if name in analysis.symbols}
        try:
            out.append(dict(shapesolve.generate_inputs(analysis, 1, edge=False, bind=bind)[0]))
        except (ValueError, IndexError):
            return []
    return out


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


def _run(model: onnx.ModelProto, feeds: Feeds, names: list[str]) -> list[Any] | None:
    """The values of tensors, or of the outputs; None where onnxruntime refuses."""
    import onnxruntime as ort

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    if names:
        del shown.graph.output[:]
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(shown.SerializeToString(), options, ["CPUExecutionProvider"])
        values: list[Any] = session.run(None, feeds)
    except Exception:  # it raises a dozen classes of its own
        return None
    return values


def measure(corpus: Path, pattern: str) -> Iterator[str]:
    """The tables."""
    files, cases, counts = model_files(corpus, pattern), list[Case](), Counter[str]()
    for file in files:
        print(f"\r{file.parent.name:<60}", end="", file=sys.stderr, flush=True)
        severity = worst(file)
        counts[severity] += 1
        if severity in ("error", "warning"):
            yield f"correct, and has {severity}: {file.parent.name}"
        for case in baked_cases(file):
            cases.append(case)
            if case.severity in ("info", "none"):
                yield f"baked in, and has {case.severity}: {case.model}, {case.kind} at {case.place}"
    yield f"{len(files)} correct models, by their most severe finding: " + ", ".join(
        f"{n} {s}" for s, n in counts.most_common()
    )
    yield ""
    rows = [row("baked in", "models", "do not run", "error", "warning", "neither")]
    for kind in KINDS:
        mine = [c for c in cases if c.kind == kind]
        by = Counter(c.severity for c in mine)
        figures = len({c.model for c in mine}), len(mine), by["error"], by["warning"], by["info"] + by["none"]
        rows.append(row(kind, *map(str, figures)))
    yield plain(rows)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.severity", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=default_corpus())
    parser.add_argument("--models", default="", metavar="REGEX", help="only these")
    args = parser.parse_args()
    for text in measure(args.corpus, args.models):
        print(text, flush=True)


if __name__ == "__main__":
    main()
