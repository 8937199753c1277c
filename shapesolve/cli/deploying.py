"""Commands for what comes after analysis: inputs, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..expr.sizes import answer_text, sizes_text
from .app import app
from .console import FOUND, fail, refuse, say, show, tell
from .options import AsJson, Assume, Bind, Model, find, listed_sizes, load, sizes_of
from .parameters import Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..deploy import Buckets
    from ..report.lines import Printed


@app.command()
def inputs(
    model: Model,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FOLDER", help="Where to write; without it, sizes are printed."),
    ] = None,
    count: Annotated[int, Option("-n", "--count", metavar="N", min=1, max=10_000, help="How many.")] = 20,
    form: Annotated[
        Literal["npz", "pb"],
        Option("--form", help="One .npz each, or test_data_set_K folders of protobuf tensors."),
    ] = "npz",
    edge: Annotated[bool, Option("--edge/--no-edge", help="Border cases too: least sizes, 1, 0.")] = True,
    seed: Annotated[int, Option("--seed", metavar="N", help="Other draws.")] = 0,
    json: AsJson = False,
    bind: Bind = None,
    assume: Assume = None,
) -> None:
    """Make inputs that the model accepts.

    Sizes are drawn from the contract; integers lie in the range in which they are read, masks are ones. What is guessed about
    values is printed. Exit code 1 when no accepted sizes are found. Examples:

        shapesolve inputs model.onnx -n 20 -o feeds

        shapesolve inputs model.onnx --form pb --bind batch=1 -o model_folder
    """
    a = load(model, assume)
    find(a, findings=False)
    from ..deploy import NoSizes, generate_inputs

    try:
        made = generate_inputs(a, count, seed, edge, bind=sizes_of(bind))
    except NoSizes as e:
        refuse("inputs", str(e), json, lead=f"{model}: ")
    except ValueError as e:
        fail(str(e))
    files: list[Path] = []
    if output is not None:
        try:
            files = made.save(output, form)
        except (OSError, ValueError) as e:
            fail(f"cannot write {output}: {getattr(e, 'strerror', None) or e}")
    if json:
        from ..report.json import envelope

        told = {"sizes": made.sizes, "guesses": made.guesses, "files": list(map(str, files))}
        say(envelope("inputs", told))
        return
    for k, sizes in enumerate(made.sizes):
        tell(f"{k:>4}  {sizes_text(sizes) or 'no free sizes'}")
    for guess in made.guesses:
        tell(f"guessed  {guess}")
    if made.guesses:
        tell("         shapesolve.generate_inputs(model, values={'NAME': array or function}) gives others")
    if output is not None:
        tell(f"wrote {len(made)} sets of inputs to {output} ({len(files)} files)")


@app.command()
def sizes(
    model: Model,
    near: Annotated[
        str | None, Option("--near", metavar="NAME=SIZE,...", help="The sizes that you would like.")
    ] = None,
    enumerate: Annotated[
        int | None,
        Option("--enumerate", metavar="N", min=1, max=100_000, help="List the first N accepted sizes."),
    ] = None,
    least: Annotated[
        int,
        Option(
            "--least", metavar="SIZE", min=0, help="With --near and --enumerate: 0 takes empty inputs, too."
        ),
    ] = 1,
    buckets: Annotated[
        Path | None,
        Option("--buckets", metavar="FILE.csv", help="Sizes that were seen: find sizes to pad them to."),
    ] = None,
    symbol: Annotated[
        str | None,
        Option(
            "--symbol",
            "--symbols",
            metavar="NAME,...",
            help="With --buckets: whose sizes, up to three names.",
        ),
    ] = None,
    k: Annotated[int, Option("--k", metavar="N", min=1, help="With --buckets: how many, at most.")] = 6,
    tool: Annotated[
        str,
        Option("--for", metavar="TOOL", help="With --buckets: as profiles for a tool, as `profile --for`."),
    ] = "",
    json: AsJson = False,
    bind: Bind = None,
    assume: Assume = None,
) -> None:
    """Accepted sizes: the nearest, the first, the best to pad to.

    `--near` tells the nearest above, below, and on either side, and the conditions that the wanted sizes break; exit code 0
    when the wanted sizes are accepted as they are, 1 when they are not. `--enumerate` lists the smallest, none left out, by the
    largest size and then by each in turn; exit code 1 when there are none. `--buckets` reads sizes from a CSV file (the column
    of that name or the first; a column `count` says how often) and finds the accepted sizes with provably the least padding, of
    several symbols in products of their sizes.
    Examples:

        shapesolve sizes unet.onnx --near height=1080,width=1920

        shapesolve sizes unet.onnx --enumerate 10 --bind batch=1

        shapesolve sizes bert.onnx --buckets lengths.csv --symbol seq --k 6

        shapesolve sizes bert.onnx --buckets traffic.csv --symbols batch,seq --k 6 --for trtexec
    """
    if [near, enumerate, buckets].count(None) != 2:
        fail("sizes takes one of --near, --enumerate and --buckets")
    if (buckets is None) != (symbol is None):
        fail("--buckets FILE.csv and --symbol NAME belong together")
    if tool and (buckets is None or json):
        fail("--for TOOL is for --buckets, and --json another form of the same")
    a = load(model, assume)
    find(a, findings=False)
    from ..deploy import NoSizes, profile_text

    wanted: dict[str, int] = {}
    against: list[Printed] = []
    try:
        if enumerate is not None:
            told = _first(a, enumerate, least, sizes_of(bind))
        elif buckets is not None:
            made = _buckets(a, buckets, symbol or "", k, sizes_of(bind))
            text = profile_text(a, made.profiles(a), tool) if tool else ""
            told = made.to_json()
        else:
            wanted = listed_sizes(near or "", "--near")
            told, against = _near(a, wanted, sizes_of(bind), least)
    except NoSizes as e:
        refuse("sizes", str(e), json, lead=f"{model}: ")
    except ValueError as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot read {buckets}: {e.strerror or e}")
    if json:
        from ..report.json import envelope

        say(envelope("sizes", told))
    elif tool:
        say(text)
    elif buckets is not None:
        tell("\n".join(_bucket_lines(told)))
    elif enumerate is not None:
        tell("\n".join(sizes_text(sizes) or "no free sizes" for sizes in told["sizes"]))
    else:
        if against:
            show(against)
        tell("\n".join(_near_lines(told, wanted)))
    raise SystemExit(FOUND if against else 0)


def _first(a: Analysis, count: int, least: int, bind: dict[str, int]) -> dict[str, Any]:
    from ..deploy import enumerate_sizes

    return {"sizes": enumerate_sizes(a, count, least=least, bind=bind)}


def _buckets(a: Analysis, file: Path, symbol: str, k: int, bind: dict[str, int]) -> Buckets:
    from ..deploy.bucketing import buckets, read_sizes

    names = [symbol] if symbol in a.symbols else symbol.split(",")
    seen = read_sizes(file, *names)
    return buckets(a, seen, names[0] if len(names) == 1 else names, k, bind=bind)


def _bucket_lines(told: dict[str, Any]) -> Iterator[str]:
    symbols = told["symbols"]
    for one in told["buckets"]:
        others = sizes_text({n: v for n, v in one["sizes"].items() if n not in symbols})
        where = f"  with {others}" if others else ""
        yield f"{sizes_text({n: one['sizes'][n] for n in symbols})}  holds {one['count']}, padding {one['padding']}{where}"
    share = 100 * told["padding"] / max(told["padding"] + told["total"], 1)
    least = "the least that is possible" if told["proved"] else "the least that was found"
    yield f"padding {told['padding']:,} of {told['padding'] + told['total']:,} ({share:.1f} %), {least}"


_SIDES: tuple[Literal["above", "below", "both"], ...] = ("above", "below", "both")


def _near(
    a: Analysis, wanted: dict[str, int], bind: dict[str, int], least: int
) -> tuple[dict[str, Any], list[Printed]]:
    """Data and lines on accepted sizes near the wanted ones, and the reasons against these. No lines if accepted."""
    from ..deploy import NoSizes, Sizes
    from ..report.evaluation import broken_lines, broken_terms
    from ..report.lines import line

    question = Sizes(a, bind, least=least)
    question.known(wanted)
    sizes = question.completed(wanted)
    if sizes is not None:
        return {"accepted": True, "broken": [], "sizes": sizes}, []
    told: dict[str, Any] = {"accepted": False, "broken": []}
    for side in _SIDES:
        try:
            told[side] = question.nearest(wanted, side)
        except NoSizes:
            told[side] = None
            told.setdefault("limits", {})[side] = _limits(a, wanted, side)
    beside = told["both"] or dict.fromkeys(question.names, 1)
    start = {**beside, **question.fixed, **wanted, **bind}
    terms = broken_terms(a, start)
    told["broken"] = [t.text for t in terms] if terms else question.broken(start)
    lines = (
        list(broken_lines(a, start)) if terms else [line(("dim", "  = "), text) for text in told["broken"]]
    )
    return told, [line(("error", "not accepted")), *lines]


def _limits(a: Analysis, wanted: dict[str, int], side: Literal["above", "below", "both"]) -> dict[str, int]:
    """The proved bounds that no size on this side of those wanted keeps, by name."""
    bounds = {n: a.bounds(a.symbols[n]) for n in wanted if side != "both"}
    if side == "below":
        return {n: lo for n, (lo, _) in bounds.items() if lo is not None and lo > wanted[n]}
    return {n: hi for n, (_, hi) in bounds.items() if hi is not None and hi < wanted[n]}


def _none_text(limits: dict[str, int], side: Literal["above", "below", "both"]) -> str:
    word = "least" if side == "below" else "most"
    told = " and ".join(f"{n} is at {word} {size}" for n, size in limits.items())
    return f"none: {told} in every run" if told else "none found"


def _near_lines(told: dict[str, Any], wanted: dict[str, int]) -> Iterator[str]:
    for side in _SIDES if not told["accepted"] else ():
        at = answer_text(told[side], wanted) if told[side] else _none_text(told["limits"][side], side)
        yield f"{side if side != 'both' else 'nearest':<8} {at}"
    if told["accepted"]:
        yield f"accepted as they are: {answer_text(told['sizes'], wanted)}"
