"""Refusals of torch.export in terms of lines and dims. PyTorch's own words are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from traceback import walk_tb
from typing import Any

from torch.export import ExportedProgram

from ..lines import clipped
from .exporting import chain
from .internals import BLAMED, DATA_DEPENDENT, NOISE, NUMBER_RETURNED, TARGET, UNWRITTEN
from .limits import MAX_LINE, MAX_MESSAGE, MAX_SHOWN
from .places import NOWHERE, SourceFinding, SourceOrigin, origin_of_error, read_trace, trace_of

_BLANK = re.compile(r"\n{3,}")
#: colours, and addresses of objects, which differ from run to run
_VARIES = re.compile(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+")

#: recurrent layers, which the exporter unrolls step by step if their length is no plain dim
_RECURRENT = re.compile(r"\b(lstm|gru)\b")
_UNROLLED = (
    "torch.export unrolls {} over a length that is rounded, as `w//2` behind pooling or strides; declare the size in"
    ' multiples, such as `2 * Dim("_width")` (not tried)'
)


def own_words(error: BaseException) -> str:
    """The exporter's message without its standing advice on logging."""
    text = _BLANK.sub("\n\n", NOISE.sub("", _VARIES.sub("", str(error)))).strip()
    return text[:MAX_MESSAGE] or type(error).__name__


def _origin_of(error: BaseException) -> SourceOrigin:
    """The lines of the module's own code on the way to an error; its causes are searched too."""
    return next(filter(None, map(origin_of_error, chain(error))), NOWHERE)


def untold(error: BaseException, runs: str = "") -> SourceFinding:
    """The finding of a refusal without a condition on sizes, in torch.export's own words."""
    words = own_words(error)
    title = f"{'the module runs, and ' if runs else ''}{_translated(error, words)}"
    first = first_line(words)
    more = words.removeprefix(first).strip() if first in title else words
    notes = tuple(filter(None, (more, runs)))
    origin = _origin_of(error) or SourceOrigin(read_trace(words))
    return SourceFinding("SS607", title, notes=notes, origin=origin, verdict="export")


def _translated(error: BaseException, words: str) -> str:
    kind = type(error).__name__
    depends = DATA_DEPENDENT.search(words)
    if kind == "GuardOnDataDependentSymNode" or depends:
        what = f" `{depends[1].strip()}`" if depends else ""
        return f"torch.export cannot decide{what}: it depends on the data, not on sizes"
    if "dynamic_shapes" in words or kind == "UserError":
        return f"torch.export refuses the declaration: {first_line(words)}"
    return f"torch.export refuses the module: {kind}: {first_line(words)}"


def first_line(words: str) -> str:
    """The first line of a message."""
    return words.split("\n", 1)[0].strip()


# ---------------------------------------------------------------------- the exporter's refusals


def unwritable(error: Exception, runs: str = "") -> SourceFinding:
    """The finding of a failed write after torch.export succeeded. `runs` is text about sizes that run."""
    title = f"the exporter cannot write {_what(error)}"
    blamed = next(_blamed_calls(error), None)
    layer = _RECURRENT.search(str(blamed.target)) if blamed is not None else None
    return SourceFinding(
        "SS608",
        f"the module runs, and {title}" if runs else title,
        notes=(*_causes(error), runs) if runs else _causes(error),
        help=_UNROLLED.format(layer[0]) if layer is not None else "",
        origin=_origin(error, blamed),
        verdict="export",
    )


def _causes(error: BaseException) -> tuple[str, ...]:
    """One line per error of a chain, the first cause first."""
    lines = [clipped(f"{type(e).__name__}: {first_line(own_words(e))}", MAX_LINE) for e in chain(error)]
    return tuple(dict.fromkeys(lines[::-1]))[:MAX_SHOWN]


def _what(error: BaseException) -> str:
    words = own_words(error)
    if NUMBER_RETURNED in words:
        return "a number among the results of forward, which may only be tensors"
    match = next(filter(None, (form.search(words) for form in UNWRITTEN)), None)
    *_, root = chain(error)
    return f"a call{f' of {match[1]}' if match else ''} as ONNX: {first_line(own_words(root))}"


def _origin(error: BaseException, blamed: Any) -> SourceOrigin:
    """The line of the call that the error names, or the module's own lines on the way to it."""
    trace = read_trace(own_words(error)) or (trace_of(blamed) if blamed is not None else ())
    return SourceOrigin(trace) if trace else _origin_of(error)


def _blamed_calls(error: BaseException) -> Iterator[Any]:
    """Calls that an exporter's error names directly or by a parameter.

    The programs in the error's frames are searched, decomposed ones first.
    """
    causes = list(chain(error))
    frames = [frame for cause in causes for frame, _ in walk_tb(cause.__traceback__)]
    held = (value for frame in reversed(frames) for value in frame.f_locals.values())
    for program in (value for value in held if isinstance(value, ExportedProgram)):
        nodes = {node.name: node for node in program.graph.nodes}
        parameters = {s.target: s.arg.name for s in program.graph_signature.input_specs if s.target}
        for words in (str(cause)[:MAX_MESSAGE] for cause in causes):
            named = (nodes.get(next(filter(None, names))) for names in BLAMED.findall(words))
            yield from (node for node in named if node is not None and node.op == "call_function")
            for target in TARGET.findall(words):
                node = nodes.get(parameters.get(target, ""))
                yield from list(node.users)[:1] if node is not None else ()
