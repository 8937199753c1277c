"""Runs two models in onnxruntime on the same inputs and compares their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .differences import Runs
from .limits import RELATIVE


def run_both(first: Any, second: Any, feeds: Sequence[Mapping[str, Any]], names: tuple[Any, Any]) -> Runs:
    """Runs two models (bytes or paths) with onnxruntime on the same inputs. `names`: pairs of inputs and of outputs."""
    inputs, outputs = names
    sessions = session(first), session(second)
    faults: list[str] = []
    count, largest = 0, 0.0
    for feed in feeds:
        at = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
        try:
            want = sessions[0].run([a for a, _ in outputs], dict(feed))
        except Exception as error:
            faults.append(f"the first fails at {at}: {_short(error)}")
            continue
        try:
            got = sessions[1].run([b for _, b in outputs], {b: feed[a] for a, b in inputs if a in feed})
        except Exception as error:
            faults.append(f"the second fails at {at}: {_short(error)}")
            continue
        count += 1
        for (name, _), x, y in zip(outputs, want, got):
            difference, fault = _difference(x, y)
            largest = max(largest, difference)
            if fault:
                faults.append(f"{name} at {at}: {fault}")
    return Runs(count, largest, tuple(faults))


def session(model: Any) -> Any:
    """Return a session of onnxruntime on the CPU without optimizations, for a model as bytes or a path.

    Raises:
        RuntimeError: If onnxruntime cannot load the model.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime raises a dozen classes without a common base
        which = model if isinstance(model, str) else "the model"
        raise RuntimeError(f"onnxruntime cannot load {which}: {_short(e)}") from e


def _difference(x: Any, y: Any) -> tuple[float, str]:
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return 0.0, "" if type(x) is type(y) and repr(x) == repr(y) else "the values differ"
    if x.dtype != y.dtype or x.shape != y.shape:
        return 0.0, f"{x.dtype} {list(x.shape)} became {y.dtype} {list(y.shape)}"
    if x.dtype.kind not in "fiub":
        return 0.0, "" if x.tolist() == y.tolist() else "the values differ"
    if not x.size or x.tobytes() == y.tobytes():
        return 0.0, ""
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        both = np.isfinite(a) & np.isfinite(b)
        largest = float(np.abs(a - b)[both].max(initial=0.0))
        same = bool(np.allclose(a, b, rtol=RELATIVE, atol=RELATIVE**2, equal_nan=True))
    return largest, "" if same else f"values differ by up to {largest:.3g}"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
