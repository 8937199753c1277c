# compiled: see CONTRIBUTING.md
"""Records of the walk (conditions, contradictions, notes, scopes), and its interface to the facts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..expr import TRUE, Cond, Dim
from ..model import Node
from .types import Known

if TYPE_CHECKING:
    from ..solve.facts.constraint import Role

#: (input index, axis or None)
Place = tuple[int, "int | None"]
#: a node's precondition, its rule in words, and the places in the node's interface that it restricts
Requirement = tuple[Cond, str, tuple[Place, ...]]
#: sizes of a tensor as numbers; None for a symbolic one
Sizes = tuple["int | None", ...]
#: outputs of a rule: the known value of each, in order
Outputs = Known | Seq[Known | None] | None


class Standard(NamedTuple):
    """Results of onnx's own shape inference on the whole model. Sizes of the main graph's tensors, those inside of
    bodies by full name, errors.
    """

    sizes: Mapping[str, Sizes]
    inside: Mapping[str, Sizes]
    errors: str


class FactStore(Protocol):
    """Interface of `solve.facts.facts.Facts`."""

    version: int
    changed: dict[str, int]  # symbols about which something was learned, and the version with which it was
    contradiction: frozenset[int]  # conditions that contradict the last rejected one

    def dim(self, d: Dim) -> Dim:
        """Return a dim simplified by the facts."""

    def cond(self, c: Cond) -> Cond:
        """Return a condition simplified by the facts."""

    def decide(self, c: Cond) -> bool | None:
        """True or False if the facts decide the condition, else None."""

    def assume(self, cond: Cond, cause: int) -> bool:
        """Add a condition to the facts; False if it contradicts them."""

    def introduce(self, name: str) -> None:
        """Register a symbol in order of appearance."""

    def why(self, names: Iterable[str]) -> frozenset[int]:
        """Constraints from which the facts about these symbols follow."""


class Entry(NamedTuple):
    """One recorded condition; `Constraint` objects are made from these on demand."""

    cond: Cond
    role: Role
    node: Node | None
    prefix: str
    why: str
    places: tuple[Place, ...]
    guard: Cond


@dataclass(slots=True, eq=False)
class LoweredNode:
    """Cached result of a node, for the next node with equal operator, attributes and inputs."""

    version: int  # latest version of the facts for which it is valid
    inputs: tuple[Known | None, ...]
    outputs: tuple[Known, ...]
    requirements: Seq[Requirement]
    ambiguous: Seq[tuple[Dim, Dim, tuple[Place, ...]]]


class Clash(NamedTuple):
    """Condition that contradicts earlier ones, or a node that cannot run.

    It has the log entry that showed it (or only a message) and the entries that caused it. `loads` is False if the
    model
    fails even if the node is not reached.
    """

    entry: int | None
    message: str
    node: Node | None
    prefix: str
    causes: frozenset[int]
    loads: bool = True


class Open(NamedTuple):
    """A broadcast of two dims that may or may not be equal."""

    a: Dim
    b: Dim
    node: Node
    prefix: str
    places: tuple[Place, ...]


class Note(NamedTuple):
    """A remark on a node, or on the tensor `subject`. ``kind`` is ``unknown-op``, ``open`` ..."""

    kind: str
    message: str
    node: Node | None
    prefix: str
    subject: str = ""


@dataclass(slots=True, eq=False)
class Scope:
    """Tensors by name in one graph or function body, and the scope around it."""

    prefix: str
    opsets: Mapping[str, int]
    env: dict[str, Known] = field(default_factory=dict)
    parent: Scope | None = None
    guard: Cond = TRUE
    attrs: dict[str, Any] | None = None
    declared: dict[str, Known] = field(default_factory=dict)
    refined: set[str] = field(default_factory=set)  # names in `env` that belong to a scope around it
    depth: int = 0
    repeats: bool = False  # lowered once for all iterations of a loop
    meaningless: set[str] = field(default_factory=set)  # tensors that depend on a node that cannot run

    def is_meaningless(self, name: str) -> bool:
        """Return True if the tensor's values are meaningless, as a node before it cannot run."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.env:
                return name in scope.meaningless
            scope = scope.parent
        return False


@dataclass(slots=True, eq=False)
class Body:
    """The nodes of a subgraph or function body, and the scope to lower them in."""

    nodes: Seq[Node]
    scope: Scope
    at: int = 0  # nodes lowered so far


#: Rule of an operator with subgraphs, while it runs: it yields each body to lower, and continues with the result.
Steps = Generator[Body, None, Outputs]
