"""Coincidences between exports: agreements that allow no conclusion about other sizes.

That is a number that is also a part of a size in all of them, padding that may fill up to a multiple, and an axis on which a
limit holds in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from math import gcd

from ..analysis import Analysis
from ..change.refused import Refused
from ..expr import Dim
from ..expr.traverse import atoms_of
from ..lower.reads import AXES, NEW_AXES, PADS, TARGET
from ..lower.rule import Reading
from ..model import Node
from .generalize_fit import coincident
from .generalize_match import Matched, Same
from .provenance_walk import trace

#: the use of an operand's numbers, by operator and index
Reads = Callable[[str, int], "Reading | None"]
#: sizes next to those of an export, at which a model may not run whose padding only fits these
_NEAR = 4


def check_chance(
    analysis: Analysis,
    found: Matched,
    fixed: Seq[Analysis],
    sizes: Seq[Mapping[str, int]],
    parts: Mapping[int, str],
    reads: Reads,
) -> None:
    """Raises `Refused` if the exports agree by chance.

    Args:
        analysis: of the new model.
        found: the exports, matched.
        fixed: the analyses of the exports.
        sizes: of the symbols, in each export.
        parts: numbers that are a part of an input size in all exports, and that part.
        reads: what the numbers of an operand are for.
    """
    dims = dict[Dim, str]()
    for name, shape in analysis.shapes.items():
        for d in shape:
            if d.terms and d.free <= sizes[0].keys():
                dims.setdefault(d, name)
    for d, name in dims.items():
        is_limited = any(atom.kind == "pos" for atom in atoms_of(d))
        if is_limited and len({d.evaluate(s) for s in sizes}) == 1:
            raise Refused(
                f"{name} has an axis of size {d.evaluate(sizes[0])} in all exports, which is {d} at other sizes: an export "
                "with another size there is needed"
            )
    inner = coincident(dims, sizes)
    for one in found.same:
        reading = reads(one.op_type, one.index)
        if reading not in (AXES, NEW_AXES):
            _check_number(one, parts)
            if reading is not TARGET:  # a target is held against the number of elements
                _check_number(one, inner)
    _check_filled(found.nodes, fixed, reads)
    for node, axis, why in _padding(found.nodes, fixed, reads):
        given, first = analysis.shapes.get(node.inputs[0]), sizes[0]
        free = [n for n in first if given is None or n in given[axis].free]
        others = [
            {**first, n: first[n] + k} for n in free if not _is_batch(analysis, n) for k in range(1, _NEAR)
        ]
        if any(at not in sizes and not analysis._solved.violations_at(at) for at in others):
            raise Refused(why, node=node.label)


def _is_batch(analysis: Analysis, name: str) -> bool:
    """True if the rows of a symbol stay apart, so that no other size depends on it."""
    found = trace(analysis, [name])
    ends = [found.of(output) for output, _ in analysis.model.graph.outputs]
    return all(end.layout is not None and name not in end.mixed for end in ends)


def _check_number(one: Same, parts: Mapping[int, str]) -> None:
    numbers = one.stored.array(one.stored.numel)
    held = [abs(int(n)) for n in ([] if numbers is None else numbers.reshape(-1)) if abs(int(n)) in parts]
    if held:
        raise Refused(
            f"{one.label} ({one.op_type}) holds {held[0]} in all exports, which is also {parts[held[0]]} in all of them: "
            "an export at a size further away would settle what it is",
            node=one.label,
        )


def _padding(nodes: Seq[Seq[Node]], fixed: Seq[Analysis], reads: Reads) -> Iterator[tuple[Node, int, str]]:
    """Pads with equal amounts in all exports, at sizes with equal remainders. Yields the node, axis and reason."""
    for group in nodes:
        node, adds = group[0], reads(group[0].op_type, 1) is PADS
        amounts, *others = [_amounts(n, a, adds) for n, a in zip(group, fixed, strict=True)]
        if not amounts or any(other != amounts for other in others):
            continue
        shapes = [a.shapes.get(n.inputs[0]) or () for n, a in zip(group, fixed, strict=True)]
        half = len(amounts) // 2
        for axis, before, after in zip(range(-half, 0), amounts[:half], amounts[half:], strict=True):
            sizes = [s[axis].value if len(s) >= half else None for s in shapes]
            step = 0 if None in sizes else gcd(*(int(n or 0) - int(sizes[0] or 0) for n in sizes))
            if step > max(1, abs(before - after)) and (before != after or (adds and not any(amounts))):
                yield (
                    node,
                    axis,
                    f"{node.label} ({node.op_type}) pads by {before} and {after} in all exports, of which the sizes have the "
                    f"same remainder by {step}: an export with another remainder would show if that follows it",
                )


def _check_filled(nodes: Seq[Seq[Node]], fixed: Seq[Analysis], reads: Reads) -> None:
    """Raises `Refused` for a Pad to one size in all exports. The size can be a multiple that all of them reach."""
    for group in nodes:
        if reads(group[0].op_type, 1) is not PADS:
            continue
        given, made = (
            [[d.value for d in a.shapes.get(name) or ()] for a, name in zip(fixed, names, strict=True)]
            for names in ([n.inputs[0] for n in group], [n.outputs[0] for n in group])
        )
        for before, after in zip(zip(*given), zip(*made), strict=False):
            if len({*after}) == 1 < len({*before}):
                raise Refused(
                    f"{group[0].label} (Pad) pads an axis to {after[0]} in all exports, of sizes that differ: an export of a "
                    f"size above {after[0]} would show if that follows it",
                    node=group[0].label,
                )


def _amounts(node: Node, analysis: Analysis, adds: bool) -> list[int] | None:
    """Pad amounts of a node for its last axes: all the starts, then all the ends."""
    value = analysis.values.get(node.inputs[1]) if adds and len(node.inputs) > 1 else None
    elems = [] if value is None else [getattr(e, "value", None) for e in value.elems or ()]
    if None in elems:
        return None
    window = node.attributes.get("pads") or () if "kernel_shape" in node.attributes else ()
    return [int(e or 0) for e in elems] or [int(n) for n in window]


__all__ = ["check_chance"]
