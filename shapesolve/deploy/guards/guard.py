"""Guards: the contract as source code or ONNX nodes that check input shapes without this package."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import onnx

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...lower.types import Tensor
from ...model.saving import with_weights
from ...solve.export import outputs_program, shapes_program
from ...solve.program import Program
from ..limits import OLDEST_OPSET

if TYPE_CHECKING:
    from ...expr import Cond, Shape
    from ...solve.languages.language import Language as Written

Language = Literal["python", "cpp"]
#: module of each language
_ROOMS: Mapping[Language, str] = {"python": "python:PYTHON", "cpp": "cpp:CPP"}


@checked
def guard(
    model: Any,
    language: Language = "python",
    *,
    outputs: bool = False,
    assume: str | Cond | Iterable[str | Cond] = (),
    bind: Mapping[str, int] | None = None,
) -> str:
    """Return the source of a function that checks input shapes against a contract and lists broken conditions.

    It has no dependencies, takes the shapes of all inputs by name, and returns the broken conditions as strings; if
    there are none, the model runs. It accepts the same shapes as `Analysis.check_inputs`. Python computes exactly, C++ in
    64 bits: a condition with an overflow counts as broken, and is marked.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        language: ``"python"`` (``check_inputs(shapes)``) or ``"cpp"`` (C++14, a header with ``checked::check_inputs``).
        outputs: Whether to add a function of the same shapes, ``output_shapes``, that returns the output shapes by name.
            It raises ``ValueError`` (``std::invalid_argument``) with the broken conditions. Outputs whose sizes do not
            follow from the input shapes are left out, and listed in a comment.
        assume, bind: Assumptions and sizes, as for `analyze`; the function checks them too.

    Raises:
        ModelError: If the model cannot be read.
        ValueError: If the language is unknown, or the shapes do not determine a size in the contract (for example, if
            an input is declared as ``a*b``).
    """
    if language not in get_args(Language):
        raise ValueError(
            f"unknown language {language!r}; expected one of: {', '.join(get_args(Language))} (for ONNX, use `guarded`)"
        )
    module, _, name = _ROOMS[language].partition(":")
    written: Written = getattr(importlib.import_module(f"...solve.languages.{module}", __package__), name)
    a = _analysis(model, assume, bind)
    return written.source(program_of(a), outputs_of(a) if outputs else None)


@checked
def guarded(
    model: Any, *, assume: str | Cond | Iterable[str | Cond] = (), bind: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """Return a copy of the model with nodes at its start that check its inputs.

    A broken condition fails at a node named after it. The interface is unchanged, and every input waits for the
    checks. Sizes are checked in 64 bits, up to a limit that is itself a condition.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        assume, bind: Assumptions and sizes, as for `analyze`; the nodes check them too.

    Raises:
        ModelError: If the model cannot be read.
        ValueError: As for `guard`, or if the model's opset is older than 7.
    """
    a = _analysis(model, assume, bind)
    return with_weights(guarded_proto(a), a.model)


def guarded_proto(analysis: Analysis) -> onnx.ModelProto:
    """Return the same as `guarded`, for a model whose weights were not loaded."""
    from .graph import put_in_front

    if analysis.model.opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        raise ValueError(f"the model must have opset {OLDEST_OPSET} or later; convert it first")
    copy = onnx.ModelProto()
    copy.CopyFrom(analysis.model.proto)
    put_in_front(copy, program_of(analysis))
    return copy


def program_of(analysis: Analysis) -> Program:
    """Return the checker program of this model's contract."""
    shapes = _declared(analysis)
    return shapes_program(analysis.contract, shapes, [n for n in analysis.inputs if n not in shapes])


def outputs_of(analysis: Analysis) -> Program:
    """Return the program that computes this model's output shapes."""
    outputs = {name: analysis.shapes.get(name) for name, _ in analysis.model.graph.outputs}
    return outputs_program(_declared(analysis), analysis._solved.named_sizes, outputs)


def _declared(analysis: Analysis) -> dict[str, Shape]:
    return {n: k.shape for n, k in analysis.inputs.items() if isinstance(k, Tensor) and k.shape is not None}


def _analysis(
    model: Any, assume: str | Cond | Iterable[str | Cond], bind: Mapping[str, int] | None
) -> Analysis:
    if isinstance(model, Analysis):
        if assume or bind:
            raise ValueError("assume and bind are options of `analyze`, but the model is already analyzed")
        return model
    return analyze(model, assume=assume, bind=bind)
