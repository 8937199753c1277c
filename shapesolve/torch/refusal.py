"""Refusals of torch.export in terms of lines and dims. PyTorch's own words are kept."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..lines import clipped
from .exporting import Written, quiet
from .limits import MAX_LINE, MAX_MESSAGE, MAX_SHOWN
from .places import NOWHERE, Origin, SourceFinding, origin_of_error, read_trace

#: standing advice on logging, sentence by sentence
_NOISE = re.compile(
    r"[ \t]*(For more information, run with|For extended logs|If you suspect the guard|For more debugging help"
    r"|For C\+\+ stack trace|The error above occurred when calling)[^\n]*"
)
_BLANK = re.compile(r"\n{3,}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: names of calls in the exporter's errors: the first two of torch.onnx, the last of onnxscript's optimizer
_BLAMED = re.compile(r"translating node %(\w+)|%(\w+) :|for node '(?:node_)?(\w+)'")


def own_words(error: BaseException) -> str:
    """The exporter's message without its standing advice on logging."""
    text = _BLANK.sub("\n\n", _NOISE.sub("", _COLOUR.sub("", str(error)))).strip()
    return text[:MAX_MESSAGE] or type(error).__name__


def seen_to_run(sizes: Sequence[str]) -> str:
    """A note on a module that failed at none of the sizes that were tried."""
    some = f": {'; '.join(sizes[:MAX_SHOWN])}{', …' if len(sizes) > MAX_SHOWN else ''}" if sizes else ""
    return f"the module itself runs on the example, and at the declared sizes that were tried{some}"


def _origin_of(error: BaseException) -> Origin:
    """The lines of the module's own code on the way to an error; its causes are searched too."""
    return next(filter(None, map(origin_of_error, chain(error))), NOWHERE)


def refused(
    error: BaseException, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], runs: str
) -> SourceFinding:
    """A refusal after which there is no program. `runs` is text about sizes that run."""
    eager = _eager_failure(module, args, kwargs)
    if eager is None:
        return untold(error, runs)
    words = own_words(eager)
    title = f"the module fails on the example arguments, before any export: {first_line(words)}"
    return SourceFinding("SS607", title, notes=(words,), origin=_origin_of(eager), verdict="module")


def untold(error: BaseException, runs: str = "") -> SourceFinding:
    """A refusal that no condition on the sizes is behind, in torch.export's own words."""
    words = own_words(error)
    title = f"{'the module runs, and ' if runs else ''}{_translated(error, words)}"
    notes = (words, runs) if runs else (words,)
    origin = _origin_of(error) or Origin(read_trace(words))
    return SourceFinding("SS607", title, notes=notes, origin=origin, verdict="export")


def _translated(error: BaseException, words: str) -> str:
    kind = type(error).__name__
    depends = re.search(r"data-dependent expression ([^\n]*?)(?: \(unhinted|\.|$)", words)
    if kind == "GuardOnDataDependentSymNode" or depends:
        what = f" `{depends[1].strip()}`" if depends else ""
        return f"torch.export cannot decide{what}: it depends on the data, not on sizes"
    if "dynamic_shapes" in words or kind == "UserError":
        return f"torch.export refuses the declaration: {first_line(words)}"
    return f"torch.export refuses the module: {kind}: {first_line(words)}"


def _eager_failure(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
    try:
        with quiet(), torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:  # whatever the module raises is what we want to show
        return error
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def first_line(words: str) -> str:
    """The first line of a message."""
    return words.split("\n", 1)[0].strip()


# ---------------------------------------------------------------------- the exporter's refusals


def unwritable(file: Written, runs: str = "") -> SourceFinding:
    """The exporter failed after torch.export succeeded; `runs` tells where the module was seen to run.

    If a change of the call helped, the finding tells it.
    """
    error = file.failed
    assert error is not None
    title = f"the exporter cannot write {_what(error)}"
    return SourceFinding(
        "SS611" if file.change else "SS608",
        f"the module runs, and {title}" if runs and not file.change else title,
        notes=(*_causes(error), runs) if runs else _causes(error),
        help=f"{file.change}; tried: that writes the file which is judged here" if file.change else "",
        origin=_origin(error, file.source),
        verdict="export",
    )


def _causes(error: BaseException) -> tuple[str, ...]:
    """The errors that led to one another, the first one first, a line of each."""
    lines = [clipped(f"{type(e).__name__}: {first_line(own_words(e))}", MAX_LINE) for e in chain(error)]
    return tuple(dict.fromkeys(lines[::-1]))[:MAX_SHOWN]


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
        node = _blamed_call(error, program)
        trace = read_trace(node.meta.get("stack_trace", "") or "") if node is not None else ()
    return Origin(trace) if trace else _origin_of(error)


def _blamed_call(error: BaseException, program: Any) -> Any:
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
    for words in (str(e)[:MAX_MESSAGE] for e in chain(error)):
        for names in _BLAMED.findall(words):
            node = nodes.get(next(filter(None, names)))
            if node is not None and node.op == "call_function":
                return node
        for target in re.findall(r"target ([\w.]+)", words):
            node = nodes.get(parameters.get(target, ""))
            if node is not None and node.users:
                return next(iter(node.users))
    return None
