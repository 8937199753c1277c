"""Everything of PyTorch that is not public: its hooks, its private names, and the forms of its messages."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._decomp.decompositions as decompositions
import torch.export._trace as export_trace
import torch.utils._pytree as pytree
from torch.export.dynamic_shapes import _tree_map_with_path as tree_map_with_path
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRangeError

__all__ = [
    "ConstraintViolationError", "TorchDispatchMode", "ValueRangeError", "example_size", "fresh_kernels", "guard_text", "hooked",
    "input_shapes", "original", "pytree", "shape_env", "size_arguments", "symbols_of",
    "tree_map_with_path",
]  # fmt: skip

# ---------------------------------------------------------------------- hooks of one thread

#: functions of PyTorch that hooks are for, by the name of the hook
_HOOKED = {
    "unroll": (decompositions, "one_layer_lstm"),  # makes a layer of an LSTM a loop of its steps
    "guard": (ShapeEnv, "_log_guard"),  # called with each condition on sizes
    "solve": (export_trace, "produce_guards_and_solve_constraints"),  # compares the conditions with dynamic_shapes
}  # fmt: skip


class _State(threading.local):
    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}


_STATE = _State()


def _wrap(name: str) -> None:
    """Wrap a function of PyTorch. The wrapper calls it unless the running thread has a hook for it.

    This is done once, not for each check: other threads must not see a function change while a check runs.
    """
    owner, attribute = _HOOKED[name]
    original = getattr(owner, attribute)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        hook = _STATE.hooks.get(name)
        return original(*args, **kwargs) if hook is None else hook(original, *args, **kwargs)

    setattr(owner, attribute, wrapper)


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


# ---------------------------------------------------------------------- modules and programs


def original(module: Any) -> Any:
    """The module or function that was compiled; itself if it wasn't."""
    for compiled in ("_orig_mod", "_torchdynamo_orig_callable"):
        module = getattr(module, compiled, module)
    return module


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
    return next((mode.shape_env for mode in modes if mode is not None and mode.shape_env is not None), None)


def symbols_of(env: Any) -> dict[str, str]:
    """The symbols of an environment (``s27``), by their sources (``L['x'].size()[0]``)."""
    symbols = env.var_to_sources.items() if env is not None else ()
    return {source.name: str(symbol) for symbol, sources in symbols for source in sources}


def input_shapes(env: Any) -> dict[str, tuple[int | str, ...]]:
    """The shapes of the inputs of an environment, by their sources (``L['x']``): numbers, and texts of symbolic sizes."""
    inputs = env.tracked_fakes or () if env is not None else ()
    return {t.source.name: tuple(map(_number_or_text, getattr(t.fake, "shape", ()))) for t in inputs}


def _number_or_text(size: Any) -> int | str:
    number = size if isinstance(size, int) else size.node.maybe_as_int()  # a symbol may have one value
    return str(size) if number is None else int(number)


def example_size(size: Any) -> int:
    """The size that a symbolic size has in the example; 0 for a number."""
    return 0 if isinstance(size, int) else int(size.node.hint or 0)


def size_arguments(call: torch.fx.Node) -> list[Any]:
    """The arguments of a call that may be sizes, one by one: not axes, and not the 2 of ``x * 2``."""
    schema, makes = getattr(call.target, "_schema", None), not call.all_input_nodes  # as ``torch.arange(10)``
    found: list[Any] = []
    for argument, given in zip(() if schema is None else schema.arguments, call.args):
        is_size = makes or str(argument.type) not in ("Tensor", "number")
        if is_size and not re.search("dim|axis", argument.name):
            found += pytree.tree_leaves(given)
    return found


def guard_text(expr: Any) -> str:
    """A guard as Python."""
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
#: the data-dependent condition
DATA_DEPENDENT = re.compile(r"data-dependent expression ([^\n]*?)(?: \(unhinted|\.|$)")
#: the call that has no ONNX, in two forms of torch.onnx
UNWRITTEN = (
    re.compile(r"node target is <[^>]*?'?([\w.:]+)'?"),
    re.compile(r"function (?:found )?for (?:<OpOverload\(op=)?'?([\w.:]+)"),
)
#: names of calls in the exporter's errors: the first two of torch.onnx, the last of onnxscript's optimizer
BLAMED = re.compile(r"translating node %(\w+)|%(\w+) :|for node '(?:node_)?(\w+)'")
#: begins the exporter's error on a result that is no tensor
NUMBER_RETURNED = "translating node return ("
