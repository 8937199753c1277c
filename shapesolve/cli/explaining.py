"""Command why: the reason for a failure at given sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ..expr.sizes import answer_text
from .app import app
from .asking import SIZES, asked_sizes
from .console import FOUND, OK, Refused, Result
from .options import Assume, Model, find, load
from .parameters import Argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..analysis import Analysis
    from ..causes.finding import Finding
    from ..lines import Printed
    from ..report.json import Sizes


@dataclass(frozen=True)
class Why:
    """`shapesolve why --json`. `sizes` are all sizes if the model runs, `near` the nearest accepted ones."""

    runs: bool
    sizes: Sizes | None
    near: Mapping[str, Sizes | None]
    findings: Sequence[Finding]


@app.command(
    example=[
        "A height that does not survive three poolings and three joins, and one that does.",
        "why examples/unet.onnx height=1082",
        "why examples/unet.onnx height=1080",
    ]
)
def why(
    model: Model,
    sizes: Annotated[list[str], Argument(metavar="SIZES...", help=SIZES)],
    assume: Assume = None,
) -> Result[Why | Refused]:
    """Explain why the model fails at some sizes.

    Name the first failing node, its operand shapes and their origin, and the nearest sizes that run. Exit code: 0 if
    the model runs at these sizes, 1 otherwise. Example:

        shapesolve why unet.onnx height=1082
    """
    from ..deploy import Sizes as Question

    free = find(load(model, assume), findings=False)
    wanted = asked_sizes(free, sizes)
    question = Question(free, {}, least=0)
    full = question.completed(wanted)
    found = [] if full is not None else causes(free, wanted)
    near = {} if full is not None else free._solved.nearest(wanted, free._solved.request.assume)
    code = OK if full is not None else FOUND
    return Result(lambda: Why(full is not None, full, near, found), _lines(wanted, full, found), code)


def causes(free: Analysis, wanted: dict[str, int]) -> list[Finding]:
    """Return the findings that explain the failure: errors, or the contract conditions that the sizes break."""
    from ..analysis import analyze
    from ..answers.outside import find_outside

    bound = analyze(free.model, bind=wanted, assume=free._solved.request.assume)
    errors = [f for f in bound.findings if f.severity == "error"]
    return errors or [c.finding for c in find_outside(free._solved, bound._solved)]


def _lines(wanted: dict[str, int], full: dict[str, int] | None, causes: list[Finding]) -> Iterator[Printed]:
    from ..lines import line
    from ..report.text import finding_lines

    if full is not None:
        yield line(("good", "runs"), f"  {answer_text(full, wanted) or 'at every size'}")
        return
    for i, finding in enumerate(causes):
        if i:
            yield line()
        yield from finding_lines(finding)
    if not any(finding.help for finding in causes):
        yield line("note: no accepted sizes were found nearby")
