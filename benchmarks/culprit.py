"""`python -m benchmarks.culprit`: does `check` name the thing to change?

One thing is changed in a model that runs: a weight's axis, a perm, an element of a stored target, a Concat axis, the type of a
Cast, an Unsqueeze, split sizes, a mask's length, the order of a target's elements, the operands of a MatMul. Mutants that
onnxruntime refuses count. The table says how often the changed thing is named in the first finding, in its last step or
its help, and in its help; how often help gives what stood there before; and how many mutants have a second error.
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import shapesolve
from shapesolve.lines import plain, row
from shapesolve.runs import Session

from .corpus import ROOT, default_corpus, model_files
from .latency import feeds_of, with_weights

#: mutants of one kind in one model, and bytes of the largest model that is run
_MOST, _LARGEST = 2, 400_000


@dataclass(frozen=True)
class Mutant:
    """A changed model, names of the changed thing of which a finding should give one, and what stood there before."""

    model: onnx.ModelProto
    names: tuple[str, ...]
    before: str


@dataclass(frozen=True)
class Verdict:
    """What `check` says of one mutant."""

    kind: str
    model: str
    names: tuple[str, ...]
    found: bool
    first: bool
    last: bool
    help: bool
    right: bool
    errors: int


def _stored(model: onnx.ModelProto) -> dict[str, tuple[onnx.TensorProto, str]]:
    """Small integer tensors by name, with the name that a finding may give instead."""
    found = {t.name: (t, t.name) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = (node.attribute[0].t, node.name)
    return found


def _set(tensor: onnx.TensorProto, array: np.ndarray[Any, Any]) -> None:
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))


def _attribute(node: onnx.NodeProto, name: str) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)


def _replace(node: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _listed(values: Any) -> str:
    return ", ".join(str(int(v)) for v in np.ravel(values))


Change = Callable[[onnx.ModelProto, onnx.NodeProto, Random], "tuple[tuple[str, ...], str] | None"]


def _weight(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    stored = _stored(model)
    held = [n for n in node.input if n in stored and len(stored[n][0].dims) >= 2]
    if node.op_type not in ("MatMul", "Gemm", "Conv", "Add", "Mul") or not held:
        return None
    tensor, name = stored[held[0]]
    array = numpy_helper.to_array(tensor)
    axis = random.randrange(array.ndim)
    if array.shape[axis] < 2:
        return None
    before = ", ".join(map(str, array.shape))
    _set(tensor, np.concatenate([array, array.take([0], axis)], axis))
    return (held[0], name), before


def _perm(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> tuple[tuple[str, ...], str] | None:
    perm = list(_attribute(node, "perm") or ())
    if node.op_type != "Transpose" or len(perm) < 2:
        return None
    before = _listed(perm)
    i, j = random.sample(range(len(perm)), 2)
    perm[i], perm[j] = perm[j], perm[i]
    _replace(node, "perm", perm)
    return (node.name, node.output[0]), before


def _element(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    stored = _stored(model)
    if node.op_type not in ("Reshape", "Expand") or node.input[1] not in stored:
        return None
    tensor, name = stored[node.input[1]]
    array = numpy_helper.to_array(tensor).copy()
    places = [i for i, v in enumerate(array) if v > 1]
    if not places:
        return None
    before = _listed(array)
    i = random.choice(places)
    array[i] = array[i] * 2 if random.random() < 0.5 else array[i] + 1
    _set(tensor, array)
    return (node.input[1], name), before


def _swapped(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    stored = _stored(model)
    if node.op_type != "Reshape" or node.input[1] not in stored:
        return None
    tensor, name = stored[node.input[1]]
    array = numpy_helper.to_array(tensor).copy()
    pairs = [i for i in range(len(array) - 1) if array[i] != array[i + 1]]
    if not pairs:
        return None
    before, i = _listed(array), random.choice(pairs)
    array[[i, i + 1]] = array[[i + 1, i]]
    _set(tensor, array)
    return (node.input[1], name), before


def _axis(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> tuple[tuple[str, ...], str] | None:
    axis = _attribute(node, "axis")
    if node.op_type != "Concat" or axis is None:
        return None
    _replace(node, "axis", random.choice([a for a in (-1, 0, 1, 2) if a != axis]))
    return (node.name, node.output[0]), f"axis = {axis}"


def _cast(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> tuple[tuple[str, ...], str] | None:
    to = _attribute(node, "to")
    if node.op_type != "Cast":
        return None
    other = random.choice([t for t in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE) if t != to])
    _replace(node, "to", other)
    return (node.name, node.output[0]), TensorProto.DataType.Name(to).lower()


def _unsqueezed(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    if node.op_type != "Unsqueeze" or node.output[0] in {o.name for o in model.graph.output}:
        return None
    names = [node.input[0]]
    for other in model.graph.node:
        for i, name in enumerate(other.input):
            if name == node.output[0]:
                other.input[i] = node.input[0]
                names.append(other.name)
    model.graph.node.remove(node)
    return tuple(names), "Unsqueeze"


def _split(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    stored = _stored(model)
    if node.op_type != "Split" or len(node.input) < 2 or node.input[1] not in stored:
        return None
    tensor, name = stored[node.input[1]]
    array = numpy_helper.to_array(tensor).copy()
    before = _listed(array)
    array[random.randrange(len(array))] += 1
    _set(tensor, array)
    return (node.input[1], name), before


def _mask(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> tuple[tuple[str, ...], str] | None:
    stored = _stored(model)
    held = [
        n for n in node.input
        if n in stored and len(stored[n][0].dims) >= 2 and stored[n][0].dims[-1] > 2 and stored[n][0].dims[-2] > 2
    ]  # fmt: skip
    if node.op_type not in ("Slice", "Where", "And", "Gather") or not held:
        return None
    tensor, name = stored[held[0]]
    array = numpy_helper.to_array(tensor)
    before = ", ".join(map(str, array.shape))
    _set(tensor, array[..., :-1])
    return (held[0], name), before


def _operands(
    model: onnx.ModelProto, node: onnx.NodeProto, random: Random
) -> tuple[tuple[str, ...], str] | None:
    if node.op_type != "MatMul":
        return None
    a, b = node.input
    node.input[:] = [b, a]
    return (node.name, node.output[0]), f"{a} times {b}"


KINDS: dict[str, Change] = {
    "weight's shape": _weight,
    "perm": _perm,
    "baked constant": _element,
    "Concat axis": _axis,
    "Cast": _cast,
    "Unsqueeze removed": _unsqueezed,
    "split sizes": _split,
    "mask's length": _mask,
    "head count": _swapped,
    "MatMul's operands": _operands,
}


def run(model: onnx.ModelProto, feeds: dict[str, Any], names: list[str]) -> list[Any] | None:
    """The values of tensors, or of the outputs; None where onnxruntime refuses."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    if names:
        del shown.graph.output[:]
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        return Session(shown).run(feeds)
    except RuntimeError:
        return None


def mutants(file: Path) -> Iterator[tuple[str, Mutant]]:
    """Mutants of a model that onnxruntime refuses at inputs with which it runs the model as it is."""
    model = with_weights(file)
    for i, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{i}"
    feeds = feeds_of(file, model)
    if not feeds or run(model, feeds[0], []) is None:
        return
    for kind, change in KINDS.items():
        random = Random(zlib.crc32(f"{file.parent.name} {kind}".encode()))
        places = list(range(len(model.graph.node)))
        random.shuffle(places)
        count = 0
        for k in places:
            if count == _MOST:
                break
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            done = change(changed, changed.graph.node[k], random)
            if done is not None and run(changed, feeds[0], []) is None:
                count += 1
                yield kind, Mutant(changed, done[0], done[1])


def verdict(kind: str, name: str, mutant: Mutant) -> Verdict:
    """What the findings of a mutant name."""
    found = shapesolve.analyze(mutant.model).diagnostics
    errors = [f for f in found if f.severity == "error"]
    blamed = [f for f in found if f.severity in ("error", "warning")]
    first = blamed[0] if blamed else None
    text, last, help_ = "", "", ""
    if first is not None:
        operands = " ".join(part for row in first.operands for part in row)
        steps = [s.text for s in first.steps]
        text = " ".join([first.title, first.node, operands, *steps, *first.notes, first.help])
        last, help_ = (steps or [first.title + " " + first.node])[-1], first.help

    def named(where: str) -> bool:
        return any(n in where for n in mutant.names if n)

    right = named(help_) and mutant.before in help_
    return Verdict(
        kind, name, mutant.names, bool(errors), named(text), named(last) or named(help_), named(help_), right, len(errors),
    )  # fmt: skip


def measure(corpus: Path, pattern: str, show: bool = False) -> Iterator[str]:
    """The table, kind by kind."""
    files = [f for f in model_files(corpus, pattern) if f.stat().st_size < _LARGEST]
    verdicts: list[Verdict] = []
    for file in files:
        for kind, mutant in mutants(file):
            verdicts.append(verdict(kind, file.parent.name, mutant))
            if show and not verdicts[-1].right:
                yield f"{kind} in {file.parent.name}: {mutant.names} was {mutant.before}: {verdicts[-1]}"
    heads = ("changed", "mutants", "detected", "named", "last or help", "help", "help right", "2nd error")
    rows = [row(*heads)]
    for kind in (*KINDS, ""):
        mine = [v for v in verdicts if kind in ("", v.kind)]
        counts = Counter(
            {
                "found": sum(v.found for v in mine),
                "first": sum(v.first for v in mine),
                "last": sum(v.last for v in mine),
                "help": sum(v.help for v in mine),
                "right": sum(v.right for v in mine),
                "more": sum(v.errors > 1 for v in mine),
            }
        )
        rows.append(
            row(
                kind or "all",
                str(len(mine)),
                *(str(counts[c]) for c in ("found", "first", "last", "help", "right", "more")),
            )
        )
    yield plain(rows)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.culprit", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=default_corpus())
    parser.add_argument("--models", default="", metavar="REGEX", help="only these")
    parser.add_argument("--show", action="store_true", help="each mutant whose help is not right")
    args = parser.parse_args()
    for text in measure(args.corpus, args.models, args.show):
        print(text, flush=True)
    if args.corpus != ROOT / "tests" / "models":
        print("bundled models:")
        for text in measure(ROOT / "tests" / "models", args.models, args.show):
            print(text, flush=True)


if __name__ == "__main__":
    main()
