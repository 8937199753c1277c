"""Commands for what comes after analysis: inputs, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .app import app
from .console import FOUND, fail, say, show
from .options import AsJson, Assume, Bind, Model, find, load, sizes_of


@app.command()
def inputs(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Where to write; without it, sizes are printed."
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, max=10_000, help="How many.")
    ] = 20,
    form: Annotated[
        Literal["npz", "pb"],
        typer.Option("--form", help="One .npz each, or test_data_set_K folders of protobuf tensors."),
    ] = "npz",
    edge: Annotated[
        bool, typer.Option("--edge/--no-edge", help="Border cases too: least sizes, 1, 0.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Other draws.")] = 0,
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
        say(f"{model}: {e}")
        raise typer.Exit(FOUND) from None
    except ValueError as e:
        fail(str(e))
    for k, sizes in enumerate(made.sizes):
        say(f"{k:>4}  {', '.join(f'{n} = {v}' for n, v in sizes.items()) or 'no free sizes'}")
    for guess in made.guesses:
        say(f"guessed  {guess}")
    if made.guesses:
        say("         shapesolve.generate_inputs(model, values={'NAME': array or function}) gives others")
    if output is not None:
        try:
            files = made.save(output, form)
        except OSError as e:
            fail(f"cannot write {output}: {e.strerror or e}")
        say(f"wrote {len(made)} sets of inputs to {output} ({len(files)} files)")


@app.command()
def sizes(
    model: Model,
    near: Annotated[
        str,
        typer.Option(
            "--near", metavar="NAME=SIZE,...", help="The sizes that you would like.", show_default=False
        ),
    ],
    json: AsJson = False,
    bind: Bind = None,
    assume: Assume = None,
) -> None:
    """Find the accepted sizes nearest to those you want.

    Above, below, and on either side; with the conditions that the wanted sizes break. Exit code 0 when the wanted sizes are
    accepted as they are, 1 when they are not. Example:

        shapesolve sizes unet.onnx --near height=1080,width=1920
    """
    a = load(model, assume)
    find(a, findings=False)
    from ..deploy import NoSizes, Sizes

    wanted = sizes_of([part for part in near.split(",") if part])
    try:
        question = Sizes(a, sizes_of(bind))
        question.known(wanted)
    except ValueError as e:
        fail(str(e))
    start = {**{n: 1 for n in question.names if n not in wanted}, **wanted}
    fits = question.accepted({**start, **question.fixed})
    from ..report.evaluation import broken_lines, broken_terms

    terms = [] if fits else broken_terms(a, start)
    broken = [t.text for t in terms] if fits or terms else question.broken(start)
    told: dict[str, Any] = {"accepted": fits, "broken": broken}
    sides: tuple[Literal["above", "below", "both"], ...] = ("above", "below", "both")
    for side in () if fits else sides:
        try:
            told[side] = question.nearest(start, side)
        except NoSizes:
            told[side] = None
    if json:
        import json as writer

        say(writer.dumps(told, indent=1))
    elif fits:
        say("accepted as they are")
    else:
        from ..report.lines import line

        show([line(("error", "not accepted"))])
        show(broken_lines(a, start) if terms else (line(("dim", "  = "), text) for text in broken))
        for side in sides:
            found = told[side]
            at = ", ".join(f"{n} = {v}" for n, v in found.items()) if found else "none found"
            say(f"{side if side != 'both' else 'nearest':<8} {at}")
    raise typer.Exit(0 if fits else FOUND)
