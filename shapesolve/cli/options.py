"""Options shared by several commands, and their parsing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .console import FOUND, OK, Format, Progress, fail, fail_at
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..model import Model as ModelFile

Model = Annotated[Path, Argument(metavar="MODEL", help="The ONNX file.")]
Assume = Annotated[
    list[str] | None,
    Option(
        "--assume", metavar="CONDITION", help='Assume a condition on the sizes, e.g. "total == past + seq".'
    ),
]
Bind = Annotated[
    list[str] | None,
    Option("--bind", metavar="NAME=SIZE", help="Set a dim to a size, e.g. batch=2; may be repeated."),
]
Broadcast = Annotated[
    str,
    Option(
        "--broadcast",
        metavar="strict|named|equal",
        help='How to treat an Add of "n" and 64, which is valid if n is 64 or 1. strict: keep both cases; named: assume n = 64 '
        "and report it; equal: also assume that two names are equal.",
    ),
]
FindingsFormat = Annotated[Format, Option("--format", help="Output format of findings.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]


def load(
    model: Path, assume: list[str] | None = None, bind: list[str] | None = None, broadcast: str = "named"
) -> Analysis:
    """Analyze a file or standard input (``-``); errors end the command."""
    piped = str(model) == "-"
    analysis = read_or_say(sys.stdin.buffer.read() if piped else model, assume, bind, broadcast)
    if isinstance(analysis, str):
        name = "<stdin>" if piped else str(model)
        fail(analysis if name in analysis else f"{name}: {analysis}")
    return analysis


def read_or_say(
    source: Any, assume: list[str] | None = None, bind: list[str] | None = None, broadcast: str = "named"
) -> Analysis | str:
    """Return the analysis, or a message why the model is unusable; invalid options end the command."""
    from ..analysis import analyze
    from ..expr import DimSyntaxError
    from ..model import ModelError

    sizes = sizes_of(bind)
    try:
        mode: Any = broadcast
        with Progress("nodes") as progress:
            return analyze(source, assume=list(assume or ()), bind=sizes, broadcast=mode, progress=progress)
    except ModelError as e:
        return str(e)
    except DimSyntaxError as e:
        fail_at(e)
    except ValueError as e:
        fail(str(e))


def read(model: Path) -> ModelFile:
    """Read a file; errors end the command."""
    from ..model import ModelError, read_model

    try:
        return read_model(model)
    except ModelError as e:
        fail(str(e) if str(model) in str(e) else f"{model}: {e}")


def find(analysis: Analysis, *, findings: bool = True) -> Analysis:
    """Compute the lazy results of an analysis: the contract and, by default, the findings."""
    with Progress("contract and findings" if findings else "contract"):
        if findings:
            analysis.findings  # noqa: B018 -- it stays in the analysis
        analysis.contract  # noqa: B018
    return analysis


def accepts(analysis: Analysis) -> int:
    """Return the exit code: 0 if the model accepts some input size, 1 otherwise."""
    return FOUND if analysis.contract.impossible else OK


def ending(analysis: Analysis) -> tuple[int, str]:
    """Return the exit code of `accepts`, and an error message if no input sizes run."""
    return accepts(analysis), analysis._solved.nothing_runs


def sizes_of(given: Iterable[str] | None, option: str = "--bind") -> dict[str, int]:
    """Parse ``NAME=SIZE`` options; invalid text ends the command."""
    sizes = {}
    for name, size in pairs_of(given, option):
        if not size.isascii() or not size.isdigit() or len(size) > 18:
            fail(f"expected {option} NAME=SIZE with a size >= 0, got {f'{name}={size}'[:200]!r}")
        sizes[name] = int(size)
    return sizes


def pairs_of(given: Iterable[str] | None, option: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of ``NAME=VALUE`` strings. One without an equals sign ends the command."""
    for text in chain.from_iterable(map(_parted, given or ())):
        name, equals, value = (part.strip() for part in text.rpartition("="))
        if not equals:
            lead = f"{option} " if option else ""
            fail(f"expected {lead}NAME=SIZE, got {text[:200]!r}")
        yield name, value


def _parted(text: str) -> list[str]:
    """Split ``a=1,b=2`` at commas, but not within a name."""
    parts = [part for part in text.split(",") if part.strip()]
    return parts if all("=" in part for part in parts) else [text]


def write_file(output: Path, data: bytes, beside: ModelFile | None = None) -> None:
    """Write a file; errors, and overwriting the input model, end the command."""
    from ..model.saving import write_atomically

    if beside is not None:
        from ..change.annotate.file import check_target

        check_target(beside, output)
    try:
        write_atomically(output, data)
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")
