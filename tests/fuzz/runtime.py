"""onnxruntime as the referee: sessions without optimizations, and which failures say nothing about sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")

import onnxruntime as ort

from ..building import session

ort.set_default_logger_verbosity(0)
Array = np.ndarray[Any, Any]
#: what a name holds at run time: an array, or a list of arrays (a sequence)
Data = Any

#: messages of failures that have nothing to do with sizes: no kernel, more than a kernel was written for
_LIMITS = re.compile(
    r"NOT_IMPLEMENTED|not (?:yet )?(?:implemented|supported)|Could not find an implementation"
    r"|is not a registered function/op|only supports|bad_alloc|Failed to allocate|[Uu]nsupported",
)


class Failed(Exception):
    """onnxruntime refuses the model, or the run."""

    @property
    def own_limit(self) -> bool:
        """Is it a limit of onnxruntime, of which the text of the operator knows nothing?"""
        return bool(_LIMITS.search(str(self)))


class Session:
    """A model, loaded as it stands."""

    def __init__(self, model: onnx.ModelProto) -> None:
        try:
            self._session = session(model, optimized=False)
        except Exception as error:  # onnxruntime raises a dozen classes of its own
            raise Failed(str(error)) from None

    def run(self, feeds: Mapping[str, Data]) -> dict[str, Data]:
        """All outputs by name."""
        names = [o.name for o in self._session.get_outputs()]
        try:
            return dict(zip(names, self._session.run(names, dict(feeds)), strict=True))
        except Exception as error:  # as above
            raise Failed(str(error)) from None


def true_shapes(results: Mapping[str, Data]) -> dict[str, tuple[int, ...]]:
    """Of the tensors among the results."""
    return {n: tuple(r.shape) for n, r in results.items() if isinstance(r, np.ndarray)}
