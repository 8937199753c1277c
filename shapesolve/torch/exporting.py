"""The user's call of `torch.onnx.export`, with the Python line of each condition on sizes."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from traceback import walk_stack
from typing import Any

import onnx
import torch

from ..change.generalize.model import generalize
from ..change.verify import verify_exports
from .declared import ExportCall
from .internals import (
    ConstraintViolationError,
    ValueRangeError,
    example_size,
    fresh_kernels,
    guard_text,
    hooked,
    input_shapes,
    original,
    shape_env,
    symbols_of,
)
from .limits import MAX_GUARDS, MAX_UNROLLED
from .places import NOWHERE, SourceOrigin, module_names, origin_of_frames

# ---------------------------------------------------------------------- silence

_QUIET = ContextVar("_QUIET", default=False)


class _WhileQuiet(type):
    def __subclasscheck__(cls, other: type) -> bool:
        return _QUIET.get()


class _Muted(Warning, metaclass=_WhileQuiet):
    """Category of every warning while `quiet`, and of none otherwise."""


def _is_heard(_: logging.LogRecord) -> bool:
    return not _QUIET.get()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress this thread's logs and warnings."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for handler in [logging.lastResort, *(h for logger in loggers for h in getattr(logger, "handlers", ()))]:
        if handler is not None:
            handler.addFilter(_is_heard)  # once: a handler knows its filters
    if not warnings.filters or warnings.filters[0][2] is not _Muted:
        warnings.simplefilter("ignore", category=_Muted)
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


# ---------------------------------------------------------------------- the module


class FunctionModule(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    """A function as a module. The module that a method belongs to is a part of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            self.owner = owner
        self.name = str(getattr(function, "__name__", "function"))
        self.forward = function
        try:
            inspect.signature(function)
        except ValueError:  # a function that is not written in Python
            self.forward = lambda *args, **kwargs: function(*args, **kwargs)


def as_module(module: Any) -> Any:
    """The module to export: the original of a compiled one, and a function as a module."""
    module = original(module)
    return module if isinstance(module, torch.nn.Module) else FunctionModule(module)


# ---------------------------------------------------------------------- the export


class OwnError(BaseException):
    """Carries an error of this package through code of PyTorch that catches every exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Mark errors of this package inside of calls by PyTorch."""
    try:
        yield
    except Exception as error:
        raise OwnError(error) from error


@dataclass(frozen=True)
class Exported:
    """What one call of `torch.onnx.export` left.

    Attributes:
        program: The exported program after decomposition, and `proto` the file; None if the exporter failed.
        graph: The calls of the first trace, before `dynamic_shapes` was compared with it; None if there was none.
        symbols: PyTorch's symbols in that trace (``s27``), by their sources (``L['x'].size()[0]``).
        shapes: The shapes of the inputs in it, by their sources (``L['x']``): numbers, and texts over symbols.
        guards: Its conditions as Python, each with its origin.
        refusal: What torch.export has against the call, even if the exporter continued with other `dynamic_shapes`.
        failed: The exporter's error.
    """

    program: Any = None
    proto: onnx.ModelProto | None = None
    graph: Any = None
    symbols: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    guards: tuple[tuple[str, SourceOrigin], ...] = ()
    refusal: BaseException | None = None
    failed: BaseException | None = None

    @property
    def unwritten(self) -> bool:
        """True if torch.export captured the module, and the exporter failed later."""
        return self.failed is not None and type(self.failed).__name__ != "TorchExportError"


#: a guard that makes a size a number
_FIXED = re.compile(r"\w+ == \d+")


class Unrolled(BaseException):
    """Ends an export that makes a layer over a length that is no plain dim a loop of its steps.

    The loop has the example's number of steps, and PyTorch takes minutes over a hundred of them.
    """

    def __init__(self, origin: SourceOrigin) -> None:
        super().__init__(f"nn.LSTM became a loop, and the export was stopped after {MAX_UNROLLED} steps")
        self.origin = origin


@dataclass
class _Trace:
    """Hooks of one export: record the first trace with the stack of every condition, and the refusal."""

    module: Any
    refusal: BaseException | None = None
    env: Any = None
    graph: Any = None
    noted: list[tuple[Any, str, SourceOrigin]] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.names = module_names(self.module)

    def guard(
        self, log: Callable[..., Any], env: Any, prefix: str, expr: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Hook of a condition on sizes."""
        log(env, prefix, expr, *args, **kwargs)
        if self.env is None and len(self.noted) < MAX_GUARDS and "suppressed" not in prefix:
            with own_errors():
                self.noted.append((env, guard_text(expr), self.look()))

    def solve(self, solve: Callable[..., Any], fake_mode: Any, gm: Any, *args: Any, **kwargs: Any) -> None:
        """Hook of the comparison with ``dynamic_shapes``; its parameters have PyTorch's names."""
        if self.env is None:
            self.env, self.graph = fake_mode.shape_env, gm
        try:
            solve(fake_mode, gm, *args, **kwargs)
        except (ConstraintViolationError, ValueRangeError) as error:
            self.refusal = self.refusal or error
            raise

    def unroll(self, unrolled: Callable[..., Any], inp: Any, *args: Any, **kwargs: Any) -> Any:
        """Hook of a recurrent layer that becomes a loop."""
        length = inp.shape[0]
        # of a call that is refused for a size that became a number, loops of any length count
        lost = self.refusal is not None and any(_FIXED.fullmatch(text) for _, text, _ in self.noted)
        self.steps += length if lost and isinstance(length, int) else example_size(length)
        if self.steps > MAX_UNROLLED:
            raise Unrolled(self.look())
        return unrolled(inp, *args, **kwargs)

    def look(self) -> SourceOrigin:
        """The module's own lines on the running stack, and the innermost module."""
        ends = itertools.takewhile(
            lambda at: at[0].f_code is not exported.__code__, walk_stack(sys._getframe(2))
        )
        return origin_of_frames(ends, self.names)

    def guards(self, env: Any) -> tuple[tuple[str, SourceOrigin], ...]:
        """The conditions on an environment's sizes, the first of each."""
        found: dict[str, SourceOrigin] = {}
        for owner, text, origin in self.noted:
            if owner is env and not found.get(text, NOWHERE):
                found[text] = origin
        return tuple(found.items())


def exported(call: ExportCall, opset: int | None = None) -> Exported:
    """Call `torch.onnx.export` with the arguments of a call."""
    trace = _Trace(call.module)
    made: Any = None
    failed: BaseException | None = None
    with quiet(), fresh_kernels(), hooked(guard=trace.guard, solve=trace.solve, unroll=trace.unroll):
        try:
            made = torch.onnx.export(
                # a dict at the end of its arguments is taken for keyword arguments
                call.module, (*call.args, call.kwargs), dynamic_shapes=call.spec, dynamo=True,
                opset_version=opset, verbose=False,
            )  # fmt: skip
        except OwnError as marked:
            raise marked.error from None
        except (Exception, Unrolled) as error:  # whatever the exporter raises is what there is to report
            failed = error
    program = made.exported_program if made is not None else None
    env = trace.env or (shape_env(program) if program is not None else None)
    graph = trace.graph or (program.graph_module if program is not None else None)
    proto = made.model_proto if made is not None else None
    refusal = trace.refusal
    if failed is not None and refusal is None and type(failed).__name__ == "TorchExportError":
        refusal = failed.__cause__ or failed
    return Exported(
        program, proto, graph, symbols_of(env), input_shapes(env), trace.guards(env), refusal, failed
    )


# ---------------------------------------------------------------------- several exports


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
