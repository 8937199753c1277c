"""What torch.export says when it gives up, in terms of lines and dims. Nothing is left out: its own words stay with it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .exporting import quiet
from .findings import TRIED, SourceFinding
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
    """Does torch.export say that the declared dims do not fit what the module does with them?"""
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


def by_example(error: BaseException, way: str) -> SourceFinding:
    """A refusal that another example avoids; `way` says which."""
    return SourceFinding(
        "SS610",
        f"torch.export refuses this example: {first_line(own_words(error))}",
        notes=(own_words(error),),
        help=f"{way}; {TRIED}",
        origin=origin_of_error(error),
        verdict="tracer",
    )


def at_numbers(error: BaseException, change: str, paste: str, runs: str) -> SourceFinding:
    """A refusal that is none when some sizes are numbers: `change` says which, `paste` as Python; `runs` what was run."""
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
    """A refusal that is not about declared dims, as a finding; `runs` tells where the module was seen to run."""
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


def untold(refusal: Exception, follows: bool, unseen: Sequence[Guard] = ()) -> SourceFinding:
    """A refusal that no condition on the sizes is behind, in torch.export's own words.

    `follows` when the module runs all the same, and an export with the sizes left free was seen to give what the module
    gives. `unseen` are the guards that it names and that hold at every declared size.
    """
    words = own_words(refusal)
    title = f"torch.export refuses the declaration: {first_line(words)}"
    if unseen:
        title = f"torch.export does not see that {unseen[0].shown} holds at every declared size, and refuses"
    located = (g.origin for g in unseen if g.origin.trace)
    origin = next(located, None) or origin_of_error(refusal) or Origin(read_trace(words))
    if not follows:
        return SourceFinding("SS607", title, notes=(words,), origin=origin, verdict="export")
    return SourceFinding(
        "SS610",
        title,
        notes=(
            words,
            "tried: the module runs at other declared sizes, and the exported graph gives the same",
        ),
        help="to export all the same, leave the sizes to torch.export (`Dim.AUTO`, tried)",
        origin=origin,
        verdict="tracer",
    )


def written_all_the_same(
    refusal: Exception, told: Sequence[SourceFinding], sizes: Sequence[str]
) -> SourceFinding:
    """A refusal of torch.export.export alone: `torch.onnx.export` writes the module, its file was run at `sizes`.

    `told` is what the refusal came to, with what to do where torch.export.export is called.
    """
    first = told[0]
    titles = [f.title for f in told if not f.title.startswith("torch.export refuses")]
    return SourceFinding(
        "SS610",
        "torch.export.export by itself refuses the declaration, and torch.onnx.export of the module takes it",
        notes=(
            own_words(refusal),
            *titles,
            "tried: the file that torch.onnx.export writes gives what the module gives at " + shown(sizes),
        ),
        help="call torch.onnx.export with the module itself (tried)"
        + (f"; for torch.export.export alone: {first.help}" if first.help else ""),
        origin=first.origin,
        term=first.term,
        declared=first.declared,
        counterexample=first.counterexample,
        verdict="tracer",
    )


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
    """What a message says first."""
    return words.split("\n", 1)[0].strip()
