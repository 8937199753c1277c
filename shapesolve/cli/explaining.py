"""Command why: the reason for a failure at given sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..expr.sizes import answer_text
from .app import app
from .asking import SIZES, asked_sizes, data_lines
from .console import FOUND, OK, Refused, Result
from .options import Assume, Model, find, load
from .parameters import Argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..deploy.why import Why
    from ..lines import Printed


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
    """Explain why given sizes fail.

    Name the first failing node, its operand shapes and their origin, and the nearest sizes that run. Exit code: 0 if
    the model runs at these sizes, 1 otherwise. Example:

        shapesolve why unet.onnx height=1082
    """
    free = find(load(model, assume), findings=False)
    asked = asked_sizes(free, sizes)
    answer = free.why(asked)
    return Result(lambda: answer, _lines(asked, answer), OK if answer else FOUND)


def _lines(asked: Mapping[str, int], answer: Why) -> Iterator[Printed]:
    from ..lines import line
    from ..report.text import finding_lines

    if answer.sizes is not None:
        yield line(("good", "runs"), f"  {answer_text(answer.sizes, asked) or 'at every size'}")
        yield from data_lines(answer.data)
        return
    for i, finding in enumerate(answer.findings):
        if i:
            yield line()
        yield from finding_lines(finding)
    if not any(finding.help for finding in answer.findings):
        yield line("note: no accepted sizes were found nearby")
