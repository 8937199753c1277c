"""What data decides on in each row is listed row after row: with more rows, the lists of the single rows joined."""

from functools import cache

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shapesolve as ss
from shapesolve.change.verify import verify

from .test_free_models import session

HEAD = """
    <ir_version: 8, opset_import: ["" : 18]>
    detect (float[1, 7, 3] scores, float[1, 7, 4] boxes) => (y)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}, float limit = {0.3}, int64[1] rest = {-1}, int64[1] last = {-1},
     int64[1] seven = {7}, int64[1] six = {6}, int64[1] three = {3}, int64[2] four = {-1, 4}, int64[1] wide = {21},
     int64[3] ones = {1, 1, 1}, int64[1] first = {0}>
"""
FOUND = """
    hit = Greater (scores, limit)
    found = NonZero (hit)
    row = Gather <axis = 0> (found, zero)
    place = Gather <axis = 0> (found, one)
    kind = Gather <axis = 0> (found, two)
"""
#: how an entry's box, score or kind is found
LISTED = {
    "kind": "y = Identity (kind)",
    "place as number": "p = Cast <to = 1> (place)\n y = Mul (p, limit)",
    "box by number": """
        start = Mul (row, seven)
        at = Add (start, place)
        flat = Reshape (boxes, four)
        picked = Gather <axis = 0> (flat, at)
        y = Reshape (picked, four)""",
    "score by number": """
        start = Mul (row, wide)
        inside = Mul (place, three)
        own = Add (inside, kind)
        at = Add (own, start)
        flat = Reshape (scores, rest)
        y = Gather <axis = 0> (flat, at)""",
    "box by coordinates": """
        r = Unsqueeze (row, last)
        p = Unsqueeze (place, last)
        at = Concat <axis = -1> (r, p)
        y = GatherND (boxes, at)""",
    "score by coordinates": "at = Transpose <perm = [1, 0]> (found)\n y = GatherND (scores, at)",
    "split": """
        r0, p0, k0 = Split <axis = 0> (found, ones)
        r = Squeeze (r0, first)
        p = Squeeze (p0, first)
        start = Mul (r, seven)
        at = Add (p, start)
        flat = Reshape (boxes, four)
        y = Gather <axis = 0> (flat, at)""",
}
MIXED = {
    "the number of the row": "y = Identity (row)",
    "all coordinates": "y = Identity (found)",
    "a step that is no row": """
        start = Mul (row, six)
        at = Add (start, place)
        flat = Reshape (boxes, four)
        y = Gather <axis = 0> (flat, at)""",
    "places beyond the row": """
        start = Mul (row, seven)
        far = Add (place, three)
        at = Add (start, far)
        flat = Reshape (boxes, four)
        y = Gather <axis = 0> (flat, at)""",
    "a sum over all": "y = ReduceSum (kind)",
    "the best of all": "f = Cast <to = 1> (kind)\n y, i = TopK (f, ones_)",
    "how many": "y = Shape (kind)",
    "rows that are not outermost": """
        turned = Transpose <perm = [1, 0, 2]> (hit)
        other = NonZero (turned)
        y = Gather <axis = 0> (other, two)""",
}


def detector(body: str) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f"{HEAD} {{ {FOUND} {body} }}".replace("ones_", "first"))
    del made.graph.output[1:]
    return made


ROWS = {"scores[0]": "batch", "boxes[0]": "batch"}


@cache
def _sessions(name: str) -> tuple[ort.InferenceSession, ort.InferenceSession]:
    """The model of one row, and of many."""
    model = detector(LISTED[name])
    return session(model), session(ss.free(model, ROWS))


@pytest.mark.parametrize("name", LISTED)
@given(counts=st.integers(0, 4), seed=st.integers(0, 99))
def test_the_list_of_many_rows_is_those_of_single_rows_joined(name: str, counts: int, seed: int) -> None:
    before, after = _sessions(name)
    rng = np.random.default_rng(seed)
    scores, boxes = (rng.standard_normal((counts, 7, n)).astype(np.float32) for n in (3, 4))
    scores[rng.random(counts) < 0.3] = 0  # rows in which nothing is found
    got = after.run(None, {"scores": scores, "boxes": boxes})[0]
    single = [
        before.run(None, {"scores": scores[i : i + 1], "boxes": boxes[i : i + 1]})[0] for i in range(counts)
    ]
    np.testing.assert_array_equal(got, np.concatenate([got[:0], *single]))


def test_lists_are_joined_when_models_are_run_against_each_other() -> None:
    model = detector(LISTED["box by number"])
    runs = verify(model, ss.free(model, ROWS), ROWS)
    assert [run.sizes["batch"] for run in runs] == [1, 2, 3]


@pytest.mark.parametrize("name", MIXED)
def test_what_needs_the_list_of_all_rows_is_refused(name: str) -> None:
    with pytest.raises(ss.Refused, match="row by row of batch"):
        ss.free(detector(MIXED[name]), ROWS)


def test_a_map_for_each_row_is_listed_row_after_row() -> None:
    """Classifiers of scikit-learn end in one."""
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
    classify (float[1, 3] x) => (z)
    {
        p = Softmax <axis = 1> (x)
        z = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b", "c"]> (p)
    }""")
    values = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    kind = onnx.helper.make_map_type_proto(onnx.TensorProto.STRING, values)
    model.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(kind))
    freed = ss.free(model, {"x[0]": "batch"})
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    (got,) = session(freed).run(None, {"x": x})
    single = session(model)
    for k, row in enumerate(got):
        assert row == pytest.approx(single.run(None, {"x": x[k : k + 1]})[0][0])
    assert len(got) == len(x)
