"""If, Loop, Scan, SequenceMap and local functions, with bodies drawn like graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..builder import BOOL, DOMAIN, Builder, Unfit, type_of
from .registry import kind, kinds_at
from .shaping import size

#: no body within a body within a body
_DEEPEST = 2


def steps(b: Builder, wanted: int) -> None:
    """Some nodes of random kinds."""
    kinds = [k for k in kinds_at(b.opset) if b.only is None or k.name in b.only]
    weights = [k.weight for k in kinds]
    for _ in range(wanted * 4):
        if wanted <= 0:
            break
        try:
            b.random.choices(kinds, weights)[0].draw(b)
            wanted -= 1
        except Unfit:
            continue


def body_of(b: Builder, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> onnx.GraphProto:
    """The graph of a finished body."""
    stored = [numpy_helper.from_array(a, n) for n, a in b.stored.items()]
    # of a body that never runs, onnxruntime takes a rank that nothing declares for 0: rows of no trips would lose theirs
    declared = [helper.make_value_info(o, type_of(b.data[o], [None] * b.data[o].ndim)) for o in outputs]
    return helper.make_graph(b.nodes, b.new("body"), inputs, declared, stored)


def inner(b: Builder) -> Builder:
    """A builder for a body, unless it would be nested too deep."""
    if b.depth >= _DEEPEST or b.closed:
        raise Unfit
    return b.inner()


def _given(b: Builder, outer: Builder) -> list[str]:
    """Tensors that the body made itself."""
    return [n for n in b.free if n not in outer.data and isinstance(b.data[n], np.ndarray)]


def _result(b: Builder, outer: Builder, rank: int | None = None) -> str:
    """A float tensor that the body gives out."""
    found = [n for n in _given(b, outer) if b.data[n].dtype == np.float32 and rank in (None, b.data[n].ndim)]
    if found and b.chance(0.9):
        return found[-1]
    return b.add("Identity", [b.pick(rank)])


def condition(b: Builder) -> str:
    """A scalar truth: of sizes, of data, or stored."""
    draw = b.random.random()
    if draw < 0.6:
        test = b.add(b.choice("Less", "Greater", "Equal"), [size(b), b.const([b.choice(1, 2, 3, 4)])])
        return b.add("Squeeze", [test]) if b.chance(0.5) else test
    if draw < 0.8:
        total = b.add("ReduceMax", [b.pick((1, 3))], keepdims=0)
        return b.add("Greater", [total, b.const(b.choice(0, 2), np.float32)])
    return b.const(b.choice(True, False), bool)


@kind("If", weight=3)
def branch(b: Builder) -> None:
    test = condition(b)
    branches, rank = [], None
    for _ in range(2):
        body = inner(b)
        steps(body, b.random.randrange(4))
        try:
            result = _result(body, b, rank if b.chance(0.8) else None)
        except Unfit:
            result = _result(body, b)
        rank = body.rank(result)
        branches.append(body_of(body, [], [result]))
    b.put(helper.make_node("If", [test], [b.new()], then_branch=branches[0], else_branch=branches[1]))


@kind("Loop", weight=2)
def loop(b: Builder) -> None:
    body = inner(b)
    trip = size(b) if b.chance(0.5) else b.const(b.choice(0, 1, 2, 3))
    stop = b.const(True, bool) if b.chance(0.6) else ""
    state = b.pick((1, 3))
    step, going, carried = body.new("i"), body.new("go"), body.new("v")
    body.data |= {step: np.array(0), going: np.array(True), carried: b.data[state]}
    body.free += [step, carried]
    steps(body, b.random.randint(0, 3))
    draw = b.random.random()
    same = [n for n in _given(body, b) if body.data[n].dtype == np.float32 and body.rank(n) == b.rank(state)]
    if draw < 0.4:
        after = body.add("Relu", [carried])
    elif draw < 0.6:
        after = body.add("Concat", [carried, b.pick(b.rank(state))], axis=0)
    else:
        after = same[-1] if same else body.add("Identity", [carried])
    if after == carried:
        after = body.add("Identity", [carried])
    if b.chance(0.75):
        goes = body.add("Identity", [going])
    else:
        goes = body.add("Less", [step, body.const(b.choice(0, 1, 2))])
    rows = [_result(body, b)] if b.chance(0.6) else []
    formal = [
        helper.make_tensor_value_info(step, onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info(going, onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info(
            carried, onnx.TensorProto.FLOAT, None if b.chance(0.8) else [None] * b.rank(state)
        ),
    ]
    rows = [body.add("Identity", [r]) if r == after else r for r in rows]
    graph = body_of(body, formal, [goes, after, *rows])
    b.put(helper.make_node("Loop", [trip, stop, state], [b.new() for _ in (after, *rows)], body=graph))


@kind("Scan", since=11, weight=2)
def scan(b: Builder) -> None:
    body = inner(b)
    states = [b.pick((0, 2))] if b.chance(0.6) else []
    scanned = [b.pick((1, 4), where=lambda a: a.size > 0)]
    axes = [b.axis(x, negative=False) for x in scanned]
    if b.chance(0.3):
        length = b.shape(scanned[0])[axes[0]]
        scanned.append(b.pick((1, 4), where=lambda a: a.shape[0] == length))
        axes.append(0)
    formal, names = [], []
    for x, axis in zip([*states, *scanned], [None] * len(states) + axes):
        name = body.new("v")
        data = b.data[x] if axis is None else np.take(b.data[x], 0, axis)
        body.data[name] = np.asarray(data)
        body.free.append(name)
        names.append(name)
        formal.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    steps(body, b.random.randint(0, 3))
    after = [body.add("Identity", [n]) for n in names[: len(states)]]
    if states and b.chance(0.4):
        after = [body.add("Mul", [names[0], body.const(2, np.float32)])]
    rows = [_result(body, b) for _ in range(b.choice(1, 1, 2))]
    rows = [body.add("Identity", [r]) for r in rows]
    options = {"scan_input_axes": axes} if any(axes) or b.chance(0.2) else {}
    if b.chance(0.2):
        options["scan_input_directions"] = [b.choice(0, 1) for _ in axes]
    if b.chance(0.2):
        options["scan_output_axes"] = [b.random.randint(0, body.rank(r)) for r in rows]
    graph = body_of(body, formal, [*after, *rows])
    outputs = [b.new() for _ in (*after, *rows)]
    b.put(
        helper.make_node(
            "Scan", [*states, *scanned], outputs, body=graph, num_scan_inputs=len(scanned), **options
        )
    )


@kind("SequenceMap", since=17, weight=0.6)
def sequence_map(b: Builder) -> None:
    items = b.pick_sequence()
    if not b.data[items]:
        raise Unfit
    body = inner(b)
    item = body.new("v")
    body.data[item] = b.data[items][0]
    body.free.append(item)
    steps(body, b.random.randint(0, 2))
    formal = [helper.make_value_info(item, type_of(b.data[items][0], [None] * b.data[items][0].ndim))]
    graph = body_of(body, formal, [_result(body, b)])
    b.put(helper.make_node("SequenceMap", [items], [b.new()], body=graph))


@kind("function", since=13, weight=2)
def function(b: Builder) -> None:
    """A local function of one or two inputs, called once or twice."""
    if b.closed or b.outer is not None:
        raise Unfit
    body = b.inner(closed=True)
    actual = [b.pick((1, 3)) for _ in range(b.choice(1, 2))]
    formal = []
    for x in actual:
        name = body.new("p")
        body.data[name] = b.data[x]
        body.free.append(name)
        formal.append(name)
    steps(body, b.random.randint(1, 4))
    results = [n for n in body.free if n not in formal and isinstance(body.data[n], np.ndarray)][-2:]
    if not results:
        raise Unfit
    name = b.new("f")
    attributes = []
    if b.chance(0.3):
        attributes = ["alpha"]
        node = helper.make_node("LeakyRelu", [results[0]], [body.new()])
        node.attribute.append(_reference("alpha"))
        body.nodes.append(node)
        results[0] = node.output[0]
    made = helper.make_function(DOMAIN, name, formal, results, body.nodes, b.imports(), attributes)
    b.functions.append(made)
    given = {"alpha": 0.5} if attributes else {}
    try:
        b.put(helper.make_node(name, actual, [b.new() for _ in results], domain=DOMAIN, **given))
    except Unfit:
        b.functions.pop()
        raise
    if b.chance(0.4):
        again = [b.pick((1, 3)) for _ in formal]
        b.put(helper.make_node(name, again, [b.new() for _ in results], domain=DOMAIN, **given))


def _reference(name: str) -> onnx.AttributeProto:
    return onnx.AttributeProto(name=name, ref_attr_name=name, type=onnx.AttributeProto.FLOAT)


@kind("truth", weight=0.5)
def truth(b: Builder) -> None:
    """A condition that later nodes may take."""
    b.add("Not", [b.pick((0, 2), BOOL) if b.chance(0.5) else condition(b)])
