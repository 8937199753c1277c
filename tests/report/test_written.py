"""What is written for others: generated checkers, SMT-LIB, metadata, annotated models, the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
import z3
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.change.annotate.annotate import read_contract, read_names
from shapesolve.expr import parse_cond, symbol
from shapesolve.solve.engine import Engine

from ..nodes import info, ints, model, run, z

N = helper.make_node
UNET = Path(__file__).resolve().parents[2] / "examples/unet.onnx"
HOSTILE = [
    "next",
    "max",
    "n",
    "sizes",
    "broken",
    "a\nb",
    "a  b",
    "back\\slash",
    "pi|pe",
    "|w|",
    "%7c;",
    "é",
    "50%",
]


def added(name: str) -> onnx.ModelProto:
    return model(
        [N("Add", ["x", "y"], ["t"]), N("MatMul", ["t", "w"], ["v"])],
        [info("x", ["r", name]), info("y", ["r", "w"]), info("w", [name, 2])],
        ["v"],
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_generated_checkers_are_right_for_any_name(name: str) -> None:
    m = added(name)
    contract = ss.analyze(m, broadcast="strict").contract
    space: dict[str, Any] = {}
    exec(contract.to_python(), space)  # noqa: S102  (the point of the test: the text is a working function)
    check = space["check_sizes"]
    parameters = check.__code__.co_varnames[: check.__code__.co_kwonlyargcount]
    assert len(parameters) == len(contract.symbols)
    for a, w in ((3, 3), (3, 1), (1, 3), (2, 3), (0, 1), (0, 2)):
        sizes = {name: a, "w": w, "r": 2}
        try:
            run(m, x=z(2, a), y=z(2, w), w=z(a, 2))
            runs = True
        except Exception:  # whatever onnxruntime raises
            runs = False
        given = dict(zip(parameters, (sizes[s] for s in contract.symbols), strict=True))
        assert (check(**given) == []) == runs == contract.holds(sizes), sizes


@pytest.mark.parametrize("name", HOSTILE)
def test_smtlib_is_read_and_keeps_names_apart(name: str) -> None:
    a = ss.analyze(added(name), broadcast="strict")
    for text in (a.contract.to_smtlib(), a.constraints.to_smtlib()):
        solver = z3.Solver(ctx=z3.Context())
        solver.from_string(text)
        assert solver.check() == z3.sat
    assert a.constraints.to_smtlib().count("(declare-const") >= len({*a.symbols} - {"r"})


@pytest.mark.parametrize("name", ["a\nN >= 100\n", "a\\n", "a\r\nb", "plain"])
def test_metadata_holds_names_with_line_breaks(name: str) -> None:
    a = ss.analyze(added(name), broadcast="strict")
    written = a.annotate(contract=True)
    read = read_contract(written)
    assert read is not None
    assert [t.cond for t in read] == [t.cond for t in a.contract]
    assert all(key.startswith("_e") for key in read_names(written))


def test_a_wrong_element_type_is_replaced() -> None:
    m = model([N("Abs", ["X"], ["t"]), N("Relu", ["t"], ["Z"])], [info("X", ["a"])], ["Z"])
    m.graph.value_info.append(info("t", ["a"], TensorProto.INT64))
    written = ss.analyze(m).annotate()
    assert written.graph.value_info[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert run(written, X=z(3))[0].shape == (3,)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_written_expressions_have_their_size_in_onnx_ir_at_zero(start: int) -> None:
    nodes = [N("Slice", ["X", "s", "e"], ["Y"]), N("Abs", ["Y"], ["Z"])]
    m = model(nodes, [info("X", ["n"])], ["Z"], [ints("s", [start]), ints("e", [2**31])])
    shape = onnx_ir.from_proto(ss.analyze(m).annotate()).graph.outputs[0].shape
    for n in range(6):
        (true,) = run(m, X=z(n))[0].shape
        assert list(shape.evaluate({"n": n})) == [true]


def test_a_terminal_that_cannot_show_a_character_is_no_error() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "shapesolve", "check", str(UNET)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a device that is full")
def test_a_full_device_is_one_clear_error() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "shapesolve", "check", str(UNET)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the output")
    assert "Traceback" not in done.stderr


def test_bounds_keep_to_a_budget() -> None:
    hard = parse_cond(
        "_d0 <= 2*max(W**2 - 2*W, 0)*(W**2 % 4) + 2*max(W**2 - 2*W, 0)*min(1 - W**2 % 4, 0)"
        " + 4*W*(W**2 % 4) + 4*W*min(1 - W**2 % 4, 0)"
    )
    assert Engine(1000).bounds(symbol("_d0"), [hard]) == (0, None)
    assert Engine().bounds(symbol("a"), [parse_cond("a*a <= 1000"), parse_cond("a % 3 == 1")]) == (1, 31)


@pytest.mark.parametrize("size", [2.7, 1.0, np.float32(3)])
def test_a_dim_is_an_integer(size: Any) -> None:
    with pytest.raises(TypeError):
        ss.Dim(size)
    with pytest.raises(TypeError):
        ss.Dim("b").evaluate({"b": size})
    assert ss.Dim(np.int64(3)) is ss.Dim(3)
