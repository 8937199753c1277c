"""Compares a freed model with the original in onnxruntime, at the old sizes and with stacked rows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import Analysis, analyze
from ..change.refused import Refused
from .provenance import Origin
from .provenance_lists import Listing
from .provenance_walk import trace

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
#: numbers of rows that are run besides one
ROWS = (2, 3)
#: value of symbols that were free before
_OTHERS = 4
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
#: steps between numbers, at the largest of an output, by which it may differ: more rows are summed in another order
_STEPS = {"float64": 4096, "float32": 4096, "float16": 16, "bfloat16": 4}
_MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the sizes, and the largest difference of any output's element (None without a comparison)."""

    sizes: Mapping[str, int]
    difference: float | None


def verify(
    original: onnx.ModelProto, changed: onnx.ModelProto, dims: Mapping[str, str], *, seed: int = 0
) -> list[Run]:
    """Run both models with onnxruntime.

    At the old sizes both are compared. More rows are compared with single ones, stacked. At other sizes, of which the original
    knows nothing, the changed model has to run, and its outputs have the shapes that are proved.

    Args:
        original: the model with fixed sizes.
        changed: what `free` made of it.
        dims: what was freed.
        seed: of the drawn inputs.

    Raises:
        Refused: an output differs.
        RuntimeError: one of the models cannot be run on drawn inputs.
    """
    analysis = analyze(changed)
    old = _old_sizes(analyze(original), analysis, dims)
    rows = [name for name, size in old.items() if size == 1]
    origins = trace(analyze(changed, broadcast="strict", assume=[f"{name} >= 2" for name in rows]), rows)
    before, after = _session(original), _session(changed)
    outputs = [o.name for o in before.get_outputs()]
    one = _feeds(analysis, old, seed)
    runs = [_compared(old, _run(before, outputs, one), _run(after, outputs, one), outputs)]
    for name in rows:
        for count in ROWS:
            sizes = {**old, name: count}
            feeds = _feeds(analysis, sizes, seed + count)
            got = _run(after, outputs, feeds)
            single = [_run(before, outputs, _row(analysis, feeds, name, i)) for i in range(count)]
            stacked = [
                _stacked(origins.of(output), name, [row[k] for row in single])
                for k, output in enumerate(outputs)
            ]
            runs.append(_compared(sizes, stacked, got, outputs))
    for name in old.keys() - set(rows):
        for size in (2 * old[name], 3 * old[name]):
            sizes = {**old, name: size}
            feeds = _feeds(analysis, sizes, seed + size)
            if not analysis.check_inputs({key: array.shape for key, array in feeds.items()}):
                _check_shapes(analysis, sizes, _run(after, outputs, feeds), outputs)
                runs.append(Run(sizes, None))
    return runs


def verify_exports(exports: Seq[onnx.ModelProto], changed: onnx.ModelProto, *, seed: int = 0) -> list[Run]:
    """Run a dynamic model and fixed exports of it with onnxruntime, at the sizes of each export.

    Args:
        exports: models with fixed sizes; inputs and outputs go by their order.
        changed: what `generalize` made of them.
        seed: of the drawn inputs.

    Raises:
        Refused: an output differs, or the dynamic model does not run.
        RuntimeError: an export cannot be run on drawn inputs.
    """
    analysis, runs = analyze(changed), []
    after = _session(changed)
    for k, export in enumerate(exports):
        fixed, before = analyze(export), _session(export)
        feeds = _feeds(fixed, {}, seed + k)
        names = dict(
            zip([i.name for i in before.get_inputs()], [i.name for i in after.get_inputs()], strict=True)
        )
        if set(names) == set(names.values()):
            names = {n: n for n in names}
        given = {names[name]: array for name, array in feeds.items()}
        sizes: dict[str, int] = {}
        for name, array in given.items():
            for d, n in zip(analysis.shapes[name], array.shape, strict=True):
                if d.name is not None:
                    sizes[d.name] = n
        outputs = [o.name for o in before.get_outputs()]
        want = _run(before, outputs, feeds)
        try:
            got = _run(after, [o.name for o in after.get_outputs()], given)
        except RuntimeError as error:
            raise Refused(f"at {_told(sizes)} an export runs and the new model does not: {error}") from error
        runs.append(_compared(sizes, want, got, outputs))
    return runs


def _old_sizes(original: Analysis, changed: Analysis, dims: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for place, name in dims.items():
        tensor, _, axis = place.strip().removesuffix("]").rpartition("[")
        if name in changed.symbols:
            found[name] = int(original.shapes[tensor][int(axis)])
    return found


def _check_shapes(analysis: Analysis, sizes: Mapping[str, int], got: Seq[Array], outputs: Seq[str]) -> None:
    known = {**dict.fromkeys(analysis.symbols, _OTHERS), **sizes}
    for name, array in zip(outputs, got, strict=True):
        want = [d.evaluate(known) for d in analysis.shapes.get(name, ())]
        if any(w is not None and w != n for w, n in zip(want, array.shape, strict=False)):
            raise Refused(
                f"at {_told(sizes)} output {name} has the shape {list(array.shape)} instead of {want}"
            )


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{key} = {size}" for key, size in sizes.items())


def _session(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as e:
        raise RuntimeError(f"onnxruntime cannot load the model: {e}") from e


def _run(session: Any, outputs: Seq[str], feeds: Mapping[str, Array]) -> list[Array]:
    try:
        return [np.asarray(y) for y in session.run(list(outputs), dict(feeds))]
    except Exception as e:
        raise RuntimeError(f"onnxruntime cannot run the model on drawn inputs: {e}") from e


def _feeds(analysis: Analysis, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    import onnx

    rng = np.random.default_rng(seed)
    every = {**dict.fromkeys(analysis.symbols, _OTHERS), **sizes}
    found: dict[str, Array] = {}
    for name in analysis.inputs:
        shape = [int(d.evaluate(every) or 0) for d in analysis.shapes[name]]
        kind = onnx.helper.tensor_dtype_to_np_dtype(analysis.dtypes[name])
        if kind.kind == "f":
            found[name] = rng.standard_normal(shape).astype(kind)
        else:
            found[name] = (
                np.ones(shape).astype(kind) if kind.kind == "b" else rng.integers(0, 2, shape).astype(kind)
            )
    return found


def _row(analysis: Analysis, feeds: Mapping[str, Array], symbol: str, i: int) -> dict[str, Array]:
    """Row `i` of every input that has rows of a symbol."""
    found = {}
    for name, array in feeds.items():
        axis = next((k for k, d in enumerate(analysis.shapes[name]) if symbol in d.free), None)
        found[name] = array if axis is None else np.take(array, [i], axis=axis)
    return found


def _stacked(origin: Origin, symbol: str, rows: Seq[Array]) -> Array:
    """The outputs of single rows as the output of all of them has them."""
    listing = origin.mixed.get(symbol)
    if isinstance(listing, Listing):
        return np.concatenate(rows, axis=listing.axis)
    at = origin.rows(symbol)
    if at is None or origin.layout is None:
        return rows[0]
    axis, k = at
    inside = int(np.prod([d.evaluate({symbol: 1}) or 0 for d in origin.layout[axis][k + 1 :]]))
    shape = rows[0].shape
    split = (*shape[:axis], -1, 1, max(inside, 1), *shape[axis + 1 :])
    joined = np.concatenate([row.reshape(split) for row in rows], axis=axis + 1)
    return joined.reshape(*shape[:axis], -1, *shape[axis + 1 :])


def _compared(sizes: Mapping[str, int], want: Seq[Array], got: Seq[Array], outputs: Seq[str]) -> Run:
    worst = 0.0
    for name, a, b in zip(outputs, want, got, strict=True):
        told = _told(sizes)
        if a.shape != b.shape:
            raise Refused(f"at {told} output {name} has the shape {list(b.shape)} instead of {list(a.shape)}")
        x, y = _as_numbers(a), _as_numbers(b)
        if x is None or y is None:
            if not (a == b).all():
                raise Refused(f"at {told} output {name} differs from what the original computes")
            continue
        allowed = _allowed(a.dtype.name, x)
        off = np.where(np.isclose(x, y, rtol=_RELATIVE, atol=allowed, equal_nan=True), 0.0, _distance(x, y))
        if off.any():
            at = np.unravel_index(int(off.argmax()), off.shape)
            place = f"{name}{[int(k) for k in at]}" if at else name
            raise Refused(
                f"at {told} output {name} differs from what the original computes: {place} is {y[at]:.6g} instead of"
                f" {x[at]:.6g}, and no more than {allowed:.2g} and 0.1 % are put down to rounding"
            )
        finite = np.isfinite(x) & np.isfinite(y)
        worst = max(worst, float(np.abs(x - y)[finite].max(initial=0.0)))
    return Run(dict(sizes), worst)


def _as_numbers(array: Array) -> NDArray[np.float64] | None:
    """In double precision; None for what is not numbers."""
    if array.dtype.kind in "fiub" or array.dtype.name in _STEPS:
        return array.astype(np.float64)
    return None


def _allowed(dtype: str, values: NDArray[np.float64]) -> float:
    """The difference that rounding explains, by the largest of the values."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return max(_ABSOLUTE, _STEPS.get(dtype, 0) * largest * 2.0 ** -_MANTISSA.get(dtype, 0))


def _distance(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.abs(x - y), nan=np.inf)
