"""Command why: the reason why sizes do not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from ..expr.sizes import answer_text
from .app import app
from .console import FOUND, fail, print_raw, refuse, show
from .options import AsJson, Assume, Model, find, listed_sizes, load
from .parameters import Argument

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding
    from ..lines import Printed

#: findings on a dim that a constant of the export holds
_BAKED = frozenset(("SS401", "SS402", "SS404"))


@app.command()
def why(
    model: Model,
    sizes: Annotated[list[str], Argument(metavar="NAME=SIZE...", help="The sizes in question: height=1082.")],
    assume: Assume = None,
    json: AsJson = False,
) -> None:
    """The node that fails at some sizes, and the reason.

    Says which node fails there, with the shapes that it gets, the nearest sizes that run, and what holds the size where that
    is a constant of the export. Exit code 0 when the model runs at these sizes, 1 when it does not. Example:

        shapesolve why unet.onnx height=1082
    """
    from ..deploy import NoSizes, Sizes

    wanted = listed_sizes(",".join(sizes), "why")
    free = load(model, assume)
    find(free, findings=False)
    try:
        question = Sizes(free, {}, least=0)
        question.known(wanted)
    except NoSizes as e:
        refuse("why", str(e), json, lead=f"{model}: ")
    except ValueError as e:
        fail(str(e))
    full = question.completed(wanted)
    causes = [] if full is not None else _causes(free, wanted)
    held = [] if full is not None else _held(free, wanted)
    near = {} if full is not None else _nearest(free, wanted)
    if json:
        from ..report.json import envelope, finding_data

        result: dict[str, Any] = {"runs": full is not None, "sizes": full, "near": near}
        print_raw(envelope("why", {**result, "findings": [finding_data(f) for f in (*causes, *held)]}))
    else:
        show(_lines(wanted, full, causes, held, near))
    raise SystemExit(0 if full is not None else FOUND)


def _causes(free: Analysis, wanted: dict[str, int]) -> list[Finding]:
    """Findings that explain why these sizes fail: errors, else violated contract terms."""
    from ..analysis import analyze
    from ..explain.outside import find_outside

    bound = analyze(free.model, bind=wanted, assume=free._solved.request.assume)
    errors = [f for f in bound.diagnostics if f.severity == "error"]
    return errors or [c.finding for c in find_outside(free._solved, bound._solved)]


def _held(free: Analysis, wanted: dict[str, int]) -> list[Finding]:
    """Findings on these names that blame a constant of the export."""
    return [
        f for f in free.diagnostics if f.code in _BAKED and any(f"`{name}`" in f.title for name in wanted)
    ]


def _nearest(free: Analysis, wanted: dict[str, int]) -> dict[str, dict[str, int] | None]:
    """The nearest accepted sizes below and above, non-empty if possible."""
    from ..deploy import NoSizes, Sizes

    found: dict[str, dict[str, int] | None] = {}
    for side in ("below", "above"):
        found[side] = None
        for least in (1, 0):
            try:
                found[side] = Sizes(free, {}, least=least).nearest(wanted, side)
                break
            except (NoSizes, ValueError):
                continue
    return found


def _lines(
    wanted: dict[str, int],
    full: dict[str, int] | None,
    causes: list[Finding],
    held: list[Finding],
    near: dict[str, Any],
) -> Iterator[Printed]:
    from ..lines import line
    from ..report.text import finding_lines

    if full is not None:
        yield line(("good", "runs"), f"  {answer_text(full, wanted) or 'at every size'}")
        return
    for finding in (*causes, *held):
        yield from finding_lines(finding)
        yield line()
    sides = [f"{answer_text(at, wanted)} ({side})" for side, at in near.items() if at]
    yield line(("bold", "nearest sizes that run: "), " or ".join(sides) or "none were found")
