"""ai.onnx.ml against onnxruntime: shapes, types, and the sizes at which a node runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import shapesolve
from shapesolve.expr import Dim
from shapesolve.lower.types import Map, Sequence

from .conftest import FLOAT, INT64, agrees, one, shapes

N = (0, 1, 2, 5)
STRING = 8
SVM = {"kernel_params": [0.1, 0.0, 3.0], "kernel_type": "RBF"}
TREE = {
    "nodes_featureids": [2, 7, 7],
    "nodes_values": [0.0] * 3,
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0] * 3,
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_missing_value_tracks_true": [0] * 3,
}
CLASSES = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "class_weights": [0.3, 0.7]}
TARGETS = {
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [0.3, 0.7],
}


def ml(op_type: str, *inputs: str, n_out: int = 1, opset: int = 3, **rest: Any) -> Any:
    """A model of one node of the domain."""
    consts, dtypes = rest.pop("consts", {}), rest.pop("dtypes", FLOAT)
    return one(op_type, inputs, rest, consts, domain="ai.onnx.ml", opset=opset, n_out=n_out, dtypes=dtypes)


MODELS = [
    ("Binarizer", ("N 3 M",), {"threshold": 0.5}),
    ("Imputer", ("N 3",), {"imputed_value_floats": [0.0], "replaced_value_float": 1.0}),
    ("Normalizer", ("N M",), {"norm": "L2"}),
    ("Scaler", ("N M",), {"offset": [0.0] * 2, "scale": [1.0] * 2}),
    ("Scaler", ("M",), {"offset": [0.0] * 2, "scale": [1.0] * 2}),
    ("Scaler", ("N M 2",), {"offset": [0.0] * 2, "scale": [1.0] * 2}),
    ("Scaler", ("N M",), {"offset": [0.0], "scale": [1.0]}),
    ("OneHotEncoder", ("N M",), {"cats_int64s": [0, 1, 2]}),
    ("OneHotEncoder", ("N",), {"cats_strings": ["a", "b"], "dtypes": STRING}),
    ("FeatureVectorizer", ("N M",), {"inputdimensions": [3]}),
    ("LinearRegressor", ("N M",), {"coefficients": [0.1] * 4, "targets": 2}),
    ("LinearRegressor", ("M",), {"coefficients": [0.1] * 2}),
    ("SVMRegressor", ("N M",), {**SVM, "coefficients": [0.1] * 2, "rho": [0.1], "n_supports": 2,
                                "support_vectors": [0.1] * 4}),
    ("SVMRegressor", ("M",), {**SVM, "kernel_type": "LINEAR", "coefficients": [0.1] * 2, "rho": [0.1]}),
    ("TreeEnsembleRegressor", ("N M",), {**TREE, **TARGETS, "n_targets": 2}),
    ("LabelEncoder", ("N M",), {"keys_int64s": [0], "values_floats": [1.0], "dtypes": INT64}),
    ("LabelEncoder", ("N",), {"keys_int64s": [0], "values_strings": ["a"], "dtypes": INT64}),
    ("LabelEncoder", ("N",), {"keys_strings": ["a"], "values_int64s": [1], "dtypes": STRING}),
    ("LabelEncoder", ("N",), {"classes_strings": ["a", "b"], "dtypes": INT64, "opset": 1}),
    ("LabelEncoder", ("N",), {"classes_strings": ["a", "b"], "dtypes": STRING, "opset": 1}),
    ("CategoryMapper", ("N 3",), {"cats_int64s": [0, 1], "cats_strings": ["a", "b"], "dtypes": INT64}),
    ("CategoryMapper", ("N 3",), {"cats_int64s": [0, 1], "cats_strings": ["a", "b"], "dtypes": STRING}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs"), MODELS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_one_output(op_type: str, inputs: tuple[str, ...], attrs: dict[str, Any]) -> None:
    model = ml(op_type, *inputs, **attrs)
    names = {d for shape in inputs for d in shape.split() if d.isalpha()}
    agrees(model, **dict.fromkeys(sorted(names), N))


LINEAR = {"coefficients": [0.1] * 6, "intercepts": [0.0] * 3}
BINARY = {"coefficients": [0.1] * 2, "intercepts": [0.0], "classlabels_strings": ["a", "b"]}
LABELLED = {**TREE, **CLASSES, "class_ids": [0, 1]}
TWO = {
    **SVM,
    "coefficients": [0.1] * 2,
    "rho": [0.1],
    "support_vectors": [0.1] * 4,
    "vectors_per_class": [1, 1],
}
FOUR = {
    **SVM,
    "coefficients": [0.1] * 12,
    "rho": [0.1] * 6,
    "support_vectors": [0.1] * 8,
    "vectors_per_class": [1] * 4,
    "classlabels_ints": [0, 1, 2, 3],
}
FLAT = {**SVM, "kernel_type": "LINEAR", "coefficients": [0.1] * 6, "rho": [0.1]}
CLASSIFIERS = [
    ("LinearClassifier", {**LINEAR, "classlabels_ints": [0, 1, 2]}, "[N, 3]"),
    ("LinearClassifier", BINARY, "[N, 2]"),
    ("TreeEnsembleClassifier", {**LABELLED, "classlabels_int64s": [0, 1, 2]}, "[N, 3]"),
    ("TreeEnsembleClassifier", {**LABELLED, "classlabels_strings": ["a", "b"]}, "[N, 2]"),
    ("SVMClassifier", {**TWO, "vectors_per_class": [1, 1], "classlabels_ints": [0, 1]}, "[N, 2]"),
    ("SVMClassifier", FOUR, "[N, 6]"),
    ("SVMClassifier", {**FOUR, "prob_a": [0.1] * 6, "prob_b": [0.1] * 6}, "[N, 4]"),
    ("SVMClassifier", {**FLAT, "classlabels_strings": ["a", "b", "c"]}, "[N, 3]"),
]


@pytest.mark.parametrize(("op_type", "attrs", "scores"), CLASSIFIERS)
def test_classifiers(op_type: str, attrs: dict[str, Any], scores: str) -> None:
    model = ml(op_type, "N M", n_out=2, **attrs)
    assert shapes(model) == ["[N]", scores]
    agrees(model, N=N, M=(1, 2, 3))
    if not op_type.startswith("Tree"):
        assert shapes(ml(op_type, "M", n_out=2, **attrs)) == ["[1]", scores.replace("N", "1")]


@pytest.mark.parametrize("shape", ["N M", "M", "N 3 M"])
@pytest.mark.parametrize("picks", [[0], [2, 0], [[1], [2]]])
def test_array_feature_extractor(shape: str, picks: Any) -> None:
    model = ml("ArrayFeatureExtractor", shape, consts={1: picks})
    names = {"N": (0, 2), "M": (1, 2, 3)}
    agrees(model, **{n: v for n, v in names.items() if n in shape})


def test_selected_labels_are_followed() -> None:
    model = ml("ArrayFeatureExtractor", consts={0: [5, 6, 7], 1: [2, 0]})
    found = shapesolve.analyze(model).values["y0"]
    assert found.concrete == [7, 5]
    assert found.shape == (1, 2)


def test_zip_map_is_a_sequence_of_maps() -> None:
    model = ml("ZipMap", "N 3", classlabels_strings=["a", "b", "c"])
    found = shapesolve.analyze(model)._solved.walk.state.tensors["y0"]
    assert isinstance(found, Sequence)
    assert found.length == Dim("N")
    assert isinstance(found.elem, Map)
    assert found.elem.key == STRING
    agrees(ml("ZipMap", "N M", classlabels_int64s=[1, 2]), N=N, M=(1, 2, 3))


def test_feature_vectorizer_needs_one_batch_size() -> None:
    model = ml("FeatureVectorizer", "N 3", "M 2", inputdimensions=[3, 2])
    agrees(model, N=(1, 2, 3), M=(1, 2, 3))


def test_tree_ensemble_5() -> None:
    model = ml(
        "TreeEnsemble", "N M", opset=5, n_targets=3, tree_roots=[0],
        nodes_splits=helper.make_tensor("s", FLOAT, [1], [0.5]), nodes_featureids=[1],
        nodes_modes=helper.make_tensor("m", 2, [1], [0]),
        nodes_truenodeids=[0], nodes_falsenodeids=[1], nodes_trueleafs=[1], nodes_falseleafs=[1],
        leaf_targetids=[0, 1], leaf_weights=helper.make_tensor("w", FLOAT, [2], [0.1, 0.2]),
    )  # fmt: skip
    assert shapes(model) == ["[N, 3]"]
    agrees(model, N=N, M=(1, 2, 3))


def test_maps() -> None:
    cast = helper.make_node(
        "CastMap", ["m"], ["y"], domain="ai.onnx.ml", cast_to="TO_INT64", map_form="SPARSE", max_map=9
    )
    words = helper.make_node("DictVectorizer", ["m"], ["z"], domain="ai.onnx.ml", int64_vocabulary=[3, 5])
    value = helper.make_tensor_type_proto(FLOAT, [])
    given = helper.make_value_info("m", helper.make_map_type_proto(INT64, value))
    outputs = [
        helper.make_value_info(n, helper.make_tensor_type_proto(t, None))
        for n, t in (("y", INT64), ("z", FLOAT))
    ]
    graph = helper.make_graph([cast, words], "g", [given], outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    analysis = shapesolve.analyze(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    assert str(analysis.shapes["y"]) == "[1, 9]"
    assert str(analysis.shapes["z"]) == "[1, 2]"
    assert analysis.dtypes["y"] == INT64


def test_unknown_rank_stays_open() -> None:
    assert shapes(ml("Scaler", "?", offset=[0.0], scale=[1.0])) == [None]
    assert shapes(ml("ArrayFeatureExtractor", "?", consts={1: np.array([0])})) == [None]
    found = shapesolve.analyze(ml("LinearRegressor", "?", coefficients=[0.1]))
    assert len(found.shapes["y0"]) == 2
