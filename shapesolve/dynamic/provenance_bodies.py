"""If, Loop and Scan: the rows of a batch stay apart where they do in the graphs inside, from one trip to the next.

A carried value keeps its rows where they are: what a trip hands on has them on the axis on which it got them. What decides
which graph runs, and how often, depends on no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import TypeAlias

from ..expr import Dim
from ..model import Graph, Node
from .provenance import Mixing, Origin
from .provenance_notation import View
from .provenance_sequences import EMPTY

#: the origins of a graph's outputs, from its attribute's name, the graph, and the origins of its inputs
Follow: TypeAlias = Callable[[str, Graph, Mapping[str, Origin]], list[Origin]]
#: opset since which Scan has no batch axis of its own
_SCAN_WITHOUT_BATCH = 9
_NOTHING = Origin((), {})


def through_bodies(
    view: View, given: Seq[Origin | None], found: Seq[Origin], symbols: Seq[str], follow: Follow
) -> list[Origin]:
    """`found`, but for symbols whose rows are shown to stay apart inside."""
    node = view.node
    rule = _RULES.get(node.op_type) if not node.domain else None
    if rule is None or (node.op_type == "Scan" and view.version < _SCAN_WITHOUT_BATCH):
        return list(found)
    results = list(found)
    for symbol in symbols:
        made = rule(view, [o or _NOTHING for o in given], symbol, follow)
        if made is None or len(made) != len(results):
            continue
        for i, (origin, result) in enumerate(zip(made, results, strict=True)):
            settled = node.op_type == "If" or _is_filled(node, given, i)
            if symbol in origin.mixed or not (settled or _is_whole(origin, view.made[i], symbol)):
                continue
            mixed = {k: v for k, v in result.mixed.items() if k != symbol}
            keep = origin.layout if origin.rows(symbol) is not None else result.layout
            results[i] = Origin(keep, mixed)
    return results


def _is_filled(node: Node, given: Seq[Origin | None], i: int) -> bool:
    """Is an output of a Loop a sequence that was empty at first? Its tensors, if any, are those of the trips."""
    return node.op_type == "Loop" and i + 2 < len(given) and given[i + 2] is EMPTY


def _is_whole(origin: Origin, made: Seq[Dim] | None, symbol: str) -> bool:
    """Are the rows on the one axis whose size says so?"""
    if made is None:
        return False
    at = origin.rows(symbol)
    return [k for k, size in enumerate(made) if symbol in size.free] == ([] if at is None else [at[0]])


def _same(a: Origin, b: Origin, symbol: str) -> bool:
    """Have two tensors the rows of a symbol in the same place, or none at all?"""
    if symbol in a.mixed or symbol in b.mixed:
        return False
    at = a.rows(symbol)
    if at != b.rows(symbol):
        return False
    return at is None or (a.layout or ())[at[0]] == (b.layout or ())[at[0]]


def _if(view: View, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    if given[0].depends(symbol):
        return None
    then, otherwise = (follow(name, graph, {}) for name, graph in sorted(view.node.subgraphs, reverse=True))
    return [_either(view, a, b, symbol) for a, b in zip(then, otherwise, strict=True)]


def _either(view: View, a: Origin, b: Origin, symbol: str) -> Origin:
    """One of two tensors, the same one for all rows: one that depends on no row goes with any."""
    if not a.depends(symbol) or _same(a, b, symbol):
        return b
    if not b.depends(symbol):
        return a
    what = f"gives rows of {symbol} that are elsewhere in its branches"
    found = a.mixed.get(symbol) or b.mixed.get(symbol) or Mixing(view.node.label, view.node.op_type, what)
    return Origin(a.layout, {symbol: found})


def _loop(view: View, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    body = dict(view.node.subgraphs)["body"]
    carried = given[2:]
    if any(origin.depends(symbol) for origin in given[:2]):
        return None
    names = [name for name, _ in body.inputs]
    made = follow("body", body, dict(zip(names, [_NOTHING, _NOTHING, *carried], strict=True)))
    if any(
        o is EMPTY for o in carried
    ):  # a sequence that is filled on the way has the rows where the first trip puts them
        carried = [
            after if before is EMPTY else before for before, after in zip(carried, made[1:], strict=False)
        ]
        made = follow("body", body, dict(zip(names, [_NOTHING, _NOTHING, *carried], strict=True)))
    if made[0].depends(symbol) or not _hands_on(carried, made[1:], symbol):
        return None
    return [*made[1 : 1 + len(carried)], *(_stacked(o, 0) for o in made[1 + len(carried) :])]


def _scan(view: View, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    node = view.node
    body = dict(node.subgraphs)["body"]
    states = len(given) - int(node.attributes["num_scan_inputs"])
    slices = []
    for k, origin in enumerate(given[states:]):
        axis = _axis(node, "input", k, len(origin.layout or ()))
        at = origin.rows(symbol)
        if at is not None and at[0] == axis:
            return None
        slices.append(Origin(None if origin.layout is None else _without(origin.layout, axis), origin.mixed))
    names = [name for name, _ in body.inputs]
    made = follow("body", body, dict(zip(names, [*given[:states], *slices], strict=True)))
    if not _hands_on(given[:states], made, symbol):
        return None
    outputs = [
        _stacked(o, _axis(node, "output", k, len(o.layout or ()) + 1)) for k, o in enumerate(made[states:])
    ]
    return [*made[:states], *outputs]


def _hands_on(carried: Seq[Origin], made: Seq[Origin], symbol: str) -> bool:
    return all(_same(a, b, symbol) for a, b in zip(carried, made, strict=False))


def _without(layout: Seq[tuple[Dim, ...]], axis: int) -> tuple[tuple[Dim, ...], ...]:
    return tuple(factors for k, factors in enumerate(layout) if k != axis)


def _stacked(origin: Origin, axis: int) -> Origin:
    """One more axis: the trips. Nothing is said of it."""
    layout = origin.layout
    return origin if layout is None else Origin((*layout[:axis], (), *layout[axis:]), origin.mixed)


def _axis(node: Node, side: str, k: int, rank: int) -> int:
    axes = node.attributes.get(f"scan_{side}_axes") or ()
    axis = int(axes[k]) if k < len(axes) else 0
    return axis + rank if axis < 0 else axis


_RULES: dict[str, Callable[[View, Seq[Origin], str, Follow], list[Origin] | None]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
