"""`Constraint`: one condition that a node, a declaration, an assumption or the user states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..expr import TRUE, Cond

#: who says it: an output dim's definition; what a node needs at run time; the model's own declaration;
#: an assumption that was made; a condition that the user gave
Role = Literal["definition", "requirement", "declared", "assumption", "user"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a node's interface: a tensor by name, and an axis of it or None for the whole."""

    tensor: str
    axis: int | None = None

    def __str__(self) -> str:
        return self.tensor if self.axis is None else f"{self.tensor}[{self.axis}]"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a constraint comes from: the node (its label, with scope), its operator and the rule in words.

    For declarations, assumptions and user conditions `node` is empty and `rule` says what they are.
    """

    node: str
    op_type: str
    rule: str
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """``cond``, with its role, its origin and the path condition (`guard`) under which it is stated."""

    cond: Cond
    role: Role
    origin: Origin
    guard: Cond = field(default=TRUE)

    def __str__(self) -> str:
        text = str(self.cond)
        return text if self.guard.is_true else f"{text}  if {self.guard}"
