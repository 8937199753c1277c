"""What is the same in all exports by chance: a part of a size, or padding that fills up to a multiple.

From such exports nothing can be told of other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from math import gcd

from ..analysis import Analysis
from ..change.refused import Refused
from ..lower.reads import PADS
from ..lower.rule import Reading
from ..model import Node
from .generalize_match import Same


def check_same(
    same: Seq[Same],
    parts: Mapping[int, str],
    reading: Callable[[str, int], Reading | None],
    settled: Seq[Reading],
) -> None:
    """Raises `Refused` if a number that is the same in all exports may follow a size all the same.

    Args:
        same: operands that are the same.
        parts: numbers that are a part of a size in every export, and that part.
        reading: what the numbers of an operand are for, by operator and index.
        settled: what numbers are for that need no look.
    """
    for one in same:
        numbers = one.stored.array(one.stored.numel)
        if numbers is None or reading(one.op_type, one.index) in settled:
            continue
        held = next((abs(int(n)) for n in numbers.reshape(-1) if abs(int(n)) in parts), None)
        if held is not None:
            raise Refused(
                f"{one.label} ({one.op_type}) holds {held} in all exports, which is also {parts[held]} in all of them: "
                "an export at a size further away would settle what it is",
                node=one.label,
            )


def coincident_padding(
    nodes: Seq[Seq[Node]], fixed: Seq[Analysis], reading: Callable[[str, int], Reading | None]
) -> Iterator[tuple[Node, int, str]]:
    """Pads of one side by the same in all exports, of which the sizes have the same remainder: with the axis and a reason."""
    for group in nodes:
        node, adds = group[0], reading(group[0].op_type, 1) is PADS
        amounts, *others = [_amounts(n, a, adds) for n, a in zip(group, fixed, strict=True)]
        if not amounts or any(other != amounts for other in others):
            continue
        shapes = [a.shapes.get(n.inputs[0]) or () for n, a in zip(group, fixed, strict=True)]
        half = len(amounts) // 2
        for axis, before, after in zip(range(-half, 0), amounts[:half], amounts[half:], strict=True):
            sizes = [s[axis].value if len(s) >= half else None for s in shapes]
            step = 0 if None in sizes else gcd(*(int(n or 0) - int(sizes[0] or 0) for n in sizes))
            if step > abs(before - after) and (before != after or (adds and not any(amounts))):
                yield (
                    node,
                    axis,
                    f"{node.label} ({node.op_type}) pads by {before} and {after} in all exports, of which the sizes have the "
                    f"same remainder by {step}: an export with another remainder would show if that follows it",
                )


def _amounts(node: Node, analysis: Analysis, adds: bool) -> list[int] | None:
    """What a node pads its last axes by, before all of them, then after."""
    value = analysis.values.get(node.inputs[1]) if adds and len(node.inputs) > 1 else None
    elems = [] if value is None else [getattr(e, "value", None) for e in value.elems or ()]
    if None in elems:
        return None
    window = node.attributes.get("pads") or () if "kernel_shape" in node.attributes else ()
    return [int(e or 0) for e in elems] or [int(n) for n in window]


__all__ = ["check_same", "coincident_padding"]
