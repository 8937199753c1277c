"""A model as a Python script that builds it, runs it and prints what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from .model import UNNAMED

_HEAD = """# {title}
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import shapesolve


def tensor(name, values, dtype, shape):
    return numpy_helper.from_array(np.array(values, dtype).reshape(shape), name)


def info(name, kind=None, dims=None):
    return helper.make_tensor_value_info(name, kind, dims) if kind else onnx.ValueInfoProto(name=name)


"""

_TAIL = """
shapes = {shapes}
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kinds = {{i.name: helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}}
    data = np.random.default_rng(7).integers(0, 5, 4096)
    feeds = {{n: np.resize(data, int(np.prod(s))).reshape(s).astype(kinds[n]) for n, s in shapes.items()}}
    names = [o.name for o in session.get_outputs()]
    results = dict(zip(names, session.run(names, feeds)))
    print("onnxruntime:", {{n: getattr(r, "shape", type(r)) for n, r in results.items()}})
except Exception as error:
    print("onnxruntime fails:", str(error)[:300])
a = shapesolve.analyze(model, broadcast={broadcast!r})
bound = {{**{{n: v for n, v in {sizes}.items() if n in a.symbols}}, **a.bind_inputs(shapes)}}
print("shapes     :", {{n: str(s) for n, s in a.shapes.items()}})
print("at         :", bound)
print("evaluate   :", a.evaluate(bound))
print("check      :", [str(v.message) for v in a.check_inputs(shapes)], "contract:", a.contract, a.contract.holds(bound))
print("conflicts  :", [c.message for c in a.conflicts])
for claim in {claims}:
    print("prove      :", claim, a.prove(claim))
"""


def _value(attribute: onnx.AttributeProto, indent: str) -> str:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.GraphProto):
        return graph_text(value, indent + "    ")
    if isinstance(value, onnx.TensorProto):
        return tensor_text(value)
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, (int, float)):
        return repr(value)
    return repr([v.decode() if isinstance(v, bytes) else v for v in value])


def tensor_text(t: onnx.TensorProto) -> str:
    """A call that makes a stored tensor."""
    array = numpy_helper.to_array(t)
    flat = array.reshape(-1)
    values: Any = flat.tolist()
    if flat.size > 8 and (flat == flat[0]).all():
        return f"tensor({t.name!r}, [{values[0]!r}] * {flat.size}, {str(array.dtype)!r}, {list(array.shape)})"
    return f"tensor({t.name!r}, {values!r}, {str(array.dtype)!r}, {list(array.shape)})"


def node_text(node: onnx.NodeProto, indent: str) -> str:
    """A call that makes a node; references to a function's attributes are made afterwards by `function_text`."""
    given = [repr(node.op_type), repr(list(node.input)), repr(list(node.output))]
    if node.domain:
        given.append(f"domain={node.domain!r}")
    given += [f"{a.name}={_value(a, indent)}" for a in node.attribute if not a.ref_attr_name]
    call = f"helper.make_node({', '.join(given)})"
    refs = [(a.name, a.ref_attr_name, a.type) for a in node.attribute if a.ref_attr_name]
    if refs:
        return f"referring({call}, {refs!r})"
    return call


def _info_text(value: onnx.ValueInfoProto) -> str:
    if value.type.WhichOneof("value") != "tensor_type":
        return f"info({value.name!r})"
    t = value.type.tensor_type
    if not t.HasField("shape"):
        return f"info({value.name!r}, {t.elem_type})"
    dims = [
        d.dim_value if d.HasField("dim_value") else d.dim_param if d.HasField("dim_param") else None
        for d in t.shape.dim
    ]
    return f"info({value.name!r}, {t.elem_type}, {dims!r})"


def _listed(items: list[str], indent: str) -> str:
    if not items:
        return "[]"
    return "[\n" + "".join(f"{indent}    {item},\n" for item in items) + f"{indent}]"


def graph_text(graph: onnx.GraphProto, indent: str = "") -> str:
    """A call that makes a graph."""
    nodes = _listed([node_text(n, indent + "    ") for n in graph.node], indent)
    inputs = _listed([_info_text(i) for i in graph.input], indent)
    outputs = _listed([_info_text(o) for o in graph.output], indent)
    stored = _listed([tensor_text(t) for t in graph.initializer], indent)
    return f"helper.make_graph({nodes}, {graph.name!r}, {inputs}, {outputs}, {stored})"


def _function_text(f: onnx.FunctionProto) -> str:
    nodes = _listed([node_text(n, "    ") for n in f.node], "")
    imports = [f"helper.make_opsetid({i.domain!r}, {i.version})" for i in f.opset_import]
    return (
        f"helper.make_function({f.domain!r}, {f.name!r}, {list(f.input)!r}, {list(f.output)!r}, {nodes}, "
        f"[{', '.join(imports)}], {list(f.attribute)!r})"
    )


_REFERRING = """def referring(node, references):
    for name, source, kind in references:
        node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=source, type=kind))
    return node


"""


def script_text(
    title: str,
    model: onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]],
    sizes: Mapping[str, int],
    claims: tuple[str, ...] = (),
    broadcast: str = "named",
) -> str:
    """The whole script; its first line is `title`."""
    imports = ", ".join(f"helper.make_opsetid({i.domain!r}, {i.version})" for i in model.opset_import)
    functions = ", ".join(_function_text(f) for f in model.functions)
    body = (
        f"graph = {graph_text(model.graph)}\n"
        f"model = helper.make_model(graph, opset_imports=[{imports}], ir_version={model.ir_version}, "
        f"functions=[{functions}])\n"
    )
    named = {n: v for n, v in sizes.items() if not n.startswith(UNNAMED)}
    tail = _TAIL.format(shapes=dict(shapes), sizes=named, broadcast=broadcast, claims=list(claims))
    helpers = _REFERRING if "referring(" in body else ""
    head = _HEAD.format(title=" ".join(title.split()))
    return head + helpers + body + tail
