"""A long-running host: its memory, its garbage, its recursion limit, its threads and its registries are left alone."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve
from shapesolve import Analysis, Registry
from shapesolve.collection import CollectionPaused

from .building import EVERYTHING

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.onnx"))
#: of requests that each leave a cycle, at most so many may be uncollected at once
MOST_REQUESTS = 750


def attention(k: int) -> onnx.ModelProto:
    """A small model with names of its own."""
    d = 8 * (1 + k % 13)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], [f"q{k}"]),
        helper.make_node("Concat", ["past", f"q{k}"], [f"k{k}"], axis=1),
        helper.make_node("Transpose", [f"k{k}"], [f"t{k}"], perm=[0, 2, 1]),
        helper.make_node("MatMul", [f"q{k}", f"t{k}"], [f"s{k}"]),
        helper.make_node("Add", [f"s{k}", "mask"], [f"m{k}"]),
        helper.make_node("Softmax", [f"m{k}"], [f"a{k}"], axis=-1),
    ]
    inputs = [
        _float("x", [f"b{k}", f"s{k}", d]),
        _float("past", [f"b{k}", f"p{k}", d]),
        _float("mask", [f"b{k}", 1, f"t{k}"]),
    ]
    weights = [numpy_helper.from_array(np.zeros((d, d), np.float32), "w")]
    return _model(helper.make_graph(nodes, "g", inputs, [_float(f"a{k}", None)], weights))


def unknown(k: int) -> onnx.ModelProto:
    """A model with an operator that nobody knows, of a name never seen before."""
    node = helper.make_node(f"Op{k}", ["x"], ["y"], domain="acme")
    return _model(helper.make_graph([node], "g", [_float("x", ["n"])], [_float("y", None)]), "acme")


def chain(depth: int) -> bytes:
    """Functions that call each other `depth` deep."""
    functions = []
    for i in range(depth):
        node = helper.make_node(f"F{i + 1}", ["a"], ["b"], domain="f")
        body = [node if i < depth - 1 else helper.make_node("Relu", ["a"], ["b"])]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        functions.append(helper.make_function("f", f"F{i}", ["a"], ["b"], body, opsets))
    call = helper.make_node("F0", ["x"], ["y"], domain="f")
    model = _model(helper.make_graph([call], "g", [_float("x", ["n"])], [_float("y", None)]), "f")
    model.functions.extend(functions)
    data: bytes = model.SerializeToString()
    return data


def _float(name: str, dims: list[str | int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def _model(graph: onnx.GraphProto, *domains: str) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets)


# Garbage


class Request:
    """What a host leaves behind: a cycle."""

    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Request.alive += 1

    def __del__(self) -> None:
        Request.alive -= 1


def test_garbage_of_the_host_is_collected() -> None:
    models = [attention(k) for k in range(16)]
    gc.collect()
    Request.alive = most = 0
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own
    try:
        for k in range(1000):
            Request()
            shapesolve.analyze(models[k % 16])
            most = max(most, Request.alive)
    finally:
        gc.set_threshold(*thresholds)
    assert 1 < most < MOST_REQUESTS


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with CollectionPaused():
        assert not gc.isenabled()
        with CollectionPaused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), CollectionPaused():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with CollectionPaused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_overlapping_analyses_do_not_keep_the_collector_paused() -> None:
    first, second = CollectionPaused(), CollectionPaused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.isenabled()  # though the second one runs on
    with CollectionPaused():
        second.__exit__(None, None, None)
        assert not gc.isenabled()
    assert gc.isenabled()


# Analyses


def _sizes(analysis: Analysis, size: int) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(d.evaluate(dict.fromkeys(d.free, size)) or 1 for d in analysis.shapes[name])
        for name in analysis.inputs
    }


USES: dict[str, Callable[[Analysis], object]] = {
    "shapes": lambda a: a.shapes,
    "constraints": lambda a: a.constraints.to_smtlib(),
    "bindings": lambda a: a.bindings,
    "equalities": lambda a: a.equalities,
    "contract": lambda a: a.contract,
    "conflicts": lambda a: a.conflicts,
    "ambiguities": lambda a: a.ambiguities,
    "diagnostics": lambda a: a.diagnostics,
    "graph": lambda a: a.graph,
    "prove": lambda a: a.prove(f"`{list(a.shapes)[-1]}`[0] == 77"),
    "bounds": lambda a: a.bounds(a.shapes[list(a.shapes)[-1]][0]),
    "refute": lambda a: a.prove(f"{next(iter(a.symbols))} == 5"),
    "simple shapes": lambda a: [a.shape(name, "simple") for name in a.shapes],
    "explain": lambda a: a.explain(list(a.shapes)[-1]),
    "evaluate": lambda a: a.evaluate(dict.fromkeys(a.symbols, 3)),
    "check_inputs": lambda a: a.check_inputs(_sizes(a, 3)),
    "annotate": lambda a: a.annotate(),
    "to_json": lambda a: a.to_json(),
    "to_html": lambda a: a.to_html(),
    "notebook": lambda a: a._repr_html_(),
    "text": lambda a: str(a),
}


#: what takes the memory of an analysis (functions within compiled functions hold themselves, which is little)
LARGE = {"Analysis", "Lowered", "Walk", "Model", "Node", "Tensor", "Shape", "ConstraintSet"}


@contextmanager
def no_collection() -> Iterator[None]:
    gc.freeze()  # what other tests left is not walked through each time
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize(
    ("model", "use"),
    [
        (m, use)
        for i, m in enumerate(EXAMPLES)
        for k, use in enumerate(USES)
        if EVERYTHING or (i + k) % 4 == 0
    ],
    ids=lambda v: getattr(v, "stem", v),
)
def test_an_analysis_is_in_no_cycle(model: Path, use: str) -> None:
    def used() -> weakref.ref[Analysis]:
        analysis = shapesolve.analyze(model)
        USES[use](analysis)
        return weakref.ref(analysis)

    used()  # what is imported and remembered at first use is no part of it
    with no_collection():
        assert used()() is None
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
            left = {type(o).__name__ for o in gc.garbage if type(o).__module__.startswith("shapesolve")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert left.isdisjoint(LARGE)


def test_an_analysis_that_fails_leaves_nothing() -> None:
    class Stop(Exception):
        pass

    held: list[weakref.ref[Stop]] = []

    def progress(_done: int, _total: int) -> None:
        stop = Stop()
        held.append(weakref.ref(stop))
        raise stop

    with no_collection():
        with pytest.raises(Stop) as caught:
            shapesolve.analyze(EXAMPLES[0], progress=progress)
        caught.value.__traceback__ = None
        del caught
        assert held[0]() is None


# Threads, stacks and registries


def test_threads_and_the_recursion_limit() -> None:
    before, errors, data = sys.getrecursionlimit(), [], chain(250)

    def work() -> None:
        try:
            for _ in range(3):
                assert str(shapesolve.analyze(data).shapes["y"]) == "[n]"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sys.getrecursionlimit() == before


def test_a_host_that_is_deep_in_its_own_calls() -> None:
    data = chain(250)

    def deep(calls: int) -> str:
        return deep(calls - 1) if calls else str(shapesolve.analyze(data).shapes["y"])

    assert deep(sys.getrecursionlimit() - 300) == "[n]"


def test_calls_deeper_than_the_bound_are_told() -> None:
    analysis = shapesolve.analyze(chain(300))
    assert "subgraphs are nested more than 256 deep" in str(analysis.conflicts[0])


def test_unknown_operators_are_not_remembered() -> None:
    for k in range(20):
        shapesolve.analyze(unknown(k))
    gc.collect()
    before = sys.getallocatedblocks()
    for k in range(20, 320):
        shapesolve.analyze(unknown(k))
    gc.collect()
    assert (sys.getallocatedblocks() - before) / 300 < 0.5


def test_registries_of_the_caller_stay_as_they_are() -> None:
    below = Registry()
    registry = Registry(parent=below)
    registry.register("acme", "Op1")(lambda op: op.out(op.shape(0)))
    assert str(shapesolve.analyze(unknown(1), registry=registry).shapes["y"]) == "[n]"
    assert registry.parent is below
    assert below.parent is None
    assert [(rule.domain, rule.op_type) for rule in registry] == [("acme", "Op1")]
    registry.register("acme", "Op1")(lambda op: op.out([*(op.shape(0) or ()), 2]))
    assert str(shapesolve.analyze(unknown(1), registry=registry).shapes["y"]) == "[n, 2]"


def test_the_names_of_the_inputs_are_collected_once() -> None:
    analysis = shapesolve.analyze(EXAMPLES[0])
    assert analysis._solved.lowered.symbols is analysis._solved.lowered.symbols
    assert analysis.symbols == analysis._solved.lowered.symbols
    analysis.symbols.clear()
    assert analysis.symbols
