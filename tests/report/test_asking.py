"""Sizes are asked for in every spelling, and Python gives the answers of the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

import shapesolve as ss
from shapesolve.cli import app

from .broken import model

UNET = str(Path(__file__).resolve().parents[2] / "examples/unet.onnx")
WANTED = "height must be a multiple of 8, got 12"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args)


@pytest.mark.parametrize("given", [["height=12"], ["image[2]=12"], ["image[-2]=12"], ["image=1x3x12x16"]])
@pytest.mark.parametrize("command", ["why", "evaluate", "inputs", "cost", "sizes", "profile", "fix"])
def test_every_command_takes_every_spelling(command: str, given: list[str], tmp_path: Path) -> None:
    more = ["-o", str(tmp_path / "out")] if command in ("fix", "inputs") else []
    full = ["batch=1", "width=16"] if command == "cost" and len(given[0]) < 15 else []
    done = run(command, UNET, *given, *full, *more)
    assert done.exit_code == 1, done.output
    assert WANTED in " ".join(done.output.split())


def test_a_fixed_size_is_answered_with_a_command_that_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model("g (float[1, 8] x) => (y) { y = MatMul(x, w) }", w=[8, 2]), "fixed model.onnx")
    done = run("why", "fixed model.onnx", "batch=2")
    assert done.exit_code == 1
    assert "x[0] must be 1, got 2" in done.output
    command = re.search(r"`shapesolve (.*?)`", " ".join(done.output.split()))
    assert command
    assert run(*shlex.split(command[1])).exit_code == 0
    assert run("why", "dynamic.onnx", "batch=2").exit_code == 0
    channels = run("why", "fixed model.onnx", "x[1]=9")
    assert (channels.exit_code, "x[1] must be 8, got 9" in channels.output) == (1, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("image[7]=1", "has no axis 7"),
        ("image=1x3", "image must have rank 4"),
        ("height=1x2", "expected NAME=SIZE"),
        ("image[2]=12,height=16", "height is given two sizes: 12 and 16"),
    ],
)
def test_sizes_that_cannot_be_read(given: str, said: str) -> None:
    done = run("why", UNET, given)
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_python_gives_the_answers_of_the_commands() -> None:
    a = ss.analyze(UNET)
    why = a.why({"height": 12})
    assert not why
    assert [f.title for f in why.findings] == [WANTED]
    assert why.near == a.nearest({"height": 12})
    assert {side: sizes and sizes["height"] for side, sizes in why.near.items()} == {"below": 8, "above": 16}
    assert a.why({"height": 16})
    assert list(a.outputs) == ["mask"]
    assert a.check() == ()
    (first, *_) = a.evaluate({"batch": 1, "height": 12, "width": 16}).violations
    assert first.sentence == WANTED
    assert all(not a.evaluate(near).violations for near in first.nearest)
    with pytest.raises(ss.NoSizes) as refused:
        ss.generate_inputs(a, bind={"height": 12})
    assert refused.value.rejected[0].sentence == WANTED
    with pytest.raises(ss.Refused) as fixed:
        ss.fix(UNET, {"height": 12})
    assert fixed.value.rejected[0].sentence == WANTED
