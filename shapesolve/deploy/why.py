"""`why`: whether a model runs at given sizes, what fails there, and the nearest sizes that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers.example import data_conditions
from ..answers.outside import conflict_of, find_outside
from .sizes import Sizes

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding


@dataclass(frozen=True)
class Why:
    """Answer to whether a model runs at given sizes, and why not. Its truth value is `runs`.

    Attributes:
        runs: Whether the model runs.
        sizes: All sizes if the model runs, with values for sizes that were not given; otherwise None.
        near: The nearest accepted sizes `below` and `above`; empty if it runs.
        findings: What fails, the first node first.
        data: Conditions on data that must hold too at these sizes.
    """

    runs: bool
    sizes: Mapping[str, int] | None
    near: Mapping[str, Mapping[str, int] | None]
    findings: Sequence[Finding]
    data: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.runs

    def __str__(self) -> str:
        return "runs" if self.runs else "\n".join(map(str, self.findings))


def why(analysis: Analysis, sizes: Mapping[str, int]) -> Why:
    """Return why the model fails at these sizes.

    Raises:
        ValueError: If a name is unknown.
    """
    question = Sizes(analysis, {}, least=0)
    question.known(sizes)
    full = question.completed(sizes)
    if full is not None:
        return Why(True, full, {}, (), data_conditions(analysis._solved, full) or ())
    near = analysis._solved.nearest(sizes, analysis._solved.request.assume)
    return Why(False, None, near, causes_at(analysis, sizes))


def causes_at(analysis: Analysis, sizes: Mapping[str, int]) -> list[Finding]:
    """Return the findings that explain a failure: errors, or the contract conditions that the sizes break."""
    from ..analysis import analyze

    bound = analyze(analysis.model, bind=sizes, assume=analysis._solved.request.assume)
    errors = [f for f in bound.findings if f.severity == "error"]
    found = None if errors else find_outside(analysis._solved, bound._solved)
    return errors if found is None else [conflict_of(found).finding]
