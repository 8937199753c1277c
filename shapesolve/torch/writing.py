"""Writing an exported program as ONNX: in another way where the exporter cannot write it as it is."""

from __future__ import annotations

import copy
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import onnx
import torch

from ..report.lines import clipped
from .exporting import export_onnx
from .findings import SourceFinding
from .places import STACK_TRACE, Origin, Place, read_trace
from .refusal import chain, first_line, origin_of_error, own_words

_LONGEST = 4000
#: max errors shown behind a failure, and max characters of each line
_MAX_SAID, _LONGEST_LINE = 3, 160
#: names of calls in the exporter's errors: the first two of torch.onnx, the last of onnxscript's optimizer
_BLAMED = re.compile(r"translating node %(\w+)|%(\w+) :|for node '(?:node_)?(\w+)'")


@dataclass(frozen=True)
class Written:
    """A model written of the program `source`, with the decomposed `program`. If the first attempt failed, also its error and
    the change that helped.
    """

    proto: onnx.ModelProto
    program: Any
    source: Any
    failed: Exception | None = None
    change: str = ""


def written(program: Any, opset: int | None) -> Written:
    """The ONNX model of an `ExportedProgram`. Raises what the exporter raised when no other way of writing works either."""
    try:
        return _of(export_onnx(program, opset), program)
    except Exception as error:
        for change, make in _ways(error, program, opset):
            try:
                return _of(make(), program, error, change)
            except Exception:  # this way fails too
                continue
        raise


def _of(exported: Any, source: Any, failed: Exception | None = None, change: str = "") -> Written:
    return Written(exported.model_proto, exported.exported_program, source, failed, change)


def _ways(error: Exception, program: Any, opset: int | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    if any(
        type(e).__name__ == "PassError" for e in chain(error)
    ):  # the optimizer failed, not the translation
        yield (
            "write it without the exporter's optimizer: `torch.onnx.export(..., optimize=False)`",
            lambda: export_onnx(program, opset, optimize=False),
        )
    yield (
        "decompose the exported program first:"
        " `torch.onnx.export(torch.export.export(...).run_decompositions(), dynamo=True)`",
        lambda: export_onnx(program.run_decompositions(), opset),
    )


# ---------------------------------------------------------------------- names that the exporter takes for its own


def clashing(module: Any) -> tuple[str, ...]:
    """Names of the module's own parts that PyTorch's graph modules have as attributes too."""
    if not isinstance(module, torch.nn.Module):
        return ()
    taken = dir(torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph()))
    return tuple(n for parts in _parts(module).values() for n in parts if n in taken)


def with_other_names(module: Any, names: tuple[str, ...]) -> Any:
    """A copy of the module with the same parts under other names. Its code reads them under the old names."""
    kind = type(module)
    copied = copy.copy(module)
    for attribute, parts in _parts(module).items():
        copied.__dict__[attribute] = {f"{n}_" if n in names else n: part for n, part in parts.items()}
    readers = {n: property(attrgetter(f"{n}_")) for n in names}
    copied.__class__ = type(kind.__name__, (kind,), {"__qualname__": kind.__qualname__, **readers})
    return copied


def _parts(module: torch.nn.Module) -> Mapping[str, Mapping[str, Any]]:
    return {a: getattr(module, a) for a in ("_modules", "_parameters", "_buffers")}


# ---------------------------------------------------------------------- findings


def unwritable(error: BaseException, program: Any, *, runs: str = "") -> SourceFinding:
    """The exporter failed after torch.export succeeded; `runs` tells where the module was seen to run."""
    return SourceFinding(
        "SS608",
        f"{'the module runs, and ' if runs else ''}the exporter cannot write {_what(error)}",
        notes=(*_said(error), runs) if runs else _said(error),
        origin=_origin(error, program),
        verdict="export",
    )


def rewritten(
    error: BaseException,
    program: Any,
    change: str,
    proto: onnx.ModelProto | None = None,
    *,
    runs: str = "",
    paste: str = "",
) -> SourceFinding:
    """The finding that the exporter failed. A `change` of the call that avoids it made `proto`, and `paste` is that change as
    Python.
    """
    origin = _origin(error, program)
    if not origin and proto is not None:
        origin = next((Origin(t) for t in _named(error, proto) if t), origin)
    return SourceFinding(
        "SS611",
        f"the exporter cannot write {_what(error)}",
        notes=(*_said(error), runs) if runs else _said(error),
        help=f"{change}; tried: that writes the file which is judged here" + (f":\n{paste}" if paste else ""),
        origin=origin,
        verdict="export",
    )


def _said(error: BaseException) -> tuple[str, ...]:
    """The errors that led to one another, the first one first, a line of each."""
    lines = [clipped(f"{type(e).__name__}: {first_line(own_words(e))}", _LONGEST_LINE) for e in chain(error)]
    return tuple(dict.fromkeys(lines[::-1]))[:_MAX_SAID]


def _what(error: BaseException) -> str:
    words = own_words(error)
    match = re.search(r"node target is <[^>]*?'?([\w.:]+)'?", words) or re.search(
        r"function (?:found )?for (?:<OpOverload\(op=)?'?([\w.:]+)", words
    )
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return f"a call{f' of {match[1]}' if match else ''} as ONNX: {first_line(own_words(root))}"


def _origin(error: BaseException, program: Any) -> Origin:
    trace = read_trace(own_words(error))
    if not trace:
        node = _blamed(error, program)
        trace = read_trace(node.meta.get("stack_trace", "") or "") if node is not None else ()
    return Origin(trace) if trace else origin_of_error(error)


def _named(error: BaseException, proto: onnx.ModelProto) -> Iterator[tuple[Place, ...]]:
    """The lines of the nodes of a model that an error speaks of."""
    names = {n for e in chain(error) for n in re.findall(r"for node '([^\n']+)'", str(e)[:_LONGEST])}
    for node in proto.graph.node:
        if node.name in names:
            yield read_trace({p.key: p.value for p in node.metadata_props}.get(STACK_TRACE, ""))


def _blamed(error: BaseException, program: Any) -> Any:
    """The call named by an exporter error, in the program or in the exporter's decomposed program."""
    return next(filter(None, (_blamed_in(p, error) for p in (program, *_decomposed(error)))), None)


def _decomposed(error: BaseException) -> Iterator[Any]:
    """Programs in the frames of a failed exporter. Their names match its errors, unlike those of `program`."""
    for cause in chain(error):
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            held = frame.f_locals.values()
            yield from (p for p in held if isinstance(p, torch.export.ExportedProgram))


def _blamed_in(program: Any, error: BaseException) -> Any:
    """The call that an error speaks of, by its own name or by that of a parameter it takes."""
    nodes = {node.name: node for node in program.graph.nodes}
    parameters = {s.target: s.arg.name for s in program.graph_signature.input_specs if s.target}
    for words in (str(e)[:_LONGEST] for e in chain(error)):
        for names in _BLAMED.findall(words):
            node = nodes.get(next(filter(None, names)))
            if node is not None and node.op == "call_function":
                return node
        for target in re.findall(r"target ([\w.]+)", words):
            node = nodes.get(parameters.get(target, ""))
            if node is not None and node.users:
                return next(iter(node.users))
    return None
