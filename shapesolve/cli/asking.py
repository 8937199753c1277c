"""Spellings of sizes: `height=12`, `x[2]=12`, `x=1x3x12x16`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from ..answers.claim import known_names
from ..expr.nearest import like, unknown_name
from ..lines import Line, line
from .console import fail
from .options import pairs_of
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..expr import Shape

#: help of an argument with sizes
SIZES = "Sizes: height=12, x[2]=12, or x=1x3x12x16."

GivenSizes = Annotated[list[str] | None, Argument(metavar="[SIZES]...", help=SIZES)]
At = Annotated[list[str] | None, Option("--at", metavar="SIZES", help="The same, as an option.")]

_AXIS, _SHAPE, _SIZE = (
    re.compile(r"(.+)\[\s*(-?\d+)\s*\]"),
    re.compile(r"\d{1,18}(?:x\d{1,18})+"),
    re.compile(r"\d{1,18}"),
)
#: words in the name of a dim, and the axis that such a dim usually is, by rank
_USUAL = (
    (re.compile(r"batch|^[bn]$", re.I), dict.fromkeys(range(1, 7), 0)),
    (re.compile(r"height|^h$", re.I), {4: 2, 5: 3}),
    (re.compile(r"width|^w$", re.I), {4: 3, 5: 4}),
    (re.compile(r"seq|len|token|frame|time|^[tls]$", re.I), {2: 1, 3: 1}),
)


def asked_sizes(a: Analysis, given: Iterable[str], option: str = "") -> dict[str, int]:
    """Return the sizes by dim name. Invalid text ends the command.

    Raises:
        NoSizes: If a size is fixed in the model; the message names the axis, and the command that makes it dynamic.
    """
    sizes: dict[str, int] = {}
    for key, value in pairs_of(given, option):
        for name, size in _read(a, key, value, option):
            if sizes.setdefault(name, size) != size:
                fail(f"{name} is given two sizes: {sizes[name]} and {size}")
    return sizes


def listed_sizes(a: Analysis, text: str, option: str) -> dict[str, int]:
    """Return sizes separated by commas."""
    return asked_sizes(a, [part for part in text.split(",") if part.strip()], option)


def _read(a: Analysis, key: str, value: str, option: str) -> Iterator[tuple[str, int]]:
    axis = _AXIS.fullmatch(key)
    if key not in a.symbols and key in a.inputs and _SHAPE.fullmatch(value):
        shape, numbers = _shape(a, key), value.split("x")
        if len(shape) != len(numbers):
            fail(f"{key} must have rank {len(shape)}, got {value} of rank {len(numbers)}")
        for k, number in enumerate(numbers):
            yield from _at_axis(a, key, k, int(number))
    elif not _SIZE.fullmatch(value):
        lead = f"{option} " if option else ""
        fail(
            f"expected {lead}NAME=SIZE, INPUT[AXIS]=SIZE, or INPUT=1x3x224x224, got {f'{key}={value}'[:200]!r}"
        )
    elif key in known_names(a._solved.lowered):
        yield key, int(value)
    elif axis is not None and axis[1] in a.inputs:
        shape, k = _shape(a, axis[1]), int(axis[2])
        if not -len(shape) <= k < len(shape):
            fail(f"{axis[1]} {shape} has no axis {k}")
        yield from _at_axis(a, axis[1], k % len(shape), int(value))
    else:
        _refuse_unknown(a, key, int(value))


def _shape(a: Analysis, name: str) -> Shape:
    shape: Shape | None = getattr(a.inputs[name], "shape", None)
    return shape if shape is not None else fail(f"input {name} declares no shape")


def _at_axis(a: Analysis, name: str, axis: int, size: int) -> Iterator[tuple[str, int]]:
    dim = _shape(a, name)[axis]
    if dim.name in a.symbols:
        yield dim.name or "", size
    elif dim.terms:
        fail(f"{name}[{axis}] is declared as {dim}: give {', '.join(sorted(dim.free))}")
    elif dim.const != size:
        _refuse_fixed(a, name, axis, "", size)


def data_lines(conds: Iterable[str]) -> Iterator[Line]:
    """Return a line for each condition on data without which the sizes above do not run."""
    for cond in conds:
        yield line("      ", ("dim", "if the data satisfy "), ("shape", cond))


def _refuse_unknown(a: Analysis, dim: str, size: int) -> None:
    axes = next((axes for words, axes in _USUAL if words.search(dim)), {})
    for name, known in a.inputs.items():
        shape = getattr(known, "shape", None)
        axis = None if shape is None or like(dim, a.symbols) else axes.get(len(shape))
        if shape is not None and axis is not None and not shape[axis].terms:
            _refuse_fixed(a, name, axis, dim, size)
    hint = like(dim, known_names(a._solved.lowered))
    fail(f"unknown dim {dim!r}{hint}" if hint else unknown_name("dim", dim, a.symbols))


def _refuse_fixed(a: Analysis, name: str, axis: int, dim: str, size: int) -> None:
    from ..answers.rejected import wrong_size
    from ..deploy import NoSizes

    rejected = wrong_size(name, axis, _shape(a, name)[axis], size)
    raise NoSizes(f"{rejected.sentence}; {_way_out(a, f'{name}[{axis}]', dim or f'size{axis}')}", [rejected])


def _way_out(a: Analysis, axis: str, dim: str) -> str:
    """Return the command that makes a fixed axis dynamic, after trying it in memory, or the reason that none does."""
    from ..change.free.model import freed

    try:
        freed(a.model, {axis: dim})
    except ValueError as e:  # `Refused`, or a name that no dim may have
        return f"it is fixed, and `shapesolve free` cannot change it: {e}"
    command = shlex.join(
        ["shapesolve", "free", str(a.model.path or "MODEL"), "--dim", f"{axis}={dim}", "-o", "dynamic.onnx"]
    )
    return f"it is fixed: `{command}` makes it dynamic"
