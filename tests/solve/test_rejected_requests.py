"""Sizes and assumptions that a model does not accept: one finding per term, sizes that would do, exit code 1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import shapesolve as ss
from shapesolve.cli import app

from .. import building
from ..nodes import info, ints, model, z

ROOT = Path(__file__).resolve().parents[2]
UNET = ROOT / "examples/unet.onnx"
ATTENTION = ROOT / "examples/attention.onnx"
N = helper.make_node


def runs(path: Path, sizes: dict[str, int]) -> bool:
    """Does onnxruntime run the model at these sizes (2 for others)?"""
    session = building.session(path)
    feeds = {
        i.name: np.zeros([sizes.get(d, 2) if isinstance(d, str) else d for d in i.shape], np.float32)
        for i in session.get_inputs()
    }
    try:
        session.run(None, feeds)
    except Exception:
        return False
    return True


def command(*args: Any) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, args)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


@pytest.mark.parametrize(
    ("path", "bind", "title"),
    [
        (UNET, {"height": 30, "width": 16}, "height must be a multiple of 8, got 30"),
        (UNET, {"height": 30, "width": 12}, "height must be a multiple of 8, got 30"),
        (
            UNET,
            {"height": 0, "width": 16},
            "Conv cannot place its kernel on this input, got size 0 on axis 2",
        ),
        (
            ATTENTION,
            {"total_seq": 5, "past_seq": 1, "seq": 2},
            "Add cannot broadcast sizes 3 and 5 on axis 3",
        ),
    ],
)
def test_sizes_outside_the_contract_give_one_finding_about_the_first_node_that_fails(
    path: Path, bind: dict[str, int], title: str
) -> None:
    assert not runs(path, bind)
    a = ss.analyze(path, bind=bind)
    assert not a.ok
    assert a.contract.impossible
    (finding,) = a.diagnostics
    assert (finding.code, finding.title) == ("SS203", title)
    assert finding.node in finding.nodes
    assert "no input size makes this model run" not in " ".join((finding.title, *finding.notes, finding.help))
    choices = finding.help.removeprefix("use ").split(" or ")
    assert len(choices) >= 1
    for choice in choices:
        near = {name: int(size) for name, size in re.findall(r"(\w+) = (\d+)", choice)}
        assert near
        assert runs(path, {**bind, **near})
    flags = [x for n, v in bind.items() for x in ("--bind", f"{n}={v}")]
    for name in ("check", "analyze", "contract", "evaluate"):
        code, text = command(name, path, *flags)
        assert code == 1, name
        assert name == "evaluate" or title in " ".join(text.split()), name


def test_assumptions_are_judged_as_sizes_are() -> None:
    (finding,) = ss.analyze(UNET, assume=["height == 30"]).diagnostics
    assert (
        finding.title == "the assumption height == 30 contradicts the model: height must be a multiple of 8"
    )
    assert ss.analyze(UNET, assume=["height % 4 == 0"]).ok


def test_an_assumption_that_contradicts_terms_together_names_them() -> None:
    a = ss.analyze(UNET, assume=["height == width + 1"])
    (finding,) = a.diagnostics
    assert not a.ok
    assert finding.code == "SS203"
    assert "the assumption height == width + 1 contradicts the model" in finding.title
    assert "height % 8 == 0 and width % 8 == 0" in finding.title
    assert finding.node in finding.nodes


def test_the_node_of_a_finding_is_one_that_needs_the_term() -> None:
    """The size makes a Reshape need an empty batch, and an Einsum behind it cannot run on that."""
    m = model(
        [
            N("Shape", ["X"], ["sizes"]),
            N("Slice", ["sizes", "zero", "one", "zero"], ["batch"]),
            N("Concat", ["batch", "rest"], ["target"], axis=0),
            N("Reshape", ["X", "target"], ["R"], allowzero=1, name="split"),
            N("Einsum", ["R", "R"], ["Y"], equation="bij,bkj->bik", name="after"),
        ],
        [info("X", ["batch", "seq"])],
        ["Y"],
        [ints("zero", [0]), ints("one", [1]), ints("rest", [3, 4])],
    )
    (finding,) = ss.analyze(m, bind={"seq": 7}).diagnostics
    assert finding.node == "split"


def test_what_the_model_itself_cannot_do_is_told_as_ever() -> None:
    broken = ROOT / "examples/broken_matmul.onnx"
    alone = ss.analyze(broken)
    name = next(iter(alone.symbols))
    assert [f.title for f in ss.analyze(broken, bind={name: 3}).diagnostics] == [
        f.title for f in alone.diagnostics
    ]


def test_a_model_that_cannot_run_ends_every_command_with_an_error(tmp_path: Path) -> None:
    m = model(
        [N("MaxPool", ["X"], ["Y"], kernel_shape=[3, 3], pads=[-1, 0, -1, 0])],
        [info("X", ["N", "C", "H", "W"])],
        ["Y"],
    )
    path = tmp_path / "never.onnx"
    onnx.save(m, path)
    assert not runs_at_all(m)
    for args in (
        ("analyze", path),
        ("check", path),
        ("contract", path),
        ("contract", path, "--format", "python"),
        ("contract", path, "--format", "smtlib"),
        ("explain", path, "Y"),
        ("evaluate", path, "--bind", "N=1", "--bind", "C=3", "--bind", "H=8", "--bind", "W=8"),
        ("prove", path, "N >= 0"),
        ("verify", path),
        ("diff", path, path),
        ("annotate", path, "-o", tmp_path / "annotated.onnx"),
        ("report", path, "-o", tmp_path / "report.html"),
    ):
        assert command(*args)[0] != 0, args


def runs_at_all(m: onnx.ModelProto) -> bool:
    try:
        building.run(m, {"X": z(1, 3, 8, 8)})
    except Exception:
        return False
    return True


def test_a_bound_size_that_breaks_a_node_is_told_by_its_term() -> None:
    m = model([N("TopK", ["X", "k"], ["V", "I"])], [info("X", ["n"])], ["V"], [ints("k", [5])])
    (finding,) = ss.analyze(m, bind={"n": 3}).diagnostics
    assert finding.title == "n must be at least 5, got 3"
    assert finding.help == "use n = 5"


def _of_rows() -> onnx.ModelProto:
    return model(
        [N("Reshape", ["X", "rows"], ["R"]), N("Add", ["R", "bias"], ["Y"], name="add")],
        [info("X", ["batch", "seq", 2])],
        ["Y"],
        [ints("rows", [-1, 2]), numpy_helper.from_array(np.zeros((12, 1), np.float32), "bias")],
    )


@pytest.mark.parametrize(
    "bind", [{"seq": 9}, {"seq": 5}, {"batch": 7}, {"batch": 4, "seq": 9}, {"batch": 5, "seq": 5}]
)
def test_sizes_that_would_do_are_tried_with_those_that_are_not_bound(
    bind: dict[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "rows.onnx"
    onnx.save(_of_rows(), path)
    (finding,) = ss.analyze(path, bind=bind).diagnostics
    assert finding.help.startswith("use ")
    for choice in finding.help.removeprefix("use ").split(" or "):
        sizes = {**bind, **{name: int(size) for name, size in re.findall(r"(\w+) = (\d+)", choice)}}
        assert sizes.keys() == {"batch", "seq"}
        assert runs(path, sizes), choice


def test_a_size_that_follows_from_sizes_of_the_user_is_no_finding(tmp_path: Path) -> None:
    nodes = [N("Concat", ["past", "new"], ["all"], axis=0), N("Mul", ["all", "mask"], ["Y"], name="mul")]
    m = model(nodes, [info("past", ["p"]), info("new", ["s"]), info("mask", ["t"])], ["Y"])
    path = tmp_path / "cache.onnx"
    onnx.save(m, path)
    assert runs(path, {"p": 4, "s": 2, "t": 6})
    assert runs(path, {"p": 3, "s": 4, "t": 7})
    assert not [f for f in ss.analyze(path, bind={"p": 4, "t": 6}).diagnostics if f.code == "SS401"]
