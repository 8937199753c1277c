"""How to export a module that runs where torch.export's trace refuses: each way is tried before it is told of."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .declared import Declaration
from .exporting import Watch, named, relaxed
from .exports import Exported, Exports
from .guards import fixed_axes
from .probing import probes
from .running import Runs
from .unguarded import Unguarded

_MORE = 8
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101)


@dataclass(frozen=True)
class Way:
    """An export that works: its program, the example's sizes, and whether the dims had to be left to torch.export."""

    program: Any
    watch: Watch
    sizes: tuple[tuple[str, int], ...]
    free: bool

    def text(self, runs: Runs) -> str:
        """One sentence: what to change."""
        example = f"give an example of other sizes, as {_shapes(runs, dict(self.sizes))}"
        return f"{example}, and leave these dims to torch.export (`Dim.AUTO`)" if self.free else example


def _shapes(runs: Runs, sizes: Mapping[str, int]) -> str:
    args, kwargs = runs.inputs(sizes)
    leaves = runs.in_order(torch.utils._pytree.tree_leaves((args, kwargs)))
    declared = {a.leaf for a in runs.declaration.axes}
    return ", ".join(
        f"{runs.declaration.paths[i]}: {tuple(x.shape)}" for i, x in enumerate(leaves) if i in declared
    )


def other_examples(
    runs: Runs, spec: Any, tried: list[dict[str, int]], exports: Exports, numbers: Collection[str] = ()
) -> Iterator[Way]:
    """Exports with another example whose graph gives what the module gives, at the sizes `tried` and at some more.

    `numbers` are the sizes that the trace of the given example made numbers. Where another one does so too, no more are tried.
    """
    at = [*tried, *itertools.islice(probes(runs.declaration, runs), _MORE)]
    hopeless: list[dict[str, int]] = []
    for free, sizes in itertools.product((False, True), _examples(runs.declaration, runs.example)):
        if sizes in hopeless or runs.at(sizes).state != "runs":
            continue
        args, kwargs = runs.inputs(sizes)
        try:
            if free:
                made: Exported | None = exports.program(args, kwargs, relaxed(spec))
                refused = False
            else:
                made, refusal = exports.first(args, kwargs, named(spec), trial=True)
                refused = refusal is not None
        except Exception:  # this way is refused too, or there is no time for it
            continue
        fixed = fixed_axes(made.program, runs.declaration) if made is not None else {}
        if refused and not fixed.keys().isdisjoint(numbers):
            return
        if fixed:
            hopeless.append(sizes)
        elif made is not None and not refused and follows(made.program, runs, at):
            yield Way(made.program, made.watch, tuple(sizes.items()), free)


def follows(program: Any, runs: Runs, tried: list[dict[str, int]]) -> bool:
    """Has a program all its declared dims free, and does its graph give what the module gives?"""
    if fixed_axes(program, runs.declaration):
        return False
    graph = Unguarded(program, runs)
    said = [graph.agrees(sizes) for sizes in tried]
    return any(said) and False not in said


def _examples(declaration: Declaration, example: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Other sizes for an example, first larger, then smaller: all different, none 0 or 1, off the ends of the ranges."""
    for larger in (True, False):
        sizes: dict[str, int] = {}
        for name, root in declaration.roots.items():
            low, high = max(root.low or 2, 2), root.high if root.high is not None else 1 << 20
            inner = [*_PRIMES, *range(low + 1, min(high, low + 64))]
            free = [v for v in inner if low < v < high and v not in sizes.values() and v != example[name]]
            side = [v for v in free if (v > example[name]) is larger]
            sizes[name] = next(iter([*side, *free, high, low]))
        yield sizes
