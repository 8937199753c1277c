"""Small models for operator tests, and the comparison of what is predicted with what onnxruntime does.

>>> one("Concat", ["N 3", "M 3"], {"axis": 0})  # one node, inputs x0 and x1, output y0
>>> text("float[N, 3] x", "s = Shape(x)  y = Cast<to=1>(s)")  # several nodes, in onnx's own notation
>>> agrees(one("Relu", ["N 3"]), N=(0, 1, 5))  # runs at every N and compares
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")

import onnxruntime as ort

import shapesolve
from shapesolve.expr import Cond, Dim
from shapesolve.lower.values import Ratio

from .. import building

ort.set_default_logger_severity(4)
FLOAT, INT32, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
Feeds = Mapping[str, Any]


def one(
    op_type: str,
    inputs: Sequence[str | None] = (),
    attrs: Mapping[str, Any] | None = None,
    consts: Mapping[int, Any] | None = None,
    *,
    opset: int = 21,
    domain: str = "",
    n_out: int = 1,
    dtypes: int | Sequence[int] = FLOAT,
) -> onnx.ModelProto:
    """A model of one node.

    `inputs` are the shapes of those inputs that are not in `consts`, in order: ``"N 3 H"``, ``""`` (a
    scalar), ``"?"`` (unknown rank), ``"N _"`` (a dim without a name) or None (the optional input is absent).
    `consts` are initializers by input position: arrays, numbers (int64, float32, bool) or TensorProtos.
    `dtypes`: of `inputs`, one for all or one each.
    """
    consts = dict(consts or {})
    kinds = [dtypes] * len(inputs) if isinstance(dtypes, int) else list(dtypes)
    names, declared, stored = [], [], []
    waiting = list(zip(inputs, kinds, strict=True))
    for i in range(len(inputs) + len(consts)):
        name = f"x{i}"
        if i in consts:
            stored.append(tensor_of(consts[i], name))
        else:
            shape, kind = waiting.pop(0)
            if shape is None:
                name = ""
            else:
                declared.append(helper.make_tensor_value_info(name, kind, dims_of(shape)))
        names.append(name)
    outputs = [f"y{i}" for i in range(n_out)]
    node = helper.make_node(op_type, names, outputs, name="node", domain=domain, **(attrs or {}))
    return model_of([node], declared, outputs, stored, opset, domain)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    stored: Sequence[onnx.TensorProto] = (),
    opset: int = 21,
    domain: str = "",
) -> onnx.ModelProto:
    """A model whose outputs declare no type."""
    found = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), found, list(stored))
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets = [
            helper.make_opsetid("", 21),
            helper.make_opsetid(domain, opset if domain != "com.microsoft" else 1),
        ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset < 23 else 11)


def text(inputs: str, nodes: str, outputs: str = "y", opset: int = 21) -> onnx.ModelProto:
    """A model written in onnx's textual form; `outputs` are names, separated by commas."""
    source = f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {{ {nodes} }}'
    return onnx.parser.parse_model(source)


def dims_of(shape: str) -> list[int | str | None] | None:
    """``"N 3 _"`` as the dims of a declared type; ``"?"`` is an unknown rank."""
    if shape == "?":
        return None
    return [int(t) if t.lstrip("-").isdigit() else None if t == "_" else t for t in shape.split()]


def tensor_of(value: Any, name: str) -> onnx.TensorProto:
    """An initializer from an array, numbers or a TensorProto."""
    if isinstance(value, onnx.TensorProto):
        value.name = name
        return value
    array = np.asarray(value)
    if not isinstance(value, np.ndarray | np.generic):
        if array.dtype == np.float64:
            array = array.astype(np.float32 if array.size else np.int64)
        elif array.dtype.kind == "i":
            array = array.astype(np.int64)
    return numpy_helper.from_array(array, name)


def shapes(model: onnx.ModelProto) -> list[str | None]:
    """The predicted shapes of the graph's outputs, as text."""
    analysis = shapesolve.analyze(model)
    return [str(analysis.shapes[o.name]) if o.name in analysis.shapes else None for o in model.graph.output]


def value(model: onnx.ModelProto, name: str = "") -> str | None:
    """The predicted data of an output (the last by default): ``"[N, 3]"``, or ``"[1 .. N]"`` for bounds."""
    found = shapesolve.analyze(model).values.get(name or model.graph.output[-1].name)
    if found is None:
        return None
    if found.elems is None:
        return "[{} .. {}]".format(*found.bounds)
    body = ", ".join(map(str, found.elems))
    return body if found.shape == () else f"[{body}]"


# ---------------------------------------------------------------------- against onnxruntime


def agrees(model: onnx.ModelProto, feeds: Feeds | None = None, **sizes: Sequence[int]) -> Any:
    """Run the model at all `sizes`; compare each output's shape, type and data with the prediction.

    A run that fails must violate a requirement, and one that succeeds must violate none. `feeds` gives inputs
    whose data matters: an array, or a function of the bindings. Returns the analysis.
    """
    analysis = shapesolve.analyze(model)
    assert [f for f in analysis.diagnostics if f.code == "SS105"] == []  # no rule of ours raises
    for chosen in product(*sizes.values()):
        at = dict(zip(sizes, chosen, strict=True))
        agrees_at(model, analysis, feeds or {}, at)
    return analysis


def agrees_at(model: onnx.ModelProto, analysis: Any, feeds: Feeds, at: Mapping[str, int]) -> None:
    """The comparison at one binding of the sizes."""
    violated = broken(analysis, at)
    try:
        results = run(model, feeds, at)
    except RunFailed as e:
        failed = str(e)
    else:
        failed = ""
    if failed:
        assert violated, f"at {dict(at)} onnxruntime fails, no requirement does: {failed}"
        return
    assert not violated, f"at {dict(at)} onnxruntime runs, but {violated}"
    for info, result in zip(model.graph.output, results, strict=True):
        if not isinstance(result, np.ndarray):
            continue
        shape = analysis.shapes.get(info.name)
        where = f"{info.name} at {dict(at)}: "
        if shape is not None:
            predicted = [d.evaluate(at) for d in shape]
            assert len(predicted) == result.ndim, f"{where}{shape}, really {result.shape}"
            ok = all(p is None or p == r for p, r in zip(predicted, result.shape, strict=True))
            assert ok, f"{where}{shape} = {predicted}, really {result.shape}"
        dtype = analysis.dtypes.get(info.name)
        if dtype:
            expected = helper.tensor_dtype_to_np_dtype(dtype)
            real = result.dtype
            assert real == expected or expected.kind == "O", f"{where}type {expected}, really {real}"
        known = analysis.values.get(info.name)
        if known is not None:
            check_value(known, result, at, where)


def check_value(known: Any, result: np.ndarray[Any, Any], at: Mapping[str, int], where: str) -> None:
    """Predicted data, or bounds of it, against the data of a run."""
    if known.elems is None:
        for bound, side in zip(known.bounds, (1, -1), strict=True):
            limit = bound.evaluate(at) if bound is not None else None
            if limit is not None and result.size:
                assert np.all(side * (result.astype(object) - limit) >= 0), f"{where}{known}, really {result}"
        return
    assert known.shape == result.shape, f"{where}{known}, really of shape {result.shape}"
    for e, real in zip(known.elems, result.reshape(-1).tolist(), strict=True):
        if e is None:
            continue
        if isinstance(e, Ratio):
            num = e.num.evaluate(at)
            if num is None:
                continue
            predicted = type(result.reshape(-1)[0])(num / e.den)
        elif isinstance(e, Dim | Cond):
            predicted = e.evaluate(at)
            if predicted is None:
                continue
        else:
            predicted = e
        same = predicted == real or (predicted != predicted and real != real)
        assert same, f"{where}{known}: {predicted}, really {real}"


def broken(analysis: Any, at: Mapping[str, int]) -> str:
    """What of the predicted requirements does not hold at these sizes ("" when all do)."""
    if analysis.conflicts:
        return f"conflict: {analysis.conflicts[0].message}"
    for entry in analysis._solved.walk.state.log:
        if (
            entry.role == "requirement"
            and entry.cond.evaluate(at) is False
            and entry.guard.evaluate(at) is not False
        ):
            return f"{entry.cond}: {entry.why}"
    return ""


class RunFailed(Exception):
    """onnxruntime does not load the model, or the run fails."""


@lru_cache(maxsize=2)
def _loaded(model: bytes) -> ort.InferenceSession:
    """Loaded once for all sizes."""
    return building.session(onnx.ModelProto.FromString(model), optimized=False)


def run(model: onnx.ModelProto, feeds: Feeds, at: Mapping[str, int]) -> list[Any]:
    """Outputs of the model with every declared size bound; random data where `feeds` gives none."""
    given: dict[str, Any] = {}
    random = np.random.default_rng(0)
    stored = {t.name for t in model.graph.initializer}
    for info in model.graph.input:
        if info.name in stored and info.name not in feeds:
            continue
        data = feeds.get(info.name)
        if callable(data):
            data = data(at)
        given[info.name] = sample(info, at, random) if data is None else np.asarray(data)
    try:
        outputs: list[Any] = _loaded(model.SerializeToString()).run(None, given)
    except Exception as e:  # onnxruntime raises a dozen classes of its own, and RuntimeError
        raise RunFailed(" ".join(str(e).split())[:400]) from None
    return outputs


def sample(
    info: onnx.ValueInfoProto, at: Mapping[str, int], random: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Random data for one input; its expressions are evaluated at the bound sizes."""
    declared = info.type.tensor_type
    size = [
        d.dim_value if d.HasField("dim_value") else Dim(d.dim_param).evaluate(at) for d in declared.shape.dim
    ]
    if None in size:
        raise ValueError(f"{info.name} has a size that is not bound: give it in `feeds`")
    dtype = helper.tensor_dtype_to_np_dtype(declared.elem_type)
    if declared.elem_type == TensorProto.STRING:
        return np.full(size, "a b", dtype=object)
    if dtype.kind == "f":
        return random.standard_normal(size).astype(dtype)
    return random.integers(0, 2, size).astype(dtype)
