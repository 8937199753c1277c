"""Sizes within a profile, drawn and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np

import shapesolve as ss
from shapesolve.deploy.sizes import NoSizes, Sizes


def within(a: ss.Analysis, profile: Any, rng: Random, count: int) -> Iterator[Mapping[str, int]]:
    """Its corners, and accepted sizes drawn between."""
    yield from (profile.min, profile.opt, profile.max)
    question = Sizes(a)
    found = 0
    for _ in range(20 * count):
        sizes = {n: rng.randint(profile.min[n], profile.max[n]) for n in question.names}
        if not question.accepted(sizes):
            kept = rng.sample(question.names, rng.randint(0, len(question.names) - 1))
            try:
                sizes = Sizes(a, {n: sizes[n] for n in kept}).nearest(sizes)
            except NoSizes:
                continue
        if profile.holds(sizes):
            yield sizes
            found += 1
        if found == count:
            return


def run_at(a: ss.Analysis, run: Any, sizes: Mapping[str, int], names: set[str]) -> None:
    """Run it at these sizes; what onnxruntime raises comes out."""
    (feed,) = ss.generate_inputs(a, 1, edge=False, bind=sizes)
    run.run(None, {n: np.asarray(v) for n, v in feed.items() if n in names})
