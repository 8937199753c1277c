"""How an operator declares which axes of its outputs carry which axes of its inputs (see `provenance`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..expr import Dim
from ..model import Node

Label: TypeAlias = Hashable
#: labels and other parts of one axis of an output
Items: TypeAlias = Seq["Label | Uniform | Along"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """A part of an axis along which all elements are the same, of this size."""

    size: Dim


@dataclass(frozen=True, slots=True)
class Along:
    """An axis that the operator works along and keeps: places stay, but their elements depend on each other."""

    label: Label


@dataclass(frozen=True, slots=True)
class Links:
    """How the axes of one node hang together.

    Attributes:
        inputs: per input its labels, axis by axis; None for an input that says sizes, not data.
        outputs: per output its axes, each a sequence of labels, `Uniform` and `Along` parts, outermost first; None where it
            is not followed.
        broadcasts: an axis of size 1 goes with any size of the same label.
        regroups: the first output has the elements of input 0 in the same order, in another shape.
    """

    inputs: Seq[Seq[Label] | None]
    outputs: Seq[Seq[Items] | None]
    broadcasts: bool = False
    regroups: bool = False


class View:
    """A node as its declaration sees it: attributes, sizes and what is known of its inputs' data."""

    def __init__(
        self,
        node: Node,
        version: int,
        shapes: Seq[Seq[Dim] | None],
        values: Seq[Seq[Any] | None],
        made: Seq[Seq[Dim] | None],
    ) -> None:
        self.node, self.version, self.shapes, self.values, self.made = node, version, shapes, values, made
        self.mixing = (
            ""  # what the operator does with rows that it does not keep apart, where its declaration says so
        )

    @property
    def n_in(self) -> int:
        """Number of inputs listed."""
        return len(self.node.inputs)

    def has(self, i: int) -> bool:
        """Is input `i` connected?"""
        return i < len(self.node.inputs) and bool(self.node.inputs[i])

    def shape(self, i: int) -> Seq[Dim]:
        """Sizes of input `i`; `Unfollowed` when its rank is not known."""
        found = self.shapes[i] if i < len(self.shapes) else None
        if found is None:
            raise Unfollowed
        return found

    def rank(self, i: int) -> int:
        """Rank of input `i`."""
        return len(self.shape(i))

    def out(self, i: int = 0) -> Seq[Dim]:
        """Sizes of output `i`."""
        found = self.made[i] if i < len(self.made) else None
        if found is None:
            raise Unfollowed
        return found

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        value = self.node.attributes.get(name)
        return default if value is None else value

    def dims(self, i: int) -> Seq[Dim] | None:
        """Elements of an integer input, when all are known."""
        found = self.values[i] if i < len(self.values) else None
        return None if found is None or not all(isinstance(e, Dim) for e in found) else found

    def ints(self, i: int) -> list[int] | None:
        """Elements of an integer input, when all are known numbers."""
        found = self.dims(i)
        return None if found is None or any(e.terms for e in found) else [e.const for e in found]

    def axis(self, default: int = 0, rank: int | None = None) -> int:
        """The attribute `axis`, not negative."""
        axis, rank = int(self.attr("axis", default)), self.rank(0) if rank is None else rank
        return axis + rank if axis < 0 else axis

    def axes(self, i: int = 1, default: Seq[int] | None = None) -> list[int]:
        """Axes from the attribute `axes` or input `i`, not negative."""
        found = self.attr("axes")
        if found is None and self.has(i):
            found = self.ints(i)
            if found is None:
                raise Unfollowed
        if found is None:
            found = default
        if found is None:
            raise Unfollowed
        return [int(a) + self.rank(0) if a < 0 else int(a) for a in found]


class Unfollowed(Exception):
    """A declaration cannot say what becomes of the axes of this node."""


Rule: TypeAlias = Callable[[View], Links]


def mixes(what: str) -> Rule:
    """The declaration of an operator that keeps no rows apart: what it does with those of ``{symbol}``."""

    def rule(view: View) -> Links:
        view.mixing = what
        raise Unfollowed

    return rule


# ---------------------------------------------------------------------- the notation


def axes(notation: str) -> Rule:
    """A declaration by letters: one letter per axis, ``*S`` all axes between, ``~S`` the same, aligned from the right.

    ``^N`` and ``*^S`` are axes that the operator works along. ``...`` are axes that are not followed, ``?`` is an operand that
    is not followed at all, as all are that are not mentioned, and ``#`` one that says sizes.
    """
    left, right = (side.strip() for side in notation.split("->"))
    operands = [part.split() for part in left.split(",")] if left else []
    results = [part.split() for part in right.split(",")]

    def rule(view: View) -> Links:
        stars: dict[str, int] = {}
        inputs = []
        for i in range(view.n_in):
            pattern = operands[i] if i < len(operands) else ["?"]
            inputs.append(_labels(pattern, view, i, stars) if view.has(i) else ())
        wanted = len(view.node.outputs)
        outputs = [_expanded(p, stars, view, i) for i, p in enumerate(results[:wanted])]
        return Links(inputs, outputs, broadcasts="~" in notation)

    return rule


def _labels(pattern: Seq[str], view: View, i: int, stars: dict[str, int]) -> Seq[Label] | None:
    if pattern == ["#"]:
        return None
    if pattern == ["?"]:
        shape = view.shapes[i]
        return [("?", i, k) for k in range(len(shape or ()))]
    rank = view.rank(i)
    open_at = [k for k, token in enumerate(pattern) if token[0] in "*~."]
    spare = rank - len(pattern) + len(open_at)
    if spare < 0 or (not open_at and spare):
        raise Unfollowed
    found: list[Label] = []
    for k, token in enumerate(pattern):
        if not open_at or k != open_at[0]:
            found.append(token)
        elif token == "...":
            found += [("...", i, n) for n in range(spare)]
        else:
            name = token[1:]
            stars[name] = max(stars.get(name, 0), spare)
            found += [(name, n - spare) if token[0] == "~" else (name, n) for n in range(spare)]
    return found


def _expanded(pattern: Seq[str], stars: Mapping[str, int], view: View, i: int) -> Seq[Items] | None:
    if pattern == ["?"]:
        return None
    found: list[Items] = []
    for token in pattern:
        if token == "...":
            known = len(view.out(i)) - len(pattern) + 1
            found += [[("new", n)] for n in range(known)]
        elif token.startswith("*^"):
            found += [[Along((token[2:], n))] for n in range(stars[token[2:]])]
        elif token[0] == "^":
            found.append([Along(token[1:])])
        elif token[0] in "*~":
            name = token[1:]
            count = stars.get(name)
            if count is None:  # axes that the operator makes
                count = len(view.out(i)) - len(pattern) + 1
            found += [[(name, n - count) if token[0] == "~" else (name, n)] for n in range(count)]
        else:
            found.append([token])
    return found
