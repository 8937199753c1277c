"""Guards: the contract as source code or ONNX nodes that check input shapes without this package."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import onnx

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..lower.types import Tensor
from ..model.saving import with_weights
from ..solve.export import outputs_program, shapes_program
from ..solve.program import Program
from .limits import OLDEST_OPSET

if TYPE_CHECKING:
    from ..expr import Cond, Shape
    from ..solve.languages.language import Language as Written

Language = Literal["python", "cpp", "js"]
#: modules of the languages
_ROOMS: Mapping[Language, str] = {
    "python": "python:PYTHON", "cpp": "cpp:CPP", "js": "javascript:JAVASCRIPT",
}  # fmt: skip


@checked
def guard(
    model: Any,
    language: Language = "python",
    *,
    outputs: bool = False,
    assume: str | Cond | Iterable[str | Cond] = (),
    bind: Mapping[str, int] | None = None,
) -> str:
    """Source of a function that checks input shapes against a contract and names broken conditions.

    It has no dependencies, takes the shapes of all inputs by name, and returns the broken conditions as texts; when there
    are none, the model runs. It accepts what `Analysis.check_inputs` accepts. C++ computes in 64 bits: a condition in which a
    number does not fit counts as broken, and is marked; Python and JavaScript compute exactly.

    Args:
        model: what `analyze` takes, or an `Analysis`.
        language: ``"python"`` (``check_inputs(shapes)``), ``"cpp"`` (C++14, a header with ``checked::check_inputs``),
            or ``"js"`` (a module that exports ``checkInputs``).
        outputs: also a function of the same shapes that returns those of the outputs by name: ``output_shapes``, in JavaScript
            ``outputShapes``. It raises ``ValueError`` (``std::invalid_argument``, ``RangeError``) with the broken conditions.
            Outputs whose sizes do not follow from the shapes of the inputs are left out, and a comment names them.
        assume, bind: as for `analyze`; what you state is checked, too.

    Raises:
        ModelError: the model cannot be read.
        ValueError: there is no such language, or the shapes do not determine a size that the contract speaks of (as where an
            input is declared as ``a*b``).
    """
    if language not in get_args(Language):
        raise ValueError(
            f"there is no language {language!r}; there are {', '.join(get_args(Language))}, and `guarded`"
        )
    module, _, name = _ROOMS[language].partition(":")
    written: Written = getattr(importlib.import_module(f"..solve.languages.{module}", __package__), name)
    a = _analysis(model, assume, bind)
    return written.source(program_of(a), outputs_of(a) if outputs else None)


@checked
def guarded(
    model: Any, *, assume: str | Cond | Iterable[str | Cond] = (), bind: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """A copy of the model with nodes at its start that check its inputs. A broken condition fails at a node named after it.

    Inputs and outputs stay as they are. Every input waits for the checks. Sizes are checked in 64 bits, up to a limit that is
    a condition of its own.

    Args:
        model: what `analyze` takes, or an `Analysis`.
        assume, bind: as for `analyze`; what you state is checked, too.

    Raises:
        ModelError: the model cannot be read.
        ValueError: as for `guard`, or the model's opset is older than 7.
    """
    a = _analysis(model, assume, bind)
    return with_weights(guarded_proto(a), a.model)


def guarded_proto(analysis: Analysis) -> onnx.ModelProto:
    """`guarded`, for a model whose weights were left in its file."""
    from .guard_graph import put_in_front

    if analysis.model.opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        raise ValueError(f"the model's opset is older than {OLDEST_OPSET}: convert it first")
    copy = onnx.ModelProto()
    copy.CopyFrom(analysis.model.proto)
    put_in_front(copy, program_of(analysis))
    return copy


def program_of(analysis: Analysis) -> Program:
    """The checker program for this model's contract."""
    shapes = _declared(analysis)
    return shapes_program(analysis.contract, shapes, [n for n in analysis.inputs if n not in shapes])


def outputs_of(analysis: Analysis) -> Program:
    """The program that computes this model's output shapes."""
    outputs = {name: analysis.shapes.get(name) for name, _ in analysis.model.graph.outputs}
    return outputs_program(_declared(analysis), analysis._solved.named_sizes, outputs)


def _declared(analysis: Analysis) -> dict[str, Shape]:
    return {n: k.shape for n, k in analysis.inputs.items() if isinstance(k, Tensor) and k.shape is not None}


def _analysis(
    model: Any, assume: str | Cond | Iterable[str | Cond], bind: Mapping[str, int] | None
) -> Analysis:
    if isinstance(model, Analysis):
        if assume or bind:
            raise ValueError("assume and bind are for `analyze`: the model is analyzed already")
        return model
    return analyze(model, assume=assume, bind=bind)
