"""The help of a report, carried out; and findings of a module at fault or only traced."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from torch_needed import need

need("torch", "onnxscript")

import onnxruntime as ort
import torch
from torch import nn
from torch.export import Dim

from benchmarks.modules.__main__ import pasted
from shapesolve.torch import Report, check


def _runs(module: nn.Module, *args: torch.Tensor) -> bool:
    try:
        module(*args)
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def _lines(report: Report) -> list[str]:
    return [f.place.code for f in report.errors if f.place]


class Distances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(5, 5)

    def forward(self, a, b):
        a = self.project(a)
        near = torch.cdist(a, b)
        return near.argmin(-1)


def test_what_the_exporter_decomposes_and_cannot_write_is_told_on_its_line() -> None:
    shapes = {"a": {0: Dim("n", min=2, max=20)}, "b": {0: Dim("m", min=2, max=20)}}
    report = check(Distances(), (torch.randn(6, 5), torch.randn(9, 5)), dynamic_shapes=shapes)
    (finding,) = report.errors
    assert finding.code == "SS608"
    assert "_cdist_forward" in finding.title
    assert _lines(report) == ["near = torch.cdist(a, b)"]
    assert "the module itself runs on the example" in finding.notes[-1]
    assert "n = 7" in finding.notes[-1]
    assert _runs(Distances(), torch.randn(7, 5), torch.randn(9, 5))


def test_the_trace_is_not_said_to_rule_out_what_the_module_fails_at() -> None:
    class Halves(nn.Module):
        def forward(self, x):
            first, second = x.split([(x.shape[0] + 1) // 2, x.shape[0] // 2])
            return torch.stack([first.relu(), second])

    shapes = {"x": {0: Dim("b", min=2, max=16)}}
    report = check(Halves(), (torch.randn(6, 4),), dynamic_shapes=shapes)
    assert {f.term for f in report.errors} == {"b % 2 == 0"}
    assert not _runs(Halves(), torch.randn(3, 4))
    assert _runs(Halves(), torch.randn(2, 4))


def test_only_is_not_said_where_another_size_runs() -> None:
    class Halves(nn.Module):
        def forward(self, x):
            first, second = x.chunk(2)
            return first * second

    report = check(Halves(), (torch.randn(6, 4),), dynamic_shapes={"x": {0: Dim("b", min=2, max=16)}})
    (finding,) = report.errors
    assert "only" not in finding.title
    assert finding.place is not None
    assert finding.place.code == "return first * second"
    assert _runs(Halves(), torch.randn(3, 4))
    assert not _runs(Halves(), torch.randn(5, 4))
    assert any(note.startswith("it runs at b = 3") for note in finding.notes)


class Stored(nn.Module):
    """The weights are for six at most; ONNX wants as many of them as places, PyTorch at least as many."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(1, 6))

    def forward(self, places):
        out = torch.zeros(places.shape[0], 11)
        return out.scatter(1, places, self.w.expand(places.shape[0], 6))


def test_no_declaration_is_offered_where_the_example_itself_is_ruled_out() -> None:
    places = torch.randint(0, 11, (3, 4))
    report = check(
        Stored(),
        (places,),
        dynamic_shapes={"places": {0: Dim("b", max=8), 1: Dim("k", min=2, max=10)}},
    )
    assert {f.term for f in report.errors} == {"k <= 6", "k == 6"}
    session = ort.InferenceSession(report.model.SerializeToString())
    with pytest.raises(Exception, match=r"(?i)scatter"):
        session.run(None, {session.get_inputs()[0].name: places.numpy()})
    assert not report.corrected
    assert all("dynamic_shapes" not in f.help for f in report.errors)


class Strips(nn.Module):
    """Rows in strips of four; columns padded to fours and cropped again, which the trace has a guard for."""

    def forward(self, x):
        n, h, w = x.shape
        y = nn.functional.pad(x, (0, -w % 4))
        y = y.view(n, h // 4, 4, w + -w % 4).cumsum(2)
        return y.reshape(n, h, w + -w % 4)[..., :w]


def test_a_condition_that_can_be_declared_is_beside_sizes_that_are_left_open() -> None:
    shapes = {"x": {1: Dim("h", min=4, max=40), 2: Dim("w", min=4, max=40)}}
    report = check(Strips(), (torch.randn(2, 12, 13),), dynamic_shapes=shapes)
    assert {f.term for f in report.errors} == {"h % 4 == 0"}
    assert "4*_h" in report.corrected
    program = torch.onnx.export(
        Strips(), (torch.randn(2, 12, 13),), dynamic_shapes=pasted(report.corrected), verbose=False
    )
    session = ort.InferenceSession(program.model_proto.SerializeToString())
    for h, w in itertools.product((8, 16, 40), (5, 8, 31)):
        x = torch.randn(2, h, w)
        (found,) = session.run(None, {"x": x.numpy()})
        assert np.allclose(found, Strips()(x).numpy(), atol=1e-4)
    assert not _runs(Strips(), torch.randn(2, 10, 13))


class Ramp(nn.Module):
    def forward(self, x):
        return x * torch.linspace(0, 1, x.shape[1])


def test_a_size_that_only_the_graph_has_as_a_number_is_not_blamed_on_the_module() -> None:
    report = check(Ramp(), (torch.randn(2, 7),), dynamic_shapes={"x": {1: Dim("t", min=2, max=20)}})
    (finding,) = report.errors
    assert _runs(Ramp(), torch.randn(2, 9))
    assert (finding.verdict, finding.term) == ("graph", "t == 7")
    assert "linspace" in _lines(report)[0]
    assert finding.help.startswith("rewrite the line")


class MaskOnHeads(nn.Module):
    """The batch of two meets the two heads; nothing above wrote the two down for the batch."""

    def forward(self, x, mask):
        h = x.unflatten(-1, (2, 4)).transpose(1, 2)
        scores = h @ h.transpose(-1, -2)
        return scores.masked_fill(~mask[:, None], -1e4)


def test_a_number_of_heads_or_an_axis_is_not_taken_for_a_size_that_was_written_down() -> None:
    n, t = Dim("n", max=8), Dim("t", max=20)
    args = (torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool))
    report = check(MaskOnHeads(), args, dynamic_shapes={"x": {0: n, 1: t}, "mask": {0: n, 1: t}})
    assert not _runs(MaskOnHeads(), torch.randn(3, 5, 8), torch.ones(3, 5, dtype=torch.bool))
    assert _lines(report) == ["return scores.masked_fill(~mask[:, None], -1e4)"]


class Crnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.rnn = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        features = nn.functional.max_pool2d(self.conv(x), 2)
        b, c, h, w = features.shape
        words, _ = self.rnn(features.permute(0, 3, 1, 2).reshape(b, w, c * h))
        return self.head(words)


def test_a_recurrent_layer_is_not_unrolled_after_a_failed_export(monkeypatch: pytest.MonkeyPatch) -> None:
    decomposed: list[int] = []
    whole = torch.export.ExportedProgram.run_decompositions

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        decomposed.append(1)
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", counted)
    shapes = {"x": {0: Dim("batch", min=1, max=32), 3: Dim("width", min=8, max=512)}}
    report = check(Crnn(), (torch.randn(2, 1, 8, 16),), dynamic_shapes=shapes)
    assert [f.code for f in report.errors] == ["SS608"], str(report)
    assert _lines(report) == ["words, _ = self.rnn(features.permute(0, 3, 1, 2).reshape(b, w, c * h))"]
    assert "2 * Dim" in report.errors[0].help
    assert len(decomposed) <= 1
    shapes["x"][3] = 2 * Dim("_width", min=4, max=256)
    again = check(Crnn(), (torch.randn(2, 1, 8, 16),), dynamic_shapes=shapes)
    assert again.ok or "value_info" in str(again), str(again)
