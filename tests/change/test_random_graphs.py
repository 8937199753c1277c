"""Simplified random graphs give what the originals give, bit for bit, at every size at which those run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx

import shapesolve
from shapesolve.change.simplify.simplify import simplified
from shapesolve.model import read_model
from shapesolve.model.types import read_dim
from tests.building import seeds
from tests.fuzz.isolate import Lost, Worker
from tests.fuzz.model import drawn_model, feeds_of
from tests.fuzz.runtime import Data, Failed, Session

#: seeds of models of which the analysis itself says something wrong
KNOWN: frozenset[int] = frozenset()


def with_fewer_outputs(model: onnx.ModelProto, random: Random) -> onnx.ModelProto:
    """The model that gives out a few of its tensors, the last among them."""
    outputs = list(model.graph.output)
    kept = {outputs[-1].name, *(o.name for o in random.sample(outputs, min(2, len(outputs))))}
    del model.graph.output[:]
    model.graph.output.extend(o for o in outputs if o.name in kept)
    return model


def same(a: Data, b: Data) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype == object or b.dtype == object:
            return a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


#: operators whose data two runs of one model need not share, though two tries may happen to agree
DRAWN = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Dropout",
}


def within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node, and those of its bodies."""
    yield node
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from within(inner)


def left_to_chance(model: onnx.ModelProto) -> set[str]:
    """The tensors of the main graph that depend on what an operator draws."""
    found: set[str] = set()
    for node in model.graph.node:
        nodes = list(within(node))
        if any(n.op_type in DRAWN or not found.isdisjoint(n.input) for n in nodes):
            found.update(node.output)
    return found


def has_interface_of(after: onnx.ModelProto, before: onnx.ModelProto) -> bool:
    """The same inputs and outputs, but that dims without a size may have got names."""
    pairs = zip(
        (*after.graph.input, *after.graph.output), (*before.graph.input, *before.graph.output), strict=True
    )
    for new, old in pairs:
        new = type(new).FromString(new.SerializeToString())
        for dim, was in zip(new.type.tensor_type.shape.dim, old.type.tensor_type.shape.dim, strict=False):
            if read_dim(was, old.name) is None:
                dim.CopyFrom(was)
        if new != old:
            return False
    return True


@dataclass
class Outcome:
    """What differs after simplifying, how often a run was compared, and how many nodes went."""

    found: list[str] = field(default_factory=list)
    runs: int = 0
    gone: int = 0


def compared(seed: int | None = None) -> Iterator[str]:
    """Work for another process, since onnxruntime may end it; its phases and the outcome.

    Sizes that the operators' text does not allow are left out: onnxruntime checks less than the text says.
    """
    yield "original"
    outcome = Outcome()
    if seed is None:
        return outcome
    random = Random(seed)
    drawn = drawn_model(seed)
    if not drawn.model.graph.output:
        return outcome
    model = with_fewer_outputs(drawn.model, random)
    before = model.SerializeToString(deterministic=True)
    changed = simplified(read_model(model))
    outcome.gone = changed.before - changed.after
    if model.SerializeToString(deterministic=True) != before:
        outcome.found.append("the original was changed")
    if not has_interface_of(changed.model, model):
        outcome.found.append("the interface was changed")
    if outcome.gone < 0:
        outcome.found.append(f"{changed.before} nodes became {changed.after}")
    try:
        original = Session(model)
    except Failed:
        return outcome
    yield "changed"
    analysis = shapesolve.analyze(model, broadcast="strict")
    try:
        other = Session(changed.model)
    except Failed as error:
        outcome.found.append(f"cannot be loaded: {error}")
        return outcome
    chance = left_to_chance(model)
    bindings = [*drawn.bindings(random, 6), dict.fromkeys(drawn.sizes, 1), dict.fromkeys(drawn.sizes, 0)]
    for at in bindings:
        if any(size < 0 for shape in drawn.shapes(at).values() for size in shape):
            continue  # a declared expression such as n - 1, at 0
        yield "original"
        feeds = feeds_of(model, drawn.shapes(at))
        if analysis.check_inputs(drawn.shapes(at)):
            continue
        try:
            want, again = original.run(feeds), original.run(feeds)
        except Failed:
            continue
        yield f"changed at {at}"
        try:
            got = other.run(feeds)
        except Failed as error:
            outcome.found.append(f"{at}: {error}")
            continue
        outcome.runs += 1
        for name in want:
            # memory that the runtime never wrote differs between two runs as well
            if name not in chance and same(want[name], again[name]) and not same(want[name], got[name]):
                outcome.found.append(f"{at}: {name} differs")
    return outcome


def outcomes(drawn: Iterable[int]) -> Iterator[tuple[int, Outcome]]:
    """Of models of which onnxruntime survives the original."""
    worker = Worker(compared, (None,))
    try:
        for seed in drawn:
            try:
                yield seed, worker.ask(seed)
            except Lost as lost:
                if lost.phase != "original":
                    yield seed, Outcome([str(lost)])
    finally:
        worker.close()


def test_simplified_graphs_give_the_same() -> None:
    runs = gone = 0
    drawn = seeds(0, 300)
    for seed, outcome in outcomes(drawn):
        if seed not in KNOWN:
            assert not outcome.found, f"seed {seed}: {outcome.found}"
        runs, gone = runs + outcome.runs, gone + outcome.gone
    assert runs > 2.5 * len(drawn)
    assert gone > 6 * len(drawn)
