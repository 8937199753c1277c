"""A sample of the cases drawn by construction, and limits of the runs of a module."""

from __future__ import annotations

from typing import Any

import pytest
from torch_needed import need

need("torch", "onnxscript")

import torch
from torch import nn
from torch.export import Dim

from benchmarks.modules.__main__ import CASES, checked, judged, pasted
from benchmarks.modules.built import Built
from shapesolve.torch import check
from shapesolve.torch.declared import ExportCall, read_declaration
from shapesolve.torch.running import ModuleRuns


def test_the_bench_is_large_enough() -> None:
    assert len(CASES) >= 210
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES[3::40], ids=lambda c: c.name)
def test_a_sample_is_judged_as_eager_pytorch_judges(case: Built) -> None:
    one = judged(case)
    assert one.verdict in (("right line",) if case.failures else ("silent", "warned", "graph astray")), str(
        one
    )
    assert one.after in ("", "silent", "next"), str(one)


NOT_WRITTEN = ("CrossAttention", "HalvesOfEvenBatch")


@pytest.mark.parametrize("case", [c for c in CASES if c.name in NOT_WRITTEN], ids=lambda c: c.name)
def test_what_the_exporter_cannot_write_is_told_on_the_line_of_the_call(case: Built) -> None:
    report = checked(case, case.dynamic_shapes)
    assert [(f.code, f.verdict) for f in report.findings] == [("SS608", "export")], str(report)
    (finding,) = report.findings
    assert finding.place is not None
    assert finding.place.file == case.file


class Keeps(nn.Module):
    """Writes to itself, and asks for a table that is as long as its input is squared."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.seen: list[int] = []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        return torch.zeros(x.shape[0] * 1000, x.shape[0] * 1000) + self.calls


def runs(module: nn.Module, args: tuple[Any, ...], shapes: Any) -> ModuleRuns:
    call = ExportCall(module, args, {}, shapes)
    return ModuleRuns(call, read_declaration(call))


def test_a_run_leaves_the_module_alone_and_is_bounded() -> None:
    module = Keeps()
    one = runs(module, (torch.zeros(2, 3),), {"x": {0: Dim("n", min=1, max=10**6)}})
    before = torch.random.get_rng_state()
    assert one.at({"n": 1}).state == "runs"
    assert one.at({"n": 10**5}).state == "unknown"
    assert module.seen == []
    assert float(module.calls) == 0
    assert torch.equal(before, torch.random.get_rng_state())


class ByCount(nn.Module):
    def forward(self, x, n):
        return x[:, : int(n.max())] + x


def test_counts_follow_the_sizes() -> None:
    args = (torch.randn(2, 6), torch.tensor([6, 6]))
    one = runs(ByCount(), args, {"x": {1: Dim("t", min=1, max=64)}, "n": None})
    assert one.at({"t": 9}).state == "runs"


class MarksPlaces(nn.Module):
    """ONNX gives no mark to a place beyond the last; PyTorch refuses it, and no guard says so."""

    def forward(self, x):
        return x + nn.functional.one_hot(torch.arange(x.shape[0]), 5)


def test_a_failure_that_only_running_shows() -> None:
    shapes = {"x": {0: Dim("n", min=2, max=8)}}
    (finding,) = check(MarksPlaces(), (torch.zeros(3, 5),), dynamic_shapes=shapes).errors
    assert finding.code == "SS609"
    assert finding.counterexample == (("n", 8),)
    assert finding.place is not None
    assert "one_hot(" in finding.place.code
    narrower = pasted(finding.help.partition("\n")[2])
    assert (narrower["x"][0].min, narrower["x"][0].max) == (2, 5)
    again = check(MarksPlaces(), (torch.zeros(3, 5),), dynamic_shapes=narrower)
    assert not again.findings, str(again)
    assert check(MarksPlaces(), (torch.zeros(3, 5),), dynamic_shapes=shapes, confirm=False).ok


class Squeezed(nn.Module):
    def forward(self, x):
        y = x.squeeze()
        return y.transpose(0, 1)


def test_a_failure_that_the_graph_tells_has_the_line_that_raises() -> None:
    shapes = {"x": {0: Dim("n", min=1, max=8)}}
    (finding,) = check(Squeezed(), (torch.zeros(3, 5),), dynamic_shapes=shapes).errors
    assert (finding.code, finding.verdict, finding.counterexample) == ("SS604", "module", (("n", 1),))
    assert finding.place is not None
    assert "transpose(0, 1)" in finding.place.code
