"""Python lines: origins of nodes from stack traces and name scopes, and findings with their line.

The torch.export-based exporter writes ``pkg.torch.onnx.stack_trace``, ``name_scopes`` and ``class_hierarchy`` into a
node's metadata; the TorchScript-based one leaves the scope in the node's name and, when verbose, the stack in its
documentation. https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch

from ..explain.finding import Finding
from ..model import Node

_PREFIX = "pkg.torch.onnx."
#: the entry of a node's metadata that has its stack
STACK_TRACE = f"{_PREFIX}stack_trace"
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)(?:\n[ \t]+([^\n]*))?')
_TS_FRAME = re.compile(r"^(?:# )?([^\s#(][^(\n]*\.py)(?:\((\d+)\): (\S+)|:(\d+):\d+)", re.MULTILINE)
_TORCH = str(Path(torch.__file__).parent) + "/"
_OURS = str(Path(__file__).parent) + "/"
#: packages that PyTorch's exporter uses
_EXPORTER = tuple(f"/site-packages/{name}/" for name in ("onnxscript", "onnx_ir", "onnx", "sympy"))
_LONGEST = 100_000


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
class Origin:
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


NOWHERE = Origin()


def shown_path(file: str) -> str:
    """Relative to the working directory where it is inside, as compilers print it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def is_foreign(file: str) -> bool:
    """True if the file belongs to PyTorch, its exporter's packages, this package or the interpreter."""
    return file.startswith((_TORCH, _OURS, "<")) or any(name in file for name in _EXPORTER)


def own_frames(places: Iterable[Place]) -> tuple[Place, ...]:
    """The frames outside of PyTorch, in their order."""
    return tuple(p for p in places if not is_foreign(p.file))


def read_trace(text: str) -> tuple[Place, ...]:
    """The frames of a stack trace that Python printed, without those of PyTorch."""
    found = (Place(f, int(n), fn, (code or "").strip()) for f, n, fn, code in _FRAME.findall(text[:_LONGEST]))
    return own_frames(found)


def origin_of(node: Node) -> Origin:
    """The origin of a node as recorded by the exporter."""
    meta = node.metadata
    trace = read_trace(meta.get(STACK_TRACE, ""))
    scopes = _names(meta.get(f"{_PREFIX}name_scopes", ""))
    kinds = _names(meta.get(f"{_PREFIX}class_hierarchy", ""))
    if scopes:
        return Origin(trace, scopes[-2] if len(scopes) > 1 else "", kinds[-2] if len(kinds) > 1 else "")
    if trace:
        return Origin(trace)
    return Origin(_legacy_trace(node.proto.doc_string), legacy_module(node.name))


def _names(text: str) -> list[str]:
    """A list of names that the exporter printed as Python."""
    if not text or len(text) > _LONGEST:
        return []
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []


def _legacy_trace(text: str) -> tuple[Place, ...]:
    """Frames of a TorchScript export's doc string, which has the innermost first."""
    found = [
        Place(file, int(line or other), function)
        for file, line, function, other in _TS_FRAME.findall(text[:_LONGEST])
    ]
    return own_frames(reversed(found))


def legacy_module(name: str) -> str:
    """The module path in a TorchScript node's name. ``/encoder/layers.0/fc/MatMul`` is of ``encoder.layers.0.fc``."""
    parts = name.split("/")
    if len(parts) < 3 or parts[0]:
        return ""
    path: list[str] = []
    for part in parts[1:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part  # a ModuleList's member repeats the list's name: /layers/layers.0
        else:
            path.append(part)
    return ".".join(path)


class Origins:
    """Origins by node label. A node that the exporter recorded no origin for inherits from its neighbours."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[str, Node] = {}
        self._readers: dict[str, list[Node]] = {}
        self._makers: dict[str, Node] = {}
        for node in walk(nodes):
            self._nodes.setdefault(node.label, node)
            for name in node.outputs:
                self._makers.setdefault(name, node)
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)

    def of(self, label: str) -> Origin:
        """The origin of a node, by its label (with or without the scope it is in)."""
        node = self._nodes.get(label)
        while node is None and "/" in label:
            label = label.partition("/")[2]
            node = self._nodes.get(label)
        if node is None:
            return NOWHERE
        own = origin_of(node)
        if own.trace:
            return own
        return next((o for o in map(origin_of, self._near(node)) if o.trace), own)

    def _near(self, node: Node) -> Iterator[Node]:
        for name in node.outputs:
            yield from self._readers.get(name, ())
        for name in node.inputs:
            if name in self._makers:
                yield self._makers[name]


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes with those of all subgraphs inside them."""
    for node in nodes:
        yield node
        for _, graph in node.subgraphs:
            yield from walk(graph.nodes)


# ---------------------------------------------------------------------- findings

#: the module fails at a declared size; the exported graph fails there or computes another thing; only torch.export's trace
#: rules it out; or nothing is exported at all, which says nothing of the module
Verdict = Literal["module", "graph", "tracer", "export", "unknown"]


@dataclass(frozen=True, slots=True)
class SourceFinding(Finding):
    """A finding with the Python code it belongs to.

    Attributes:
        origin: the line that caused it and the module path; empty when the exporter left no trace.
        met: the line where it shows, when that is not the line that caused it.
        declared: the words that declared the dim, where the finding is about a declaration.
        term: the condition that came out instead.
        counterexample: sizes within the declaration that do not run.
        verdict: whose fault it is, where that was found out (`Verdict`).
    """

    origin: Origin = NOWHERE
    met: Place | None = None
    declared: str = ""
    term: str = ""
    counterexample: tuple[tuple[str, int], ...] = ()
    verdict: Verdict = "unknown"

    @property
    def place(self) -> Place | None:
        """The Python line to look at."""
        return self.origin.place


def located(finding: Finding, origin: Origin, **more: Any) -> SourceFinding:
    """A finding of the analysis, with where it comes from."""
    given = {f.name: getattr(finding, f.name) for f in fields(Finding)}
    return SourceFinding(**given, origin=origin, **more)
