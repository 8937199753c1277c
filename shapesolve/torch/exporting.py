"""Exports a module as `torch.onnx.export` does, and notes the Python line of each guard."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import onnx
import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.export import _trace, dynamic_shapes
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv
from torch.onnx import _flags as onnx_flags
from torch.onnx._internal.exporter import _capture_strategies, _flags
from torch.onnx.errors import OnnxExporterError
from torch.utils._sympy.value_ranges import ValueRangeError

from ..dynamic.generalize_model import generalize
from ..dynamic.verify import verify_exports
from .declared import ExportCall, read_declaration
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

    @contextlib.contextmanager
    def active(self) -> Iterator[Watch]:
        """Watch inside of a ``with`` block."""
        make = ShapeEnv._get_sloc

        def noting(env: Any, *args: Any, **kwargs: Any) -> Any:
            location = make(env, *args, **kwargs)
            with own_errors():
                self._seen[id(location)] = (location, self._look())
            return location

        with patch.object(ShapeEnv, "_get_sloc", noting):
            yield self

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


#: functions of PyTorch are replaced by one thread at a time, and for this thread only: the others find them as they were
_REPLACING = threading.RLock()


def captured(call: ExportCall, *, free: bool = False) -> Captured:
    """The program that `torch.onnx.export` captures of a call, with its own settings.

    After a refusal the exporter goes on with the declaration that the refusal suggests. With fewer dynamic sizes that is no
    success here. With `free` a refusal that comes after the trace stands beside the program that was traced, and conditions
    on sizes are guards, with their lines, where the exporter makes them assertions of the graph.
    """
    watch = Watch(call.module)
    refusals: list[Exception] = []
    refine, mine = dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes, threading.get_ident()
    hold = _trace.produce_guards_and_solve_constraints
    deferred = onnx_flags.PREFER_DEFERRED_RUNTIME_ASSERTS_OVER_GUARDS
    declared = 0 if free else len(read_declaration(call).axes)

    def holding(*args: Any, **kwargs: Any) -> None:
        try:
            hold(*args, **kwargs)
        except (ConstraintViolationError, ValueRangeError) as error:
            if not free or threading.get_ident() != mine:
                raise
            refusals.append(UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error)))
            refusals[-1].__cause__ = error

    def refined(message: str, shapes: Any) -> Any:
        if threading.get_ident() != mine:
            return refine(message, shapes)
        error = sys.exc_info()[1]
        refusals.extend([error] if isinstance(error, Exception) else [])
        found = refine(message, shapes)
        with own_errors():
            if len(read_declaration(replace(call, spec=found)).axes) < declared:
                raise _Stop
        return found

    def run() -> Captured:
        failed: list[Exception] = []
        for strategy in _capture_strategies.CAPTURE_STRATEGIES:
            refusals.clear()
            result = strategy(verbose=False)(call.module, call.args, call.kwargs, call.spec)
            if result.exported_program is not None:
                return Captured(result.exported_program, watch, refusals[0] if refusals and free else None)
            failed += [*refusals[:1], result.exception]
        return Captured(None, watch, failed[0])

    with (
        own_errors_raised(),
        _REPLACING,
        quiet(),
        watch.active(),
        _fresh_kernels(),
        patch.object(dynamic_shapes, "refine_dynamic_shapes_from_suggested_fixes", refined),
        patch.object(_trace, "produce_guards_and_solve_constraints", holding),
        patch.object(onnx_flags, "PREFER_DEFERRED_RUNTIME_ASSERTS_OVER_GUARDS", deferred and not free),
    ):
        try:
            found: Captured = _flags.set_onnx_exporting_flag(run)()
        except _Stop:
            return Captured(None, watch, refusals[0])
    return found


@contextlib.contextmanager
def _fresh_kernels() -> Iterator[None]:
    """Clears PyTorch's cached kernels of recurrent layers before an export and after it.

    `torch.onnx.export` traces them as loops of any length, unless an export before has cached the unrolled kernel.
    """
    caches = [getattr(op.input, "_dispatch_cache", {}) for op in (torch.ops.aten.lstm, torch.ops.aten.gru)]
    try:
        for cache in caches:
            cache.clear()
        yield
    finally:
        for cache in caches:
            cache.clear()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses what the exporters print and log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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
    decomposes = blamed is not None and blamed.target in torch.export.default_decompositions()
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
    with quiet(), _fresh_kernels():
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


def _blamed_calls(error: BaseException) -> Iterator[Any]:
    """Calls that an exporter's error names, by their own name or by that of a parameter.

    They are searched in the programs that the frames of the error hold, decomposed ones first.
    """
    causes = list(chain(error))
    frames = [frame for cause in causes for frame, _ in traceback.walk_tb(cause.__traceback__)]
    held = (value for frame in reversed(frames) for value in frame.f_locals.values())
    for program in (value for value in held if isinstance(value, torch.export.ExportedProgram)):
        nodes = {node.name: node for node in program.graph.nodes}
        parameters = {s.target: s.arg.name for s in program.graph_signature.input_specs if s.target}
        for words in (str(cause)[:MAX_MESSAGE] for cause in causes):
            named = (nodes.get(next(filter(None, names))) for names in _BLAMED.findall(words))
            yield from (node for node in named if node is not None and node.op == "call_function")
            for target in re.findall(r"target ([\w.]+)", words):
                node = nodes.get(parameters.get(target, ""))
                yield from list(node.users)[:1] if node is not None else ()


#: names of calls in the exporter's errors: the first two of torch.onnx, the last of onnxscript's optimizer
_BLAMED = re.compile(r"translating node %(\w+)|%(\w+) :|for node '(?:node_)?(\w+)'")


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
        with quiet(), _fresh_kernels():
            program = torch.onnx.export(module, example, **{"dynamo": True, "verbose": False, **options})
        assert program is not None
        exports.append(program.model_proto)
    made = generalize(exports, names)
    if verify:
        verify_exports(exports, made)
    return made
