"""Classical machine learning operators (domain ``ai.onnx.ml``).

https://onnx.ai/onnx/operators/index.html (section ai.onnx.ml). Most of these operators take
``[N, F]``, and ``[F]`` as one row.
"""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from ..expr import ONE, Cond, Dim, Shape, constant, eq, ge, le, product
from ..lower.axes import SAME, Links, mixes, own, plain
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reads import along
from ..lower.registry import lower, signature
from ..lower.types import Known, Map, Sequence, Tensor
from ..lower.values import Value
from ..lower.work import MOVES, Operations, Outputs, Work, each, last_of, product_of
from ..model import Constant
from ..model.types import type_name

ML = "ai.onnx.ml"
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING

same_shape = partial(signature, dims="*S -> *S", domain=ML, axes="=")
#: one row of results for each sample
SAMPLES = "N *f -> N *A, N *B"
ml = partial(lower, domain=ML)


# https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html
# https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html
same_shape("Binarizer", work=each(0))
same_shape("Imputer", work=each(0))


def length(op: Op, *names: str) -> int:
    """Return the length of the list or tensor in the first of these attributes that is given."""
    for name in names:
        value = op.attr(name)
        if isinstance(value, Constant):
            return value.numel
        if value:
            return len(value)
    return 0


def one_of(op: Op, *names: str) -> str:
    """Return the name of the given one of these attributes; raises `MalformedNode` unless it is exactly one."""
    given = [name for name in names if op.attr(name) is not None]
    if len(given) != 1:
        raise MalformedNode(
            f"{op.node.op_type} needs exactly one of {', '.join(names)}, got {given or 'none'}"
        )
    return given[0]


def rows_of(op: Op, i: int = 0) -> tuple[Dim, Dim] | None:
    """Return ``(N, F)`` for an input ``[N, F]`` or ``[F]``; None if its rank is unknown."""
    shape = op.shape(i)
    if shape is None:
        return None
    if len(shape) not in (1, 2):
        raise InvalidNode(f"input {op.name_of(i)} must have rank 1 or 2, got {shape}")
    return (ONE, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def require_features(op: Op, wanted: Cond, why: str) -> None:
    """Require a condition on the number of features, the last axis of input 0."""
    op.require(wanted, why, (0, (op.rank(0) or 1) - 1))


# https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html
@ml("Normalizer", work=each(3), axes=SAMPLES)
def normalizer(op: Op) -> Known:
    rows_of(op)
    return op.like()


# https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html
@ml("Scaler", work=each(2), axes="*S c -> *S C")
def scaler(op: Op) -> Known:
    shape, offsets = op.shape(0), length(op, "offset")
    if offsets != length(op, "scale"):
        raise InvalidNode(f"Scaler has {offsets} offsets and {length(op, 'scale')} scales")
    if shape and offsets != 1:
        axis = min(1, len(shape) - 1)
        op.require(eq(shape[axis], offsets), "expected one offset per feature", (0, axis))
    return op.like()


def _picked_axes(op: Op, _: Outputs) -> Links:
    """Return the links of ArrayFeatureExtractor: columns of input 0 selected by input 1."""
    x, picks = own(op), own(op, 1)
    return Links([x, picks], [[*(plain(x[:-1]) or [[]]), picks]])


# https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html
@ml(
    "ArrayFeatureExtractor",
    reads={1: along(-1)},
    values=True,
    elements=(1,),
    work=MOVES,
    axes=_picked_axes,
)
def array_feature_extractor(op: Op) -> Known:
    shape, indices = op.shape(0), op.shape(1)
    if shape is not None and not shape:
        raise InvalidNode(f"input {op.name_of(0)} must have rank 1 or more, got a scalar")
    n = indices.numel if indices is not None else op.fresh("the number of selected features", 1)
    op.require(ge(n, 1), "at least one feature must be selected", (1, None))
    if shape is None:
        return op.out(None)
    value = op.value(1)
    lo, hi = value.bounds if value is not None else (None, None)
    last = len(shape) - 1
    for bound in (lo is not None and ge(lo, 0), hi is not None and le(hi, shape[last] - 1)):
        if isinstance(bound, Cond):
            op.require(bound, "a selected feature must be one of those that there are", (0, last), (1, None))
    rows = shape[:-1] if last else Shape((1,))
    return op.out([*rows, n], value=picked(op, last))


def picked(op: Op, last: int) -> Value | None:
    """Known data of an ArrayFeatureExtractor."""
    source, picks = op.value(0), op.const_ints(1)
    array = source.array if source is not None else None
    if array is None or picks is None or not all(0 <= p < array.shape[-1] for p in picks):
        return None
    found = array[..., list(picks)]
    return Value.of(found if last else found[None])


# https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html
@ml("FeatureVectorizer", work=MOVES)
def feature_vectorizer(op: Op) -> Known:
    wide = op.ints_attr("inputdimensions")
    first: tuple[Dim, int] | None = None
    for i in range(op.n_in):
        shape = op.shape(i)
        if shape is None or not shape:
            continue
        batch = ONE if len(shape) == 1 else shape[0]
        if first is not None:
            op.same(first[0], batch, "all inputs must have the same batch size", (first[1], 0), (i, 0))
        first = first or (batch, i)
    batch = first[0] if first is not None else op.fresh("the batch size")
    return op.out([batch, sum(wide) if wide is not None else op.fresh("the total number of features")])


# https://onnx.ai/onnx/operators/onnx_aionnxml_OneHotEncoder.html
@ml("OneHotEncoder", work=MOVES, axes="*S -> *S K")
def one_hot_encoder(op: Op) -> Known:
    shape = op.shape(0)
    one_of(op, "cats_int64s", "cats_strings")
    categories = constant(length(op, "cats_int64s", "cats_strings"))
    return op.out(None if shape is None else [*shape, categories])


# https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html
def swap_strings(op: Op) -> Known:
    """Lower CategoryMapper: text becomes integers, integers become text."""
    other: dict[int, int] = {STRING: INT64, INT64: STRING}
    return op.out(op.shape(0), other.get(op.dtype(0), 0))


@ml("CategoryMapper", work=MOVES, axes=SAME)
def category_mapper(op: Op) -> Known:
    if not length(op, "cats_int64s") == length(op, "cats_strings") > 0:
        raise MalformedNode("CategoryMapper needs as many cats_int64s as cats_strings")
    return swap_strings(op)


# https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html
ml("LabelEncoder", until=2, work=each(0), axes=SAME)(swap_strings)


@ml("LabelEncoder", since=2, work=each(0), axes=SAME)
def label_encoder(op: Op) -> Known:
    """Lower LabelEncoder; keys and values are attributes of equal length."""
    kinds = {"strings": STRING, "int64s": INT64, "floats": FLOAT}
    tensors = ("tensor",) if op.version >= 4 else ()
    keys, values = (
        one_of(op, *(f"{what}_{kind}" for kind in (*kinds, *tensors))) for what in ("keys", "values")
    )
    if length(op, keys) != length(op, values):
        raise MalformedNode(f"LabelEncoder has {length(op, keys)} keys and {length(op, values)} values")
    wanted = kinds.get(keys.removeprefix("keys_"), op.dtype(0))
    if op.dtype(0) not in (0, wanted):
        raise InvalidNode(f"{op.name_of(0)} must have the type of {keys}, got {type_name(op.dtype(0))}")
    stored, default = op.attr(values), op.attr("default_tensor")
    dtype = stored.dtype if isinstance(stored, Constant) else kinds[values.removeprefix("values_")]
    if isinstance(default, Constant) and (default.dims != (1,) or default.dtype != dtype):
        raise MalformedNode("default_tensor of LabelEncoder must be one element of the values' type")
    return op.out(op.shape(0), dtype)


# https://onnx.ai/onnx/operators/onnx_aionnxml_CastMap.html
@ml("CastMap", work=MOVES)
def cast_map(op: Op) -> Known:
    dtype = {"TO_STRING": STRING, "TO_INT64": INT64}.get(op.text_attr("cast_to", "TO_FLOAT"), FLOAT)
    if op.text_attr("map_form", "DENSE") == "SPARSE":
        return op.out([1, op.int_attr("max_map", 1)], dtype)
    return op.out([ONE, op.fresh("the number of entries of the map")], dtype)


# https://onnx.ai/onnx/operators/onnx_aionnxml_DictVectorizer.html
@ml("DictVectorizer", work=MOVES)
def dict_vectorizer(op: Op) -> Known:
    known = op.known(0)
    held = known.value if isinstance(known, Map) else None
    words = length(op, "int64_vocabulary", "string_vocabulary")
    return op.out([1, words], held.dtype if isinstance(held, Tensor) else 0)


# https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html
@ml("ZipMap", work=MOVES, axes=mixes("converts each row of {symbol} to a map", "items"))
def zip_map(op: Op) -> Known:
    rows = rows_of(op)
    labels = length(op, "classlabels_int64s", "classlabels_strings")
    if rows is not None and labels:
        require_features(op, eq(rows[1], labels), "the number of columns must be the number of class labels")
    key = STRING if op.attr("classlabels_strings") else INT64
    return Sequence(Map(key, op.out((), FLOAT)), rows[0] if rows is not None else None)


# ---------------------------------------------------------------------- models


def scores(op: Op, rows: tuple[Dim, Dim] | None, columns: Dim) -> Tensor:
    """Return the output for scores, ``[N, columns]`` of floats."""
    return op.out([rows[0] if rows is not None else op.fresh("the number of rows"), columns], FLOAT)


def classified(op: Op, rows: tuple[Dim, Dim] | None, columns: Dim, ints: str) -> list[Known | None]:
    """Return the outputs of a classifier: labels ``[N]`` and scores ``[N, columns]``."""
    found = scores(op, rows, columns)
    assert found.shape is not None
    dtype = STRING if op.attr("classlabels_strings") else INT64 if op.attr(ints) else 0
    return [op.out(found.shape[:1], dtype), found]


# https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html
@ml("LinearRegressor", work=product_of(last_of(0), None, "intercepts"), axes=SAMPLES)
def linear_regressor(op: Op) -> Known:
    rows, targets = rows_of(op), op.int_attr("targets", 1)
    require_coefficients(op, rows, targets)
    return scores(op, rows, constant(targets))


def require_coefficients(op: Op, rows: tuple[Dim, Dim] | None, outputs: int) -> None:
    """Require at least ``outputs * F`` coefficients."""
    if rows is not None:
        enough = le(rows[1].scale(outputs), length(op, "coefficients"))
        require_features(op, enough, "expected one coefficient per feature and output")


def _classifier_work(op: Op, outputs: Outputs) -> Operations | None:
    shape, classes = op.shape(0), length(op, "intercepts")
    if shape is None or not classes:
        return None
    return Operations(shape.numel.scale(classes), product(shape[:-1]).scale(classes))


# https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
@ml("LinearClassifier", work=Work(_classifier_work), axes=SAMPLES)
def linear_classifier(op: Op) -> list[Known | None]:
    rows, classes = rows_of(op), length(op, "intercepts")
    labels = length(op, "classlabels_ints", "classlabels_strings")
    if classes:
        require_coefficients(op, rows, classes)
    columns = constant(classes if classes > 1 else max(labels, 1))
    return classified(op, rows, columns, "classlabels_ints")


# https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html
@ml("SVMRegressor", axes=SAMPLES)
def svm_regressor(op: Op) -> Known:
    rows, vectors = rows_of(op), op.int_attr("n_supports", 0)
    features = length(op, "support_vectors") // vectors if vectors > 0 else length(op, "coefficients")
    require_trained(op, rows, features)
    return scores(op, rows, ONE)


def require_trained(op: Op, rows: tuple[Dim, Dim] | None, features: int) -> None:
    """Require as many features as the support vectors have."""
    if rows is not None and features:
        require_features(op, eq(rows[1], features), "expected the trained model's features")


# https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
@ml("SVMClassifier", axes=SAMPLES)
def svm_classifier(op: Op) -> list[Known | None]:
    """Lower SVMClassifier: labels, and scores per class or per pair of classes."""
    rows, per_class = rows_of(op), op.ints_attr("vectors_per_class") or ()
    labels = length(op, "classlabels_ints", "classlabels_strings")
    if per_class:
        classes = len(per_class)
        require_trained(op, rows, length(op, "support_vectors") // max(sum(per_class), 1))
        pairs = classes * (classes - 1) // 2
        columns = classes if length(op, "prob_a") or classes == 2 else pairs
    else:
        columns = max(labels, 1)
        require_trained(op, rows, length(op, "coefficients") // columns)
    return classified(op, rows, constant(columns), "classlabels_ints")


# https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
@ml("TreeEnsembleRegressor", axes=SAMPLES)
def tree_ensemble_regressor(op: Op) -> Known:
    return scores(op, tree_rows(op), constant(op.int_attr("n_targets", 1)))


# https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
@ml("TreeEnsembleClassifier", axes=SAMPLES)
def tree_ensemble_classifier(op: Op) -> list[Known | None]:
    classes = constant(length(op, "classlabels_int64s", "classlabels_strings"))
    return classified(op, tree_rows(op), classes, "classlabels_int64s")


_TREE_LISTS = (
    "nodes_modes", "nodes_splits", "nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs",
)  # fmt: skip


# https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
@ml("TreeEnsemble", types=(0,), axes=SAMPLES)
def tree_ensemble(op: Op) -> Known:
    rows = tree_rows(op)
    nodes = length(op, "nodes_featureids")
    for name in _TREE_LISTS:
        if op.attr(name) is not None and length(op, name) != nodes:
            raise MalformedNode(f"TreeEnsemble has {nodes} nodes_featureids and {length(op, name)} {name}")
    if length(op, "leaf_targetids") != length(op, "leaf_weights"):
        raise MalformedNode("TreeEnsemble needs a weight for each of leaf_targetids")
    for name in ("nodes_splits", "leaf_weights"):
        stored = op.attr(name)
        if isinstance(stored, Constant) and op.dtype(0) and stored.dtype != op.dtype(0):
            raise MalformedNode(f"{name} of TreeEnsemble must have the element type of the input")
    return op.out([rows[0], op.int_attr("n_targets", 1)])


def tree_rows(op: Op) -> tuple[Dim, Dim]:
    """``(N, F)`` of the input; requires that `F` covers all features that the trees use."""
    shape = op.sized(0, 2)
    modes, features = op.attr("nodes_modes", ()), op.ints_attr("nodes_featureids") or ()
    if isinstance(modes, tuple):
        features = tuple(f for f, mode in zip(features, modes, strict=False) if mode != "LEAF")
    if features:
        op.require(ge(shape[1], max(features) + 1), "input must have all features of the trees", (0, 1))
    return shape[0], shape[1]
