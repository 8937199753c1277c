"""Runs of models in onnxruntime, and the comparison of their outputs up to rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

#: element type -> tolerance for rounding: relative to the output's largest number, and absolute
_ROUNDING = {
    "float64": (2.0**-40, 2.0**-20), "float32": (2.0**-11, 2.0**-20),
    "float16": (2.0**-6, 2.0**-10), "bfloat16": (2.0**-5, 2.0**-7),
}  # fmt: skip


class Session:
    """A model in onnxruntime, on the CPU.

    Args:
        model: A `ModelProto`, the serialized model, or the path of its file.
        optimized: Whether the runtime optimizes the model, as it does by default.

    Attributes:
        inputs, outputs: Their names, in order.

    Raises:
        RuntimeError: If onnxruntime cannot load the model.
    """

    def __init__(self, model: onnx.ModelProto | bytes | str, *, optimized: bool = False) -> None:
        import onnxruntime as ort

        given = model if isinstance(model, bytes | str) else model.SerializeToString()
        options = ort.SessionOptions()
        if not optimized:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            self._session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime raises a dozen classes without a common base
            which = model if isinstance(model, str) else "the model"
            raise RuntimeError(f"onnxruntime cannot load {which}: {_short(e)}") from e
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Return the named outputs, by default all; raises `RuntimeError` if the run fails."""
        try:
            return list(self._session.run(outputs, dict(feeds)))
        except Exception as e:
            raise RuntimeError(f"onnxruntime cannot run the model on these inputs: {_short(e)}") from e


def difference(want: Any, got: Any) -> tuple[float, str]:
    """Return the largest difference between finite numbers, and the difference beyond rounding, as text ("" if none)."""
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        parts = [difference(a, b) for a, b in zip(want, got, strict=True)]
        return max((n for n, _ in parts), default=0.0), next((fault for _, fault in parts if fault), "")
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
        return 0.0, "" if type(want) is type(got) and want == got else "the values differ"
    if want.dtype != got.dtype or want.shape != got.shape:
        return 0.0, f"expected {want.dtype} {list(want.shape)}, got {got.dtype} {list(got.shape)}"
    if want.dtype.name not in _ROUNDING:
        return 0.0, "" if want.tolist() == got.tolist() else "the values differ"
    if want.tobytes() == got.tobytes():
        return 0.0, ""
    part, least = _ROUNDING[want.dtype.name]
    x, y = want.astype(np.float64), got.astype(np.float64)
    allowed = max(least, part * float(np.abs(x[np.isfinite(x)]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y)
    largest = float(apart[np.isfinite(x) & np.isfinite(y)].max(initial=0.0))
    off = np.where(
        np.isclose(x, y, rtol=1e-3, atol=allowed, equal_nan=True), 0.0, np.nan_to_num(apart, nan=np.inf)
    )
    if not off.any():
        return largest, ""
    at = np.unravel_index(int(off.argmax()), off.shape)
    place = f"element {[int(k) for k in at]}" if at else "it"
    return (
        largest,
        f"{place} is {y[at]:.6g} instead of {x[at]:.6g}; rounding explains at most {allowed:.2g} and 0.1%",
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
