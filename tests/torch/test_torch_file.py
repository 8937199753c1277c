"""The file that is written of a module is run in onnxruntime: what the exporter's optimizer made of it shows only there."""

from __future__ import annotations

import pytest
from torch_needed import need

need("torch", "onnxscript")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as ort
import torch
from torch import nn
from torch.export import Dim

from shapesolve.torch import check
from shapesolve.torch.declared import read_declaration
from shapesolve.torch.running import Runs
from shapesolve.torch.unguarded import InRuntime


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


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


def model_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    shape = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    table = onnx.numpy_helper.from_array(torch.full((2, 3), 2.0).numpy(), "table")
    graph = onnx.helper.make_graph(list(nodes), "g", [shape], [out], [table])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize(
    ("nodes", "agrees", "failing"),
    [
        ([onnx.helper.make_node("Add", ["x", "x"], ["y"])], True, ""),
        ([onnx.helper.make_node("Mul", ["x", "table"], ["y"], name="by_table")], False, "by_table"),
        ([onnx.helper.make_node("Add", ["x", "table"], ["y"], name="by_table")], None, "by_table"),
    ],
)
def test_what_a_file_gives_is_held_against_the_module(
    nodes: list[onnx.NodeProto], agrees: bool | None, failing: str
) -> None:
    args = (torch.randn(2, 3),)
    module = Twice()
    declaration = read_declaration(module, args, {}, {"x": {0: Dim("n", min=1, max=9)}})
    runs = Runs(module, args, {}, declaration)
    file = InRuntime(model_of(*nodes), ["x"], runs)
    assert file.agrees(runs.at({"n": 4})) is agrees
    assert file.failing_node(runs.at({"n": 4})) == failing
