"""Sizes of symbols as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def sizes_text(
    sizes: Mapping[str, object] | Iterable[tuple[str, object]], names: Iterable[str] | None = None
) -> str:
    """Return `n = 3, m = 5`: all sizes, or the known sizes of `names` in this order."""
    sizes = dict(sizes)
    return ", ".join(f"{n} = {sizes[n]}" for n in (sizes if names is None else names) if n in sizes)


def answer_text(sizes: Mapping[str, object], asked: Collection[str]) -> str:
    """``n = 3, with m = 1``: first the sizes of the names asked about, then all others."""
    rest = sizes_text(sizes, [n for n in sizes if n not in asked])
    return ", with ".join(part for part in (sizes_text(sizes, asked), rest) if part)
