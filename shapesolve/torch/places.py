"""Python lines: origins of nodes from stack traces and name scopes, and findings with their line.

The torch.export-based exporter writes ``pkg.torch.onnx.stack_trace``, ``name_scopes`` and ``class_hierarchy`` into a
node's metadata. https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any, Literal

import torch

from ..causes.finding import Finding
from ..model import Node
from ..model.read import all_nodes
from .internals import METADATA, NOISE
from .limits import MAX_GUARDS, MAX_MESSAGE, MAX_READ

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)(?:\n[ \t]+([^\n]*))?')
_QUOTED = re.compile(r"'([^']*)'")
#: folders of PyTorch and of this package, and packages that PyTorch's exporter uses, with slashes
_OWN = tuple(f"{Path(file).parent.as_posix()}/" for file in (torch.__file__, __file__))
_STANDARD = f"{Path(linecache.__file__).parent.as_posix()}/"
_EXPORTER = tuple(f"/site-packages/{name}/" for name in ("onnxscript", "onnx_ir", "onnx", "sympy"))


@dataclass(frozen=True, slots=True)
class Place:
    """A line of Python."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{shown_path(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class SourceOrigin:
    """Origin of a node: the calls that led to it (outermost first), and the path of its module."""

    trace: tuple[Place, ...] = ()
    module: str = ""
    kind: str = ""

    @property
    def place(self) -> Place | None:
        """The innermost line of the module's own code."""
        return self.trace[-1] if self.trace else None

    def __bool__(self) -> bool:
        return bool(self.trace or self.module)


NOWHERE = SourceOrigin()


def shown_path(file: str) -> str:
    """Path relative to the working directory if inside it, as compilers print it."""
    try:
        return Path(file).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file


def is_foreign(file: str) -> bool:
    """True if the file belongs to PyTorch, its exporter's packages, this package or the interpreter."""
    path = file.replace("\\", "/")  # as Windows writes it
    standard = path.startswith(_STANDARD) and "/site-packages/" not in path
    return standard or path.startswith((*_OWN, "<")) or any(name in path for name in _EXPORTER)


def place_of(frame: FrameType, line: int) -> Place:
    """The line at which a frame is."""
    code = frame.f_code
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return Place(code.co_filename, line, code.co_name, text)


def module_names(module: Any) -> dict[int, tuple[str, str]]:
    """The path and the class of each module in a module, by its identity."""
    return {id(m): (name, type(m).__qualname__) for name, m in module.named_modules()}


def origin_of_frames(
    frames: Iterable[tuple[FrameType, int]], names: Mapping[int, tuple[str, str]]
) -> SourceOrigin:
    """The module's own lines among frames, innermost first, and the innermost named module."""
    trace: list[Place] = []
    found: tuple[str, str] | None = None
    for frame, line in itertools.islice(frames, MAX_GUARDS):
        node = frame.f_locals.get("n")  # of a graph that PyTorch runs once more
        if isinstance(node, torch.fx.Node) and not trace:
            trace.extend(reversed(trace_of(node)))
        if not is_foreign(frame.f_code.co_filename):
            trace.append(place_of(frame, line))
        name = names.get(id(frame.f_locals.get("self")))
        found = found or name
        if name is not None and name[0] == "" and frame.f_code.co_name == "forward":
            break
    return SourceOrigin(tuple(reversed(trace)), *(found or ("", ""))) if trace else NOWHERE


def origin_of_error(error: BaseException, names: Mapping[int, tuple[str, str]] = {}) -> SourceOrigin:
    """The module's own lines that led to an error, and the innermost named module."""
    return origin_of_frames(reversed(list(walk_tb(error.__traceback__))), names)


def read_trace(text: str) -> tuple[Place, ...]:
    """Frames of a printed stack trace, without PyTorch's."""
    found = (Place(f, int(n), fn, (code or "").strip()) for f, n, fn, code in _FRAME.findall(text[:MAX_READ]))
    return tuple(place for place in found if not is_foreign(place.file))


def trace_of(call: Any) -> tuple[Place, ...]:
    """The frames of a call in an exported program."""
    return read_trace(call.meta.get("stack_trace", "") or "")


def return_of(module: Any) -> SourceOrigin:
    """The last line of a module's forward that returns something."""
    try:
        lines, first = inspect.getsourcelines(module.forward)
    except (OSError, TypeError):  # its source is not at hand
        return NOWHERE
    code, file = module.forward.__name__, inspect.getsourcefile(module.forward) or ""
    returns = [(first + i, text.strip()) for i, text in enumerate(lines) if re.search(r"\breturn\b", text)]
    return SourceOrigin(tuple(Place(file, line, code, text) for line, text in returns[-1:]))


class Origins:
    """Origins by node label."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[str, Node] = {}
        for node in all_nodes(nodes):
            self._nodes.setdefault(node.label, node)

    def of(self, label: str) -> SourceOrigin:
        """The origin that the exporter recorded for a node, by its label (with or without the scope it is in)."""
        while label not in self._nodes and "/" in label:
            label = label.partition("/")[2]
        if label not in self._nodes:
            return NOWHERE
        trace, *lists = (
            self._nodes[label].metadata.get(f"{METADATA}{key}", "")[:MAX_READ]
            for key in ("stack_trace", "name_scopes", "class_hierarchy")
        )
        # lists of names are printed as Python; the module's name stands before that of the call
        scope, kind = (["", "", *_QUOTED.findall(text)][-2] for text in lists)
        return SourceOrigin(read_trace(trace), scope, kind)


# ---------------------------------------------------------------------- errors

_BLANK = re.compile(r"\n{3,}")
#: colours, and addresses of objects, which differ from run to run
_VARIES = re.compile(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+")


def own_words(error: BaseException) -> str:
    """The exporter's message without its standing advice on logging."""
    text = _BLANK.sub("\n\n", NOISE.sub("", _VARIES.sub("", str(error)))).strip()
    return text[:MAX_MESSAGE] or type(error).__name__


def first_line(words: str) -> str:
    """The first line of a message."""
    return words.split("\n", 1)[0].strip()


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


# ---------------------------------------------------------------------- findings

#: the module fails at a declared size; the exported file fails there or computes another thing; or the export fails for
#: another reason
Verdict = Literal["module", "graph", "export", "unknown"]


@dataclass(frozen=True, slots=True)
class SourceFinding(Finding):
    """A finding with the Python code it belongs to.

    Attributes:
        origin: the line that fails or that asked for it, and the module path; empty when the exporter left no trace.
        declared: the words that declared the dim, where the finding is about a declaration.
        term: the condition that came out instead.
        counterexample: sizes within the declaration that do not run.
        verdict: Whose fault it is, if known (`Verdict`).
    """

    origin: SourceOrigin = NOWHERE
    declared: str = ""
    term: str = ""
    counterexample: tuple[tuple[str, int], ...] = ()
    verdict: Verdict = "unknown"

    @property
    def place(self) -> Place | None:
        """The Python line to look at."""
        return self.origin.place


def located(finding: Finding, origin: SourceOrigin, **more: Any) -> SourceFinding:
    """A finding of the analysis, with where it comes from."""
    given = {f.name: getattr(finding, f.name) for f in fields(Finding)}
    return SourceFinding(**given, origin=origin, **more)
