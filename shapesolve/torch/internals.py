"""Everything of PyTorch that is not public: its hooks, its private names, and the forms of its messages.

Functions of PyTorch are wrapped once, when this module is imported. A wrapper does something only in a thread in which a check
has set a hook. `missing_lines` tests at first use what still works with the PyTorch that is installed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.export import _trace, dynamic_shapes
from torch.export.dynamic_shapes import _combine_args as combine_args
from torch.export.dynamic_shapes import _tree_map_with_path as tree_map_with_path
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv
from torch.onnx._internal.exporter import _capture_strategies, _flags
from torch.onnx.errors import OnnxExporterError
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRangeError

__all__ = [
    "ConstraintViolationError", "OnnxExporterError", "TorchDispatchMode", "UserError", "UserErrorType", "ValueRangeError",
    "combine_args", "pytree", "tree_map_with_path",
]  # fmt: skip

# ---------------------------------------------------------------------- hooks of one thread


class _State(threading.local):
    """Hooks by the name of the wrapped function, and the depth of `quiet`, of the running thread."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}
        self.quiet = 0


_STATE = _State()
#: functions of PyTorch that hooks are for, and what is missing from reports if one of them is gone
_WRAPPED: dict[str, tuple[Any, str]] = {
    "_get_sloc": (ShapeEnv, "lines of guards"),
    "_export": (_trace, "lines of conditions that the exporter defers"),
    "produce_guards_and_solve_constraints": (_trace, "conditions of a refused declaration"),
    "refine_dynamic_shapes_from_suggested_fixes": (dynamic_shapes, "refusals that the exporter works around"),
}


def _wrap(owner: Any, name: str) -> bool:
    """Wrap a function of PyTorch. False if there is no such function."""
    original = getattr(owner, name, None)
    if original is None:
        return False

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        hook = _STATE.hooks.get(name)
        return original(*args, **kwargs) if hook is None else hook(original, *args, **kwargs)

    setattr(owner, name, wrapper)
    return True


_GONE = [name for name, (owner, _) in _WRAPPED.items() if not _wrap(owner, name)]


@contextlib.contextmanager
def hooked(**hooks: Callable[..., Any]) -> Iterator[None]:
    """Call hooks instead of functions of PyTorch, in this thread only. A hook gets the function and its arguments."""
    before = _STATE.hooks
    _STATE.hooks = {**before, **hooks}
    try:
        yield
    finally:
        _STATE.hooks = before


def without_deferring(export: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Hook of ``_export``: conditions on sizes become guards, not assertions of the graph."""
    return export(*args, **{**kwargs, "prefer_deferred_runtime_asserts_over_guards": False})


class _PerThread(type):
    def __subclasscheck__(cls, other: type) -> bool:
        return _STATE.quiet > 0


class _Muted(Warning, metaclass=_PerThread):
    """Category of every warning in a quiet thread, and of none in others."""


class _Silence(logging.Filter):
    """Drops what a quiet thread logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged."""
        return _STATE.quiet == 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress what this thread logs and warns of, and what it prints unless other threads run."""
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
        _STATE.quiet += 1
        try:
            yield
        finally:
            _STATE.quiet -= 1


# ---------------------------------------------------------------------- exports


def capture_attempts(
    module: Any, args: Any, kwargs: Any, spec: Any
) -> Iterator[tuple[Any, Exception | None]]:
    """The programs that `torch.onnx.export` tries to capture, with the error of each attempt."""
    run = _flags.set_onnx_exporting_flag(lambda strategy: strategy(verbose=False)(module, args, kwargs, spec))
    for strategy in _capture_strategies.CAPTURE_STRATEGIES:
        result = run(strategy)
        yield result.exported_program, result.exception


@contextlib.contextmanager
def fresh_kernels() -> Iterator[None]:
    """Clear PyTorch's cached kernels of recurrent layers before an export and after it.

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


def shape_env(program: Any) -> Any:
    """The symbolic environment of an `ExportedProgram`, or None when nothing in it is dynamic."""
    modes = (getattr(node.meta.get("val"), "fake_mode", None) for node in program.graph.nodes)
    envs = (getattr(mode, "shape_env", None) for mode in modes)
    return next((env for env in envs if env is not None), None)


def guards_of(program: Any) -> list[tuple[str, Any]]:
    """The guards of a program as Python, each with its location."""
    return [(_text(g.expr), getattr(g, "sloc", None)) for g in getattr(shape_env(program), "guards", ())]


def symbols_of(program: Any) -> Iterator[tuple[str, str]]:
    """The symbols of a program (``s27``), each with its sources (``L['x'].size()[0]``)."""
    for symbol, sources in getattr(shape_env(program), "var_to_sources", {}).items():
        yield from ((str(symbol), source.name) for source in sources)


def is_number(size: Any) -> bool:
    """True if a size of a program is a number, or a symbol with one value."""
    return isinstance(size, int) or size.node.maybe_as_int() is not None


def _text(expr: Any) -> str:
    try:
        return str(PythonPrinter().doprint(expr))
    except Exception:  # a printer without a rule for some function; its plain form is shown instead
        return str(expr)


# ---------------------------------------------------------------------- forms of texts

#: metadata of a node of a written model
METADATA = "pkg.torch.onnx."
#: standing advice on logging, sentence by sentence
NOISE = re.compile(
    r"[ \t]*(For more information, run with|For extended logs|If you suspect the guard|For more debugging help"
    r"|For C\+\+ stack trace|The error above occurred when calling)[^\n]*"
)
#: the condition that data decides
DATA_DEPENDENT = re.compile(r"data-dependent expression ([^\n]*?)(?: \(unhinted|\.|$)")
#: the call that has no ONNX, in two forms of torch.onnx
UNWRITTEN = (
    re.compile(r"node target is <[^>]*?'?([\w.:]+)'?"),
    re.compile(r"function (?:found )?for (?:<OpOverload\(op=)?'?([\w.:]+)"),
)
#: names of calls in the exporter's errors: the first two of torch.onnx, the last of onnxscript's optimizer
BLAMED = re.compile(r"translating node %(\w+)|%(\w+) :|for node '(?:node_)?(\w+)'")
#: names of parameters in the exporter's errors
TARGET = re.compile(r"target ([\w.]+)")

# ---------------------------------------------------------------------- the test at first use


class _Probe(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    def forward(self, x: Any) -> Any:
        return x + 1 if x.shape[1] % 2 == 0 else x


@functools.cache
def missing_lines() -> Sequence[str]:
    """Line information that reports lack with this PyTorch, by a small export; empty if none is missing."""
    missing = [_WRAPPED[name][1] for name in _GONE]
    noted: list[Any] = []
    guards: list[tuple[str, Any]] = []
    stacks: list[str] = []
    spec = {"x": {1: dynamic_shapes.Dim.AUTO}}

    def note(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        noted.append(make(*args, **kwargs))
        return noted[-1]

    # a failed export finds nothing, so every kind of line is then reported as missing
    with quiet(), contextlib.suppress(Exception), hooked(_get_sloc=note, _export=without_deferring):
        program = next(
            p for p, _ in capture_attempts(_Probe(), (torch.zeros(2, 4),), {}, spec) if p is not None
        )
        guards = guards_of(program)
        stacks = [n.meta.get("stack_trace") or "" for n in program.graph.nodes if n.op == "call_function"]
    if not any(location is found for _, location in guards for found in noted):
        missing.append(_WRAPPED["_get_sloc"][1])
    if not any("internals.py" in stack for stack in stacks):
        missing.append("lines of calls")
    return tuple(dict.fromkeys(missing))
