"""Trying a model out: sizes that satisfy the contract, inputs of those sizes, and what the runs showed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from ..deploy.sizes import NoSizes, Sizes
from ..expr.nearest import meant
from ..expr.sizes import sizes_text
from ..lower.types import Tensor
from ..model.saving import external_locations
from ..solve.sizes import LIKELY
from .evaluation import broken_terms
from .lines import Printed, line, row

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..runtime import Verification

_DRAWS, _TRIES = 200, 5
_MAX_ELEMENTS = 50_000_000
_MAX_SHOWN = 20
#: how integers are filled: small random ones, then all ones, then zeros, where the runtime refuses
_FILLS = ("random", "ones", "zeros")


class CannotRun(Exception):
    """The model cannot be run here; the message says why."""


def verify_at_sizes(
    analysis: Analysis,
    given: Mapping[str, int],
    runs: int = 3,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Verification]:
    """Run the model at `runs` sizes drawn to satisfy the contract (`given` ones are kept), and compare shapes.

    `progress` is called with (done, total) before each run.

    Raises:
        CannotRun: weights are missing, no sizes satisfy the contract, or the runtime refuses.
    """
    _runnable(analysis, given)
    rng = random.Random(seed)
    done: list[Verification] = []
    seen: set[tuple[tuple[str, int], ...]] = set()
    for _ in range(_TRIES * runs):  # some draws are like others
        if len(done) == runs:
            break
        if progress is not None:
            progress(len(done), runs)
        sizes = draw_sizes(analysis, given, rng)
        key = tuple(sorted(sizes.items()))
        if key in seen:
            continue
        seen.add(key)
        done.append(_run(analysis, sizes, rng.randrange(2**32)))
    return done


def _runnable(analysis: Analysis, given: Mapping[str, int]) -> None:
    unknown = sorted(given.keys() - analysis.symbols.keys())
    if unknown:
        told = meant(unknown[0], analysis.symbols)
        raise CannotRun(f"no input of the model has a dim named {unknown[0]!r}{told}")
    path = analysis.model.path
    if path is not None:
        missing = [
            f
            for f in dict.fromkeys(external_locations(analysis.model.proto))
            if not (path.parent / f).is_file()
        ]
        if missing:
            raise CannotRun(
                f"its weights are not there ({missing[0]}): it can be analyzed, but it cannot run"
            )
    for name, known in analysis.inputs.items():
        if not isinstance(known, Tensor):
            raise CannotRun(f"input {name} is not a tensor: give inputs of your own to Analysis.verify")
        if name not in analysis.shapes:
            raise CannotRun(
                f"the rank of input {name} is not known: give inputs of your own to Analysis.verify"
            )
    if analysis._solved.nothing_runs:
        raise CannotRun(analysis._solved.nothing_runs)


def draw_sizes(analysis: Analysis, given: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Sizes for all symbols that break no requirement.

    Raises:
        CannotRun: none were found.
    """
    names = list(analysis.symbols)
    for attempt in range(_DRAWS):
        palette = LIKELY if attempt % 2 else LIKELY[:6]
        sizes = {n: given[n] if n in given else analysis.bindings.get(n, rng.choice(palette)) for n in names}
        if _fits(analysis, sizes):
            return sizes
    for least in (1, 0):  # empty inputs where there are no others
        try:
            return Sizes(analysis, given, least=least).usual(rng)
        except NoSizes:
            continue
    told = sizes_text(given)
    wrong = [t.text for t in broken_terms(analysis, given)]
    if wrong:
        raise CannotRun(f"{told} breaks the contract: {' and '.join(wrong)} must hold")
    raise CannotRun(f"no sizes{f' with {told}' if told else ''} were found that satisfy the contract")


def _fits(analysis: Analysis, sizes: Mapping[str, int]) -> bool:
    shapes = _input_shapes(analysis, sizes)
    small = all(int(np.prod(s, dtype=object)) <= _MAX_ELEMENTS for s in shapes.values())
    return small and not analysis.check_inputs(shapes)


def _input_shapes(analysis: Analysis, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for name, known in analysis.inputs.items():
        declared = known.shape if isinstance(known, Tensor) else None
        dims = [d.evaluate(sizes) for d in (declared if declared is not None else analysis.shapes[name])]
        shapes[name] = tuple(d if d is not None and d >= 0 else 1 for d in dims)
    return shapes


def _run(analysis: Analysis, sizes: Mapping[str, int], seed: int) -> Verification:
    from dataclasses import replace

    failure: RuntimeError | None = None
    for fill in _FILLS:
        try:
            done: Verification = analysis.verify(_inputs(analysis, sizes, fill, seed))
            return replace(done, bindings=dict(sizes))
        except RuntimeError as e:
            failure = failure or e
    told = sizes_text(sizes)
    raise CannotRun(f"at {told}: {failure}" if told else str(failure))


def _inputs(analysis: Analysis, sizes: Mapping[str, int], fill: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = _input_shapes(analysis, sizes)
    return {n: _array(rng, analysis.dtypes[n], s, fill) for n, s in shapes.items()}


def _array(rng: np.random.Generator, dtype: int, shape: tuple[int, ...], fill: str) -> Any:
    if dtype == onnx.TensorProto.STRING:
        return np.full(shape, "a", dtype=object)
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    if kind.kind in "iub":
        values = rng.integers(0, 2, shape) if fill == "random" else np.full(shape, int(fill == "ones"))
    elif fill == "random":
        values = rng.standard_normal(shape)
    else:
        values = np.ones(shape)
    return values.astype(kind)


# ---------------------------------------------------------------------- text and data


def verification_lines(analysis: Analysis, runs: Sequence[Verification]) -> Iterator[Printed]:
    """One line per run, and the tensors that disagree."""
    from .text import headline

    yield headline(analysis)
    yield ()
    told_sizes = [sizes_text(run.bindings) or "no free sizes" for run in runs]
    for run, sizes in zip(runs, told_sizes):
        state = ("good", "agrees") if run.ok else ("error", "differs")
        told = f"{run.compared} tensors compared"
        if run.open:
            told += f", {len(run.open)} not predicted in full"
        yield row(("name", sizes), state, ("dim", told))
        for m in run.mismatches[:_MAX_SHOWN]:
            yield line(
                "   ",
                ("name", m.tensor),
                "  ",
                ("shape", m.predicted),
                f" is {list(m.computed)}, it was {list(m.true)}",
            )


def verification_data(runs: Sequence[Verification]) -> list[dict[str, Any]]:
    """The runs as plain data."""
    from dataclasses import asdict

    return [
        {
            "sizes": dict(r.bindings), "ok": r.ok, "compared": r.compared, "open": list(r.open),
            "mismatches": [asdict(m) for m in r.mismatches],
        }
        for r in runs
    ]  # fmt: skip
