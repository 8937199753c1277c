"""Command profile: ranges of sizes for compilers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..lines import row
from .app import app
from .asking import At, GivenSizes, listed_sizes
from .console import Refused, Result, fail, print_note
from .options import AsJson, Assume, Bind, Model, find, load, write_file
from .parameters import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..deploy.profiles import profiles
    from ..deploy.profiles.profiles import Range
    from ..lines import Printed
    from ..report.json import Sizes


@dataclass(frozen=True)
class CornersData:
    """Accepted sizes by name."""

    min: Sizes
    opt: Sizes
    max: Sizes


@dataclass(frozen=True)
class ProfileData:
    """A profile; sizes between the minimum and the maximum must satisfy `conditions`."""

    sizes: CornersData
    inputs: Mapping[str, Range]
    conditions: Sequence[str]


@dataclass(frozen=True)
class Profile:
    """`shapesolve profile --json`, the default output if no tool is given."""

    profiles: Sequence[ProfileData]


@app.command(
    example=[
        "Ranges for TensorRT; a corner that the model does not accept is rejected. The last command lists the supported tools.",
        "profile examples/unet.onnx --opt batch=1,height=64,width=64 --max batch=8,height=512,width=512 --for trtexec",
        "profile examples/unet.onnx --opt height=64 --max height=130",
        "profile examples/unet.onnx --for list",
    ]
)
def profile(
    model: Model,
    sizes_given: GivenSizes = None,
    opt: Annotated[
        str, Option("--opt", metavar="NAME=SIZE,...", help="Optimum sizes. [default: typical sizes]")
    ] = "",
    min: Annotated[
        str,
        Option(
            "--min", metavar="NAME=SIZE,...", help="Minimum sizes. [default: smallest accepted sizes >= 1]"
        ),
    ] = "",
    max: Annotated[
        str, Option("--max", metavar="NAME=SIZE,...", help="Maximum sizes. [default: same as --opt]")
    ] = "",
    tool: Annotated[
        str,
        Option(
            "--for",
            metavar="TOOL",
            help="Output format for a tool; `--for list` lists the tools. [default: a table on a terminal, JSON otherwise]",
        ),
    ] = "",
    split: Annotated[
        bool,
        Option("--split", help="Write several profiles if the maximum sizes are not accepted together."),
    ] = False,
    output: Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="File to write.")] = None,
    assume: Assume = None,
    at: At = None,
    bind: Bind = None,
    json: AsJson = False,
) -> Result[Profile | Refused]:
    """Compute ranges of accepted sizes for compilers.

    The model accepts the minimum, optimum, and maximum sizes. Sizes that are not given are derived (total_seq from
    past_seq + seq). Minimum, optimum, or maximum sizes that break the contract are rejected with the condition and its
    node, and the exit code is 1. If some sizes between them are not accepted, the conditions are written to stderr.
    Examples:

        shapesolve profile unet.onnx --opt batch=1,height=64,width=64 --max batch=8,height=512,width=512 --for trtexec

        shapesolve profile gpt2.onnx --opt seq=1,past_seq=128 --max seq=128,past_seq=512 --for ort-trt
    """
    if json and tool not in ("", "json"):
        fail(f"--json and --for {tool} are mutually exclusive")
    from ..deploy.profiles.formats import TARGETS, conditions_text

    if tool == "list":
        return Result(None, [row(f"{name:12}", one.text) for name, one in TARGETS.items()])
    a = find(load(model, assume, bind), findings=False)
    from ..deploy import profile as profiles_of
    from ..deploy import profile_text
    from ..report.json import data_of, envelope

    opt = ",".join([*(sizes_given or ()), *(at or ()), *([opt] if opt else ())])
    low, usual, high = (
        listed_sizes(a, text, f"--{name}") for name, text in (("min", min), ("opt", opt), ("max", max))
    )
    empty = tool not in TARGETS or TARGETS[tool].empty
    found = profiles_of(a, usual, min=low, max=high, split=split, empty_cache=empty)
    corners = [CornersData(one.min, one.opt, one.max) for one in found]
    data = Profile([ProfileData(c, one.inputs, one.conditions) for c, one in zip(corners, found)])
    if tool in ("", "json"):
        text = envelope("profile", data_of(data))
    else:
        text = profile_text(a, found, tool)
        for condition in () if TARGETS[tool].commented and output is None else conditions_text(found, tool):
            print_note(condition)
    if output is None:
        return Result(lambda: data, text if tool or not sys.stdout.isatty() else _table(found))
    write_file(output, f"{text}\n".encode(), a.model)
    return Result(None, [f"wrote {output}"])


def _table(found: Sequence[profiles.Profile]) -> Iterator[Printed]:
    """Return the table of sizes per name, and the conditions on sizes within the ranges."""
    from ..lines import line, row

    for k, one in enumerate(found):
        if len(found) > 1:
            yield line(("bold", f"profile {k}"))
        yield row(("dim", ""), ("dim", "min"), ("dim", "opt"), ("dim", "max"))
        for name, size in one.opt.items():
            yield row(("name", name), str(one.min[name]), str(size), str(one.max[name]))
        if one.conditions:
            yield line(("dim", "within the ranges, also satisfy "), ", ".join(one.conditions))
