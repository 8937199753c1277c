"""Refusals of torch.export in terms of lines and dims. PyTorch's own words are kept."""

from __future__ import annotations

import re
from typing import Any

from ..lines import clipped
from .exporting import Written, chain
from .internals import DATA_DEPENDENT, NOISE, UNWRITTEN
from .limits import MAX_LINE, MAX_MESSAGE, MAX_SHOWN
from .places import NOWHERE, SourceFinding, SourceOrigin, origin_of_error, read_trace, trace_of

_BLANK = re.compile(r"\n{3,}")
#: colours, and addresses of objects, which differ from run to run
_VARIES = re.compile(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+")


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
    notes = (words, runs) if runs else (words,)
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


def unwritable(file: Written, runs: str = "") -> SourceFinding:
    """The finding of a failed write after torch.export succeeded. `runs` is text about sizes that run.

    If a change of the call helped, it has the change.
    """
    error = file.failed
    assert error is not None
    title = f"the exporter cannot write {_what(error)}"
    return SourceFinding(
        "SS611" if file.change else "SS608",
        f"the module runs, and {title}" if runs and not file.change else title,
        notes=(*_causes(error), runs) if runs else _causes(error),
        help=f"{file.change}; tried: this writes the file checked here" if file.change else "",
        origin=_origin(error, file.blamed),
        verdict="export",
    )


def _causes(error: BaseException) -> tuple[str, ...]:
    """One line per error of a chain, the first cause first."""
    lines = [clipped(f"{type(e).__name__}: {first_line(own_words(e))}", MAX_LINE) for e in chain(error)]
    return tuple(dict.fromkeys(lines[::-1]))[:MAX_SHOWN]


def _what(error: BaseException) -> str:
    words = own_words(error)
    match = next(filter(None, (form.search(words) for form in UNWRITTEN)), None)
    *_, root = chain(error)
    return f"a call{f' of {match[1]}' if match else ''} as ONNX: {first_line(own_words(root))}"


def _origin(error: BaseException, blamed: Any) -> SourceOrigin:
    trace = read_trace(own_words(error)) or (trace_of(blamed) if blamed is not None else ())
    return SourceOrigin(trace) if trace else _origin_of(error)
