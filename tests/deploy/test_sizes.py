"""The nearest accepted sizes are accepted, and no nearer ones are: compared with trying them all."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy import NoSizes, Sizes

ROOT = Path(__file__).resolve().parents[2]


def split_in(parts: int) -> ss.Analysis:
    """Two sizes that add up to a multiple, and one that is their sum."""
    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["a", "b"], ["c"], axis=0),
            helper.make_node("Add", ["c", "t"], ["s"]),
            helper.make_node("SpaceToDepth", ["p"], ["q"], blocksize=parts),
        ],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["past", 2]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["seq", 2]),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, ["total", 2]),
            helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 1, "past", 4 * parts]),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "sq"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ss.analyze(model, assume=["total >= 2"])


@pytest.mark.parametrize("wanted", [(3, 4, 9), (0, 0, 5), (5, 5, 5), (8, 1, 2), (7, 3, 12)])
@pytest.mark.parametrize("side", ["above", "below", "both"])
def test_no_nearer_sizes_are_accepted(wanted: tuple[int, ...], side: str) -> None:
    question = Sizes(split_in(4))
    names = question.names
    start = dict(zip(("past", "seq", "total"), wanted, strict=True))
    reach = 8
    best = None
    for moves in product(range(-reach, reach + 1), repeat=3):
        if (side == "above" and min(moves) < 0) or (side == "below" and max(moves) > 0):
            continue
        trial = {n: start[n] + m for n, m in zip(("past", "seq", "total"), moves, strict=True)}
        if min(trial.values()) >= 0 and question.accepted(trial):
            far = max(map(abs, moves))
            best = far if best is None else min(best, far)
    if best is None:
        try:
            found = question.nearest(start, side)  # type: ignore[arg-type]
        except NoSizes:
            return
        assert max(abs(found[n] - start[n]) for n in names) > reach
        return
    found = question.nearest(start, side)  # type: ignore[arg-type]
    assert question.accepted(found)
    assert max(abs(found[n] - start[n]) for n in names) == best


def test_the_command_says_what_is_broken() -> None:
    unet = str(ROOT / "examples/unet.onnx")
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "height=1081,width=1920", "--json"])
    assert done.exit_code == 1, done.output
    told = json.loads(done.output)
    assert told["above"]["height"] == 1088
    assert told["below"]["height"] == told["both"]["height"] == 1080
    assert any("height" in text for text in told["broken"])
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "height=1080,width=1920"])
    assert (done.exit_code, done.output.strip()) == (
        0,
        "accepted as they are: batch = 1, height = 1080, width = 1920",
    )
    done = CliRunner().invoke(app, ["sizes", unet, "--near", "hight=8"])
    assert done.exit_code == 2


def test_what_is_assumed_holds_for_what_the_solver_finds() -> None:
    attention = ss.analyze(ROOT / "examples/attention.onnx", assume=["total_seq == past_seq + seq"])
    wanted = {"batch": 1, "seq": 1, "past_seq": 1, "total_seq": 1}
    assert Sizes(attention).nearest(wanted, "above") == {**wanted, "total_seq": 2}


def test_where_every_size_is_bound_nothing_is_near() -> None:
    bound = {"batch": 1, "height": 12, "width": 8}
    with pytest.raises(NoSizes, match="height"):
        Sizes(ss.analyze(ROOT / "examples/unet.onnx"), bound).nearest(bound)


def test_sizes_that_are_not_given_take_what_the_others_need() -> None:
    """They are no part of what is refused, and no side is kept by them."""
    question = Sizes(ss.analyze(ROOT / "examples/unet.onnx"))
    assert question.completed({"height": 64}) == {"batch": 1, "height": 64, "width": 8}
    assert question.completed({"height": 60}) is None
    assert question.nearest({"height": 60}, "below") == {"batch": 1, "height": 56, "width": 8}
    assert question.nearest({"height": 60}, "above") == {"batch": 1, "height": 64, "width": 8}
    done = CliRunner().invoke(app, ["sizes", str(ROOT / "examples/unet.onnx"), "--near", "height=60"])
    assert "height % 8 == 0 is needed, but height = 60" in done.output
    assert "width % 8" not in done.output
