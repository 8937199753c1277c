"""Nodes that do not fit their operator's interface, or whose attributes cannot be: refused here as by onnxruntime."""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

import shapesolve
from shapesolve.lower.interface import find_interface
from shapesolve.operators import default_registry

from ..building import built, session
from .conftest import BOOL, FLOAT, INT32, INT64, RunFailed, agrees, model_of, one, run, shapes, text

ROOT = Path(__file__).resolve().parents[2]

UINT8, INT8 = TensorProto.UINT8, TensorProto.INT8
X4 = "1 2 4 4"
CONV = ("Conv", [X4, "3 2 2 2"])
TRANSPOSED = ("ConvTranspose", [X4, "2 3 2 2"])


def ml(
    op_type: str, inputs: list[str], attrs: dict[str, Any], opset: int = 3, dtypes: int = INT64
) -> onnx.ModelProto:
    return one(op_type, inputs, attrs, domain="ai.onnx.ml", opset=opset, dtypes=dtypes)


def encoder(**attrs: Any) -> onnx.ModelProto:
    return ml("LabelEncoder", ["N"], {"keys_int64s": [1, 2], **attrs}, opset=4)


def stored(values: list[Any], dtype: Any, name: str = "t") -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def trees(dtype: int = FLOAT, **attrs: Any) -> onnx.ModelProto:
    f = np.float32
    given = {
        "nodes_featureids": [0],
        "nodes_splits": stored([0.5], f),
        "nodes_modes": stored([0], np.uint8),
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [1],
        "nodes_falsenodeids": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": stored([1.0, 2.0], f),
        "tree_roots": [0],
        "n_targets": 1,
    }
    return one("TreeEnsemble", ["N 2"], given | attrs, domain="ai.onnx.ml", opset=5, dtypes=dtype)


REFUSED = {
    "missing input": one("Add", ["N"]),
    "missing input in the middle": one("Clip", [None, "", ""]),
    "left out of many": one("Concat", ["N", None, "N"], {"axis": 0}),
    "too many inputs": one("Relu", ["N", "N"]),
    "too many outputs": one("Relu", ["N"], n_out=2),
    "missing attribute": one("Concat", ["N", "N"]),
    "unknown attribute": one("Relu", ["N"], {"alpha": 1.0}),
    "of another version": one("ReduceSum", ["N 3"], {"axes": [1]}, opset=13),
    "kind of attribute": one("Concat", ["N", "N"], {"axis": 1.0}),
    "two types": one("Add", ["N", "N"], dtypes=[FLOAT, INT32]),
    "contrib input": one("SkipLayerNormalization", ["B S 8", "B S 8"], domain="com.microsoft"),
    "contrib attribute": one("MultiHeadAttention", ["B S 8"], domain="com.microsoft"),
    "negative pads of Conv": one(*CONV, {"pads": [0, 0, -1, 0]}),
    "negative pads of a pool": one("MaxPool", [X4], {"kernel_shape": [2, 2], "pads": [0, 0, 0, -1]}),
    "negative pads of ConvTranspose": one(*TRANSPOSED, {"pads": [-1, 0, 0, 0]}),
    "negative output_padding": one(*TRANSPOSED, {"output_padding": [-1, 0], "strides": [2, 2]}),
    "pads and auto_pad": one(*CONV, {"pads": [0, 0, 0, 0], "auto_pad": "SAME_UPPER"}),
    "both, transposed": one(*TRANSPOSED, {"pads": [0, 0, 1, 0], "auto_pad": "VALID"}),
    "two output types": one(
        "QuantizeLinear", ["N"], {"output_dtype": INT8}, {1: np.float32(1), 2: np.uint8(0)}
    ),
    "blocks of nothing": one("DepthToSpace", ["N 4 2 2"], {"blocksize": 0}),
    "split without sizes": one("Split", ["9"], opset=18, n_out=3),
    "two categories": ml("OneHotEncoder", ["N"], {"cats_int64s": [1], "cats_strings": ["a"]}),
    "no categories": ml("OneHotEncoder", ["N"], {}),
    "uneven categories": ml("CategoryMapper", ["N"], {"cats_int64s": [1, 2], "cats_strings": ["a"]}),
    "half the categories": ml("CategoryMapper", ["N"], {"cats_int64s": [1]}),
    "uneven labels": encoder(values_strings=["a"]),
    "two kinds of labels": encoder(values_strings=["a", "b"], values_floats=[1.0, 2.0]),
    "default of another type": encoder(
        values_tensor=stored([1, 2], np.int64), default_tensor=stored([1], np.int32)
    ),
    "two defaults": encoder(values_tensor=stored([1, 2], np.int64), default_tensor=stored([1, 2], np.int64)),
    "uneven trees": trees(nodes_truenodeids=[0, 0]),
    "uneven leaves": trees(leaf_targetids=[0]),
    "pads that no size holds": one("Pad", ["N 4"], {}, {1: np.array([2**62, 0, 2**62, 0])}, opset=18),
    "a value of no elements": one(
        "Pad", ["N 4"], {}, {1: np.array([1, 0, 1, 0]), 2: np.zeros(0, np.float32)}, opset=18
    ),
    "a diagonal of no elements": one("Trilu", ["N 4"], {}, {1: np.zeros(0, np.int64)}, opset=14),
    "double, of a body": one("MeanVarianceNormalization", ["N 2 3 3"], dtypes=[TensorProto.DOUBLE]),
    "a type without a kernel": one(
        "UnfoldTensor", ["N 8"], {"size": 2}, domain="com.microsoft", dtypes=[TensorProto.INT8]
    ),
    "splits of another type": trees(TensorProto.DOUBLE, leaf_weights=stored([1.0, 2.0], np.float64)),
}


@pytest.mark.parametrize("model", REFUSED.values(), ids=REFUSED)
def test_refused_as_by_onnxruntime(model: onnx.ModelProto) -> None:
    with pytest.raises(RunFailed):
        run(model, {}, {"N": 2, "B": 2, "S": 3})
    assert shapesolve.analyze(model).conflicts


def test_the_base_cases_are_accepted() -> None:
    for model in (
        encoder(values_tensor=stored([1, 2], np.int64), default_tensor=stored([1], np.int64)),
        encoder(values_strings=["a", "b"]),
        ml("CategoryMapper", ["N"], {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}, opset=1),
        trees(),
        one(*CONV, {"auto_pad": "SAME_UPPER"}),
        one(
            "MaxUnpool",
            ["1 1 2 2", "1 1 2 2"],
            {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]},
            dtypes=[FLOAT, INT64],
        ),
    ):
        agrees(model, N=(1, 3))


@pytest.mark.parametrize(
    ("rule", "names", "fits"),
    [
        ("linear", "", True),
        ("linear", "decay", False),
        ("gated", "decay", True),
        ("gated", "", False),
        ("delta", "beta", True),
        ("delta", "decay beta", False),
        ("gated_delta", "decay beta", True),
        ("gated_delta", "decay", False),
        ("other", "", False),
    ],
)
def test_the_update_rule_decides_the_inputs(rule: str, names: str, fits: bool) -> None:
    inputs = ["B T 8"] * 3 + [None] + ["B T 2" if name in names else None for name in ("decay", "beta")]
    attrs = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule}
    model = one("LinearAttention", inputs, attrs, opset=27, n_out=2)
    assert (not shapesolve.analyze(model).conflicts) is fits


def test_a_known_state_tells_the_sizes_of_unknown_inputs() -> None:
    attrs = {"q_num_heads": 4, "kv_num_heads": 4, "update_rule": "linear"}
    found = shapes(one("LinearAttention", ["?", "?", "?", "2 4 16 16"], attrs, opset=27, n_out=2))
    assert found[1] == "[2, 4, 16, 16]"
    assert found[0] is not None
    assert found[0].endswith(", 64]")


def test_attributes_that_the_text_forbids() -> None:
    qkv = ["B 2 S 8"] * 3
    assert shapesolve.analyze(one("Attention", qkv, {"left_window_size": -2}, opset=25)).conflicts
    assert not shapesolve.analyze(one("Attention", qkv, {"left_window_size": -1}, opset=25)).conflicts
    assert shapesolve.analyze(
        one("CausalConvWithState", ["B 3 L", "3 1 4"], {"activation": "relu"}, opset=27)
    ).conflicts


def test_shapes_are_given_also_for_a_misfit() -> None:
    assert shapes(one("Add", ["N 3", "1 3"], dtypes=[FLOAT, INT32])) == ["[N, 3]"]
    assert shapes(one("Relu", ["N 3"], {"alpha": 1.0})) == ["[N, 3]"]
    assert shapes(one("Clip", [None, "", ""])) == [None]


def test_a_misfit_counts_where_it_is_not_reached() -> None:
    """onnxruntime does not load such a model, whichever branch runs."""
    bad = helper.make_graph(
        [helper.make_node("Add", ["x"], ["a"], name="bad")],
        "t",
        [],
        [helper.make_tensor_value_info("a", FLOAT, None)],
    )
    good = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["b"])], "e", [], [helper.make_tensor_value_info("b", FLOAT, None)]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=bad, else_branch=good)
    given = [helper.make_tensor_value_info("x", FLOAT, ["N"]), helper.make_tensor_value_info("c", BOOL, [])]
    assert shapesolve.analyze(model_of([node], given, ["y"])).conflicts


def test_an_input_that_the_caller_of_a_function_leaves_out() -> None:
    function = onnx.parser.parse_function(
        '<opset_import: ["": 21], domain: "local"> f (x, axes) => (y) { y = ReduceMax(x, axes) }'
    )
    model = text("float[N, 3] x", "y = Identity(x)")
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.functions.append(function)
    model.graph.node[0].CopyFrom(helper.make_node("f", ["x"], ["y"], domain="local"))
    assert shapes(model) == ["[1, 1]"]
    model.graph.node[0].CopyFrom(helper.make_node("f", ["x", "x", "x"], ["y"], domain="local"))
    assert shapesolve.analyze(model).conflicts


def test_sizes_end_at_int64() -> None:
    huge = 2**63 - 1
    assert shapesolve.analyze(one("Concat", [f"{huge}", "1"], {"axis": 0})).conflicts
    assert not shapesolve.analyze(one("Concat", [f"{huge - 1}", "1"], {"axis": 0})).conflicts
    assert shapesolve.analyze(one("Tile", [f"{huge}"], consts={1: [2]})).conflicts


def test_a_transform_along_an_unknown_axis_keeps_the_shape() -> None:
    model = one("DFT", ["2 5 N 1", None, ""], opset=20, dtypes=[FLOAT, FLOAT, INT64])
    assert shapes(model) == ["[2, 5, N, 2]"]
    agrees(model, {"x2": np.int64(1)}, N=(1, 4))
    half = one("DFT", ["2 5 N 1", None, ""], {"onesided": 1}, opset=20, dtypes=[FLOAT, FLOAT, INT64])
    assert shapes(half) != ["[2, 5, N, 2]"]


def declared(model: onnx.ModelProto, **said: Sequence[int | str | None]) -> onnx.ModelProto:
    """`model` with value_info for some tensors."""
    for name, dims in said.items():
        model.graph.value_info.append(helper.make_tensor_value_info(name, FLOAT, dims))
    return model


def test_a_declared_rank_does_not_count_where_the_rank_varies() -> None:
    """torch's exporters write what one traced run had, such as ``[2, 9]`` for a squeezed ``[B, 1, S]``."""
    squeezed = text("float[B, 1, S] x", "h = Squeeze(x)  y = Relu(h)")
    found = shapesolve.analyze(declared(squeezed, h=[2, 9], y=[2, 9]))
    assert not {"h", "y"} & set(found.shapes)
    agrees(declared(squeezed, h=[2, 9], y=[2, 9]), B=(1, 2), S=(1, 3))
    assert shapes(
        declared(text("float[N] x, int64[R] s", "h = Reshape(x, s)  y = Relu(h)"), h=[4, None])
    ) == [None]


def test_what_is_declared_of_an_unknown_operator_is_assumed() -> None:
    model = text("float[N, 8] x", "h = acme.Odd(x)  k = acme.Odd(h)  y = Relu(h)")
    model.opset_import.append(helper.make_opsetid("acme", 1))
    found = shapesolve.analyze(declared(model, h=["N", "many", 5], k=["many", None]))
    assert str(found.shapes["y"]) == "[N, many, 5]"
    assert found.shapes["k"][0] is found.shapes["y"][1]
    told = ["h[0] is declared as N", "h[2] is declared as 5", "k[0] is declared as many"]
    assert [c.origin.rule for c in found.constraints.role("assumption")] == told
    assert [d.title for d in found.diagnostics if d.code == "SS501"] == [
        f"{t}, which is assumed" for t in told
    ]


def test_the_table_of_onnxruntime_s_operators_is_its_own() -> None:
    """`python .ci/schemas.py FILE` writes it."""
    made = runpy.run_path(str(ROOT / ".ci/schemas.py"))["rows"]()
    assert json.loads((ROOT / "shapesolve/operators/schemas.json").read_text("utf-8")) == made


@pytest.mark.parametrize(
    "op_type", sorted({r.op_type for r in default_registry() if r.domain == "com.microsoft"})
)
def test_inputs_of_microsoft_operators_are_those_of_onnxruntime(op_type: str) -> None:
    """Its schema says which types an input takes, and which inputs have one type."""
    own = [s for s in get_all_operator_schema() if (s.domain, s.name) == ("com.microsoft", op_type)]
    interface = find_interface("com.microsoft", op_type, 1)
    assert (interface is None) == (not own)
    for schema in own:
        assert interface is not None
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        for formal, ours in zip(schema.inputs, interface.inputs, strict=True):
            types = allowed.get(formal.typeStr, [formal.typeStr])
            names = {helper.tensor_dtype_to_string(t).split(".")[1].lower() for t in ours.allowed}
            assert names == {t.partition("(")[2][:-1] for t in types if "tensor(" in t}
            repeats = formal.option.name == "Variadic" and schema.min_input >= len(schema.inputs)
            assert ours.required == (formal.option.name == "Single" or repeats)
            assert ours.variable in ("", formal.typeStr)


@pytest.mark.parametrize(
    "dtype", [TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16]
)
@pytest.mark.parametrize(
    ("op_type", "dims", "attributes"),
    [
        ("BiasGelu", ["2, 4", "4"], {}),
        ("FusedMatMul", ["2, 4", "4, 3"], {}),
        ("SkipLayerNormalization", ["1, 2, 4", "1, 2, 4", "4"], {}),
        ("EmbedLayerNormalization", ["1, 2", "", "8, 4", "8, 4", "", "4", "4"], {}),
        ("MultiHeadAttention", ["1, 2, 4", "1, 2, 4", "1, 2, 4"], {"num_heads": 1}),
        ("RotaryEmbedding", ["1, 2, 4", "1, 2", "8, 2", "8, 2"], {"num_heads": 1}),
        ("NGramRepeatBlock", ["1, 2", "1, 9"], {"ngram_size": 2}),
        ("Trilu", ["2, 3", ""], {}),
    ],
)
def test_a_file_with_wrong_types_does_not_load(
    op_type: str, dims: list[str], attributes: dict[str, int], dtype: int
) -> None:
    """Each input in turn has this type, the others one that runs."""
    formals = find_interface("com.microsoft", op_type, 1)
    assert formals is not None
    good = [
        0 if f is None or not f.allowed else TensorProto.FLOAT if 1 in f.allowed else min(f.allowed)
        for f in map(formals.formal, range(len(dims)))
    ]
    for i in range(len(dims)):
        if not dims[i] or not good[i]:
            continue
        types = [dtype if k == i else t or TensorProto.FLOAT for k, t in enumerate(good)]
        inputs = [
            helper.make_tensor_value_info(f"x{k}", types[k], list(map(int, d.split(", "))))
            for k, d in enumerate(dims)
            if d
        ]
        names = [f"x{k}" if d else "" for k, d in enumerate(dims)]
        node = helper.make_node(op_type, names, ["y"], domain="com.microsoft", **attributes)
        model = built([node], inputs, ["y"])
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        try:
            session(model)
        except Exception as e:
            loads = "Type Error" not in str(e)
        else:
            loads = True
        assert shapesolve.analyze(model).ok == loads, (i, types)


def test_what_follows_from_a_declared_input_without_a_rank_is_believed() -> None:
    model = text("float x, float[3] w", "h = Tanh(x)  y = Relu(h)")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    found = shapesolve.analyze(declared(model, y=["batch", 10]))
    assert str(found.shapes["y"][0]) == str(found.shapes["x"][0]) == "batch"
