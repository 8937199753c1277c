"""Compares a dynamic model with the original in onnxruntime, at the old sizes and with stacked batch items."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import Analysis, analyze
from ..deploy import NoSizes, generate_inputs
from ..expr.sizes import sizes_text
from ..model import read_model
from ..runs import Session, difference
from .provenance.lists import Listing
from .provenance.provenance import Rows
from .provenance.walk import trace
from .refused import Refused
from .request import asked

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison: the sizes, and the largest difference between outputs (None: not compared)."""

    sizes: Mapping[str, int]
    difference: float | None


def verify(
    original: onnx.ModelProto, changed: onnx.ModelProto, dims: Mapping[str, str], *, seed: int = 0
) -> list[Run]:
    """Run the original and the dynamic model.

    At the old sizes, their outputs are compared. A batch is compared with the original's outputs for its single items,
    stacked. At other sizes, which the original does not accept, the dynamic model must run, and its tensors must have the
    proved shapes.

    Args:
        original: The model with fixed sizes.
        changed: The result of `free`.
        dims: The axes that were made dynamic, with their names.
        seed: Seed for the random inputs.

    Raises:
        Refused: If an output differs.
        RuntimeError: If a model does not run on random inputs.
    """
    analysis = analyze(changed)
    old = asked([read_model(original)], dims).baked
    rows = [name for name, size in old.items() if size == 1]
    provenance = trace(analyze(changed, broadcast="strict", assume=[f"{name} >= 2" for name in rows]), rows)
    before, after = Session(original), Session(changed)
    one = _feeds(analysis, old, seed)
    runs = [_compared(old, before.run(one), after.run(one), before.outputs)]
    for name in rows:
        for count in (2, 3):
            sizes = {**old, name: count}
            feeds = _feeds(analysis, sizes, seed + count)
            single = [before.run(_row(analysis, feeds, name, i)) for i in range(count)]
            every = zip(before.outputs, zip(*single, strict=True), strict=True)
            stacked = [_stacked(provenance.of(output), name, arrays) for output, arrays in every]
            runs.append(_compared(sizes, stacked, after.run(feeds), before.outputs))
    for name, times in product([n for n in old if n not in rows], (2, 3)):
        sizes = {**old, name: times * old[name]}
        feeds = _feeds(analysis, sizes, seed + sizes[name])
        if not analysis.check_inputs({key: array.shape for key, array in feeds.items()}):
            for bad in analysis.verify(feeds).mismatches:
                raise Refused(
                    f"at {sizes_text(sizes)} {bad.tensor} has the shape {bad.true} instead of {bad.computed}"
                )
            runs.append(Run(sizes, None))
    return runs


def verify_exports(exports: Seq[onnx.ModelProto], changed: onnx.ModelProto, *, seed: int = 0) -> list[Run]:
    """Run a dynamic model and the fixed exports, at the sizes of each export.

    Args:
        exports: Models with fixed sizes; inputs and outputs are matched by their order.
        changed: The result of `generalize`.
        seed: Seed for the random inputs.

    Raises:
        Refused: If an output differs, or the dynamic model does not run.
        RuntimeError: If an export does not run on random inputs.
    """
    analysis, after, runs = analyze(changed), Session(changed), []
    for k, export in enumerate(exports):
        before = Session(export)
        feeds = _feeds(analyze(export), {}, seed + k)
        same = set(before.inputs) == set(after.inputs)
        names = dict(zip(before.inputs, before.inputs if same else after.inputs, strict=True))
        given = {names[name]: array for name, array in feeds.items()}
        axes = (
            (d, n)
            for name, array in given.items()
            for d, n in zip(analysis.shapes[name], array.shape, strict=True)
        )
        sizes = {d.name: n for d, n in axes if d.name is not None}
        want = before.run(feeds)
        try:
            got = after.run(given)
        except RuntimeError as error:
            raise Refused(
                f"at {sizes_text(sizes)} an export runs and the new model does not: {error}"
            ) from error
        runs.append(_compared(sizes, want, got, before.outputs))
    return runs


def _feeds(analysis: Analysis, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Return random inputs of these sizes; raises `RuntimeError` if there are none that run."""
    try:
        bind = {name: size for name, size in sizes.items() if name in analysis.symbols}
        return dict(generate_inputs(analysis, 1, seed, bind=bind)[0])
    except NoSizes as e:
        raise RuntimeError(f"cannot generate inputs: {e}") from e


def _row(analysis: Analysis, feeds: Mapping[str, Array], symbol: str, i: int) -> dict[str, Array]:
    """Row `i` of every input that has a batch axis of this symbol."""
    found = {}
    for name, array in feeds.items():
        axis = next((k for k, d in enumerate(analysis.shapes[name]) if symbol in d.free), None)
        found[name] = array if axis is None else np.take(array, [i], axis=axis)
    return found


def _stacked(mine: Rows, symbol: str, rows: Seq[Array]) -> Array:
    """Combines the outputs for single rows into the output expected for the batch."""
    listing = mine.mixed.get(symbol)
    if isinstance(listing, Listing):
        return np.concatenate(rows, axis=listing.axis)
    at = mine.place(symbol)
    if at is None or mine.layout is None:
        return rows[0]
    axis, k = at
    inside = int(np.prod([d.evaluate({symbol: 1}) or 0 for d in mine.layout[axis][k + 1 :]]))
    shape = rows[0].shape
    split = (*shape[:axis], -1, 1, max(inside, 1), *shape[axis + 1 :])
    joined = np.concatenate([row.reshape(split) for row in rows], axis=axis + 1)
    return joined.reshape(*shape[:axis], -1, *shape[axis + 1 :])


def _compared(sizes: Mapping[str, int], want: Seq[Array], got: Seq[Array], outputs: Seq[str]) -> Run:
    worst = 0.0
    for name, a, b in zip(outputs, want, got, strict=True):
        largest, fault = difference(a, b)
        if fault:
            raise Refused(f"at {sizes_text(sizes)} output {name} differs from the original's: {fault}")
        worst = max(worst, largest)
    return Run(dict(sizes), worst)
