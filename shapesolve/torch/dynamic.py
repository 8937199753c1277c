"""One model of several exports of a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
import torch

from ..change.generalize.model import generalize
from ..change.verify import verify_exports
from .exporting import quiet
from .internals import fresh_kernels


def dynamic(
    module: torch.nn.Module,
    examples: Iterable[tuple[Any, ...]],
    names: Mapping[str, str] | None = None,
    *,
    verify: bool = True,
    **options: Any,
) -> onnx.ModelProto:
    """A dynamic model of a module whose export bakes sizes, inferred from two or more exports.

    Args:
        module: as for `torch.onnx.export`.
        examples: positional arguments, of another size each: two or more.
        names: for each input axis that differs the name of its size, ``{"x[1]": "seq"}`` (see `shapesolve.generalize`).
        verify: run the model and each export with onnxruntime, and compare.
        options: further arguments of `torch.onnx.export`, such as `input_names` or `opset_version`.

    Raises:
        Refused: the exports do not show one model, or it computes something else.
    """
    exports = []
    for example in examples:
        with quiet(), fresh_kernels():
            program = torch.onnx.export(module, example, **{"dynamo": True, "verbose": False, **options})
        assert program is not None
        exports.append(program.model_proto)
    made = generalize(exports, names)
    if verify:
        verify_exports(exports, made)
    return made
