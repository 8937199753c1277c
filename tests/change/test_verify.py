"""What counts as rounding where a freed model is held against the original: by the largest number of an output."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from shapesolve import Refused
from shapesolve.change.verify import _compared


def difference(off: float, dtype: object, largest: float = 1000.0) -> float | None:
    """Of an output that holds a 0, and something else in the other model."""
    want = np.array([[0.0, largest]]).astype(dtype)  # type: ignore[call-overload]
    got = np.array([[off, largest]]).astype(dtype)  # type: ignore[call-overload]
    return _compared({"n": 2}, [want], [got], ["y"]).difference


@pytest.mark.parametrize(
    ("dtype", "off"), [(np.float32, 0.4), (np.float64, 5e-7), (np.float16, 15.0), (ml_dtypes.bfloat16, 30.0)]
)
def test_what_rounding_explains_is_the_same(dtype: object, off: float) -> None:
    assert difference(off, dtype) == pytest.approx(off, rel=0.01)
    with pytest.raises(Refused, match="differs"):
        difference(100 * off, dtype)


def test_how_large_the_difference_is_is_told() -> None:
    told = r"at n = 2 output y differs from the original's: element \[0, 0\] is 0.75 instead of 0; "
    with pytest.raises(Refused, match=told):
        difference(0.75, np.float32)
    with pytest.raises(Refused, match=r"rounding explains at most 0\.49 and"):
        difference(0.75, np.float32)
    with pytest.raises(Refused, match="is nan instead of 0"):
        difference(np.nan, np.float32)
    with pytest.raises(Refused, match=r"at most 4.9e-06 and"):
        difference(0.01, np.float32, largest=0.01)


def test_what_is_no_number_is_equal_or_not() -> None:
    words = np.array(["a", "b"], dtype=object)
    assert _compared({}, [words], [words.copy()], ["y"]).difference == 0.0
    with pytest.raises(Refused, match="differs"):
        _compared({}, [words], [words[::-1]], ["y"])


def test_integers_are_equal_or_not() -> None:
    assert _compared({}, [np.array([1000])], [np.array([1000])], ["y"]).difference == 0.0
    with pytest.raises(Refused, match="the values differ"):
        _compared({}, [np.array([1000])], [np.array([1001])], ["y"])
