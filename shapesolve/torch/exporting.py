"""Exports a module as `torch.onnx.export` does, and notes the Python line of each guard."""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
import torch

from ..dynamic.generalize_model import generalize
from ..dynamic.verify import verify_exports
from .declared import ExportCall, read_declaration
from .internals import (
    BLAMED,
    TARGET,
    ConstraintViolationError,
    OnnxExporterError,
    UserError,
    UserErrorType,
    ValueRangeError,
    capture_attempts,
    fresh_kernels,
    hooked,
    quiet,
    without_deferring,
)
from .limits import MAX_GUARDS, MAX_MESSAGE
from .places import NOWHERE, Place, SourceOrigin, is_foreign, module_names, place_of


class Watch:
    """Records the Python stack of every guard that torch.export makes while active.

    PyTorch keeps only the innermost frame of its own code with a guard (`SLoc`), which is seldom the module's line.
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

    After a refusal the exporter goes on with the declaration that the refusal suggests. With fewer dynamic sizes that is no
    success here. With `free` a refusal that comes after the trace stands beside the program that was traced, and conditions
    on sizes are guards, with their lines, where the exporter makes them assertions of the graph.
    """
    watch = Watch(call.module)
    refusals: list[Exception] = []
    declared = 0 if free else len(read_declaration(call).axes)

    def hold(solve: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            solve(*args, **kwargs)
        except (ConstraintViolationError, ValueRangeError) as error:
            refusals.append(UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error)))
            refusals[-1].__cause__ = error

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
    translated = not isinstance(failed, OnnxExporterError)  # only the optimizer has other errors
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
    """Calls that an exporter's error names, by their own name or by that of a parameter.

    They are searched in the programs that the frames of the error hold, decomposed ones first.
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


class Files:
    """Writes programs as ONNX. Programs with the same calls on inputs of the same shapes share a file."""

    def __init__(self, opset: int | None = None) -> None:
        self.opset = opset
        self._known: dict[str, Written] = {}

    def of(self, program: Any) -> Written:
        """The file of a program."""
        key = _calls(program)
        if key not in self._known:
            self._known[key] = written(program, self.opset)
        return self._known[key]


def _calls(program: Any) -> str:
    """The inputs and calls of a program without its checks, with numbers for symbols."""
    graph = copy.deepcopy(program.graph)
    graph.eliminate_dead_code(_keeps)
    values = (node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder")
    shapes = [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
    symbols: dict[str, str] = {}
    return _SYMBOL.sub(lambda m: symbols.setdefault(m[0], f"s{len(symbols)}"), f"{shapes} {graph}")


_SYMBOL = re.compile(r"\b[su]\d+\b")


def _keeps(node: Any) -> bool:
    """True if dead-code removal must keep the node: it is no call, or its operator mutates."""
    return node.op != "call_function" or getattr(getattr(node.target, "_schema", None), "is_mutable", False)


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
