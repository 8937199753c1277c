"""Findings on sizes that only torch.export's trace rules out; sizes for which the graph is judged."""

from __future__ import annotations

from torch_needed import need

need("torch", "onnxscript")

import torch
from torch import nn
from torch.export import Dim

from benchmarks.modules.__main__ import pasted
from shapesolve.torch import check


class RolledWithinWindows(nn.Module):
    def forward(self, x):
        t = x.shape[1]
        y = nn.functional.pad(x, (0, 0, 0, (4 - t % 4) % 4))
        return x + torch.roll(torch.roll(y, -2, 1).relu(), 2, 1)[:, :t]


def test_the_graph_is_judged_for_the_declared_sizes() -> None:
    shapes = {"x": {1: Dim("t", min=4, max=64)}}
    report = check(RolledWithinWindows(), (torch.zeros(2, 10, 8),), dynamic_shapes=shapes)
    assert not [f for f in report.findings if f.verdict == "unknown"], str(report)


class PooledInTwo(nn.Module):
    def forward(self, x):
        y = nn.functional.adaptive_avg_pool1d(x, 2)
        return x * y.repeat_interleave(3, -1).sum(-1, keepdim=True)


class PooledBestHalf(PooledInTwo):
    def forward(self, x):
        best = x.topk((x.shape[-1] + 1) // 2, dim=-1).values
        return super().forward(x).sum(-1) + best.mean(-1)


def test_what_the_exporter_decomposes_for_the_example_alone_is_found() -> None:
    shapes = {"x": {0: Dim("n", min=1, max=16), 2: Dim("t", min=3, max=64)}}
    report = check(PooledInTwo(), (torch.zeros(2, 4, 10),), dynamic_shapes=shapes)
    (finding,) = report.errors
    assert finding.verdict == "graph"
    assert dict(finding.counterexample)
    fixed = pasted(finding.help.partition("\n")[2])
    assert check(PooledInTwo(), (torch.zeros(2, 4, 10),), dynamic_shapes=fixed).ok
    assert check(PooledInTwo(), (torch.zeros(2, 4, 10),), dynamic_shapes={"x": {0: Dim("n", max=16)}}).ok


def test_a_guard_is_held_against_what_is_written() -> None:
    shapes = {"x": {2: Dim("t", min=1, max=64)}}
    report = check(PooledBestHalf(), (torch.zeros(2, 4, 10),), dynamic_shapes=shapes)
    assert {f.verdict for f in report.errors} == {"graph"}, str(report)


class KernelPerSample(nn.Module):
    def forward(self, x, k):
        n, c, t = x.shape
        y = nn.functional.conv1d(x.reshape(1, n * c, t), k.reshape(n * c, 1, 3), groups=n * c)
        return y.view(n, c, t - 2)


def test_a_size_that_must_be_a_number_in_onnx() -> None:
    n = Dim("n", min=1, max=16)
    shapes = {"x": {0: n, 2: Dim("t", min=3, max=64)}, "k": {0: n}}
    report = check(KernelPerSample(), (torch.zeros(2, 4, 10), torch.zeros(2, 4, 3)), dynamic_shapes=shapes)
    (finding,) = report.findings
    assert (finding.code, finding.severity, finding.verdict) == ("SS608", "error", "export"), str(report)
    assert finding.place is not None
    assert "groups=n * c" in finding.place.code


class Truncated(nn.Module):
    def forward(self, x):
        return x[:, :16].reshape(x.shape[0], -1).relu()


def test_an_example_at_the_end_of_a_range_gets_a_declaration_that_was_tried() -> None:
    shapes = {"x": {0: Dim("n", min=1, max=8), 1: Dim("t", min=16, max=64)}}
    (finding,) = check(Truncated(), (torch.zeros(2, 16, 4),), dynamic_shapes=shapes).findings
    assert (finding.code, finding.verdict) == ("SS601", "graph")
    assert check(
        Truncated(), (torch.zeros(2, 16, 4),), dynamic_shapes=pasted(finding.help.partition("\n")[2])
    ).ok
    assert check(Truncated(), (torch.zeros(2, 20, 4),), dynamic_shapes=shapes).ok


class TiedTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 48, 8))

    def forward(self, x, y):
        z = torch.cat([x, y], -1)
        return z + self.table[:, : z.shape[1]]


def test_sizes_tied_to_a_limit_move_along_when_it_is_run() -> None:
    left, right = Dim("left", min=1, max=200), Dim("right", min=1, max=200)
    args = (torch.randn(2, 9, 4), torch.randn(2, 9, 4))
    report = check(TiedTable(), args, dynamic_shapes={"x": {1: left}, "y": {1: right}})
    limit = next(f for f in report.errors if f.code == "SS604")
    assert limit.title.endswith("only left <= 48 runs")
    assert dict(limit.counterexample) == {"left": 49, "right": 49}


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 40, 4))

    def forward(self, x):
        rows = self.rows.clone()
        rows[:, : x.shape[1]] = x
        return rows


def test_a_guard_that_the_module_does_not_need_is_no_part_of_a_limit() -> None:
    shapes = {"x": {1: Dim("time", min=1, max=200)}}
    report = check(Padded(), (torch.randn(2, 20, 4),), dynamic_shapes=shapes)
    assert [f.term for f in report.errors] == ["time <= 40"], str(report)


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x, h, c):
        return self.rnn(x, (h, c))[0]


def test_an_earlier_export_of_a_recurrent_layer_fixes_no_size() -> None:
    args = (torch.randn(2, 5, 4), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    batch = Dim("batch", min=1, max=64)
    report = check(State(), args, dynamic_shapes={"x": {0: batch}, "h": None, "c": None})
    assert [f.code for f in report.errors] == ["SS601"], str(report)
    assert "'h': {1: batch}, 'c': {1: batch}" in report.corrected


class ReadsLines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2))
        self.rnn = nn.LSTM(4, 4, num_layers=2, bidirectional=True)

    def forward(self, x):
        y = self.pool(x).permute(3, 0, 1, 2).flatten(2)
        return self.rnn(y)[0]


def test_a_layer_that_becomes_a_loop_ends_the_export() -> None:
    shapes = {"x": {0: Dim("batch", min=1, max=8), 3: Dim("width", min=8, max=400)}}
    (finding,) = check(ReadsLines(), (torch.randn(2, 1, 16, 160),), dynamic_shapes=shapes).findings
    assert (finding.code, finding.verdict) == ("SS608", "export")
    assert "nn.LSTM became a loop" in finding.title
    assert finding.place is not None
    assert "self.rnn(y)" in finding.place.code
    assert '2 * Dim("_width")' in finding.help


class HalvesLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool, self.rnn = nn.MaxPool1d(2), nn.LSTM(4, 4, batch_first=True)

    def forward(self, x):
        y = self.pool(x.transpose(1, 2)).transpose(1, 2)
        return self.rnn(y)[0]


def test_a_loop_over_a_length_that_became_a_number_ends_the_export_of_a_refused_call() -> None:
    shapes = {"x": {0: Dim("batch", min=2, max=8), 1: Dim("time", min=2, max=800)}}
    number, loop = check(HalvesLength(), (torch.randn(2, 300, 4),), dynamic_shapes=shapes).findings
    assert (number.code, number.term, loop.code) == ("SS601", "time == 300", "SS608")
    assert number.place is not None
    assert "self.pool(x" in number.place.code
    assert loop.place is not None
    assert "self.rnn(y)" in loop.place.code


class CountsRows(nn.Module):
    def forward(self, x):
        y = x * 2
        return y, 3


def test_a_number_among_the_results_is_found_where_it_is_returned() -> None:
    (finding,) = check(CountsRows(), (torch.randn(2, 4),), dynamic_shapes={"x": {0: Dim("n", max=9)}}).errors
    assert (finding.code, finding.verdict) == ("SS608", "export")
    assert finding.place is not None
    assert finding.place.code == "return y, 3"
