"""Search for integer inputs that determine sizes: target shapes, lengths, starts, and ends.

The valid values of such an input depend on sizes, on the other inputs, and on the model's computations. So values are
generated from the ranges that their consumers accept, or by the solver, and then checked: the model is analyzed with
these values as constants, at the chosen sizes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from ...analysis import Analysis
from ...expr import Cond, Dim, eq, ge, le, symbol
from ...lazy import cached_property
from ...lower.limits import MAX_ELEMENTS as MAX_FOLLOWED
from ...lower.types import Tensor
from ...model import Constant
from ...solve.known import Known
from ..limits import MAX_DRAWS, MAX_ELEMENTS, MAX_TRIAL_NODES, MAX_TRIALS
from .computed import ComputedIndices
from .values import Use, deciding_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]
    Shapes = Mapping[str, tuple[int, ...]]


class Deciding:
    """Search for values of the inputs whose elements determine sizes."""

    def __init__(
        self, analysis: Analysis, uses: Mapping[str, Sequence[Use]], given: Mapping[str, Any]
    ) -> None:
        self.analysis, self.uses = analysis, uses
        found = deciding_inputs(analysis)
        self.names = tuple(name for name in found if name not in given and self._may_be_drawn(name))
        self.trials = 0
        #: the analysis with the last tried values, at their sizes
        self.trial = analysis
        #: number of consecutive failed searches, which reduce the number of later trials
        self.failed = 0

    def _may_be_drawn(self, name: str) -> bool:
        known = self.analysis.inputs[name]
        kind = _kind(self.analysis.dtypes[name])
        if not isinstance(known, Tensor) or kind is None or kind.kind not in "iufb":
            return False
        return kind.kind != "b" or not known.shape

    def numbers(self, at: Mapping[str, int], shapes: Shapes, rng: random.Random) -> Arrays | None:
        """Return values of these inputs at which the model accepts the sizes `at`, or None if none were found.

        If no later values work, the first ones are generated again.
        """
        names = [name for name in self.names if prod(shapes[name]) <= MAX_FOLLOWED]
        if not names:
            self.trial = self.analysis
            return {}
        least, most = (
            MAX_TRIALS // 25,
            min(MAX_TRIALS, MAX_TRIAL_NODES // (len(self.analysis.model.graph.nodes) + 1)),
        )
        # half as many after each failed search, up to three times
        self.trials = begun = max(least, most >> min(self.failed, 3))
        asked = False
        while self.trials > 0:
            found = self._drawn(names, at, shapes, rng)
            if found is None and not asked and self.trials <= begun - least:
                asked = True
                if self._is_impossible(at):
                    break
                found = self._together(names, at, shapes)
            if found is not None:
                self.failed = 0
                return found
        self.failed += 1
        return None

    def _drawn(
        self, names: Sequence[str], at: Mapping[str, int], shapes: Shapes, rng: random.Random
    ) -> Arrays | None:
        """Return random values, generated for one input after the other."""
        chosen: Arrays = {}
        for name in names:
            found = self._one(name, chosen, at, shapes, rng)
            if found is None:
                return None
            chosen[name] = found
        return chosen

    def _together(self, names: Sequence[str], at: Mapping[str, int], shapes: Shapes) -> Arrays | None:
        """Return values for all inputs, found by the solver."""
        known = self._known(at)
        found = self._sizes_and_numbers(known)
        chosen: Arrays = {}
        for name in names:
            numbers = [e.evaluate({**(found or {}), **known}) for e in self._elements(name)]
            kind = _kind(self.analysis.dtypes[name])
            whole = [n for n in numbers if n is not None]
            if found is None or kind is None or len(whole) != prod(shapes[name]) or not _fits(whole, kind):
                return None
            chosen[name] = np.array(whole, kind).reshape(shapes[name])
        return chosen if self._runs(chosen, at) else None

    def _is_impossible(self, at: Mapping[str, int]) -> bool:
        """Return True if it is proved that no values work for these sizes."""
        return Known(self._stated_at(self._known(at)), self.analysis._solved.prover.engine).refuted()

    def sizes_near(
        self, at: Mapping[str, int], fixed: Mapping[str, int], rng: random.Random
    ) -> dict[str, int] | None:
        """Return sizes close to `at` for which some values satisfy the nodes' requirements, or None if not found.

        The result has all `fixed` sizes, and as many of `at` as possible.
        """
        kept = self._known(fixed)
        found = self._sizes_and_numbers(kept) if self.names else None
        if found is None:
            return None
        for name in (n for n in rng.sample(sorted(at), len(at)) if n not in kept):
            if found.get(name, at[name]) != at[name]:
                found = self._sizes_and_numbers({**kept, name: at[name]}) or found
            kept[name] = found.get(name, at[name])
        return {name: kept[name] for name in at}

    def _one(
        self, name: str, chosen: Arrays, at: Mapping[str, int], shapes: Shapes, rng: random.Random
    ) -> NDArray[Any] | None:
        kind = _kind(self.analysis.dtypes[name])
        assert kind is not None
        known = {**self._known(at), **self.learned(chosen)}
        seen: set[tuple[float, ...]] = set()
        for numbers in self._candidates(name, kind, known, prod(shapes[name]), rng):
            if self.trials <= 0:
                return None
            if (key := tuple(numbers)) in seen or not _fits(numbers, kind):
                continue
            seen.add(key)
            array = np.array(numbers, kind).reshape(shapes[name])
            self.trials -= 1
            if self._runs({**chosen, name: array}, at):
                return array
        return None

    def _candidates(
        self, name: str, kind: np.dtype[Any], known: Mapping[str, int], count: int, rng: random.Random
    ) -> Iterator[Sequence[float]]:
        """Return candidate values for one input, the most likely first."""
        uses = self.uses.get(name, ())
        for _ in range(MAX_DRAWS):
            for use in uses:
                found = use.picked(rng, count, known)
                if found is not None and all(_within(u, found, known) for u in uses):
                    yield found
            if kind.kind == "f":
                continue
            if uses and (inside := _range(uses, known)) is not None:
                yield [rng.randint(*inside) for _ in range(count)]
        if kind.kind == "b":
            yield from ([rng.random() < 0.5], [False], [True])
            return
        if kind.kind == "f":
            yield [1.0] * count
            return
        pool = sorted({*(0, 1, 2, 3, 4, -1), *known.values(), *self._sizes_read(uses, known)})
        for _ in range(MAX_DRAWS):
            yield [rng.choice(pool) for _ in range(count)]
            if count > 1:
                yield _offsets(rng, count, rng.choice([n for n in pool if n >= 0]))
        solved = self._solved(name, known)
        if solved is not None:
            yield solved
        for _ in range(MAX_DRAWS):
            yield [rng.choice(pool) for _ in range(count)]

    @staticmethod
    def _sizes_read(uses: Sequence[Use], known: Mapping[str, int]) -> Iterator[int]:
        for use in uses:
            for shape in use.shapes:
                for d in shape or ():
                    if (size := d.evaluate(known)) is not None:
                        yield size

    # ---------------------------------------------------------------------- trials

    def _runs(self, chosen: Arrays, at: Mapping[str, int]) -> bool:
        """Return True if the model accepts these sizes with these values, and its tensors are small enough to run."""
        trial = self.trial = self._with(chosen, at)
        if trial._solved.stuck or trial.contract.impossible:
            return False
        dims = [d for shape in trial.shapes.values() for d in shape]
        if 0 in at.values() and (trial.contract.internal or any(d.terms for d in dims)):
            return False  # float arithmetic on zero sizes (0/0) gives NaN, which is not a valid size
        sizes = [[d.const if not d.terms else 1 for d in shape] for shape in trial.shapes.values()]
        if any(prod(s) > MAX_ELEMENTS for s in sizes):
            return False
        return ComputedIndices(trial, chosen.keys()).outside({}, at) is None

    def _with(self, chosen: Arrays, at: Mapping[str, int]) -> Analysis:
        """Return the analysis with these inputs as constants, at these sizes."""
        a = self.analysis
        graph = a.model.graph
        stored = {
            name: Constant(numpy_helper.from_array(array, name), None) for name, array in chosen.items()
        }
        changed = replace(
            a.model,
            graph=replace(
                graph,
                initializers={**graph.initializers, **stored},
                # difference() keeps the type; "-" with a dict view returns a plain set
                overridable=graph.overridable.difference(stored),
            ),
        )
        others = [known for name, known in a.inputs.items() if name not in stored]
        left = {n for known in others if isinstance(known, Tensor) for d in known.shape or () for n in d.free}
        bound = {n: size for n, size in {**a._solved.request.bind, **at}.items() if n in left}
        return Analysis(a._solved.again(changed, bind=bound, assume=()))

    def _solved(self, name: str, known: Mapping[str, int]) -> list[int] | None:
        """Return elements for one input that satisfy all declared conditions, found by the solver."""
        elems = self._elements(name)
        found = self._sizes_and_numbers(known, [name]) if elems else None
        if found is None:
            return None
        numbers = [e.evaluate({**found, **known}) for e in elems]
        return None if None in numbers else [n for n in numbers if n is not None]

    def _sizes_and_numbers(
        self, known: Mapping[str, int], names: Sequence[str] | None = None
    ) -> Mapping[str, int] | None:
        """Return sizes and elements that satisfy all declared conditions and include `known`, or None if not found."""
        elems = [e for name in names or self.names for e in self._elements(name)]
        stated, most = self._stated_at(known), max(64, *known.values(), 0)
        # Prefer elements other than 0, which empties tensors, and -1, which stands for any size.
        for least in (1, -1):
            bounds = [c for e in elems for c in (ge(e, least), le(e, most))]
            found = self.analysis._solved.prover.engine.model([*stated, *bounds])
            if found is not None:
                return found
        return None

    def _elements(self, name: str) -> list[Dim]:
        """Return the elements of an input as expressions; empty if they are not tracked."""
        value = self.analysis.values.get(name)
        elems = () if value is None else value.elems or ()
        found = [e for e in elems if isinstance(e, Dim)]
        return found if len(found) == len(elems) else []

    def _known(self, at: Mapping[str, int]) -> dict[str, int]:
        return {**self.analysis.bindings, **at}

    def _stated_at(self, known: Mapping[str, int]) -> list[Cond]:
        stated = [c.cond for c in self.analysis._solved.stated if c.guard.is_true]
        names = {n for c in stated for n in c.free}
        return [*stated, *(eq(symbol(n), size) for n, size in known.items() if n in names)]

    def learned(self, chosen: Arrays) -> dict[str, int]:
        """Return the values of the generated symbols for elements of these inputs."""
        out: dict[str, int] = {}
        for name, array in chosen.items():
            value = self.analysis.values.get(name)
            elems = value.elems if value is not None else None
            for e, n in zip(elems or (), array.flat):
                if isinstance(e, Dim) and len(e.free) == 1 and str(e) in e.free:
                    out[str(e)] = int(n)
        return out

    @property
    def none_found(self) -> str:
        """Error for sizes without valid values, with advice."""
        some = f"{self.names[0]} and others" if len(self.names) > 1 else self.names[0]
        return f"found no values for input {some} with which the model runs; provide them yourself"

    @cached_property
    def purposes(self) -> dict[str, str]:
        """Description of the use of each input's elements, and the nodes that read them."""
        return {name: _purpose(self.uses.get(name, ())) for name in self.names}


def _offsets(rng: random.Random, count: int, last: int) -> list[int]:
    """Return random ascending offsets from 0 to `last`, as starts of consecutive parts."""
    return [0, *sorted(rng.randint(0, last) for _ in range(count - 2)), last]


def _purpose(uses: Sequence[Use]) -> str:
    use = next(iter(uses), None)
    what = f"{use.what} for {use.node}" if use is not None else "values that determine sizes"
    return f"{what}, sampled until the analysis found no problem"


def _kind(dtype: int) -> np.dtype[Any] | None:
    return None if dtype == onnx.TensorProto.STRING else onnx.helper.tensor_dtype_to_np_dtype(dtype)


def _fits(numbers: Sequence[float], kind: np.dtype[Any]) -> bool:
    if kind.kind in "fb" or not numbers:
        return True
    info = np.iinfo(kind)
    return info.min <= min(numbers) and max(numbers) <= info.max


def _range(uses: Sequence[Use], known: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the range of elements that all these uses accept; None if it is unknown, empty, or too large to sample."""
    lows = [n for u in uses if (n := u.low.evaluate(known)) is not None]
    highs = [n for u in uses if (n := u.high.evaluate(known)) is not None]
    if not lows or not highs or max(lows) > min(highs) or min(highs) > 1 << 20:
        return None
    return max(lows), min(highs)


def _within(use: Use, numbers: Sequence[float], known: Mapping[str, int]) -> bool:
    low, high = use.low.evaluate(known), use.high.evaluate(known)
    return all((low is None or low <= n) and (high is None or n <= high) for n in numbers)
