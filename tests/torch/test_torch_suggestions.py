"""Suggested declarations, exported by the user's exporter and run at sizes that they allow."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from torch_needed import need

need("torch", "onnxscript", "onnxruntime")

import numpy as np
import onnxruntime as ort
import torch
from torch import nn
from torch.export import Dim

from benchmarks.modules.__main__ import pasted
from shapesolve.torch import check
from shapesolve.torch.declared import spec_text


def strays(
    module: nn.Module, args: tuple[torch.Tensor, ...], text: str, shapes: list[tuple[int, ...]]
) -> list[Any]:
    """Shapes of the input at which the file of the suggested declaration does not follow the module."""
    exported = torch.onnx.export(module, args, dynamic_shapes=pasted(text), dynamo=True, verbose=False)
    model = exported.model_proto
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (name,) = (i.name for i in session.get_inputs())
    found = []
    for shape in shapes:
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = module(x).numpy()
        (got,) = session.run(None, {name: x.numpy()})
        if got.shape != wanted.shape or not np.allclose(got, wanted, rtol=1e-3, atol=1e-4):
            found.append(shape)
    return found


class Pyramid(nn.Module):
    """Runs at every size; the exporter makes bins of the example's."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4 * 21, 7)

    def forward(self, x):
        parts = [nn.functional.adaptive_avg_pool2d(x, bins).flatten(1) for bins in (1, 2, 4)]
        return self.head(torch.cat(parts, 1))


def test_a_declaration_whose_file_strays_is_not_offered() -> None:
    torch.manual_seed(0)
    module, args = Pyramid().eval(), (torch.randn(2, 4, 16, 16),)
    dims = [Dim(name, min=4, max=64) for name in ("height", "width")]
    shapes = {"x": {0: Dim("batch", min=1, max=16), 2: dims[0], 3: dims[1]}}
    report = check(module, args, dynamic_shapes=shapes)
    assert {f.verdict for f in report.errors} == {"graph"}, str(report)
    suggested = pasted(report.corrected)["x"]
    assert list(suggested) == [0], report.corrected
    assert not strays(module, args, report.corrected, [(n, 4, 16, 16) for n in (1, 2, 5, 16)])


class Windows(nn.Module):
    def forward(self, x):
        b, h, w, c = x.shape
        y = x.view(b, h // 4, 4, w // 4, 4, c)  # the mistake
        return y.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)


def test_what_can_be_declared_is_and_nothing_else_is_left_open() -> None:
    module, args = Windows(), (torch.randn(2, 16, 16, 8),)
    dims = [Dim(name, min=4, max=64) for name in ("height", "width")]
    shapes = {"x": {0: Dim("batch", min=1, max=16), 1: dims[0], 2: dims[1]}}
    report = check(module, args, dynamic_shapes=shapes)
    assert {f.code for f in report.findings} == {"SS603"}, str(report)
    assert {f.place.code.rpartition("  ")[2] for f in report.errors if f.place} == {"# the mistake"}
    assert "Dim.AUTO" not in report.corrected
    assert "Dim.DYNAMIC" not in report.corrected
    sides = itertools.product((1, 3), (4, 12, 64), (8, 20))
    assert not strays(module, args, report.corrected, [(*side, 8) for side in sides])


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cells = kind(6, 5, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_length_that_is_free_in_the_file_is_not_called_a_number(kind: Any) -> None:
    module, args = Recurrent(kind).eval(), (torch.randn(3, 7, 6),)
    shapes = {"x": {0: Dim("batch", min=1, max=16), 1: Dim("time", min=1, max=40)}}
    report = check(module, args, dynamic_shapes=shapes)
    assert report.ok, str(report)
    # the export that follows, in the same process
    assert not strays(module, args, spec_text(shapes), [(1, 1, 6), (3, 12, 6), (16, 40, 6)])


class ShiftsRight(nn.Module):
    """Teacher forcing: what is written begins one later than what is read."""

    def forward(self, ids):
        shifted = ids.new_zeros(ids.shape)
        shifted[:, 1:] = ids[:, :-1].clone()
        return shifted.float().cumsum(1)


def test_what_the_users_exporter_writes_is_not_called_refused() -> None:
    shapes = {"ids": {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=128)}}
    ids = torch.randint(0, 9, (2, 10))
    torch.onnx.export(ShiftsRight(), (ids,), dynamic_shapes=shapes, dynamo=True, verbose=False)
    report = check(ShiftsRight(), (ids,), dynamic_shapes=shapes)
    assert not report.findings, str(report)
    assert {s.state for s in report.sizes} == {"free"}
    session = ort.InferenceSession(report.model.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((1, 1), (2, 2), (5, 17), (64, 128)):
        x = torch.randint(0, 9, shape)
        assert np.array_equal(session.run(None, {"ids": x.numpy()})[0], ShiftsRight()(x).numpy())
