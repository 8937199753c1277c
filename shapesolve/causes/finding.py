"""`Finding` and `Conflict`: analysis results as data. `report` formats them as text.

Codes are stable: SS1xx unknown, SS2xx cannot run, SS3xx ambiguous, SS4xx restricted by the graph, SS5xx assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..solve.facts.constraint import Constraint

if TYPE_CHECKING:
    from .repair import Repair

Severity = Literal["error", "warning", "info"]
#: a tensor that a node reads: its name, its shape, where it comes from
Operand = tuple[str, str, str]

#: code -> (severity, one-line title); codes of `diagnose` are declared next to their finders, use its accessor for all
CODES: dict[str, tuple[Severity, str]] = {
    "SS201": ("error", "the sizes of a node's inputs contradict each other"),
    "SS202": ("error", "a node cannot run as it is written"),
    "SS203": ("error", "an assumption contradicts the model"),
    "SS205": ("error", "the file cannot be loaded as it is written"),
    "SS601": ("error", "PyTorch: a dim declared dynamic came out with one size"),
    "SS602": ("error", "PyTorch: dims declared independent came out tied to each other"),
    "SS603": ("error", "PyTorch: a dim declared dynamic came out restricted to some sizes"),
    "SS604": ("error", "PyTorch: the declared range is wider than what runs"),
    "SS605": ("warning", "PyTorch: the module limits a dim whose declaration states no limit"),
    "SS606": ("warning", "PyTorch: a dim left to torch.export came out fixed, tied or restricted"),
    "SS607": ("error", "PyTorch: torch.export refuses the module"),
    "SS608": ("error", "PyTorch: the exporter cannot write the module as ONNX"),
    "SS609": ("error", "PyTorch: the module fails, or its graph computes something else, at a declared size"),
    "SS610": ("error", "PyTorch: torch.export's trace excludes sizes that the module supports"),
    "SS611": (
        "error",
        "PyTorch: the exporter cannot export the module as written, but can export an alternative form",
    ),
    "SS612": ("warning", "PyTorch: no size is declared dynamic"),
    "SS613": ("info", "PyTorch: a declaration of dynamic sizes to paste"),
    "SS614": ("warning", "PyTorch: whether the module runs at declared sizes depends on input data"),
}


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
        return "info" if self.usual else CODES[self.code][0]

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


__all__ = ["CODES", "Conflict", "Finding", "Severity", "Step"]
