"""What the contract and the ambiguities cost on top of the shapes.

CPU milliseconds, medians over rounds in which each model is analyzed anew. The target is a ratio of
at most 2 on models over 100 nodes.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import shapesolve

from .corpus import model_files, read_case

MIN_NODES = 100


@dataclass(frozen=True)
class Cost:
    """Milliseconds for one model: shapes alone, then the contract, then the ambiguities."""

    model: str
    nodes: int
    shapes: float
    contract: float
    ambiguities: float

    @property
    def ratio(self) -> float:
        """The contract over the shapes."""
        return self.contract / self.shapes


def measure_costs(corpus: Path, rounds: int) -> Iterator[Cost]:
    """The models of a corpus that are large enough, one by one."""
    for file in model_files(corpus, ""):
        case = read_case(file)
        if case.nodes <= MIN_NODES:
            continue
        times: list[tuple[float, float, float]] = []
        for _ in range(rounds):
            gc.collect()
            start = time.process_time()
            analysis = shapesolve.analyze(case.model)
            shapes = time.process_time()
            analysis.contract  # noqa: B018
            contract = time.process_time()
            analysis.ambiguities  # noqa: B018
            times.append((shapes - start, contract - shapes, time.process_time() - contract))
        yield Cost(
            case.name, case.nodes, *(1000 * statistics.median(part) for part in zip(*times, strict=True))
        )


def contract_table(costs: list[Cost]) -> list[list[str]]:
    """Rows of a table, its header first."""
    rows = [["model", "nodes", "ms shapes", "ms contract", "ms ambiguities", "ratio"]]
    for c in costs:
        figures = (f"{c.shapes:.1f}", f"{c.contract:.1f}", f"{c.ambiguities:.1f}", f"{c.ratio:.2f}")
        rows.append([c.model, str(c.nodes), *figures])
    return rows
