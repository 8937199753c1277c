"""Everything of PyTorch that is not public: its hooks, its private names, and the forms of its messages.

A release of PyTorch may lack any of it. Reports then say which line information is missing (`missing_lines`).
"""

from __future__ import annotations

import contextlib
import functools
import pkgutil
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import Dim

# ---------------------------------------------------------------------- private names

_MISSING: list[str] = []  # line information that reports lack


def _private(path: str, lost: str = "", default: Any = None) -> Any:
    """Import a private name of PyTorch. Without it, reports lack what is `lost`, and the default takes its place.

    Raises:
        ImportError: If nothing works without the name.
    """
    try:
        return pkgutil.resolve_name(f"torch.{path}")
    except (ImportError, AttributeError) as error:
        if not lost:
            raise ImportError(
                f"shapesolve.torch does not support torch {torch.__version__}: {error}"
            ) from error
        _MISSING.append(lost)
        return default


class _Never(Exception):
    """Stands for an exception that this PyTorch does not have."""


_REFUSALS = "conditions of a refused declaration"
pytree = _private("utils._pytree")
tree_map_with_path = _private("export.dynamic_shapes._tree_map_with_path")
TorchDispatchMode = _private("utils._python_dispatch.TorchDispatchMode")
UserError = _private("_dynamo.exc.UserError", _REFUSALS, _Never)
ConstraintViolationError = _private(
    "fx.experimental.symbolic_shapes.ConstraintViolationError", _REFUSALS, _Never
)
ValueRangeError = _private("utils._sympy.value_ranges.ValueRangeError", _REFUSALS, _Never)
_UserErrorType = _private("_dynamo.exc.UserErrorType", _REFUSALS)
_Printer = _private("utils._sympy.printers.PythonPrinter", "the Python form of guards", object)
_strategies = _private("onnx._internal.exporter._capture_strategies", "the exporter's further attempts")
_exporting = _private(
    "onnx._internal.exporter._flags.set_onnx_exporting_flag", "the exporter's own settings", lambda run: run
)


def constraint_error(error: Exception) -> Exception:
    """The error that torch.export would raise for a violated constraint."""
    if UserError is _Never or _UserErrorType is None:
        return error
    made: Exception = UserError(_UserErrorType.CONSTRAINT_VIOLATION, str(error))
    made.__cause__ = error
    return made


# ---------------------------------------------------------------------- hooks of one thread

#: functions of PyTorch that hooks are for: the owner, and what reports lack without the function
_HOOKED = {
    "_get_sloc": ("fx.experimental.symbolic_shapes.ShapeEnv", "lines of guards"),
    "_export": ("export._trace", "lines of conditions that the exporter defers"),
    "produce_guards_and_solve_constraints": ("export._trace", _REFUSALS),
    "refine_dynamic_shapes_from_suggested_fixes": ("export.dynamic_shapes", "refusals that the exporter works around"),
}  # fmt: skip


class _State(threading.local):
    """The running thread's hooks, by the name of the wrapped function."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}


_STATE = _State()


def _wrap(name: str) -> None:
    """Wrap a function of PyTorch. The wrapper calls it unless the running thread has a hook for it.

    This is done once, not for each check: other threads must not see a function change while a check runs.
    """
    path, lost = _HOOKED[name]
    owner = _private(path, lost)
    original = getattr(owner, name, None)
    if original is None:
        _MISSING.append(lost)
        return

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        hook = _STATE.hooks.get(name)
        return original(*args, **kwargs) if hook is None else hook(original, *args, **kwargs)

    setattr(owner, name, wrapper)


for _name in _HOOKED:
    _wrap(_name)


@contextlib.contextmanager
def hooked(**hooks: Callable[..., Any]) -> Iterator[None]:
    """Call hooks instead of PyTorch's functions in this thread. A hook gets the function and its arguments."""
    before = _STATE.hooks
    _STATE.hooks = {**before, **hooks}
    try:
        yield
    finally:
        _STATE.hooks = before


def without_deferring(export: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Hook of ``_export``: conditions on sizes become guards, not assertions of the graph."""
    return export(*args, **{**kwargs, "prefer_deferred_runtime_asserts_over_guards": False})


# ---------------------------------------------------------------------- exports


def capture_attempts(
    module: Any, args: Any, kwargs: Any, spec: Any
) -> Iterator[tuple[Any, Exception | None]]:
    """The programs that `torch.onnx.export` tries to capture, with the error of each attempt."""
    if _strategies is None:
        yield torch.export.export(module, args, kwargs, dynamic_shapes=spec, strict=False), None
    run = _exporting(lambda strategy: strategy(verbose=False)(module, args, kwargs, spec))
    for strategy in getattr(_strategies, "CAPTURE_STRATEGIES", ()):
        result = run(strategy)
        yield result.exported_program, result.exception


@contextlib.contextmanager
def fresh_kernels() -> Iterator[None]:
    """Forget what earlier exports of recurrent layers left in PyTorch, before an export and after it.

    PyTorch traces these layers as loops of any length. A second trace in the same process would take sizes from the first.
    """
    caches = [getattr(op.input, "_dispatch_cache", {}) for op in (torch.ops.aten.lstm, torch.ops.aten.gru)]

    def forget() -> None:
        if any(caches):
            torch.compiler.reset()
        for cache in caches:
            cache.clear()

    forget()
    try:
        yield
    finally:
        forget()


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
        return str(_Printer().doprint(expr))
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
#: the data-dependent condition
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
    missing = list(_MISSING)
    noted: list[Any] = []
    guards: list[tuple[str, Any]] = []
    stacks: list[str] = []

    def note(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        noted.append(make(*args, **kwargs))
        return noted[-1]

    # a failed export finds nothing, so every kind of line is then reported as missing
    with contextlib.suppress(Exception), hooked(_get_sloc=note, _export=without_deferring):
        attempts = capture_attempts(_Probe(), (torch.zeros(2, 4),), {}, {"x": {1: Dim.AUTO}})
        program = next(p for p, _ in attempts if p is not None)
        guards = guards_of(program)
        stacks = [n.meta.get("stack_trace") or "" for n in program.graph.nodes if n.op == "call_function"]
    if not any(location is found for _, location in guards for found in noted):
        missing.append(_HOOKED["_get_sloc"][1])
    if not any("internals.py" in stack for stack in stacks):
        missing.append("lines of calls")
    return tuple(dict.fromkeys(missing))
