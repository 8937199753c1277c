"""`Finding` and `Conflict`: analysis results as data, and `Kind`: what makes them. `report` formats them as text.

Codes are stable: SS1xx unknown, SS2xx cannot run, SS3xx ambiguous, SS4xx restricted by the graph, SS5xx assumed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from ..solve.facts.constraint import Constraint

if TYPE_CHECKING:
    from onnx import ModelProto

    from .repair import Repair

#: element types of the vectors of an example
_TYPES = {int: 7, float: 1, bool: 9}
Severity = Literal["error", "warning", "info"]
#: a tensor that a node reads: its name, its shape, where it comes from
Operand = tuple[str, str, str]

#: code -> its kind; `findings.diagnose.CODES` has them all, in order
KINDS: dict[str, type[Kind]] = {}


class ExampleModel(NamedTuple):
    """A model in ONNX's text syntax, of IR version 8 and opset 17 unless its header says otherwise.

    https://onnx.ai/onnx/repo-docs/Syntax.html
    """

    text: str
    #: initializers: shapes of float32 weights, and elements of int64, float32 or bool vectors
    weights: Mapping[str, tuple[int, ...]] = {}
    data: Mapping[str, Sequence[int | float]] = {}
    assume: tuple[str, ...] = ()

    def model(self) -> ModelProto:
        """Return the model; its weights are zeros."""
        from onnx import TensorProto, helper, parser

        header = "" if self.text.startswith("<") else '<ir_version: 8, opset_import: ["": 17]>\n'
        proto = parser.parse_model(header + self.text)
        for name, dims in self.weights.items():
            zeros = bytes(4 * prod(dims))
            proto.graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, dims, zeros, raw=True))
        for name, held in self.data.items():
            kind = _TYPES[type(held[0])]
            proto.graph.initializer.append(helper.make_tensor(name, kind, [len(held)], held))
        return proto


class Kind:
    """A kind of finding: its code, its page, and the sentences that state its facts.

    A subclass is defined in the module that finds it. Its docstring is its page: a line that says what is wrong, what that
    means, and `## What to do`. Its fields are facts; `title`, `notes` and `help` put them into words.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    #: a model with such a finding: the page shows what is printed for it
    example: ClassVar[ExampleModel | None] = None

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            KINDS[cls.code] = cls

    def title(self) -> str:
        """Return what is wrong, in one line."""
        raise NotImplementedError

    def notes(self) -> Iterable[str]:
        """Return the reasons, a line each."""
        return ()

    def help(self) -> str:
        """Return an edit or an option that was tried, or an empty text."""
        return ""

    def finding(self, node: str = "", op_type: str = "", **fields: Any) -> Finding:
        """Return the finding at a node; `fields` are further fields of `Finding`."""
        return self.worded(self.title(), node, op_type, notes=tuple(self.notes()), help=self.help(), **fields)

    @classmethod
    def worded(cls, title: str, node: str = "", op_type: str = "", **fields: Any) -> Finding:
        """Return a finding of this kind with sentences made elsewhere."""
        return Finding(cls.code, title, node, op_type, **fields)

    @classmethod
    def page(cls) -> tuple[str, str]:
        """Return the line that says what is wrong, and the rest of the page in Markdown, a line per paragraph."""
        first, *rest = cleandoc(cls.__doc__ or "").split("\n\n")
        return first, "\n\n".join(re.sub(r"\n(?!- )\s*", " ", part) for part in rest)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an explanation: text about a tensor at a node, and the nodes named in it."""

    node: str
    op_type: str
    tensor: str
    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding about a model: stable code, title, node, reason (``steps`` and ``notes``), and advice (``help``).

    `nodes` are all nodes involved. `runs` and `fails` are input sizes for which a restricted model runs, and the
    nearest ones
    for which it does not. `constants` are initializers that hold a size of the example input.
    With `usual`, the finding does not concern typical inputs (see `Contract.usual`) and is an info. `condition` is
    the
    condition on input sizes, unless the title contains it. `dims` are the names that it is about: with its code and node,
    they identify a finding, whatever its sentences say.
    """

    code: str
    title: str
    node: str = ""
    op_type: str = ""
    nodes: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""
    runs: tuple[tuple[str, int], ...] = ()
    fails: tuple[tuple[str, int], ...] = ()
    constants: tuple[str, ...] = ()
    usual: bool = False
    condition: str = ""
    dims: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """``error``, ``warning`` or ``info``."""
        return "info" if self.usual else KINDS[self.code].severity

    @property
    def named(self) -> tuple[str, ...]:
        """The nodes named in the finding's steps; without steps all nodes involved."""
        shown = [n for step in self.steps for n in step.nodes]
        return tuple(dict.fromkeys(n for n in (self.node, *(shown or self.nodes)) if n))

    def __repr__(self) -> str:
        return f"Finding({self})"

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node else ""
        return f"{self.severity}[{self.code}]{where}: {self.title}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conditions that cannot hold together: their nodes, and a message.

    `stated` are the conditions as the analysis met them, over the dims of the inputs, read through what it had learned.
    """

    stated: tuple[Constraint, ...]
    message: str
    nodes: tuple[str, ...]
    finding: Finding = field(compare=False)
    find: Callable[[], Sequence[Constraint]] | None = field(default=None, compare=False, repr=False)
    #: edits of the model with which nothing that the conflict is about fails, best first
    repairs: tuple[Repair, ...] = field(default=(), compare=False, repr=False)

    @property
    def core(self) -> tuple[Constraint, ...]:
        """The unsat core: a minimal set of contradictory `Analysis.constraints`, over dims of tensors.

        Empty for a node that is wrong by itself, whatever the sizes are.
        """
        return self.stated if self.find is None else tuple(self.find())

    def __repr__(self) -> str:
        return f"Conflict({self.message})"

    def __str__(self) -> str:
        return self.message


__all__ = ["KINDS", "Conflict", "ExampleModel", "Finding", "Kind", "Severity", "Step"]
