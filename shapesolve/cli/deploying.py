"""Commands inputs and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..expr.sizes import answer_text, sizes_text
from ..lines import Printed, line, row
from ..report.json import ABSENT
from .app import app
from .asking import At, GivenSizes, asked_sizes, data_lines, listed_sizes
from .console import FOUND, Refused, Result, fail
from .options import AsJson, Assume, Bind, Model, find, load
from .parameters import Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..analysis import Analysis
    from ..deploy import Buckets
    from ..deploy import Sizes as Question
    from ..report.json import Sizes
    from ..solve.sizes import Side


@dataclass(frozen=True)
class Inputs:
    """`shapesolve inputs --json`: the sizes of each input set, guesses about values, and files."""

    sizes: Sequence[Sizes]
    guesses: Sequence[str]
    files: Sequence[str]


@app.command(example=["The first input sets have typical sizes.", "inputs examples/unet.onnx -n 6 -o feeds"])
def inputs(
    model: Model,
    sizes_given: GivenSizes = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FOLDER", help="Folder to write to. [default: write nothing]"),
    ] = None,
    count: Annotated[
        int, Option("-n", "--count", metavar="N", min=1, max=10_000, help="Number of input sets.")
    ] = 20,
    form: Annotated[
        Literal["npz", "pb"],
        Option(
            "--form",
            needs=("output",),
            help="One .npz file per input set, or test_data_set_K folders of protobuf tensors.",
        ),
    ] = "npz",
    edge: Annotated[
        bool,
        Option(
            "--edge/--no-edge",
            help="Also generate edge cases: sizes of 0 and 1, and the smallest accepted sizes.",
        ),
    ] = False,
    seed: Annotated[int, Option("--seed", metavar="N", help="Seed for sizes and values.")] = 0,
    at: At = None,
    bind: Bind = None,
    assume: Assume = None,
) -> Result[Inputs | Refused]:
    """Generate inputs that the model accepts.

    The first input set has typical sizes, and the second an empty cache if the model has one; the others are random.
    Integers are in the range of valid indices, and masks are ones. Values that had to be guessed are printed. Exit code: 1 if
    no accepted sizes are found. Examples:

        shapesolve inputs model.onnx -n 20 -o feeds

        shapesolve inputs model.onnx --form pb --bind batch=1 -o model_folder
    """
    a = find(load(model, assume), findings=False)
    from ..deploy import generate_inputs

    made = generate_inputs(
        a, count, seed, edge, bind=asked_sizes(a, [*(sizes_given or ()), *(bind or ()), *(at or ())])
    )
    files = [] if output is None else made.save(output, form)
    lines: list[Printed | str] = []
    lines += [row(f"{k:>4}", sizes_text(sizes) or "no free sizes") for k, sizes in enumerate(made.sizes)]
    lines += [f"guessed  {guess}" for guess in made.guesses]
    if made.guesses:
        lines.append("         to choose others: shapesolve.generate_inputs(model, values={...})")
    if output is not None:
        sets, written = (
            f"{n} {what}{'s' * (n != 1)}" for n, what in ((len(made), "input set"), (len(files), "file"))
        )
        lines.append(f"wrote {sets} to {output} ({written})")
    return Result(lambda: Inputs(made.sizes, made.guesses, [*map(str, files)]), lines)


@dataclass(frozen=True, kw_only=True)
class SizesUsual:
    """`shapesolve sizes --json`. `prefill` has an empty cache, and is missing for models without a cache.

    `data` has the conditions on data that must also hold at the typical sizes.
    """

    usual: Sizes
    prefill: Sizes = ABSENT
    smallest: Sizes
    data: Sequence[str] = ()


@dataclass(frozen=True)
class SizesNear:
    """`shapesolve sizes --near --json`. `sizes` is set if they are accepted; a side is null if nothing was found there.

    `limits` are proved bounds of names that exclude all sizes on a side.
    """

    accepted: bool
    broken: Sequence[str]
    sizes: Sizes = ABSENT
    above: Sizes | None = ABSENT
    below: Sizes | None = ABSENT
    both: Sizes | None = ABSENT
    limits: Mapping[str, Sizes] = ABSENT
    data: Sequence[str] = ABSENT


@dataclass(frozen=True)
class SizesFirst:
    """`shapesolve sizes --enumerate --json`."""

    sizes: Sequence[Sizes]


@app.command(
    example=[
        "The accepted sizes nearest to the given ones, and the smallest accepted sizes.",
        "sizes examples/unet.onnx --near height=1085,width=1920,batch=1",
        "sizes examples/unet.onnx --enumerate 3",
    ]
)
def sizes(
    model: Model,
    sizes_given: GivenSizes = None,
    near: Annotated[
        str | None,
        Option("--near", metavar="NAME=SIZE,...", help="Find the accepted sizes nearest to these."),
    ] = None,
    enumerate: Annotated[
        int | None,
        Option("--enumerate", metavar="N", min=1, max=100_000, help="List the N smallest accepted sizes."),
    ] = None,
    least: Annotated[
        int,
        Option(
            "--least",
            metavar="SIZE",
            min=0,
            needs=("near", "enumerate", "sizes_given", "at"),
            help="Minimum size for --near and --enumerate; 0 allows empty inputs.",
        ),
    ] = 1,
    buckets: Annotated[
        Path | None,
        Option(
            "--buckets",
            metavar="FILE.csv",
            help="Find the best sizes to pad to, given a CSV file of observed sizes.",
        ),
    ] = None,
    symbol: Annotated[
        str | None,
        Option(
            "--symbol",
            "--symbols",
            metavar="NAME,...",
            needs=("buckets",),
            help="With --buckets: dims to find sizes for, up to three.",
        ),
    ] = None,
    k: Annotated[
        int,
        Option(
            "--count",
            "--k",
            metavar="N",
            min=1,
            needs=("buckets",),
            help="With --buckets: maximum number of buckets.",
        ),
    ] = 6,
    tool: Annotated[
        str,
        Option(
            "--for",
            metavar="TOOL",
            needs=("buckets",),
            help="With --buckets: print profiles for a tool, as `profile --for` does.",
        ),
    ] = "",
    json: AsJson = False,
    at: At = None,
    bind: Bind = None,
    assume: Assume = None,
) -> Result[SizesUsual | SizesNear | SizesFirst | Buckets | Refused]:
    """Find accepted sizes: typical, nearest, or best to pad to.

    Without options, print typical sizes and the smallest ones.
    `--near` finds the nearest accepted sizes above, below, and on either side, and the conditions that the given
    sizes break; the exit code is 0 if the given sizes are accepted, 1 otherwise. `--enumerate` lists the smallest
    accepted sizes without gaps, ordered by the largest size and then by each size in turn; the exit code is 1 if
    there are none. `--buckets` reads observed sizes from a CSV file (the column named after the dim, or the first
    one; a `count` column holds frequencies) and finds the accepted sizes with minimum padding. For several dims,
    buckets are the products of their sizes. If the padding is not proved minimal, the output says so.
    Examples:

        shapesolve sizes unet.onnx

        shapesolve sizes unet.onnx --near height=1080,width=1920

        shapesolve sizes unet.onnx --enumerate 10 --bind batch=1

        shapesolve sizes bert.onnx --buckets lengths.csv --symbol seq --k 6

        shapesolve sizes bert.onnx --buckets traffic.csv --symbols batch,seq --k 6 --for trtexec
    """
    asked = [*(sizes_given or ()), *(at or ()), *([near] if near is not None else ())]
    if [asked or None, enumerate, buckets].count(None) < 2:
        fail("--near, --enumerate, and --buckets are mutually exclusive")
    if buckets is not None and symbol is None:
        fail("--buckets requires --symbol NAME")
    if tool and json:
        fail("--for and --json are mutually exclusive")
    a = find(load(model, assume), findings=False)
    from ..deploy import enumerate_sizes, profile_text

    given = asked_sizes(a, bind or (), "--bind")
    if asked:
        return _near(a, listed_sizes(a, ",".join(asked), "--near"), given, least)
    if enumerate is not None:
        found = enumerate_sizes(a, enumerate, least=least, bind=given)
        return Result(lambda: SizesFirst(found), [sizes_text(one) or "all sizes are fixed" for one in found])
    if buckets is not None:
        made = _buckets(a, buckets, symbol or "", k, given)
        return Result(lambda: made, profile_text(a, made.profiles(a), tool) if tool else _bucket_lines(made))
    data = _usual(a, given)
    return Result(lambda: data, _usual_lines(data))


_KINDS = {"usual": "typical", "prefill": "empty cache", "smallest": "smallest"}


def _usual_lines(data: SizesUsual) -> Iterator[Printed]:
    label = "runs at"
    for kind, text in _KINDS.items():
        sizes = getattr(data, kind)
        if sizes is not ABSENT and (sizes or label):
            yield row(("dim", label), f"{sizes_text(sizes)}  ({text})" if sizes else "its fixed sizes")
            label = ""
    yield from data_lines(data.data)


def _usual(a: Analysis, bind: dict[str, int]) -> SizesUsual:
    """Return typical sizes, the same with an empty cache, and the smallest sizes."""
    from ..answers.example import data_conditions
    from ..deploy import Sizes as Question
    from ..deploy import enumerate_sizes

    question = Question.usual(a, bind)
    usual = question.preferred()
    prefill = question.prefill(usual)
    (smallest,) = enumerate_sizes(a, 1, least=min(question.least, *usual.values(), 1), bind=bind)
    data = data_conditions(a._solved, usual) or ()
    return SizesUsual(usual=usual, prefill=prefill or ABSENT, smallest=smallest, data=data)


def _buckets(a: Analysis, file: Path, symbol: str, k: int, bind: dict[str, int]) -> Buckets:
    from ..deploy.profiles.bucketing import buckets, read_sizes

    names = [symbol] if symbol in a.symbols else symbol.split(",")
    try:
        seen = read_sizes(file, *names)
    except OSError as e:
        fail(f"cannot read {file}: {e.strerror or e}")
    return buckets(a, seen, names[0] if len(names) == 1 else names, k, bind=bind)


def _bucket_lines(made: Buckets) -> Iterator[str]:
    for one in made.buckets:
        others = sizes_text({n: v for n, v in one.sizes.items() if n not in made.symbols})
        where = f"  with {others}" if others else ""
        own = sizes_text({n: one.sizes[n] for n in made.symbols})
        yield f"{own}  holds {one.count}, padding {one.padding}{where}"
    whole = made.padding + made.total
    least = "proved minimal" if made.proved else "best found"
    yield f"padding {made.padding:,} of {whole:,} ({100 * made.padding / max(whole, 1):.1f} %), {least}"


_SIDES: tuple[Side, ...] = ("above", "below", "both")


def _near(a: Analysis, wanted: dict[str, int], bind: dict[str, int], least: int) -> Result[SizesNear]:
    """Return the result of ``sizes --near``: the nearest accepted sizes, and the conditions that the given ones break."""
    from ..answers.example import data_conditions
    from ..deploy import NoSizes
    from ..deploy import Sizes as Question
    from ..deploy.why import causes_at

    question = Question(a, bind, least=least)
    question.known(wanted)
    sizes = question.completed(wanted)
    if sizes is not None:
        open_ = data_conditions(a._solved, sizes) or ()
        lines = [line(f"accepted: {answer_text(sizes, wanted)}"), *data_lines(open_)]
        return Result(lambda: SizesNear(True, [], sizes, data=open_), lines)
    data: Any = {"accepted": False, "broken": []}
    for side in _SIDES:
        try:
            data[side] = question.nearest(wanted, side)
        except NoSizes:
            data[side] = None
            data.setdefault("limits", {})[side] = _limits(a, wanted, side)
    beside = data["both"] or dict.fromkeys(question.names, 1)
    start = {**beside, **question.fixed, **wanted, **bind}
    rejected = question.broken(start)
    data["broken"] = [r.text for r in rejected]
    cause = next(iter(causes_at(a, {**question.fixed, **wanted, **bind})), None)
    told = [line(("error", "not accepted"), f": {cause.title}" if cause is not None else "")]
    if cause is None:
        told += [line(("dim", "  = "), text) for text in (r.sentence for r in rejected)]
    elif cause.node:
        told.append(line(("dim", "  --> "), cause.node))
    return Result(lambda: data, [*told, *_near_lines(question, data, wanted)], FOUND)


def _limits(a: Analysis, wanted: dict[str, int], side: Side) -> dict[str, int]:
    """Return proved bounds that exclude all sizes above (or below) the given ones, by name."""
    bounds = {n: a.bounds(a.symbols[n]) for n in wanted if side != "both"}
    if side == "below":
        return {n: lo for n, (lo, _) in bounds.items() if lo is not None and lo > wanted[n]}
    return {n: hi for n, (_, hi) in bounds.items() if hi is not None and hi < wanted[n]}


def _is_closest(sizes: Sizes, sides: Sequence[Sizes | None], wanted: dict[str, int]) -> bool:
    """Return True if the other side has sizes that are farther away."""
    far = [max(abs(at[n] - wanted[n]) for n in wanted) for at in sides if at is not None and at != sizes]
    return bool(far) and max(abs(sizes[n] - wanted[n]) for n in wanted) <= min(far)


def _near_lines(question: Question, data: dict[str, Any], wanted: dict[str, int]) -> Iterator[Printed]:
    above, below, both = (data[side] for side in _SIDES)
    proved = both is not None and question.finder.is_nearest(both, wanted)
    rows = [("above", above), ("below", below)]
    rows += [("nearest" if proved else "near", both)] if both not in (above, below) else []
    shown = [sizes for _, sizes in rows]
    for side, sizes in rows:
        if sizes is None:
            yield row(side.ljust(7), "none" if data.get("limits", {}).get(side) else "none found")
            continue
        mark = " (nearest)" if proved and sizes == both and _is_closest(sizes, (above, below), wanted) else ""
        yield row(side.ljust(7), f"{answer_text(sizes, wanted)}{mark}")
        rounder = question.finder.rounder(sizes, wanted)
        if rounder is not None and rounder not in shown:
            shown.append(rounder)
            yield row("runs   ", f"{answer_text(rounder, wanted)} (round)")
