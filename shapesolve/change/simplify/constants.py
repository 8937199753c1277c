"""Rules of `simplify` that replace nodes by constants, bit for bit as a runtime computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ...lower.limits import MAX_ELEMENTS, MAX_FLOATS
from ...model import Constant
from .site import At, Change, Store, numbers

Array = NDArray[Any]
_FLOAT_TYPES = frozenset((1, 10, 11))


def known_beforehand(site: At) -> Change | None:
    """Replaces a node by a constant if all elements of its outputs are known numbers."""
    node = site.node
    if node.op_type == "Constant" and not node.domain:
        return None
    array = site.known.array(node.outputs[0]) if node.outputs[0] else None
    return None if array is None else Store(array)


def folded_float(site: At) -> Change | None:
    """Replaces a float operation on constants by its result."""
    given: list[Array] = []
    for name in site.node.inputs:
        array = site.known.array(name)
        if array is None or array.size > MAX_ELEMENTS:
            return None
        given.append(array)
    out = site.out
    shape = None if out is None else numbers(out)
    dtype = site.known.dtype(site.node.outputs[0])
    if shape is None or dtype not in _FLOAT_TYPES or prod(shape) > MAX_FLOATS:
        return None
    made = helper.tensor_dtype_to_np_dtype(dtype)
    with np.errstate(all="ignore"):
        found = _FOLDS[site.node.op_type](site, given, shape)
    if found is None or found.dtype != made or found.shape != shape or np.isnan(found).any():
        return None  # runtimes differ in the NaN that they produce
    return Store(np.ascontiguousarray(found).reshape(shape))


def _numpy(
    function: Callable[..., Array],
) -> Callable[[At, Sequence[Array], tuple[int, ...]], Array | None]:
    def fold(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
        if any(a.dtype != given[0].dtype for a in given):
            return None
        return np.asarray(function(*given), dtype=given[0].dtype)

    return fold


def _cast(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    made = helper.tensor_dtype_to_np_dtype(int(site.node.attribute("to", 0)))
    if given[0].dtype.kind in "iu" and made == np.float16:
        return None  # some runtimes convert by way of float32
    return given[0].astype(made)


def _reshaped(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    return given[0].reshape(shape)


def _filled(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    value = site.node.attribute("value")
    if value is None:
        return np.zeros(shape, np.float32)
    array = value.array(1) if isinstance(value, Constant) else None
    return None if array is None or array.size != 1 else np.full(shape, array.reshape(()))


def _joined(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    axis = site.node.attribute("axis")
    if not isinstance(axis, int) or not all(-a.ndim <= axis < a.ndim for a in given):
        return None
    return np.concatenate(list(given), axis)


def _spread(site: At, given: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    return np.broadcast_to(given[0], shape)


_FOLDS: dict[str, Callable[[At, Sequence[Array], tuple[int, ...]], Array | None]] = {
    "Add": _numpy(np.add),
    "Sub": _numpy(np.subtract),
    "Mul": _numpy(np.multiply),
    "Div": _numpy(np.divide),
    "Sqrt": _numpy(np.sqrt),
    "Neg": _numpy(np.negative),
    "Abs": _numpy(np.abs),
    "Floor": _numpy(np.floor),
    "Ceil": _numpy(np.ceil),
    "Reciprocal": _numpy(lambda a: np.divide(a.dtype.type(1), a)),
    "Cast": _cast,
    "Reshape": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Flatten": _reshaped,
    "Expand": _spread,
    "Concat": _joined,
    "ConstantOfShape": _filled,
}
FLOAT_OPS = tuple(_FOLDS)
