"""Provenance of each axis of a tensor: the batch items along it. Proves that batch items are independent.

An operator's declaration lists the input axis that each output axis comes from (see `lower.axes`). Axes are stored as factors
in row-major order. In ``Reshape([batch, seq, 64] -> [batch*seq, 64])``, `batch` is the outer factor of the first axis, and a
later node that splits the axis gets `batch` back.

The items of a symbol are independent in a tensor if one axis has that symbol as a factor and slice i is computed from item i
alone, or if nothing in the tensor depends on the symbol. Otherwise the tensor is `Mixing`, with the node. An operator without
a declaration mixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TypeAlias

from ...expr import ONE, Dim, as_dim, constant, exact_quotient, floor_div, product
from ...expr import symbol as named
from ...lower.axes import Along, Items, Label, Links, Uniform
from ...lower.work import Outputs
from ...model import Node

#: the factors of one axis, outermost first
Factors: TypeAlias = tuple[Dim, ...]
#: the axes of a tensor
Layout: TypeAlias = tuple[Factors, ...]
#: for each label, the factors of its axis, and the reason why items along it are not independent ('' if they are)
_Table: TypeAlias = Mapping[Label, tuple[Factors, str]]


@dataclass(frozen=True, slots=True)
class Mixing:
    """The node from which batch items are no longer independent, and a description of its effect."""

    node: str
    op_type: str
    what: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op_type}) {self.what}"


@dataclass(frozen=True, slots=True)
class Rows:
    """Batch rows of a tensor: its axes as factors, and symbols whose rows are mixed in it. None: rank unknown."""

    layout: Layout | None
    mixed: Mapping[str, Mixing]

    def place(self, symbol: str) -> tuple[int, int] | None:
        """Position of a symbol's batch rows in a tensor: axis, and factor of that axis. None if it has none."""
        for axis, factors in enumerate(self.layout or ()):
            for k, factor in enumerate(factors):
                if symbol in factor.free:
                    return axis, k
        return None

    def depends(self, symbol: str) -> bool:
        """True if the tensor can depend on the rows of a symbol or on their number."""
        return symbol in self.mixed or self.place(symbol) is not None


def layout_of(shape: Seq[Dim] | None) -> Layout | None:
    """The axes of a shape as factors: one per axis, none for size 1; None if the rank is unknown."""
    return None if shape is None else tuple(() if d is ONE else (d,) for d in shape)


def normal(factors: Iterable[Dim]) -> Factors:
    """Factors without ones, neighbouring numbers multiplied."""
    found: list[Dim] = []
    for factor in factors:
        if factor is ONE:
            continue
        if found and not factor.terms and not found[-1].terms:
            found[-1] = constant(found[-1].const * factor.const)
        else:
            found.append(factor)
    return tuple(found)


def flow(
    node: Node,
    made: Outputs,
    links: Links | str,
    given: Seq[Rows | None],
    known: Seq[bool],
    symbols: Seq[str],
) -> list[Rows]:
    """Return the rows of a node's outputs, given the rows of its inputs.

    Args:
        node: The node.
        made: Sizes of its outputs.
        links: The operator's declaration, or a description of how it mixes batch items.
        given: Rows of the inputs; None for an omitted input.
        known: For each input, whether its elements are known exactly, as expressions of the sizes.
        symbols: The symbols whose items are tracked.
    """
    if isinstance(links, str):
        return [_unfollowed(node, shape, links, given, symbols) for shape in made]
    if links.regroups and given[0] is not None:
        return [_regrouped(node, made[0], given[0], symbols)]
    table = _table(links, given, symbols)
    mixed: dict[str, Mixing] = {}
    places: dict[str, Label] = {}
    for symbol in symbols:
        what = ""
        found = [name for name, (factors, _) in table.items() if any(symbol in f.free for f in factors)]
        if found:
            places[symbol], clash = found[0], table[found[0]][1]
            what = f"{clash} {symbol}" if clash else ""
        if len(found) > 1:
            what = f"brings rows of {symbol} together on two of its axes"
        trouble = _inherited(symbol, links, given, known) or (_mixing(node, what) if what else None)
        if trouble is not None:
            mixed[symbol] = trouble
    outputs = [*links.outputs, *[None] * len(made)]
    return [_output(node, shape, outputs[i], table, mixed, places, symbols) for i, shape in enumerate(made)]


def _mixing(node: Node, what: str) -> Mixing:
    return Mixing(node.label, node.op_type, what)


def _table(links: Links, given: Seq[Rows | None], symbols: Seq[str]) -> _Table:
    found: dict[Label, list[Factors]] = {}
    for labels, rows in zip(links.inputs, given, strict=False):
        if labels is not None and rows is not None and rows.layout is not None:
            for name, factors in zip(labels, rows.layout, strict=True):
                found.setdefault(name, []).append(factors)
    return {name: _factors(at, links.broadcasts, symbols) for name, at in found.items()}


def _factors(at: list[Factors], broadcasts: bool, symbols: Seq[str]) -> tuple[Factors, str]:
    wide = [f for f in at if f] if broadcasts else at
    best = max(wide, key=lambda f: (any(s in d.free for d in f for s in symbols), len(f)), default=())
    size = product(best)
    for factors in wide:
        if factors != best and product(factors) is not size:
            return best, "does not have the same size everywhere along the rows of"
        if factors != best and any(s in d.free for d in factors for s in symbols) and len(factors) > 1:
            return best, "meets another order of the rows of"
    return best, ""


def _inherited(symbol: str, links: Links, given: Seq[Rows | None], known: Seq[bool]) -> Mixing | None:
    for labels, rows, sure in zip(links.inputs, given, known, strict=False):
        if rows is not None and symbol in rows.mixed and not (labels is None and sure):
            return rows.mixed[symbol]
    return None


def _output(
    node: Node,
    made: Seq[Dim] | None,
    items: Seq[Items] | None,
    table: _Table,
    troubles: Mapping[str, Mixing],
    places: Mapping[str, Label],
    symbols: Seq[str],
) -> Rows:
    mixed = dict(troubles)
    carried = {item for axis in items or () for item in axis}
    layout = layout_of(made)
    for symbol in (s for s, name in places.items() if name not in carried):
        mixed.setdefault(symbol, _mixing(node, f"works along the axis that holds the rows of {symbol}"))
    axes = []
    for axis, size in zip(items or (), made or (), strict=False):
        factors = normal(f for item in axis for f in _parts(item, table))
        sure = product(factors) is size and all(isinstance(i, Uniform) or _label(i) in table for i in axis)
        axes.append(factors if sure else normal([size]))
        for symbol in symbols:
            if symbol in size.free and not (sure and sum(symbol in f.free for f in factors) == 1):
                what = f"makes an axis of size {size} that does not hold one row after the other of {symbol}"
                mixed.setdefault(symbol, _mixing(node, what))
    if layout is not None and len(axes) == len(layout):
        layout = tuple(axes)
    for symbol in places:
        if Rows(layout, {}).place(symbol) is None:
            mixed.setdefault(symbol, _mixing(node, f"hides which axis holds the rows of {symbol}"))
    return Rows(layout, mixed)


def _label(item: Label | Along) -> Label:
    return item.label if isinstance(item, Along) else item


def _parts(item: Label | Uniform | Along, table: _Table) -> Factors:
    return (item.size,) if isinstance(item, Uniform) else table.get(_label(item), ((), ""))[0]


def _unfollowed(
    node: Node, made: Seq[Dim] | None, what: str, given: Seq[Rows | None], symbols: Seq[str]
) -> Rows:
    """Rows of an output of an operator without declaration: it mixes all rows that any input has."""
    mixed: dict[str, Mixing] = {}
    what = what or "may mix items of {symbol}"
    for symbol in symbols:
        for rows in given:
            if rows is not None and rows.depends(symbol):
                mixed.setdefault(symbol, rows.mixed.get(symbol) or _mixing(node, what.format(symbol=symbol)))
        if any(symbol in d.free for d in made or ()):
            mixed.setdefault(symbol, _mixing(node, f"makes a tensor whose size depends on {symbol}"))
    return Rows(layout_of(made), mixed)


# ---------------------------------------------------------------------- reshaping


def _regrouped(node: Node, made: Seq[Dim] | None, rows: Rows, symbols: Seq[str]) -> Rows:
    mixed = dict(rows.mixed)
    found = None if made is None or rows.layout is None else regrouped(rows.layout, made)
    for symbol in symbols:
        if symbol in mixed or rows.place(symbol) is None:
            continue
        if found is None:
            mixed[symbol] = _mixing(node, f"regroups the elements across the rows of {symbol}")
        elif any(  # only part of the rows, for example every fourth
            symbol in factor.free and exact_quotient(factor, named(symbol)) is None
            for factors in found
            for factor in factors
        ):
            mixed[symbol] = _mixing(node, f"puts rows of {symbol} into groups")
    return Rows(layout_of(made) if found is None else found, mixed)


def regrouped(layout: Layout, made: Seq[Dim]) -> Layout | None:
    """Factors per axis after a reshape to these sizes; None if they do not fit.

    None when an axis cannot be put together from the factors.
    """
    waiting = list(normal(f for axis in layout for f in axis))
    found: list[Factors] = []
    cut = joined = (
        False  # sizes that are exact only since as many elements go in as come out: one way at a time
    )
    for size in made:
        taken: list[Dim] = []
        need = as_dim(size)
        while need is not ONE and waiting:
            factor = waiting[0]
            rest = _quotient(need, factor)
            if rest is not None:
                joined |= exact_quotient(need, factor) is None
                taken.append(waiting.pop(0))
                need = rest
                continue
            left = _quotient(factor, need)
            cut |= left is not None and exact_quotient(factor, need) is None
            if left is None:
                return None
            taken.append(need)
            waiting[0], need = left, ONE
        if need is not ONE:
            return None
        found.append(normal(taken))
    return tuple(found) if not waiting and not (cut and joined) else None


def _quotient(whole: Dim, part: Dim) -> Dim | None:
    """`whole` divided by `part`; None if it does not divide. The numbers of elements before and after are equal."""
    found = exact_quotient(whole, part)
    if found is not None or not whole.terms:
        return found
    if not part.terms:
        return floor_div(whole, part)
    times = [atom.args[1] for monomial, _ in part.terms for atom in monomial if atom.kind == "//"]
    return next((d for d in times if isinstance(d, Dim) and floor_div(whole, d) is part), None)
