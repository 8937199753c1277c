"""Export of a module as by `torch.onnx.export`, with the Python line of each guard."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
import torch

from ..change.generalize.model import generalize
from ..change.verify import verify_exports
from .declared import ExportCall, read_declaration
from .internals import (
    BLAMED,
    TARGET,
    ConstraintViolationError,
    ValueRangeError,
    capture_attempts,
    constraint_error,
    fresh_kernels,
    hooked,
    without_deferring,
)
from .limits import MAX_GUARDS, MAX_MESSAGE
from .places import NOWHERE, Place, SourceOrigin, is_foreign, module_names, place_of


class Watch:
    """While active, records the Python stack of every guard that torch.export creates.

    PyTorch's own record of a guard (`SLoc`) holds only its innermost frame, which is rarely the module's line.
    """

    def __init__(self, module: Any) -> None:
        self._names = module_names(module)
        self._seen: dict[int, tuple[Any, SourceOrigin]] = {}

    def of(self, location: Any) -> SourceOrigin:
        """The origin of a guard of this location, if that was watched."""
        found = self._seen.get(id(location))
        return found[1] if found is not None and found[0] is location else NOWHERE

    def note(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Hook of ``_get_sloc``: the location of a guard, noted."""
        location = make(*args, **kwargs)
        with own_errors():
            self._seen[id(location)] = (location, self._look())
        return location

    def _look(self) -> SourceOrigin:
        """The frames of the module's own code, and the innermost module, from the running stack."""
        frame: Any = sys._getframe(2)
        trace: list[Place] = []
        module, counted = None, 0
        while frame is not None and counted < MAX_GUARDS and frame.f_code is not captured.__code__:
            code = frame.f_code
            if not is_foreign(code.co_filename):
                trace.append(place_of(frame, frame.f_lineno))
            name = self._names.get(id(frame.f_locals.get("self"))) if code.co_name != "_call_impl" else None
            module = module or name
            if name is not None and name[0] == "" and code.co_name == "forward":
                break
            frame, counted = frame.f_back, counted + 1
        return SourceOrigin(tuple(reversed(trace)), *(module or ("", ""))) if trace else NOWHERE


# ---------------------------------------------------------------------- silence


class _Quiet(threading.local):
    """Depth of `quiet` of the running thread."""

    depth = 0


_QUIET = _Quiet()


class _PerThread(type):
    def __subclasscheck__(cls, other: type) -> bool:
        return _QUIET.depth > 0


class _Muted(Warning, metaclass=_PerThread):
    """Category of every warning in a quiet thread, and of none in others."""


class _Silence(logging.Filter):
    """Drops what a quiet thread logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True unless this thread is quiet."""
        return _QUIET.depth == 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress this thread's logs and warnings, and its output unless other threads run."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = {h for logger in loggers for h in getattr(logger, "handlers", ())}
    handlers |= {logging.lastResort} if logging.lastResort is not None else set()
    silence = _Silence()
    if not warnings.filters or warnings.filters[0][2] is not _Muted:
        warnings.simplefilter("ignore", category=_Muted)
    with contextlib.ExitStack() as stack:
        if threading.active_count() == 1:
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        for handler in handlers:
            handler.addFilter(silence)
            stack.callback(handler.removeFilter, silence)
        _QUIET.depth += 1
        try:
            yield
        finally:
            _QUIET.depth -= 1


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
    for compiled in ("_orig_mod", "_torchdynamo_orig_callable"):
        module = getattr(module, compiled, module)
    return module if isinstance(module, torch.nn.Module) else FunctionModule(module)


# ---------------------------------------------------------------------- the capture


@dataclass(frozen=True)
class Captured:
    """The exported program (None if there is none), its watched guards, and the refusal."""

    program: Any
    watch: Watch
    refusal: Exception | None = None


class _Stop(BaseException):
    """Ends an export of torch.onnx, which takes every exception for a reason to try something else."""


class _OwnError(BaseException):
    """Carries an error of this package through code that catches every exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Marks errors of this package inside of calls by PyTorch."""
    try:
        yield
    except Exception as error:
        raise _OwnError(error) from error


@contextlib.contextmanager
def own_errors_raised() -> Iterator[None]:
    """Raises the marked errors of this package as they were."""
    try:
        yield
    except _OwnError as marked:
        raise marked.error from None


def captured(call: ExportCall, *, free: bool = False) -> Captured:
    """The program that `torch.onnx.export` captures of a call, with its own settings.

    If torch.export rejects the declaration, the exporter continues with the suggested one. With fewer dynamic sizes, that
    counts as a failure here. With `free`, a rejection after the trace is returned along with the traced program, and
    conditions on sizes are guards with lines, which the exporter itself turns into assertions of the graph.
    """
    watch = Watch(call.module)
    refusals: list[Exception] = []
    declared = 0 if free else len(read_declaration(call).axes)

    def hold(solve: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            solve(*args, **kwargs)
        except (ConstraintViolationError, ValueRangeError) as error:
            refusals.append(constraint_error(error))

    def refined(refine: Callable[..., Any], message: str, shapes: Any) -> Any:
        error = sys.exc_info()[1]
        refusals.extend([error] if isinstance(error, Exception) else [])
        found = refine(message, shapes)
        with own_errors():
            if len(read_declaration(replace(call, spec=found)).axes) < declared:
                raise _Stop
        return found

    hooks: dict[str, Callable[..., Any]] = {
        "_get_sloc": watch.note,
        "refine_dynamic_shapes_from_suggested_fixes": refined,
    }
    if free:
        hooks |= {"produce_guards_and_solve_constraints": hold, "_export": without_deferring}
    failed: list[Exception] = []
    with own_errors_raised(), quiet(), fresh_kernels(), hooked(**hooks):
        try:
            for program, error in capture_attempts(call.module, call.args, call.kwargs, call.spec):
                if program is not None:
                    return Captured(program, watch, refusals[0] if refusals and free else None)
                failed += [*refusals[:1], *([error] if error is not None else [])]
                refusals.clear()
        except _Stop:
            return Captured(None, watch, refusals[0])
    return Captured(None, watch, failed[0])


# ---------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Written:
    """A written model with its decomposed `program`, or the error of the exporter.

    If the first attempt failed and another did not, it has the error, the model, and the `change` of the call that helped.
    `blamed` is the call that the error names, if it does.
    """

    program: Any = None
    proto: onnx.ModelProto | None = None
    failed: Exception | None = None
    change: str = ""
    blamed: Any = None


_WITHOUT_OPTIMIZER = "write it without the exporter's optimizer: `torch.onnx.export(..., optimize=False)`"
_DECOMPOSED = (
    "decompose the exported program first:"
    " `torch.onnx.export(torch.export.export(...).run_decompositions(), dynamo=True)`"
)


def written(program: Any, opset: int | None) -> Written:
    """The ONNX model of a program, if need be after a change of the call that may help."""
    try:
        return _exported(program, opset)
    except Exception as error:  # whatever the exporter raises is what there is to report
        failed = error
    blamed = next(_blamed_calls(failed), None)
    translated = not isinstance(failed, torch.onnx.OnnxExporterError)  # only the optimizer has other errors
    # a decomposition that failed once fails again, after unrolling what it can: a recurrent layer step by step
    decomposes = (
        blamed is not None
        and blamed.target in torch.export.default_decompositions()
        and not any(frame.f_code.co_name == "run_decompositions" for frame in _frames(failed))
    )
    found = Written(failed=failed, blamed=blamed)
    if not translated and not decomposes:  # the other calls fail in the same way
        return found
    try:
        again = _exported(program, opset, optimize=not translated, decompose=not translated)
    except Exception:  # the first error is the one to report
        return found
    change = _WITHOUT_OPTIMIZER if translated else _DECOMPOSED
    return replace(again, failed=failed, change=change, blamed=blamed)


def _exported(program: Any, opset: int | None, *, optimize: bool = True, decompose: bool = False) -> Written:
    with quiet(), fresh_kernels():
        given = program.run_decompositions() if decompose else program
        found = torch.onnx.export(given, dynamo=True, opset_version=opset, optimize=optimize, verbose=False)
    assert found is not None
    return Written(found.exported_program, found.model_proto)


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _frames(error: BaseException) -> list[Any]:
    """Frames of an error and its causes, innermost last."""
    return [frame for cause in chain(error) for frame, _ in traceback.walk_tb(cause.__traceback__)]


def _blamed_calls(error: BaseException) -> Iterator[Any]:
    """Calls that an exporter's error names directly or by a parameter.

    The programs in the error's frames are searched, decomposed ones first.
    """
    causes = list(chain(error))
    held = (value for frame in reversed(_frames(error)) for value in frame.f_locals.values())
    for program in (value for value in held if isinstance(value, torch.export.ExportedProgram)):
        nodes = {node.name: node for node in program.graph.nodes}
        parameters = {s.target: s.arg.name for s in program.graph_signature.input_specs if s.target}
        for words in (str(cause)[:MAX_MESSAGE] for cause in causes):
            named = (nodes.get(next(filter(None, names))) for names in BLAMED.findall(words))
            yield from (node for node in named if node is not None and node.op == "call_function")
            for target in TARGET.findall(words):
                node = nodes.get(parameters.get(target, ""))
                yield from list(node.users)[:1] if node is not None else ()


# ---------------------------------------------------------------------- one model of several exports


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
