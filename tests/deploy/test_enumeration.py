"""The first accepted sizes are those that trying all of them finds."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy import NoSizes, Sizes

from .test_sizes import split_in

ROOT = Path(__file__).resolve().parents[2]


def all_accepted(question: Sizes, least: int, reach: int) -> list[dict[str, int]]:
    """Every accepted combination up to `reach`, in order."""
    free = [n for n in question.names if n not in question.fixed]
    found = []
    for drawn in product(range(least, reach + 1), repeat=len(free)):
        given = {**question.fixed, **dict(zip(free, drawn, strict=True))}
        sizes = {n: given[n] for n in question.names}
        shapes = question.shapes(sizes)
        if shapes is not None and not question.analysis.check_inputs(shapes):
            found.append((max(drawn, default=0), drawn, sizes))
    return [sizes for _, _, sizes in sorted(found, key=lambda f: f[:2])]


@pytest.mark.parametrize(
    ("model", "least", "bind", "reach"),
    [
        ("split", 1, {}, 10),
        ("split", 0, {"seq": 2}, 12),
        ("examples/attention.onnx", 0, {}, 3),
        ("examples/unet.onnx", 1, {"batch": 1}, 16),
        ("tests/models/skl_gbdt/model.onnx", 0, {}, 40),
    ],
)
def test_nothing_is_left_out(model: str, least: int, bind: dict[str, int], reach: int) -> None:
    a = split_in(4) if model == "split" else ss.analyze(ROOT / model)
    expected = all_accepted(Sizes(a, bind), least, reach)
    assert len(expected) > 1
    assert ss.enumerate_sizes(a, len(expected), least=least, bind=bind) == expected
    assert ss.enumerate_sizes(a, 2, least=least, bind=bind) == expected[:2]


def test_where_nothing_is_accepted_it_says_so() -> None:
    a = ss.analyze(ROOT / "examples/unet.onnx")
    with pytest.raises(NoSizes, match=r"height % 8 == 0"):
        ss.enumerate_sizes(a, 3, bind={"height": 3})
    with pytest.raises(ValueError, match="unknown dim 'hight'"):
        ss.enumerate_sizes(a, 3, bind={"hight": 3})
    done = CliRunner().invoke(
        app, ["sizes", str(ROOT / "examples/unet.onnx"), "--enumerate", "3", "--bind", "width=9"]
    )
    assert done.exit_code == 1


def test_the_command_lists_them() -> None:
    unet = str(ROOT / "examples/unet.onnx")
    done = CliRunner().invoke(app, ["sizes", unet, "--enumerate", "3", "--bind", "batch=2"])
    assert done.output.splitlines()[1] == "batch = 2, height = 8, width = 16"
    done = CliRunner().invoke(app, ["sizes", unet, "--enumerate", "1", "--json"])
    assert json.loads(done.output)["sizes"] == [{"batch": 1, "height": 8, "width": 8}]
    assert CliRunner().invoke(app, ["sizes", unet, "--near", "height=8", "--enumerate", "3"]).exit_code == 2


def test_without_options_the_usual_and_the_smallest_sizes_are_printed() -> None:
    done = CliRunner().invoke(app, ["sizes", str(ROOT / "examples/unet.onnx")])
    assert done.output.splitlines() == [
        "runs at  batch = 1, height = 224, width = 224  (typical)",
        "         batch = 1, height = 8, width = 8  (smallest)",
    ]
    done = CliRunner().invoke(app, ["sizes", str(ROOT / "examples/attention.onnx"), "--json"])
    data = json.loads(done.output)
    assert data["prefill"]["past_seq"] == 0
    assert data["usual"]["total_seq"] == data["usual"]["past_seq"] + data["usual"]["seq"]
    assert data["prefill"]["seq"] == data["usual"]["seq"]  # a mask is no image
