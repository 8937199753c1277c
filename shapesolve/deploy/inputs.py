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

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..expr import Cond, Dim
from ..expr.nearest import meant
from ..expr.sizes import sizes_text
from ..solve.ambiguity import StaleShape, sharing_memory
from ..solve.contract.contract import text_of
from .computed import ComputedIndices
from .deciding import Deciding
from .limits import MAX_DRAWS
from .sizes import NoSizes, Sizes
from .values import Use, uses_of_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: content of an input: an array, a number for every element, or a function of shape and dtype
Fill = Any
Format = Literal["npz", "pb"]
"""indices into a larger table than this stay below it: small numbers are never special tokens' business"""


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedInputs(Sequence["dict[str, NDArray[Any]]"]):
    """Feeds for a runtime, one dict of arrays per draw.

    Attributes:
        feeds: arrays by input name.
        sizes: the size of each symbol, per feed.
        guesses: what was guessed about values, and how to say better.
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
        """Writes each feed to `folder`: one ``.npz``, or a folder ``test_data_set_K`` of protobuf tensors. The latter follow
        the order of the model's inputs, as in ONNX's backend tests and ``onnxruntime_perf_test``.

        https://onnx.ai/onnx/repo-docs/OnnxBackendTest.html
        """
        from ..model.saving import write_atomically

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
    """Inputs that the model accepts.

    The first are the most usual sizes: one item, images of 224, short sequences, or the nearest that the model accepts. For a
    model with a cache, the second have an empty one. The others are drawn near usual sizes. With `edge`, sizes of 1 and 0 if
    they are accepted, and the minimum and maximum of each name follow the first ones. Integers that are read as indices,
    lengths, axes or sizes lie in the range in which they are read; numbers that decide sizes, such as a target shape or the
    lengths of parts, are tried on the analysis of the model; masks are ones. Sizes at which the model itself computes an
    index that lies outside of its table, such as more positions than are stored, are passed over.

    Args:
        model: what `analyze` takes, or an `Analysis`.
        count: how many feeds; sizes come again where the model accepts fewer.
        seed: another number draws other sizes and values.
        edge: Whether to include border cases, such as empty tensors.
        bind: sizes of symbols that stay.
        values: by input name, an array, a number for every element, or a function ``(shape, dtype) -> array``.

    Raises:
        ModelError: the model cannot be read.
        NoSizes: no accepted sizes were found, no numbers that suit them, or an input is no tensor of known rank.
        ValueError: `bind` or `values` name what the model does not have, or `count` is negative.
    """
    if count < 0:
        raise ValueError(f"there cannot be {count} feeds")
    a = model if isinstance(model, Analysis) else analyze(model)
    unknown = sorted((values or {}).keys() - a.inputs.keys())
    if unknown:
        raise ValueError(
            f"the model has no input {unknown[0]!r}{meant(unknown[0], a.inputs, 'its inputs are')}"
        )
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
    """Conditions under which all declared shapes are right, which onnxruntime trusts; none if no sizes satisfy them."""
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
    """The most usual sizes, then these with an empty cache."""
    with suppress(NoSizes):
        found = sizes.preferred()
        if sizes.can_be_tried(found):
            yield found
        prefill = sizes.prefill(found)
        if prefill is not None and sizes.can_be_tried(prefill):
            yield prefill


class _Draws:
    """Draws sizes, and input arrays for each."""

    def __init__(self, sizes: Sizes, filler: _Filler, seed: int) -> None:
        self.sizes_of, self.filler, self.seed = sizes, filler, seed
        self.rng = random.Random(seed)
        self.sizes: list[dict[str, int]] = []
        self.feeds: list[dict[str, NDArray[Any]]] = []

    def take(self, found: Iterator[dict[str, int]], count: int) -> None:
        """Draws from `found` until there are `count` inputs. At sizes that take an index of the model's out of its
        table, others follow; where that does not end, they are kept: the runtime says more than no inputs do.
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
        """Accepted sizes close to these for which values of deciding inputs exist; None if not found."""
        sizes = self.sizes_of
        found = self.filler.deciding.sizes_near(at, sizes.fixed, self.rng)
        usable = found is not None and found != at and sizes.accepted(found) and sizes.can_be_tried(found)
        return found if usable else None

    def _feed(self, at: dict[str, int], k: int) -> dict[str, NDArray[Any]] | None:
        return self.filler.feed(self.sizes_of, at, np.random.default_rng((self.seed, k)), k)


def _usual(sizes: Sizes, draws: _Draws) -> Iterator[dict[str, int]]:
    """Usual sizes in random order, without end; they repeat if there are few."""
    repeats = 0
    while True:
        found = sizes.drawn(draws.rng)
        while found in draws.sizes and repeats < MAX_DRAWS:
            repeats += 1
            found = sizes.drawn(draws.rng)
        yield found


class _Filler:
    """Creates arrays for all inputs of a model."""

    def __init__(self, analysis: Analysis, values: Mapping[str, Fill]) -> None:
        self.analysis, self.values = analysis, values
        self.uses = uses_of_inputs(analysis)
        self.computed = ComputedIndices(analysis)
        self.deciding = Deciding(analysis, self.uses, values)
        self.guesses: dict[str, None] = {}
        #: inputs whose integers have no range that a node tells
        self.unknown: set[str] = set()

    def feed(
        self, sizes: Sizes, at: Mapping[str, int], rng: np.random.Generator, k: int
    ) -> dict[str, NDArray[Any]] | None:
        """Arrays for all inputs at these sizes; None if no values for deciding inputs were found."""
        shapes = sizes.shapes(at)
        assert shapes is not None, "drawn sizes are accepted"
        numbers = self.deciding.numbers(at, shapes, random.Random(int(rng.integers(1 << 62))))
        if numbers is None:
            return None
        for name in numbers:
            self._guess(name, self.deciding.purposes[name])
        trial = self.deciding.trial  # it knows what the numbers make: the tables into which others point
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
        """The arrays, with integers redrawn if a computed index is out of range, and the index that stays so. Also the read
        that is still outside, if any.
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
                f"numbers with which the {outside.what} computed for {outside.node} stay within their table",
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
            self._guess(name, "the text 'a'")
            return np.full(shape, "a", dtype=object)
        kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
        if name in self.values:
            return _filled(self.values[name], name, shape, kind)
        if kind.kind == "b":
            self._guess(name, "true" if shape else "true and false in turn")
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
                self._guess(name, "1, as its name says that it is a mask")
                return np.ones(shape, kind)
            self._guess(name, "0 and 1")
            self.unknown.add(name)
            low, high = 0, 1
        else:
            self._guess(name, text)
        if high < low:  # no value is legal, as an index into an empty table: none may be asked for
            high = low
        info = np.iinfo(kind)
        low, high = max(low, info.min), min(high, info.max)
        return rng.integers(low, high, shape, endpoint=True).astype(kind)

    def _range(
        self, name: str, uses: Sequence[Use], known: Mapping[str, int]
    ) -> tuple[int | None, int | None, str]:
        """The range that all readers of an input accept at these sizes, and its text. Its text is in terms of the
        model's symbols.
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
        """Notes that a computed index may be out of range."""
        self.guesses[f"{use.node}: an index that the model computes may lie outside of its table"] = None

    def note_stale(self, declared: Iterable[StaleShape]) -> None:
        """Notes at which sizes the file's declared shapes are wrong."""
        for d in declared:
            text = f"only sizes with {text_of(d.cond)}, as the file declares of {d.sites[0].tensor}"
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
            f"the value given for {name} has shape {list(array.shape)}, but {list(shape)} is drawn: bind its sizes"
        )
    return np.broadcast_to(array.astype(kind), shape).copy()
