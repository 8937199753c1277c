"""Provenance of each axis of a tensor, with a proof that the rows of a batch stay apart.

The declaration of an operator says which axes of its outputs carry which axes of its inputs (see `lower.axes`). Axes are kept
as factors in row-major order, so that ``Reshape([batch, seq, 64] -> [batch*seq, 64])`` is known to have the rows of `batch`
outside those of `seq`, and they are found again when a later node splits them.

The rows of a symbol stay apart in a tensor when one axis has that symbol as a factor, and the part of the tensor at row i is
what the model computes of row i alone; or when nothing in it depends on the symbol. Everything else is `Mixing`, with the
node. An operator without a declaration mixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..expr import ONE, Dim, as_dim, constant, exact_quotient, floor_div, product
from ..expr import symbol as named
from ..lower.axes import Along, Items, Label, Links, Uniform
from ..lower.op import Op
from ..model import Node

#: the factors of one axis, outermost first
Factors: TypeAlias = tuple[Dim, ...]
#: the axes of a tensor
Layout: TypeAlias = tuple[Factors, ...]
#: of a node's outputs the sizes, None where the rank is not known, `SEQUENCE` for a sequence
Made: TypeAlias = "Seq[Seq[Dim] | None]"
#: sizes of a sequence (placeholder)
SEQUENCE: Seq[Dim] = [constant(-1)]

#: message about an operator without a declaration
_UNKNOWN = "is not known to keep the rows of {symbol} apart"


@dataclass(frozen=True, slots=True)
class Mixing:
    """The node after which the rows of a symbol are no longer separable, and its effect, in words."""

    node: str
    op_type: str
    what: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op_type}) {self.what}"


# ---------------------------------------------------------------------- the flow


@dataclass(frozen=True, slots=True)
class Origin:
    """Provenance of a tensor: its axes as factors, and symbols whose rows are mixed in it. None: rank unknown."""

    layout: Layout | None
    mixed: Mapping[str, Mixing]

    def rows(self, symbol: str) -> tuple[int, int] | None:
        """Axis and place among its factors of the rows of a symbol."""
        for axis, factors in enumerate(self.layout or ()):
            for k, factor in enumerate(factors):
                if symbol in factor.free:
                    return axis, k
        return None

    def depends(self, symbol: str) -> bool:
        """True if the tensor can depend on the rows, or the number of rows, of a symbol."""
        return symbol in self.mixed or self.rows(symbol) is not None


def factors_of(dim: Dim) -> Factors:
    """Factors of an axis with a known size only."""
    return () if dim is ONE else (dim,)


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
    op: Op, made: Made, links: Links | str, given: Seq[Origin | None], known: Seq[bool], symbols: Seq[str]
) -> list[Origin]:
    """The origins of a node's outputs.

    Args:
        op: the node.
        made: the sizes of its outputs.
        links: what its declaration says, or what it does with rows that it does not keep apart, in words.
        given: the origins of the inputs, None where an input is left out.
        known: which inputs' elements are known exactly, as expressions of the sizes.
        symbols: whose rows are followed.
    """
    node = op.node
    if isinstance(links, str):
        return [_unfollowed(node, sizes, links, given, symbols) for sizes in made]
    if links.regroups and given[0] is not None:
        return _regrouped(node, made[0], given[0], symbols)
    holders = _holders(links, given)
    table = {name: _factors(at, links.broadcasts, symbols) for name, at in holders.items()}
    troubles: dict[str, Mixing] = {}
    places: dict[str, Label] = {}
    for symbol in symbols:
        trouble = _inherited(symbol, links, given, known)
        found = [name for name, (factors, _) in table.items() if any(symbol in f.free for f in factors)]
        if trouble is None and len(found) > 1:
            trouble = Mixing(node.label, node.op_type, f"brings rows of {symbol} together on two of its axes")
        elif trouble is None and found:
            clash = table[found[0]][1]
            if clash:
                trouble = Mixing(node.label, node.op_type, f"{clash} {symbol}")
            places[symbol] = found[0]
        if trouble is not None:
            troubles[symbol] = trouble
    results = []
    for i, sizes in enumerate(made):
        items = links.outputs[i] if i < len(links.outputs) else None
        results.append(_output(node, sizes, items, table, troubles, places, symbols))
    return results


def _holders(links: Links, given: Seq[Origin | None]) -> dict[Label, list[Factors]]:
    found: dict[Label, list[Factors]] = {}
    for labels, origin in zip(links.inputs, given, strict=False):
        if labels is None or origin is None or origin.layout is None:
            continue
        for name, factors in zip(labels, origin.layout, strict=True):
            found.setdefault(name, []).append(factors)
    return found


def _factors(at: list[Factors], broadcasts: bool, symbols: Seq[str]) -> tuple[Factors, str]:
    """The factors of a letter, and what is wrong with the rows in it ('' when nothing is)."""
    wide = [f for f in at if f] if broadcasts else at
    best = max(wide, key=lambda f: (any(s in d.free for d in f for s in symbols), len(f)), default=())
    size = product(best)
    for factors in wide:
        if factors != best and product(factors) is not size:
            return best, "does not have the same size everywhere along the rows of"
        if factors != best and any(s in d.free for d in factors for s in symbols) and len(factors) > 1:
            return best, "meets another order of the rows of"
    return best, ""


def _inherited(symbol: str, links: Links, given: Seq[Origin | None], known: Seq[bool]) -> Mixing | None:
    for labels, origin, sure in zip(links.inputs, given, known, strict=False):
        if origin is not None and symbol in origin.mixed and not (labels is None and sure):
            return origin.mixed[symbol]
    return None


def _output(
    node: Node,
    made: Seq[Dim] | None,
    items: Seq[Items] | None,
    table: Mapping[Label, tuple[Factors, str]],
    troubles: Mapping[str, Mixing],
    places: Mapping[str, Label],
    symbols: Seq[str],
) -> Origin:
    mixed = dict(troubles)
    carried = {item for axis in items or () for item in axis}
    for symbol, name in places.items():
        if name not in carried and symbol not in mixed:
            mixed[symbol] = Mixing(
                node.label, node.op_type, f"works along the axis that holds the rows of {symbol}"
            )
    if items is not None and made is SEQUENCE:  # of axes that have no rows nothing is said
        found = [normal(f for item in axis for f in _parts(item, table)) for axis in items]
        return Origin(tuple(f if any(s in d.free for d in f for s in symbols) else () for f in found), mixed)
    if items is None or made is None:
        return Origin(None if made is None else tuple(factors_of(d) for d in made), mixed)
    layout = []
    for axis, size in zip(items, made, strict=False):
        factors = normal(f for item in axis for f in _parts(item, table))
        fits = product(factors) is size
        layout.append(factors if fits and axis_is_carried(axis, table) else factors_of(size))
        for symbol in symbols:
            if symbol in size.free and symbol not in mixed:
                sure = fits and axis_is_carried(axis, table) and sum(symbol in f.free for f in factors) == 1
                if not sure:
                    what = (
                        f"makes an axis of size {size} that does not hold one row after the other of {symbol}"
                    )
                    mixed[symbol] = Mixing(node.label, node.op_type, what)
    if len(items) != len(made):
        layout = [factors_of(d) for d in made]
    for symbol in places:
        if symbol not in mixed and not any(symbol in f.free for factors in layout for f in factors):
            mixed[symbol] = Mixing(node.label, node.op_type, f"hides which axis holds the rows of {symbol}")
    return Origin(tuple(layout), mixed)


def axis_is_carried(axis: Items, table: Mapping[Label, Any]) -> bool:
    """True if every part of the axis comes from an input or is uniform."""
    return all(isinstance(item, Uniform) or _label(item) in table for item in axis)


def _label(item: Label | Along) -> Label:
    return item.label if isinstance(item, Along) else item


def _parts(item: Label | Uniform | Along, table: Mapping[Label, tuple[Factors, str]]) -> Factors:
    if isinstance(item, Uniform):
        return factors_of(item.size)
    item = _label(item)
    found = table.get(item)
    return () if found is None else found[0]


def _unfollowed(
    node: Node, made: Seq[Dim] | None, what: str, given: Seq[Origin | None], symbols: Seq[str]
) -> Origin:
    """An output of a node that nothing is declared of: it depends on all that any input depends on."""
    mixed: dict[str, Mixing] = {}
    for symbol in symbols:
        for origin in given:
            if origin is not None and origin.depends(symbol):
                found = Mixing(node.label, node.op_type, (what or _UNKNOWN).format(symbol=symbol))
                mixed.setdefault(symbol, origin.mixed.get(symbol) or found)
        if any(symbol in d.free for d in made or ()):
            found = Mixing(node.label, node.op_type, f"makes a tensor whose size depends on {symbol}")
            mixed.setdefault(symbol, found)
    return Origin(None if made is None or made is SEQUENCE else tuple(factors_of(d) for d in made), mixed)


# ---------------------------------------------------------------------- reshaping


def _regrouped(node: Node, made: Seq[Dim] | None, origin: Origin, symbols: Seq[str]) -> list[Origin]:
    mixed = dict(origin.mixed)
    layout = None if made is None else tuple(factors_of(d) for d in made)
    found = None if made is None or origin.layout is None else regrouped(origin.layout, made)
    if found is not None:
        layout = found
    for symbol in symbols:
        if symbol in mixed or origin.rows(symbol) is None:
            continue
        if found is not None:
            if any(_is_torn(symbol, factor) for factors in found for factor in factors):
                what = f"puts rows of {symbol} into groups"
                mixed[symbol] = Mixing(node.label, node.op_type, what)
            continue
        placed = (
            None if layout is None or origin.layout is None else _placed(symbol, origin.layout, made or ())
        )
        if placed is None or layout is None:
            what = f"regroups the elements across the rows of {symbol}"
            mixed[symbol] = Mixing(node.label, node.op_type, what)
        else:
            axis, factors = placed
            layout = (*layout[:axis], factors, *layout[axis + 1 :])
    return [Origin(layout, mixed)]


def _is_torn(symbol: str, factor: Dim) -> bool:
    """True if the factor is only a part of the rows of a symbol, for example every fourth."""
    return symbol in factor.free and exact_quotient(factor, named(symbol)) is None


def regrouped(layout: Layout, made: Seq[Dim]) -> Layout | None:
    """The factors of a tensor in another shape with the same elements in the same order.

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
    """The quotient of a factor, also 4 for n by ``n//4``. The numbers of elements before and after are equal."""
    found = exact_quotient(whole, part)
    if found is not None or not whole.terms:
        return found
    if not part.terms:
        return floor_div(whole, part)
    times = [atom.args[1] for monomial, _ in part.terms for atom in monomial if atom.kind == "//"]
    return next((d for d in times if isinstance(d, Dim) and floor_div(whole, d) is part), None)


def _placed(symbol: str, layout: Layout, made: Seq[Dim]) -> tuple[int, Factors] | None:
    """The axis of `made` that has the rows of a symbol, and its factors, by their stride."""
    flat = normal(f for axis in layout for f in axis)
    at = [k for k, f in enumerate(flat) if symbol in f.free]
    axes_ = [k for k, d in enumerate(made) if symbol in d.free]
    if len(at) != 1 or len(axes_) != 1:
        return None
    (k,), (axis,) = at, axes_
    inner = exact_quotient(product(flat[k + 1 :]), product(made[axis + 1 :]))
    outer = inner and exact_quotient(made[axis], flat[k] * inner)
    return None if inner is None or outer is None else (axis, normal((outer, flat[k], inner)))
