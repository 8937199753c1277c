"""Limits that runs decide, inputs without an entry, sizes that data decides, and threads."""

import sys
import threading

import pytest
import sympy
from torch_needed import need

need("torch", "onnxscript", "onnxruntime")

import torch
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.onnx import _flags

import shapesolve.torch
from shapesolve.torch.exporting import quiet
from shapesolve.torch.internals import hooked


class Buffer(torch.nn.Module):
    def forward(self, x):
        buffer = torch.zeros(x.shape[0], 30, 4)
        buffer[:, : x.shape[1]] = x
        return buffer


class Bias(torch.nn.Module):
    def forward(self, x, bias):
        return x + bias


class Selected(torch.nn.Module):
    def forward(self, x, keep):
        return x[keep].view(x.shape[0], -1)


class Branch(torch.nn.Module):
    def forward(self, x):
        return x.reshape(1, -1) if x.shape[0] == 1 else x * 2


def test_a_limit_is_the_last_size_that_runs() -> None:
    report = shapesolve.torch.check(
        Buffer(), (torch.randn(2, 5, 4),), dynamic_shapes={"x": {1: Dim("n", min=2, max=64)}}
    )
    assert "max=30" in report.corrected
    assert report.errors[0].term == "n <= 30"


@pytest.mark.parametrize("entry", [{}, None, {0: Dim("batch", min=2, max=9)}])
def test_an_input_without_an_entry_is_named(entry: object) -> None:
    shapes = {"x": {0: Dim("batch", min=2, max=9), 1: Dim("n", max=64)}, "bias": entry}
    report = shapesolve.torch.check(Bias(), (torch.randn(3, 5), torch.randn(3, 5)), dynamic_shapes=shapes)
    (finding,) = report.errors
    assert finding.title.startswith("`bias` has no entry for axis")
    assert "'bias': {0: batch, 1: n}" in report.corrected
    assert report.tried


def test_an_example_of_size_one_is_named() -> None:
    report = shapesolve.torch.check(
        Branch(), (torch.randn(1, 5),), dynamic_shapes={"x": {0: Dim("batch", max=9)}}
    )
    assert "2 or more" in report.errors[0].help


def test_a_size_that_data_decides_is_a_warning() -> None:
    keep = torch.zeros(2, 6, dtype=torch.bool)
    keep[:, :2] = True
    shapes = {n: {1: Dim("n", min=2, max=64)} for n in ("x", "keep")}
    report = shapesolve.torch.check(Selected(), (torch.randn(2, 6), keep), dynamic_shapes=shapes)
    assert report.ok
    assert "SS614" in {f.code for f in report.findings}


def test_hooks_and_silence_are_of_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[object] = []

    def look() -> None:
        seen.extend((sys.stdout, ShapeEnv._log_guard, _flags.PREFER_DEFERRED_RUNTIME_ASSERTS_OVER_GUARDS))
        ShapeEnv()._log_guard("eval", sympy.true, False)

    before = (sys.stdout, ShapeEnv._log_guard, _flags.PREFER_DEFERRED_RUNTIME_ASSERTS_OVER_GUARDS)
    called: list[object] = []
    start, thread = threading.Event(), threading.Thread(target=lambda: (start.wait(), look()))
    thread.start()
    with quiet(), hooked(guard=lambda log, *args, **kwargs: called.append(log)):
        start.set()
        thread.join()
    assert tuple(seen) == before
    assert not called
