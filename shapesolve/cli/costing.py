"""Command cost: operations and memory of a model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..report.json import ABSENT
from .app import app
from .asking import GivenSizes, asked_sizes
from .console import Refused, Result
from .options import Assume, Bind, Model, ending, find, load, write_file
from .parameters import Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..deploy.cost.cost import Cost
    from ..deploy.cost.limit import Fit
    from ..lines import Printed
    from ..report.json import Sizes


@dataclass(frozen=True)
class CostData:
    """`shapesolve cost --json`: expressions as strings; rows by scope and by node."""

    parameters: int
    parameter_bytes: int
    macs: str | None
    flops: str | None
    activation_bytes: str
    peak: Sequence[str]
    peak_reused: Sequence[str]
    uncounted: Sizes
    unmeasured: Sequence[str]
    remarks: Sequence[str]
    scopes: Sequence[Mapping[str, Any]]
    nodes: Sequence[Mapping[str, Any]]
    at: Sizes = ABSENT
    fit: Mapping[str, Any] = ABSENT


@app.command(
    example=[
        "Formulas of the input sizes, and values at some sizes.",
        "cost examples/unet.onnx --at batch=8,width=64 --max-memory 1GB --of height",
    ]
)
def cost(
    model: Model,
    sizes_given: GivenSizes = None,
    at: Annotated[
        str,
        Option(
            "--at",
            metavar="NAME=SIZE,...",
            help="Sizes to evaluate the formulas at; unset dims stay symbolic.",
        ),
    ] = "",
    by: Annotated[
        Literal["total", "scope", "node"],
        Option("--by", help="Break the cost down by scope (module) or node."),
    ] = "total",
    depth: Annotated[
        int,
        Option(
            "--depth",
            metavar="N",
            min=1,
            needs=("by=scope",),
            help="With --by scope: number of name parts, e.g. 2 for /encoder/layer.0.",
        ),
    ] = 3,
    max_memory: Annotated[
        str | None,
        Option("--max-memory", metavar="SIZE", help="Find the largest size that fits, e.g. 8GB or 512MiB."),
    ] = None,
    plot: Annotated[
        Path | None, Option("--plot", metavar="FILE", help="Write a plot of memory against a size, as SVG.")
    ] = None,
    of: Annotated[
        str | None,
        Option(
            "--of",
            metavar="NAME",
            needs=("max_memory", "plot"),
            help="Dim to vary for --max-memory and --plot.",
        ),
    ] = None,
    reuse: Annotated[
        bool,
        Option(
            "--reuse",
            needs=("max_memory",),
            help="Let --max-memory assume that buffers are reused where possible.",
        ),
    ] = False,
    bind: Bind = None,
    assume: Assume = None,
) -> Result[CostData | Refused]:
    """Compute a model's operations, parameters, and memory.

    Figures are formulas of the input sizes, or numbers with --at. Peak memory counts every tensor from the node that
    computes it to its last consumer, each in a separate buffer; "reused" lets views use their input's buffer, and
    outputs overwrite an input without later consumers. Exit code: 1 if nothing fits into --max-memory, or no sizes
    run. Examples:

        shapesolve cost bert.onnx --at batch=8,seq=128 --by scope

        shapesolve cost bert.onnx --at seq=128 --max-memory 8GB --of batch --plot memory.svg
    """
    a = find(load(model, assume, bind), findings=False)
    from ..deploy import NoSizes, Sizes
    from ..deploy.cost.cost import Cost
    from ..deploy.cost.text import bytes_in

    sizes = asked_sizes(a, [*(sizes_given or ()), *at.split(",")]) if at or sizes_given else {}
    if a._solved.nothing_runs and (sizes or max_memory is not None or plot is not None):
        raise NoSizes(a._solved.nothing_runs)
    fit = None
    numbers: dict[str, int] = {}
    c = Cost(a)
    if sizes:
        c.check(sizes)
        with suppress(NoSizes):
            sizes |= Sizes.usual(a, {n: v for n, v in sizes.items() if n in a.symbols}).following({})
        numbers = c.decided(sizes)
    if max_memory is not None:
        fit = c.fit(bytes_in(max_memory), of or _left(c, sizes, "--max-memory"), sizes, reuse=reuse)
        numbers = c.decided(fit.sizes)
    if plot is not None:
        write_file(plot, c.plot(of or _left(c, sizes, "--plot"), sizes).encode(), a.model)
    lines = _lines(c, sizes if fit is None else dict(fit.sizes), numbers, fit, by, depth)
    return Result(lambda: _data(c, numbers, fit), lines, *ending(a))


def _left(cost: Cost, sizes: dict[str, int], option: str) -> str:
    """Return the only name without a size; exit if there are several or none."""
    left = [n for n in cost.analysis.symbols if n in cost.peak.free and n not in sizes]
    if len(left) != 1:
        raise ValueError(
            f"{option} requires --of NAME; expected one of: {', '.join(left) or 'no names are left'}"
        )
    return left[0]


def _data(cost: Cost, numbers: Sizes, fit: Fit | None) -> CostData:
    whole = {"memory": "peak", "memory_reused": "peak_reused"}
    memory = {name: cost.parameter_bytes + numbers[of] for name, of in whole.items() if of in numbers}
    at = {**numbers, **memory} or ABSENT
    return CostData(**cost.to_json(), at=at, fit=ABSENT if fit is None else asdict(fit))


def _lines(
    cost: Cost, sizes: dict[str, int], numbers: Mapping[str, int], fit: Fit | None, by: str, depth: int
) -> list[Printed | str]:
    from ..deploy.cost.text import columns, fit_text, left_out, table
    from ..expr.sizes import sizes_text
    from ..lines import row

    lines = left_out(cost)
    missing = cost.missing(sizes) if sizes else ""
    if missing:
        which = "other numbers" if "macs" in numbers or "peak" in numbers else "numbers"
        lines.append(f"{which} need more sizes: {missing}")
    if by != "total":
        known = cost.known(sizes) if sizes else None
        lines += ["", *table(cost.nodes if by == "node" else cost.scopes(depth), known)]
    above = [*fit_text(fit), ""] if fit is not None else []
    if fit is None and numbers.keys() & {"macs", "peak"}:
        above = [f"at {sizes_text(sizes)}"]
    known = cost.known(sizes) if sizes else {}
    return [*above, *(row(*cells) for cells in columns(cost, numbers, known)), *lines]
