"""Refusals of torch.export in terms of lines and dims. PyTorch's own words are kept."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .exporting import quiet
from .findings import SourceFinding
from .guards import Guard
from .places import NOWHERE, Origin, Place, own_frames, read_trace

#: standing advice on logging, sentence by sentence
_NOISE = re.compile(
    r"[ \t]*(For more information, run with|For extended logs|If you suspect the guard|For more debugging help"
    r"|For C\+\+ stack trace|The error above occurred when calling)[^\n]*"
)
_BLANK = re.compile(r"\n{3,}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 4000
_MAX_SHOWN = 4


def own_words(error: BaseException) -> str:
    """The exporter's message without its standing advice on logging."""
    text = _BLANK.sub("\n\n", _NOISE.sub("", _COLOUR.sub("", str(error)))).strip()
    return text[:_LONGEST] or type(error).__name__


def seen_to_run(sizes: Sequence[str]) -> str:
    """A note on a module that failed at none of the sizes that were tried."""
    some = f": {shown(sizes)}" if sizes else ""
    return f"the module itself runs on the example, and at the declared sizes that were tried{some}"


def shown(sizes: Sequence[str]) -> str:
    """The first of these sizes."""
    return "; ".join(sizes[:_MAX_SHOWN]) + (", …" if len(sizes) > _MAX_SHOWN else "")


def is_about_dims(error: BaseException) -> bool:
    """True if the error of torch.export is about the declared dims."""
    text = str(error)
    return "Constraints violated" in text or "specialized" in text or "dynamic_shapes" in text


def origin_of_error(error: BaseException) -> Origin:
    """The lines of the module's own code on the way to an error; its causes are searched too."""
    for cause in chain(error):
        frames = traceback.extract_tb(cause.__traceback__)
        places = [Place(f.filename, f.lineno or 0, f.name, (f.line or "").strip()) for f in frames]
        inside = _after_export(places)
        if inside:
            return Origin(inside)
    return NOWHERE


def _after_export(places: list[Place]) -> tuple[Place, ...]:
    """The own frames below the last entry into PyTorch's tracing: what stands above called us."""
    first = next((i for i, p in enumerate(places) if "torch" in p.file and not own_frames([p])), None)
    return () if first is None else own_frames(places[first:])


def at_numbers(error: BaseException, change: str, paste: str, runs: str) -> SourceFinding:
    """The finding for a refusal that fixed sizes avoid. `change` names them, `paste` is Python, `runs` the tested sizes."""
    title = _translated(error, own_words(error))
    return SourceFinding(
        "SS610",
        f"the module runs, and {title}",
        notes=(own_words(error), runs),
        help=f"{change}; tried: torch.export takes that, and what it makes of it is judged here:\n{paste}",
        origin=origin_of_error(error),
        verdict="tracer",
    )


def refused(
    error: BaseException, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, runs: str = ""
) -> SourceFinding:
    """A refusal that is not about declared dims, as a finding. `runs` is text about sizes that run."""
    words = own_words(error)
    eager = _eager_failure(module, args, kwargs)
    if eager is not None:
        return SourceFinding(
            "SS607",
            f"the module fails on the example arguments, before any export: {first_line(own_words(eager))}",
            notes=(own_words(eager),),
            origin=origin_of_error(eager),
            verdict="module",
        )
    title = _translated(error, words)
    title = f"the module runs, and {title}" if runs else title
    notes = (words, runs) if runs else (words,)
    return SourceFinding("SS607", title, notes=notes, origin=origin_of_error(error), verdict="export")


def untold(refusal: Exception, unseen: Sequence[Guard] = ()) -> SourceFinding:
    """A refusal that no condition on the sizes is behind, in torch.export's own words.

    `unseen` are the guards that it names and that hold at every declared size.
    """
    words = own_words(refusal)
    title = f"torch.export refuses the declaration: {first_line(words)}"
    if unseen:
        title = f"torch.export does not see that {unseen[0].shown} holds at every declared size, and refuses"
    located = (g.origin for g in unseen if g.origin.trace)
    origin = next(located, None) or origin_of_error(refusal) or Origin(read_trace(words))
    return SourceFinding("SS607", title, notes=(words,), origin=origin, verdict="export")


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
