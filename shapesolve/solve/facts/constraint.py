"""`Constraint`: one condition that a node, a declaration, an assumption or the user states."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...expr import TRUE, Cond, Dim, eq, implies
from ...expr.traverse import atoms_of

#: kinds of constraints: an output dim's definition; a need of a node at run time; the size of an input or of a stored tensor;
#: the model's declaration of a computed tensor; an assumption that was made; a condition that the user gave
Role = Literal["definition", "requirement", "input", "declared", "assumption", "user"]

ROLES: tuple[Role, ...] = ("input", "definition", "requirement", "declared", "assumption", "user")

#: a tensor's dim as the text of a condition has it, in backticks
_PLACE = re.compile(r"`([\w./:\-]+\[\d+\]'*)`")


@dataclass(frozen=True, slots=True)
class Site:
    """A tensor, one of its axes (`x[2]`), or, if `data` is set, one of its elements."""

    tensor: str
    axis: int | None = None
    data: bool = False

    def __str__(self) -> str:
        return self.tensor if self.axis is None else f"{self.tensor}[{self.axis}]"


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of a constraint: the node (its label, with scope), its operator, and the rule as a sentence.

    For declarations, assumptions, and user conditions, `node` is empty and `rule` describes them.
    """

    node: str
    op_type: str
    rule: str
    sites: tuple[Site, ...] = ()


class Sides(NamedTuple):
    """A tensor's dim and its two definitions: `local`, in terms of the node's inputs, and `over_inputs`, in terms of the
    model's inputs.
    """

    variable: Dim
    local: Dim
    over_inputs: Dim


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition with its role, its origin, and the path condition (`guard`) under which it applies.

    In a `ConstraintSystem`, `cond` is local to one node: it is over dims of the tensors that the node reads and
    writes (`Z[1]`). `over_inputs`
    is the same condition over the dims of the model's inputs (with its guard), and `defines` has both sides of a
    definition.
    """

    cond: Cond
    role: Role
    origin: Origin
    guard: Cond = field(default=TRUE)
    over_inputs: Cond | None = None
    defines: Sides | None = None

    @property
    def node(self) -> str:
        """The label of the node that states it; empty for inputs, assumptions and the user's conditions."""
        return self.origin.node

    @property
    def op_type(self) -> str:
        """The node's operator."""
        return self.origin.op_type

    @property
    def rule(self) -> str:
        """The rule as a sentence."""
        return self.origin.rule

    @property
    def tensor(self) -> str:
        """The tensor whose dim it defines, or else the first that it mentions; empty for other conditions."""
        return self.origin.sites[0].tensor if self.origin.sites else ""

    @property
    def axis(self) -> int | None:
        """The axis of `tensor` that it defines or mentions."""
        return self.origin.sites[0].axis if self.origin.sites else None

    @property
    def assumption(self) -> str:
        """Name of an assumption: its condition, or its rule if the condition has generated symbols."""
        return self.origin.rule if any(a.made for a in atoms_of(self.cond)) else str(self.cond)

    @property
    def reading(self) -> Cond:
        """The condition to print: a definition over the model's inputs, others over the dims of tensors."""
        sides = self.defines
        return implies(self.guard, self.cond if sides is None else eq(sides.variable, sides.over_inputs))

    @property
    def text(self) -> str:
        """The condition as text, over the dims of tensors."""
        sides = self.defines
        return self._printed(str(self.cond) if sides is None else f"{sides.variable} == {sides.local}")

    @property
    def text_over_inputs(self) -> str:
        """The condition as text, over the dims of the model's inputs."""
        sides = self.defines
        if sides is not None:
            return self._printed(f"{sides.variable} == {sides.over_inputs}")
        return self.text if self.over_inputs is None else _PLACE.sub(r"\1", str(self.over_inputs))

    def _printed(self, text: str) -> str:
        text = text if self.guard.is_true else f"{text}  if {self.guard}"
        return text if self.over_inputs is None else _PLACE.sub(r"\1", text)

    def z3(self, ctx: Any = None, *, tensors: bool = False) -> Any:
        """The condition as a Z3 formula over the dims of the model's inputs. With `tensors` it is over dims of tensors
        (``Int("Z[1]")``).

        `ctx` is the context (default: Z3's main one).
        """
        local = implies(self.guard, self.cond)
        return (local if tensors or self.over_inputs is None else self.over_inputs).z3(ctx)

    def __str__(self) -> str:
        return self.text if self.defines is None else self.text_over_inputs
