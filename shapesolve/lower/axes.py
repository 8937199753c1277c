"""Links: which output axes carry which input axes, element by element (`Rule.axes`).

    axes="N c *s, m *w, m -> N K *S"

A letter links axes element by element: index i depends only on index i of the axes with the same letter. A letter
missing
from the outputs (`c`) is reduced; one missing from the inputs (`K`) is created by the operator. The notation is the
one for
signatures (see `shapesolve.lower.signature`), with ``^N`` and ``^*S`` for axes that the operator works along and
keeps, and
``#`` for an operand that gives sizes rather than data. ``=`` stands for the operator's own signature.

If letters cannot express the links, a function computes them from the `Op` and its output shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from ..expr import ONE, Dim, Shape
from .op import InvalidNode, Op
from .rule import EACH as EACH
from .rule import FIRST as FIRST
from .rule import SAME as SAME
from .signature import Pattern, PatternTerm, Signature
from .work import Outputs

#: label of an axis: axes of inputs and outputs with the same label correspond
Label: TypeAlias = Hashable
#: labels and other parts of one axis of an output, outermost first
Items: TypeAlias = Seq["Label | Uniform | Along"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """A factor of an axis, of this size, along which all elements are equal."""

    size: Dim


@dataclass(frozen=True, slots=True)
class Along:
    """An axis that is kept, but whose elements the operator combines (a softmax). Places stay, but their elements
    depend on each other.
    """

    label: Label


@dataclass(frozen=True, slots=True)
class Links:
    """Correspondence between the axes of a node's inputs and outputs, by common labels.

    Attributes:
        inputs: Labels of each input's axes; None for an input that gives sizes rather than data.
        outputs: Axes of each output, as sequences of labels, `Uniform`, and `Along` parts; None if unknown.
        broadcasts: True if an axis of size 1 matches any size with the same label.
        regroups: True if the first output has the elements of input 0 in the same order, in another shape.
    """

    inputs: Seq[Seq[Label] | None]
    outputs: Seq[Seq[Items] | None]
    broadcasts: bool = False
    regroups: bool = False


class Unfollowed(Exception):
    """Raised for a node whose axes have no correspondence; the message says how it combines batch items.

    Attributes:
        lists: True if the first output lists data-dependent results, item by item: the coordinates of elements of the
            first
            input (as columns), or one entry per item.
    """

    def __init__(self, what: str = "", lists: Lists = "") -> None:
        super().__init__(what)
        self.lists: Lists = lists


Axes: TypeAlias = Callable[[Op, Outputs], Links]

#: see `Unfollowed`
Lists = Literal["", "coordinates", "items"]
#: see `picks`
Picks = Literal["", "axis", "corners"]
#: effect of an operator with a data-dependent number of results
TOGETHER = "lists its results for all items of {symbol} together: their number per item depends on input data"


def links_of(op: Op, outputs: Outputs) -> Links | None:
    """Return the links of a node by the declaration of its operator; None if there is none.

    Raises:
        Unfollowed: it cannot say it of this node.
    """
    rule = op.rule
    if rule is None or rule.axes is None or rule.bodies:
        return None
    try:
        if not isinstance(rule.axes, str):
            found: Links = rule.axes(op, outputs)
        else:
            found = by_letters(rule.axes, op, outputs)
        for i, labels in enumerate(found.inputs[: op.n_in]):
            if labels is not None and op.has(i) and op.rank(i) not in (None, len(labels)):
                raise Unfollowed
        return found
    except (InvalidNode, IndexError, TypeError, ValueError) as error:
        raise Unfollowed from error


# ---------------------------------------------------------------------- letters


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[Seq[Pattern], Seq[Pattern]]:
    inputs, outputs, _ = Signature(text, (), {}).parsed
    return inputs, outputs


def by_letters(text: str, op: Op, outputs: Outputs) -> Links:
    """Return the links of a node from a declaration in letters."""
    operands, results = _parsed(text)
    stars: dict[str, int] = {}
    inputs: list[Seq[Label] | None] = []
    for i in range(op.n_in):
        at = min(i, len(operands) - 1)
        pattern = operands[at] if at == i or operands[at].repeats else _NOTHING
        inputs.append(_labels(pattern, op, i, stars) if op.has(i) else ())
    found = [_expanded(p, stars, outputs, i) for i, p in enumerate(results[: op.n_out])]
    return Links(inputs, found, broadcasts="~" in text)


_NOTHING = Pattern((), anything=True)


def _labels(pattern: Pattern, op: Op, i: int, stars: dict[str, int]) -> Seq[Label] | None:
    if any(t.kind == "#" for t in pattern.terms):
        return None
    if pattern.anything:
        return own(op, i)
    group = pattern.group
    spare = rank(op, i) - len(pattern.terms) + (group is not None)
    if spare < 0 or (group is None and spare):
        raise Unfollowed
    found: list[Label] = []
    for k, term in enumerate(pattern.terms):
        if k != group:
            found.append(term.dim.name or (i, k))
            continue
        stars[term.name] = max(stars.get(term.name, 0), spare)
        found += _group(term, spare)
    return found


def _group(term: PatternTerm, count: int) -> list[Label]:
    return [(term.name, n - count if term.kind == "~" else n) for n in range(count)]


def _expanded(pattern: Pattern, stars: dict[str, int], outputs: Outputs, i: int) -> Seq[Items] | None:
    if pattern.anything:
        return None
    found: list[Items] = []
    for k, term in enumerate(pattern.terms):
        labels: list[Label] = [term.dim.name or ("new", k)]
        if term.kind in "*~":
            count = stars.get(term.name)
            if count is None:  # axes that the operator makes
                count = len(made(outputs, i)) - len(pattern.terms) + 1
            labels = _group(term, count)
        found += [[Along(label)] if term.along else [label] for label in labels]
    return found


# ---------------------------------------------------------------------- words of functions


def sizes(op: Op, i: int = 0) -> Shape:
    """Return the shape of input `i`; raises `Unfollowed` if its rank is unknown."""
    found = op.shape(i)
    if found is None:
        raise Unfollowed
    return found


def rank(op: Op, i: int = 0) -> int:
    """Return the rank of input `i`; raises `Unfollowed` if it is unknown."""
    return len(sizes(op, i))


def made(outputs: Outputs, i: int = 0) -> Shape:
    """Return the shape of output `i`; raises `Unfollowed` if its rank is unknown."""
    found = outputs[i] if i < len(outputs) else None
    if found is None:
        raise Unfollowed
    return found


def dims(op: Op, i: int) -> tuple[Dim, ...]:
    """Return the elements of an integer input as dims; raises `Unfollowed` if some are unknown."""
    value = op.value(i)
    found = (
        () if value is None or value.elems is None else tuple(e for e in value.elems if isinstance(e, Dim))
    )
    if value is None or value.elems is None or len(found) < len(value.elems):
        raise Unfollowed
    return found


def numbers(op: Op, i: int) -> tuple[int, ...]:
    """Return the elements of an integer input as numbers; raises `Unfollowed` if some are not constant."""
    found = op.const_ints(i)
    if found is None:
        raise Unfollowed
    return found


def axis_of(op: Op, default: int = 0, i: int = 0) -> int:
    """Return the attribute `axis` as a non-negative axis of input `i`."""
    axis = op.int_attr("axis", default)
    return axis + rank(op, i) if axis < 0 else axis


def own(op: Op, i: int = 0) -> list[Label]:
    """New labels for the axes of input `i`, not shared with other inputs."""
    return [(i, k) for k in range(op.rank(i) or 0)]


def others(op: Op, start: int = 1) -> list[list[Label]]:
    """New labels for the axes of the inputs from `start` on, not shared with other inputs."""
    return [own(op, i) for i in range(start, op.n_in)]


def plain(labels: Iterable[Label]) -> list[Items]:
    """Output axes with one label each."""
    return [[label] for label in labels]


def links_along(op: Op, acted: Iterable[int]) -> Links:
    """Return the links of an operator that keeps the axes of its first input and combines elements along some."""
    acted, labels = {*acted}, own(op)
    rank(op)
    out: list[Items] = [[Along(label)] if k in acted else [label] for k, label in enumerate(labels)]
    return Links([labels, *others(op)], [out] * op.n_out)


def along_axis(default: int = 0, *, rest: bool = False) -> Axes:
    """Return the axes of an operator that combines elements along its attribute `axis` (`rest`: and all after)."""

    def axes(op: Op, _: Outputs) -> Links:
        axis = axis_of(op, default)
        return links_along(op, range(axis, rank(op)) if rest else (axis,))

    return axes


def links_kept(op: Op, same: Seq[bool]) -> Links:
    """Return the links of an operator that keeps the axes marked in `same` and computes new values for the others."""
    labels = own(op)
    out: list[Items] = [
        [label if keep else ("new", k)] for k, (label, keep) in enumerate(zip(labels, same, strict=True))
    ]
    return Links([labels, *[None] * (op.n_in - 1)], [out])


def regroup(op: Op, _: Outputs) -> Links:
    """Return the links of a reshape: the elements of input 0 in the same order."""
    rank(op)
    return Links([own(op), *[None] * (op.n_in - 1)], [None], regroups=True)


def picks(links: Links) -> Picks:
    """Return the kind of index that input 1 holds for input 0, from the links of an operator.

    It is ``"axis"`` for indices along one axis, ``"corners"`` for coordinates in several, and ``""`` for anything else.
    """
    data, index = ([*(labels or ())] for labels in (*links.inputs[:2], None)[:2])
    carried = {label for items in links.outputs for parts in items or () for label in parts}
    if not data or not set(data).isdisjoint(index) or not carried.issuperset(index[:-1]):
        return ""
    return "axis" if carried.issuperset(index) else "corners"


def mixes(what: str, lists: Lists = "") -> Axes:
    """Return the axes of an operator that combines batch items, with its effect in words.

    `what`: what it does with the items of ``{symbol}``, in words; `lists`: see `Unfollowed`.
    """

    def axes(op: Op, _: Outputs) -> Links:
        raise Unfollowed(what, lists)

    return axes


def batched(outputs: Outputs, i: int = 0, at: int = 0) -> list[Items] | None:
    """Labels of output `i` whose axis `at` is the batch; the other axes are unlinked."""
    found = outputs[i] if i < len(outputs) else None
    return None if found is None else [["B"] if k == at else [("new", k)] for k in range(len(found))]


def batch_first(*operands: int, shared: Seq[int] = ()) -> Axes:
    """Return the axes of an operator with the batch as the first axis of these operands and of the outputs.

    The other axes are undetermined. Operands in `shared` may be one item for the whole batch.
    """

    def axes(op: Op, outputs: Outputs) -> Links:
        return first_axes(op, outputs, operands, shared)

    return axes


def first_axes(op: Op, outputs: Outputs, operands: Seq[int], shared: Seq[int] = ()) -> Links:
    """See `batch_first`."""
    size = sizes(op)[0]
    operands = [*operands, *(i for i in shared if op.has(i) and sizes(op, i)[0] is not ONE)]
    inputs: list[list[Label]] = []
    for i in range(op.n_in):
        labels = own(op, i) if op.has(i) else []
        inputs.append(["B", *labels[1:]] if i in operands and labels else labels)
    firsts = [batched(outputs, i) if o and o[0] is size else None for i, o in enumerate(outputs)]
    return Links(inputs, firsts)
