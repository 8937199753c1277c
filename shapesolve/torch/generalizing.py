"""One dynamic model of a module: exported once for each example, at fixed sizes, and generalized."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..dynamic.free_verify import verify_exports
from ..dynamic.generalize_model import generalize

if TYPE_CHECKING:
    import onnx


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
    exports = [_exported(module, example, options) for example in examples]
    made = generalize(exports, names)
    if verify:
        verify_exports(exports, made)
    return made


def _exported(
    module: torch.nn.Module, example: tuple[Any, ...], options: Mapping[str, Any]
) -> onnx.ModelProto:
    told = io.StringIO()  # exporters print
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        program = torch.onnx.export(module, example, **{"dynamo": True, "verbose": False, **options})
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    return proto


__all__ = ["dynamic"]
