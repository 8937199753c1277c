"""`Rejected`: a condition that given sizes break. The sentence about it is made here, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..expr.sizes import sizes_text

if TYPE_CHECKING:
    from ..expr import Dim
    from ..solve.contract.contract import Contract, Term, Terms
    from ..solve.facts.constraint import Constraint

_COMPARISON, _CHOICE = re.compile(r" (<=|>=|==|!=|<|>) "), re.compile(r" (and|or|if|not) ")
_REMAINDER = re.compile(r"(?:([\w.]+)|\(([^()]*)\)) % ([\w.]+)")
_RELATIONS = {
    "<=": "be at most",
    ">=": "be at least",
    "==": "equal",
    "!=": "differ from",
    "<": "be less than",
    ">": "be more than",
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """A condition that given sizes break, and the node that fails there.

    Attributes:
        text: The condition, as the contract states it.
        sentence: The condition with the sizes that break it: "height must be a multiple of 8, got 12".
        nodes: Labels of the nodes involved, the one that fails first.
        constraint: The broken requirement of that node; None if the inputs don't fit their declarations.
        place: The node and its operands at these sizes.
    """

    text: str
    sentence: str
    nodes: tuple[str, ...] = ()
    constraint: Constraint | None = field(default=None, repr=False)
    place: str = field(default="", repr=False)
    find: Callable[[], Sequence[Mapping[str, int]]] | None = field(default=None, compare=False, repr=False)

    @property
    def message(self) -> str:
        """The sentence, and the node with its operands."""
        return f"{self.sentence}; {self.place}" if self.place else self.sentence

    @property
    def nearest(self) -> tuple[Mapping[str, int], ...]:
        """Accepted sizes near the given ones, the best first; none if none were found."""
        return () if self.find is None else tuple(self.find())

    def __repr__(self) -> str:
        return f"Rejected({self.message})"

    def __str__(self) -> str:
        return self.message


#: the name that `check_inputs` and `evaluate` give to a `Rejected`
Violation = Rejected


def requirement_text(text: str) -> str:
    """A condition as a sentence: ``seq <= 512`` becomes "seq must be at most 512".

    A choice or a condition of another form becomes "the model runs only if ...".
    """
    sides = _COMPARISON.split(text)
    if _CHOICE.search(text) or len(sides) not in (3, 5):
        return f"the model runs only if {text}"
    if len(sides) == 5:  # 1 <= seq <= 512
        return f"{sides[2]} must be from {sides[0]} to {sides[4]}"
    left, sign, right = sides
    multiple = _REMAINDER.fullmatch(left) if (sign, right) == ("==", "0") else None
    if multiple is not None:
        return f"{multiple[1] or multiple[2]} must be a multiple of {multiple[3]}"
    if sign == "==" and right.isdecimal():
        return f"{left} must be {right}"
    return f"{left} must {_RELATIONS[sign]} {right}"


def sentence_of(text: str, names: Iterable[str], sizes: Mapping[str, object]) -> str:
    """A broken condition with the sizes of its names: "height must be a multiple of 8, got 12"."""
    names = list(names)
    got = sizes_text(sizes, names)
    one = got.partition(" = ")[2] if len(names) == 1 else got
    return f"{requirement_text(text)}, got {one}" if one else requirement_text(text)


def broken_terms(contract: Contract, sizes: Mapping[str, int]) -> Sequence[Term]:
    """The terms that these sizes break: those for typical sizes, if the sizes are in their scope and break one."""
    exact, usual = contract.broken(sizes), contract.usual
    if exact and all(
        c.evaluate(sizes) is True for c in (*usual.whole.sizes, *usual.scope) if c.free & sizes.keys()
    ):
        found = [t for t in usual if t.cond.evaluate(sizes) is False]
        if found:
            return found
    return exact


def rejected_by(terms: Sequence[Term] | Terms, sizes: Mapping[str, object]) -> list[Rejected]:
    """One `Rejected` for each of these terms of a contract, by the first node that needs it."""
    found = []
    for term in terms:
        needs = next((c for c in term.constraints if c.role == "requirement"), None)
        sentence = sentence_of(term.text, term.symbols, sizes)
        found.append(Rejected(term.text, sentence, term.nodes, needs))
    return found


def misfit(message: str) -> Rejected:
    """Inputs that don't fit their declarations."""
    return Rejected(message, message)


def wrong_size(name: str, axis: int, declared: Dim, size: int, value: int | None = None) -> Rejected:
    """A size of an input that is not the declared one, whose `value` may be known."""
    known = f" = {value}" if declared.terms and value is not None else ""
    return misfit(f"{name}[{axis}] must be {declared}{known}, got {size}")


class TensorSizes(dict[str, tuple[int, ...]]):
    """Shapes of tensors by name.

    If the sizes are not accepted, `violations` says why, the shapes are those that a run makes before it stops, and the truth
    value is False.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], violations: Sequence[Rejected] = ()) -> None:
        super().__init__(shapes)
        self.violations = tuple(violations)

    def __bool__(self) -> bool:
        return len(self) > 0 and not self.violations

    def __repr__(self) -> str:
        if not self.violations:
            return super().__repr__()
        return f"<TensorSizes of {len(self)} tensors, not accepted: {self.violations[0]}>"
