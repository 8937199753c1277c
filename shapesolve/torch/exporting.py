"""Exporting in memory, with an eye on where torch.export makes its guards."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch._guards import TracingContext
from torch.export import Dim as TorchDim
from torch.export import _trace, dynamic_shapes
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv
from torch.utils._sympy.value_ranges import ValueRangeError

from .declared import read_declaration
from .places import NOWHERE, Origin, Place, is_foreign

_MAX_FRAMES = 2000


@dataclass(frozen=True, slots=True)
class Seen:
    """Origin of a guard, and if the module's own code asked for it (not an operator of PyTorch)."""

    origin: Origin
    asked: bool


class Watch:
    """Remembers the Python stack at every guard that torch.export makes while it is active.

    PyTorch keeps only the innermost frame of its own code with a guard (`SLoc`), which is seldom the module's line.
    """

    def __init__(self, module: Any) -> None:
        self._names = {id(m): (name, type(m).__qualname__) for name, m in _named_modules(module)}
        self._seen: dict[int, tuple[Any, Seen]] = {}

    def of(self, location: Any) -> Seen | None:
        """The record made when PyTorch created this location, if that was watched."""
        found = self._seen.get(id(location))
        return found[1] if found is not None and found[0] is location else None

    @contextlib.contextmanager
    def active(self) -> Iterator[Watch]:
        """Watch inside of a ``with`` block."""
        make = getattr(ShapeEnv, "_get_sloc", None)
        if make is None:  # another version of PyTorch: guards are reported without their lines
            yield self
            return

        def noting(env: Any, *args: Any, **kwargs: Any) -> Any:
            location = make(env, *args, **kwargs)
            self._seen[id(location)] = (location, self._look())
            return location

        ShapeEnv._get_sloc = noting
        try:
            yield self
        finally:
            ShapeEnv._get_sloc = make

    def _look(self) -> Seen:
        """The frames of the module's own code, and the innermost module, from the running stack."""
        frame: Any = sys._getframe(2)
        trace: list[Place] = []
        module, asked, counted = None, None, 0
        while frame is not None and counted < _MAX_FRAMES:
            code = frame.f_code
            if code is export_program.__code__:
                break
            if not is_foreign(code.co_filename):
                trace.append(
                    Place(code.co_filename, frame.f_lineno, code.co_name, _line(code.co_filename, frame))
                )
            if asked is None and not _is_plumbing(code.co_filename):
                asked = not is_foreign(code.co_filename)
            name = self._names.get(id(frame.f_locals.get("self"))) if code.co_name != "_call_impl" else None
            if name is not None:
                module = module or name
                if name[0] == "" and code.co_name == "forward":
                    break
            frame, counted = frame.f_back, counted + 1
        trace = _dynamo_stack() or trace[::-1]
        path, kind = module or ("", "")
        return Seen(Origin(tuple(trace), path, kind) if trace else NOWHERE, bool(asked))


def _dynamo_stack() -> list[Place]:
    """The module's own lines when TorchDynamo traces (``strict=True``): it runs no frames of the module."""
    frames = TracingContext.extract_stack() or ()
    return [
        p
        for p in (Place(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames)
        if not is_foreign(p.file)
    ]


def _named_modules(module: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(module, torch.nn.Module):
        yield from module.named_modules()


def _is_plumbing(file: str) -> bool:
    """Frames between a size and whoever asks for it: symbolic integers and their environment."""
    return file.endswith(
        (
            "symbolic_shapes.py",
            "sym_node.py",
            "torch/__init__.py",
            "recording.py",
            "torch/torch.py",
            "exporting.py",
        )
    ) or file.startswith("<")


def _line(file: str, frame: Any) -> str:
    import linecache

    return linecache.getline(file, frame.f_lineno, frame.f_globals).strip()


# ---------------------------------------------------------------------- dynamic_shapes


def mapped(spec: Any, change: Callable[[Any], Any]) -> Any:
    """``dynamic_shapes`` with every entry changed, its structure kept."""
    if isinstance(spec, dict):
        return {key: mapped(value, change) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)([mapped(value, change) for value in spec])
    return change(spec)


def named(spec: Any) -> Any:
    """Names as text (which torch.onnx takes) made dims (which torch.export takes)."""
    return mapped(spec, lambda entry: TorchDim(entry) if isinstance(entry, str) else entry)


def relaxed(spec: Any) -> Any:
    """Every dynamic entry left to torch.export, so that it says what came out instead of refusing."""
    return mapped(spec, _relaxed)


def _relaxed(entry: Any) -> Any:
    dynamic = isinstance(entry, (str, TorchDim)) and not hasattr(entry, "value")
    return (
        TorchDim.AUTO if dynamic or getattr(getattr(entry, "type", None), "name", "") == "DYNAMIC" else entry
    )


# ---------------------------------------------------------------------- exports


def export_program(
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    *,
    strict: bool,
    watch: Watch,
) -> Any:
    """`torch.export.export`, quietly and watched."""
    with quiet(), watch.active(), fresh_kernels():
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)


@contextlib.contextmanager
def fresh_kernels() -> Iterator[None]:
    """PyTorch's cached choice of kernels for recurrent layers, dropped before a trace and behind it.

    `torch.onnx.export` traces them as loops of any length, unless an export before has cached the unrolled kernel.
    """
    caches = [getattr(op.input, "_dispatch_cache", None) for op in (torch.ops.aten.lstm, torch.ops.aten.gru)]
    try:
        for cache in caches:
            if cache is not None:
                cache.clear()
        yield
    finally:
        for cache in caches:
            if cache is not None:
                cache.clear()


def export_onnx(program: Any, opset: int | None = None, *, optimize: bool = True) -> Any:
    """The `ONNXProgram` of an `ExportedProgram`, made by the exporter that `torch.onnx.export` uses."""
    with quiet():
        return torch.onnx.export(program, dynamo=True, opset_version=opset, optimize=optimize, verbose=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporters print; what matters comes as an exception or is in the model."""
    loggers = [
        logging.getLogger(name)
        for name in ("torch", "torch.onnx", "torch.export", "torch._export", "onnxscript")
    ]
    before = [(logger, logger.level, logger.disabled) for logger in loggers]
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.disabled = True
                logger.setLevel(logging.CRITICAL)
            yield
    finally:
        for logger, level, disabled in before:
            logger.setLevel(level)
            logger.disabled = disabled


#: functions of PyTorch are replaced by one thread at a time, and for this thread only: the others find them as they were
_REPLACING = threading.RLock()


@contextlib.contextmanager
def forgiving() -> Iterator[list[Exception]]:
    """Collects torch.export's errors about declared dims after a trace, and lets the export go on.

    So the program that it traced can be looked at. With another PyTorch, and with TorchDynamo, it raises as ever.
    """
    kept: list[Exception] = []
    if not hasattr(_trace, "produce_guards_and_solve_constraints"):
        yield kept
        return
    _REPLACING.acquire()
    make, mine = _trace.produce_guards_and_solve_constraints, threading.get_ident()

    def keeping(*args: Any, **kwargs: Any) -> None:
        try:
            make(*args, **kwargs)
        except (ConstraintViolationError, ValueRangeError) as error:
            if threading.get_ident() != mine:
                raise
            refusal = UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error))
            refusal.__cause__ = error
            kept.append(refusal)

    _trace.produce_guards_and_solve_constraints = keeping
    try:
        yield kept
    finally:
        _trace.produce_guards_and_solve_constraints = make
        _REPLACING.release()


class Narrowed(Exception):
    """torch.onnx.export refuses a declaration, and goes on with declared sizes as numbers."""


class _Stop(BaseException):
    """Ends an export of torch.onnx, which takes every exception for a reason to try something else."""


def captured_by_exporter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> Any:
    """The program that `torch.onnx.export` itself captures of a module, with its own settings.

    Raises `Narrowed` as soon as it gives up declared sizes, and else what it raises.
    """
    from torch.onnx._internal.exporter import _capture_strategies, _flags

    declared = len(read_declaration(module, args, kwargs, spec).axes)
    _REPLACING.acquire()
    refine, mine = dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes, threading.get_ident()

    def refined(message: str, shapes: Any) -> Any:
        found = refine(message, shapes)
        if threading.get_ident() != mine:
            return found
        if len(read_declaration(module, args, kwargs, found).axes) < declared:
            raise _Stop
        return found

    def captured() -> Any:
        failed: list[Exception] = []
        for strategy in _capture_strategies.CAPTURE_STRATEGIES:
            result = strategy(verbose=False)(module, args, kwargs, spec)
            if result.exported_program is not None:
                return result.exported_program
            failed.append(result.exception)
        raise failed[0]

    dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes = refined
    try:
        with quiet(), fresh_kernels():
            return _flags.set_onnx_exporting_flag(captured)()
    except _Stop:
        raise Narrowed from None
    finally:
        dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes = refine
        _REPLACING.release()
