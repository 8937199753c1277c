"""`Limit`: a restriction of dynamic dims that nobody meant, what it comes from, and what is in the way of advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expr import Cond
from ..lower.records import Entry

if TYPE_CHECKING:
    from .baked import Stored


@dataclass(frozen=True, slots=True)
class Limit:
    """What is left to `names` is `cond`; a node states it with `entry`, where one does, and has it from `constant`.

    `size` is the only one that runs, where there is but one.
    """

    names: tuple[str, ...]
    cond: Cond
    entry: Entry | None = None
    constant: Stored | None = None
    size: int | None = None


def left_text(limit: Limit, left: Limit | None) -> tuple[str, ...]:
    """Why it is not enough to derive the constant of a limit; nothing where that was not found."""
    if left is None or left.entry is None or left.entry.node is None or limit.constant is None:
        return ()
    own, other = limit.constant.tensor, left.constant
    if other is None or other.tensor == own:
        return ()
    label = f"{left.entry.prefix}{left.entry.node.label}"
    return (
        f"it is not enough to derive {own} from Shape: {other.tensor} holds the size as well, at {label}",
    )
