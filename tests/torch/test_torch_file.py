"""The file that is written of a module is run in onnxruntime: what the exporter's optimizer made of it shows only there."""

from __future__ import annotations

import pytest
from torch_needed import need

need("torch", "onnxscript")
pytest.importorskip("onnxruntime")

import onnxruntime as ort
import torch
from torch import nn
from torch.export import Dim

from shapesolve.torch import check


class ChunksOfPadded(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        y = nn.functional.pad(x, (0, 0, 0, -n % 8)).view(b, -1, 8, c)
        y = (y @ y.transpose(2, 3)).softmax(-1) @ y
        return y.reshape(b, -1, c)[:, :n]


@pytest.mark.parametrize("length", [7, 12])
def test_a_file_is_run_before_it_is_said_to_follow(length: int) -> None:
    shapes = {"x": {0: Dim("n", min=1, max=16), 1: Dim("t", min=1, max=64)}}
    module = ChunksOfPadded()
    report = check(module, (torch.randn(2, length, 8),), dynamic_shapes=shapes)
    assert report.ok, str(report)
    session = ort.InferenceSession(report.model.SerializeToString())
    for n, t in ((1, 2), (2, 7), (3, 8), (2, 12), (1, 64)):
        x = torch.randn(n, t, 8)
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.as_tensor(found), module(x))
