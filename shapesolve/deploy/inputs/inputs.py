"""`generate_inputs`: random inputs at accepted sizes, with integers in range."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import onnx
from onnx import numpy_helper

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...expr import Cond, Dim
from ...expr.nearest import unknown_name
from ...expr.sizes import sizes_text
from ...solve.ambiguity import StaleShape, sharing_memory
from ...solve.contract.contract import text_of
from ..limits import MAX_DRAWS
from ..sizes import NoSizes, Sizes
from .computed import ComputedIndices
from .deciding import Deciding
from .values import Use, uses_of_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: content of an input: an array, a value for every element, or a function of shape and dtype
Fill = Any
Format = Literal["npz", "pb"]
"""max. index into a larger table, which avoids special tokens such as padding"""


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedInputs(Sequence["dict[str, NDArray[Any]]"]):
    """Generated input sets, one dict of arrays each.

    Attributes:
        feeds: Arrays by input name, per input set.
        sizes: Size of each symbol, per input set.
        guesses: Guesses about values, with the way to override them.
    """

    feeds: tuple[dict[str, NDArray[Any]], ...]
    sizes: tuple[dict[str, int], ...]
    guesses: tuple[str, ...]

    def __repr__(self) -> str:
        first = f": {sizes_text(self.sizes[0])}" if self.sizes and self.sizes[0] else ""
        return f"<GeneratedInputs of {len(self)} feeds{first}{' …' if first and len(self) > 1 else ''}>"

    def __len__(self) -> int:
        return len(self.feeds)

    @overload
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[dict[str, NDArray[Any]], ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self.feeds[index]

    def save(self, folder: str | Path, form: Format = "npz") -> list[Path]:
        """Write each input set to `folder`: one ``.npz``, or a folder ``test_data_set_K`` of protobuf tensors.

        The protobuf tensors are in the order of the model's inputs, as in ONNX's backend tests and
        ``onnxruntime_perf_test``.

        https://onnx.ai/onnx/repo-docs/OnnxBackendTest.html
        """
        from ...model.saving import write_atomically

        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        made = []
        for k, feed in enumerate(self.feeds):
            if form == "npz":
                import io

                data = io.BytesIO()
                np.savez(data, **feed)  # type: ignore[arg-type]
                made.append(root / f"inputs_{k}.npz")
                write_atomically(made[-1], data.getvalue())
                continue
            there = root / f"test_data_set_{k}"
            there.mkdir(exist_ok=True)
            for i, (name, array) in enumerate(feed.items()):
                made.append(there / f"input_{i}.pb")
                write_atomically(made[-1], numpy_helper.from_array(array, name).SerializeToString())
        return made


@checked
def generate_inputs(
    model: Any,
    count: int = 20,
    seed: int = 0,
    edge: bool = False,
    *,
    bind: Mapping[str, int] | None = None,
    values: Mapping[str, Fill] | None = None,
) -> GeneratedInputs:
    """Generate random inputs that the model accepts.

    The first input set has typical sizes: batch size 1, images of 224, short sequences, or the nearest sizes that the
    model accepts. For a model with a cache, the second one has an empty cache. The others are sampled near typical
    sizes. With `edge`, sizes of 1 and 0 (if accepted) and the minimum and maximum of each name follow the first ones.
    Integers that are read as indices, lengths, axes, or sizes are in the valid range; values that determine sizes,
    such as a target shape or the lengths of parts, are checked by analyzing the model with them; masks are ones.
    Sizes are skipped if the model then computes an index outside its table, such as a position beyond the stored
    ones.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        count: Number of input sets; sizes repeat if the model accepts fewer.
        seed: Seed for sizes and values.
        edge: Whether to include edge cases, such as empty tensors.
        bind: Fixed sizes of symbols.
        values: By input name, an array, a value for every element, or a function ``(shape, dtype) -> array``.

    Raises:
        ModelError: If the model cannot be read.
        NoSizes: If no accepted sizes, or no values for them, were found, or an input is not a tensor of known rank.
        ValueError: If `bind` or `values` has an unknown name, or `count` is negative.
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, got {count}")
    a = model if isinstance(model, Analysis) else analyze(model)
    strange = sorted((values or {}).keys() - a.inputs.keys())
    if strange:
        raise ValueError(unknown_name("input", strange[0], a.inputs))
    filler = _Filler(a, dict(values or {}))
    declared = _declared(a, bind, filler)
    sizes = Sizes.usual(a, bind, also=declared)
    draws = _Draws(sizes, filler, seed)
    draws.take(_first(sizes), count)
    if edge:
        borders = Sizes(a, bind, also=declared).edges(draws.rng)
        draws.take(borders, min(count, len(draws.sizes) + max(1, count // 3)))
    draws.take(_usual(sizes, draws), count)
    return GeneratedInputs(tuple(draws.feeds), tuple(draws.sizes), tuple(filler.guesses))


def _declared(analysis: Analysis, fixed: Mapping[str, int] | None, filler: _Filler) -> tuple[Cond, ...]:
    """Return the conditions under which all declared shapes, which onnxruntime trusts, are right; none if no sizes
    satisfy them.
    """
    outputs = {name for name, _ in analysis.model.graph.outputs}
    declared = sharing_memory(analysis._solved.stale_shapes, outputs)
    conds = tuple([d.cond for d in declared])
    with suppress(NoSizes):
        if conds:
            Sizes(analysis, fixed, also=conds).drawn(random.Random(0))
            filler.note_stale(declared)
            return conds
    return ()


def _first(sizes: Sizes) -> Iterator[dict[str, int]]:
    """Return typical sizes, then the same with an empty cache."""
    with suppress(NoSizes):
        found = sizes.preferred()
        if sizes.can_be_tried(found):
            yield found
        prefill = sizes.prefill(found)
        if prefill is not None and sizes.can_be_tried(prefill):
            yield prefill


class _Draws:
    """Generator of sizes, and of input arrays for each."""

    def __init__(self, sizes: Sizes, filler: _Filler, seed: int) -> None:
        self.sizes_of, self.filler, self.seed = sizes, filler, seed
        self.rng = random.Random(seed)
        self.sizes: list[dict[str, int]] = []
        self.feeds: list[dict[str, NDArray[Any]]] = []

    def take(self, found: Iterator[dict[str, int]], count: int) -> None:
        """Generate inputs at sizes from `found`, until there are `count`.

        Sizes that make the model compute an out-of-range index are replaced. If no others are found, they are kept: the
        runtime's error is more useful than no inputs.
        """
        patience, failures = MAX_DRAWS + count, 0
        for at in found:
            if len(self.sizes) >= count:
                return
            k = len(self.sizes)
            feed = self._feed(at, k)
            if feed is None and (near := self._suited(at)) is not None:
                at, feed = near, self._feed(near, k)
            if feed is None and failures < MAX_DRAWS:
                failures += 1
                continue
            if feed is None and self.sizes:
                at = self.rng.choice(self.sizes)
                feed = self._feed(at, k)
            if feed is None:
                raise NoSizes(self.filler.deciding.none_found)
            failures = 0
            feed, outside = self.filler.inside(feed, at, np.random.default_rng((self.seed, k)))
            if outside is not None and patience > 0:
                patience -= 1
                continue
            if outside is not None:
                self.filler.note_outside(outside)
            self.sizes.append(at)
            self.feeds.append(feed)

    def _suited(self, at: dict[str, int]) -> dict[str, int] | None:
        """Return accepted sizes close to these that have valid values for deciding inputs, or None if not found."""
        sizes = self.sizes_of
        found = self.filler.deciding.sizes_near(at, sizes.fixed, self.rng)
        usable = found is not None and found != at and sizes.accepted(found) and sizes.can_be_tried(found)
        return found if usable else None

    def _feed(self, at: dict[str, int], k: int) -> dict[str, NDArray[Any]] | None:
        return self.filler.feed(self.sizes_of, at, np.random.default_rng((self.seed, k)), k)


def _usual(sizes: Sizes, draws: _Draws) -> Iterator[dict[str, int]]:
    """Yield typical sizes in random order, without end; they repeat if there are few."""
    repeats = 0
    while True:
        found = sizes.drawn(draws.rng)
        while found in draws.sizes and repeats < MAX_DRAWS:
            repeats += 1
            found = sizes.drawn(draws.rng)
        yield found


class _Filler:
    """Factory of arrays for all inputs of a model."""

    def __init__(self, analysis: Analysis, values: Mapping[str, Fill]) -> None:
        self.analysis, self.values = analysis, values
        self.uses = uses_of_inputs(analysis)
        self.computed = ComputedIndices(analysis)
        self.deciding = Deciding(analysis, self.uses, values)
        self.guesses: dict[str, None] = {}
        #: integer inputs without a known range
        self.unknown: set[str] = set()

    def feed(
        self, sizes: Sizes, at: Mapping[str, int], rng: np.random.Generator, k: int
    ) -> dict[str, NDArray[Any]] | None:
        """Return arrays for all inputs at these sizes, or None if no values for deciding inputs were found."""
        shapes = sizes.shapes(at)
        assert shapes is not None, "drawn sizes are accepted"
        numbers = self.deciding.numbers(at, shapes, random.Random(int(rng.integers(1 << 62))))
        if numbers is None:
            return None
        for name in numbers:
            self._guess(name, self.deciding.purposes[name])
        trial = self.deciding.trial  # knows the tables whose sizes depend on these values
        uses = uses_of_inputs(trial) if numbers else self.uses
        return {
            name: numbers[name]
            if name in numbers
            else self._array(name, shape, {**trial.bindings, **at}, uses.get(name, ()), rng, k)
            for name, shape in shapes.items()
        }

    def inside(
        self, feed: dict[str, NDArray[Any]], at: Mapping[str, int], rng: np.random.Generator
    ) -> tuple[dict[str, NDArray[Any]], Use | None]:
        """Return the arrays, with integers replaced if a computed index is out of range, and the use that is still out
        of range.
        """
        trial = self.deciding.trial
        judge = self.computed if trial is self.analysis else ComputedIndices(trial)
        outside = judge.outside(feed, at)
        if outside is None:
            return feed, None
        mended = judge.mended(feed, at, self.unknown, rng)
        if mended is None:
            return feed, outside
        for name in (n for n in mended if mended[n] is not feed[n]):
            self.guesses.pop(f"{name}: 0 and 1", None)
            self._guess(
                name,
                f"values that keep the {outside.what} computed for {outside.node} in range",
            )
        return mended, None

    def _array(
        self,
        name: str,
        shape: tuple[int, ...],
        known: Mapping[str, int],
        uses: Sequence[Use],
        rng: np.random.Generator,
        k: int,
    ) -> NDArray[Any]:
        dtype = self.analysis.dtypes[name]
        if dtype == onnx.TensorProto.STRING:
            self._guess(name, "the string 'a'")
            return np.full(shape, "a", dtype=object)
        kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
        if name in self.values:
            return _filled(self.values[name], name, shape, kind)
        if kind.kind == "b":
            self._guess(name, "true" if shape else "alternating true and false")
            return np.full(shape, bool(shape) or k % 2 == 0)
        if kind.kind not in "iu":
            return rng.standard_normal(shape).astype(kind)
        return self._integers(name, shape, self._range(name, uses, known), rng, kind)

    def _integers(
        self,
        name: str,
        shape: tuple[int, ...],
        limits: tuple[int | None, int | None, str],
        rng: np.random.Generator,
        kind: np.dtype[Any],
    ) -> NDArray[Any]:
        low, high, text = limits
        if low is None or high is None:
            if "mask" in name.lower():
                self._guess(name, "1, because its name contains 'mask'")
                return np.ones(shape, kind)
            self._guess(name, "0 and 1")
            self.unknown.add(name)
            low, high = 0, 1
        else:
            self._guess(name, text)
        if high < low:  # no value is valid, as for an index into an empty table: the input must be empty
            high = low
        info = np.iinfo(kind)
        low, high = max(low, info.min), min(high, info.max)
        return rng.integers(low, high, shape, endpoint=True).astype(kind)

    def _range(
        self, name: str, uses: Sequence[Use], known: Mapping[str, int]
    ) -> tuple[int | None, int | None, str]:
        """Return the range that all readers of an input accept at these sizes, and its description in the model's
        symbols.
        """
        own = {use.node: use for use in self.uses.get(name, ())}
        low: int | None = None
        high: int | None = None
        text = ""
        for use in uses:
            lo, hi = use.low.evaluate(known), use.high.evaluate(known)
            if lo is None or hi is None:
                continue
            low = lo if low is None else max(low, lo)
            if high is None or hi < high:
                in_symbols = own.get(use.node, use)
                high, text = (
                    hi,
                    f"{_range_text(in_symbols.low, in_symbols.high)}, read as {use.what} by {use.node}",
                )
        if high is not None:
            high = min(high, 1_000) if high < 2**31 - 1 else high  # special tokens have larger ids
        return low, high, text

    def note_outside(self, use: Use) -> None:
        """Note that a computed index may be out of range."""
        self.guesses[f"{use.node}: an index computed by the model may be out of range"] = None

    def note_stale(self, declared: Iterable[StaleShape]) -> None:
        """Note the sizes for which the file's declared shapes are right."""
        for d in declared:
            text = f"only sizes with {text_of(d.cond)}, as the file declares for {d.sites[0].tensor}"
            self.guesses[f"{text}: onnxruntime may fail at others"] = None

    def _guess(self, name: str, what: str) -> None:
        self.guesses[f"{name}: {what}"] = None


def _range_text(low: Dim, high: Dim) -> str:
    return str(low) if low is high else f"{low} to {high}"


def _filled(fill: Fill, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    given: Callable[..., Any] | Any = fill
    array = np.asarray(given(shape, kind) if callable(given) else given)
    if array.ndim and array.shape != shape:
        raise ValueError(
            f"the value of {name} must have shape {list(shape)}, got {list(array.shape)}; set its sizes with bind"
        )
    return np.broadcast_to(array.astype(kind), shape).copy()
