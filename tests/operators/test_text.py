"""Operators on strings against runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from .conftest import INT64, agrees, one, shapes

STRING = onnx.TensorProto.STRING


def words(*shape: str) -> Any:
    """Strings of one to three words in an array of that shape, sizes by name."""

    def make(at: Mapping[str, int]) -> Any:
        size = [at.get(d, 0) if not d.isdigit() else int(d) for d in shape]
        flat = np.array([" ".join("abc"[: i % 3 + 1]) for i in range(int(np.prod(size)))], dtype=object)
        return flat.reshape(size)

    return make


def test_string_concat_broadcasts() -> None:
    agrees(one("StringConcat", ["N M", "K"], dtypes=STRING, opset=20), N=(0, 2), M=(1, 3), K=(1, 3, 0))


def test_regex_full_match_keeps_the_shape() -> None:
    model = one("RegexFullMatch", ["N 2"], {"pattern": "a.*"}, dtypes=STRING, opset=20)
    agrees(model, N=(0, 1, 3))


@pytest.mark.parametrize("attrs", [{}, {"maxsplit": 1}, {"maxsplit": 0}, {"delimiter": " ", "maxsplit": -1}])
def test_string_split(attrs: dict[str, Any]) -> None:
    model = one("StringSplit", ["N 2"], attrs, n_out=2, dtypes=STRING, opset=20)
    found = agrees(model, {"x0": words("N", "2")}, N=(0, 1, 3))
    assert str(found.shapes["y1"]) == "[N, 2]"
    assert len(found.shapes["y0"]) == 3


@pytest.mark.parametrize("stop", [(), ("a",), ("a", "a b", "a b c")])
def test_string_normalizer(stop: Sequence[str]) -> None:
    attrs = {"stopwords": list(stop), "is_case_sensitive": 1} if stop else {}
    model = one("StringNormalizer", ["C"], attrs, dtypes=STRING, opset=10)
    agrees(model, {"x0": words("C")}, C=(0, 1, 3))
    model = one("StringNormalizer", ["1 C"], attrs, dtypes=STRING, opset=10)
    agrees(model, {"x0": words("1", "C")}, C=(1, 3))


def test_string_normalizer_without_stop_words_keeps_the_shape() -> None:
    assert shapes(one("StringNormalizer", ["C"], dtypes=STRING, opset=10)) == ["[C]"]


@pytest.mark.parametrize("x", ["C", "N C"])
def test_tf_idf_vectorizer(x: str) -> None:
    attrs = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": [0, 1, 4],
        "pool_int64s": [2, 3, 5],
    }
    model = one("TfIdfVectorizer", [x], attrs, dtypes=INT64, opset=9)
    assert shapes(model) == ["[5]" if x == "C" else "[N, 5]"]
    agrees(model, N=(0, 1, 2), C=(0, 1, 6))
