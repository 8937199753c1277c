"""Values of two models are proved equal where the graphs are, and never where a value has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

import shapesolve as ss
from shapesolve.change.compare.diff import diff
from shapesolve.cli import app
from tests.building import EVERYTHING

ROOT = Path(__file__).resolve().parents[2]
MODELS = [
    ROOT / f"tests/models/{name}/model.onnx"
    for name in ("bert_eager__ts", "unet_pad__ts", "lstm_tagger__ts", "loop_scan_outputs", "vit_interp__ts")
] + [ROOT / "examples/unet.onnx", ROOT / "examples/attention.onnx"]
UNARY = ["Relu", "Sigmoid", "Tanh", "Sqrt", "Exp", "Erf", "Neg", "Abs", "Floor", "Softplus"]
ORDERED = ["Sub", "Div", "Pow", "Less", "Greater", "MatMul", "Where", "Concat", "Mod"]


def loaded(path: Path) -> onnx.ModelProto:
    """A model with numbers for the weights that are not in the repository."""
    model = onnx.load(path, load_external_data=False)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            array = rng.standard_normal(tuple(tensor.dims)).astype(kind)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


def verdicts(before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    models = [ss.analyze(m, broadcast="strict") for m in (before, after)]
    return [o.values for o in diff(models[0], models[1], values=True).outputs]


def parsed(body: str, inputs: str = "float[n, 4] x, float[n, 4] z", opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (y) {{ {body} }}'
    )


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_model_has_the_values_of_what_simplify_makes_of_it(path: Path) -> None:
    model = loaded(path)
    assert set(verdicts(model, ss.simplify(model))) == {"equal"}
    assert set(verdicts(model, renamed(model))) == {"equal"}


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Other names inside, and the operands of Add and Mul swapped."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    ends = {i.name for i in (*out.graph.input, *out.graph.output)}
    for node in out.graph.node:
        if any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
            return out  # what graphs inside capture keeps its name
    del out.graph.value_info[:]
    for node in out.graph.node:
        node.name += "_renamed"
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = name if name in ends or not name else f"{name}_renamed"
        if node.op_type in ("Add", "Mul"):
            node.input[:] = [*node.input][::-1]
    for tensor in out.graph.initializer:
        tensor.name = tensor.name if tensor.name in ends else f"{tensor.name}_renamed"
    return out


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("y = Add (x, z)", "y = Add (z, x)", "equal"),
        ("a = Identity (x) y = Mul (a, z)", "y = Mul (z, x)", "equal"),
        ("a = Relu (x) b = Relu (x) y = Add (a, b)", "a = Relu (x) y = Add (a, a)", "equal"),
        ("y = Sub (x, z)", "y = Sub (z, x)", "not known"),
        ("a = Relu (x) y = Add (a, z)", "a = Tanh (x) y = Add (a, z)", "not known"),
        ("y = Softmax <axis = 1> (x)", "y = Softmax <axis = 0> (x)", "not known"),
        ("y = RandomNormalLike (x)", "y = RandomNormalLike (x)", "not known"),
        ("a = RandomUniformLike (x) y = Add (a, x)", "a = RandomUniformLike (x) y = Add (a, x)", "not known"),
        ("y = Sum (x, z, x)", "y = Sum (x, x, z)", "not known"),
    ],
)
def test_verdicts(one: str, other: str, expected: str) -> None:
    assert verdicts(parsed(one), parsed(other)) == [expected]


def test_types_and_names_of_inputs_count() -> None:
    assert verdicts(parsed("y = Relu (x)"), parsed("y = Relu (z)")) == ["not known"]
    assert verdicts(parsed("y = Relu (x)"), parsed("y = Relu (x)", "double[n, 4] x, float[n, 4] z")) == [
        "not known"
    ]
    assert verdicts(parsed("y = Abs (x)"), parsed("y = Abs (x)", opset=12)) == ["not known"]


def test_functions_are_followed() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[n, 4] x) => (y) { y = own.f <k = %d> (x) }
    <domain: "own", opset_import: ["" : 18]> f <k> (a) => (b) { c = %s (a) b = Softmax <axis : int = @k> (c) }"""
    model = onnx.parser.parse_model(text % (1, "Relu"))
    assert verdicts(model, onnx.parser.parse_model(text % (1, "Relu"))) == ["equal"]
    assert verdicts(model, parsed("c = Relu (x) y = Softmax <axis = 1> (c)", "float[n, 4] x")) == ["equal"]
    assert verdicts(model, onnx.parser.parse_model(text % (0, "Relu"))) == ["not known"]
    assert verdicts(model, onnx.parser.parse_model(text % (1, "Tanh"))) == ["not known"]


def test_weights_in_files_are_compared(tmp_path: Path) -> None:
    weights = np.arange(4096, dtype=np.float32).reshape(4, 1024)

    def model(name: str, array: np.ndarray) -> Path:
        made = parsed("y = MatMul (x, w)", "float[n, 4] x")
        made.graph.initializer.append(numpy_helper.from_array(array, "w"))
        onnx.save_model(
            made, tmp_path / name, save_as_external_data=name != "c.onnx", location=f"{name}.data"
        )
        return tmp_path / name

    other = weights.copy()
    other[3, 1000] += 1
    paths = [model("a.onnx", weights), model("b.onnx", other), model("c.onnx", weights)]
    analyses = [ss.analyze(p, broadcast="strict") for p in paths]
    found = [diff(analyses[0], a, values=True).outputs[0].values for a in analyses]
    assert found == ["equal", "not known", "equal"]


# ---------------------------------------------------------------------- values that change


def activation(model: onnx.ModelProto, rng: Random) -> bool:
    nodes = [n for n in model.graph.node if n.op_type in UNARY]
    if nodes:
        node = rng.choice(nodes)
        node.op_type = rng.choice([u for u in UNARY if u != node.op_type])
    return bool(nodes)


def operands(model: onnx.ModelProto, rng: Random) -> bool:
    nodes = [
        n
        for n in model.graph.node
        if n.op_type in ORDERED and len(n.input) > 1 and n.input[-1] != n.input[-2]
    ]
    if nodes:
        node = rng.choice(nodes)
        node.input[-1], node.input[-2] = node.input[-2], node.input[-1]
    return bool(nodes)


def weight(model: onnx.ModelProto, rng: Random) -> bool:
    stored = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and all(t.dims)]
    if stored:
        tensor = rng.choice(stored)
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[rng.randrange(array.size)] += 1
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return bool(stored)


def attribute(model: onnx.ModelProto, rng: Random) -> bool:
    numbers = [
        a
        for n in model.graph.node
        for a in n.attribute
        if a.type in (1, 2, 7) and a.name not in ("allowzero", "to")
    ]
    if numbers:
        a = rng.choice(numbers)
        if a.type == onnx.AttributeProto.INTS:
            a.ints[rng.randrange(len(a.ints))] += 1
        elif a.type == onnx.AttributeProto.INT:
            a.i += 1
        else:
            a.f += 0.25
    return bool(numbers)


CHANGES: list[Callable[[onnx.ModelProto, Random], bool]] = [activation, operands, weight, attribute]


def test_no_changed_value_comes_out_equal() -> None:
    rng, made = Random(0), 0
    originals = {path: (m := loaded(path), ss.analyze(m, broadcast="strict")) for path in MODELS}
    while made < (500 if EVERYTHING else 16):
        model, analysis = originals[rng.choice(MODELS)]
        mutant = onnx.ModelProto()
        mutant.CopyFrom(model)
        if not CHANGES[made % len(CHANGES)](mutant, rng):
            continue
        try:
            changed = ss.analyze(mutant, broadcast="strict")
        except ss.ModelError:
            continue
        found = [o.values for o in diff(analysis, changed, values=True).outputs]
        made += 1
        if found and set(found) == {"equal"}:
            assert is_alike(model, mutant), "a mutant came out equal"


def is_alike(model: onnx.ModelProto, mutant: onnx.ModelProto) -> bool:
    """True if the mutation is in what no output needs: what is left of both is the same."""
    graphs = [ss.simplify(m).graph for m in (model, mutant)]
    left = [[part.SerializeToString() for part in (*g.node, *g.initializer)] for g in graphs]
    return left[0] == left[1]


def test_the_command(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.onnx" for name in "abc"]
    for path, body in zip(paths, ("y = Add (x, z)", "y = Add (z, x)", "y = Sub (x, z)"), strict=True):
        onnx.save(parsed(body), path)
    command = ["diff", str(paths[0]), "--prove", "--values"]
    done = CliRunner().invoke(app, [*command, str(paths[1])])
    assert (done.exit_code, "values        equal, proved: y" in done.output) == (0, True)
    done = CliRunner().invoke(app, [*command, str(paths[2])])
    assert (done.exit_code, "values        not known: y" in done.output) == (3, True)
    done = CliRunner().invoke(app, [*command, str(paths[2]), "--json"])
    assert json.loads(done.output)["outputs"][0]["values"] == "not known"
