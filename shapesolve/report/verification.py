"""Test runs of a model at accepted sizes, and comparison of its shapes with the prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..causes.limits import MAX_LINES
from ..deploy.inputs.inputs import generate_inputs
from ..deploy.sizes import NoSizes
from ..expr.nearest import unknown_name
from ..expr.sizes import sizes_text
from ..lines import Printed, line, row
from ..lower.types import Tensor
from ..model.saving import external_locations

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..answers.runtime import Verification


def verify_at_sizes(
    analysis: Analysis,
    given: Mapping[str, int],
    runs: int = 3,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Verification]:
    """Run the model on at most `runs` generated inputs, and compare shapes. The `given` sizes are kept.

    `progress` is called with (done, total) before each run.

    Raises:
        ValueError: If weights are missing, no sizes satisfy the contract, or onnxruntime rejects the model.
    """
    _runnable(analysis, given)
    try:
        made = generate_inputs(analysis, runs, seed, edge=False, bind=given)
    except NoSizes as e:
        raise ValueError(str(e)) from None
    distinct = {tuple(sorted(at.items())): (at, feed) for at, feed in zip(made.sizes, made, strict=True)}
    done: list[Verification] = []
    for sizes, feed in distinct.values():
        if progress is not None:
            progress(len(done), runs)
        try:
            done.append(replace(analysis.verify(feed), bindings=dict(sizes)))
        except RuntimeError as e:
            at = sizes_text(sizes)
            raise ValueError(f"at {at}: {e}" if at else str(e)) from e
    return done


def _runnable(analysis: Analysis, given: Mapping[str, int]) -> None:
    strange = sorted(given.keys() - analysis.symbols.keys())
    if strange:
        raise ValueError(unknown_name("dim", strange[0], analysis.symbols))
    path = analysis.model.path
    if path is not None:
        missing = [
            f
            for f in dict.fromkeys(external_locations(analysis.model.proto))
            if not (path.parent / f).is_file()
        ]
        if missing:
            raise ValueError(f"cannot run the model: its weights are missing ({missing[0]})")
    for name, known in analysis.inputs.items():
        if not isinstance(known, Tensor):
            raise ValueError(f"input {name} is not a tensor; pass inputs to Analysis.verify")
        if name not in analysis.shapes:
            raise ValueError(f"input {name} has unknown rank; pass inputs to Analysis.verify")
    if analysis._solved.nothing_runs:
        raise ValueError(analysis._solved.nothing_runs)


# ---------------------------------------------------------------------- text


def verification_lines(analysis: Analysis, runs: Sequence[Verification]) -> Iterator[Printed]:
    """Return one line per run, and the tensors that disagree."""
    from .text import headline

    yield headline(analysis)
    yield ()
    size_texts = [sizes_text(run.bindings) or "no free sizes" for run in runs]
    for run, sizes in zip(runs, size_texts):
        state = ("good", "agrees") if run.ok else ("error", "differs")
        summary = f"{run.compared} tensors compared"
        if run.open:
            summary += f", {len(run.open)} not predicted in full"
        yield row(("name", sizes), state, ("dim", summary))
        for m in run.mismatches[:MAX_LINES]:
            yield line(
                "   ",
                ("name", m.tensor),
                "  ",
                ("shape", m.predicted),
                f" predicted {list(m.computed)}, got {list(m.true)}",
            )
