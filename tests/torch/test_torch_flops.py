"""MACs of an exported model are those that PyTorch counts while it runs."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest
from torch_needed import need

need("torch")
import torch
from torch.utils.flop_counter import FlopCounterMode

import shapesolve as ss


class Net(torch.nn.Module):
    """Convolutions with stride, groups and dilation, one transposed, a linear layer, a batched product."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, groups=4, dilation=2, padding=2)
        self.up = torch.nn.ConvTranspose2d(8, 4, 4, stride=2)
        self.linear = torch.nn.Linear(4, 7)

    def forward(self, x: Any) -> Any:
        y = self.up(torch.relu(self.second(self.first(x))))
        rows = self.linear(y.permute(0, 2, 3, 1).flatten(1, 2))
        return rows @ rows.transpose(1, 2)


@pytest.fixture(scope="module")
def cost() -> ss.Cost:
    file = io.BytesIO()
    axes = {"x": {0: "N", 2: "H", 3: "W"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Net().eval(),
            (torch.randn(1, 3, 16, 16),),
            file,
            input_names=["x"],
            dynamic_axes=axes,
            dynamo=False,
        )
    return ss.cost(file.getvalue())


@pytest.mark.parametrize("shape", [(2, 3, 32, 20), (1, 3, 17, 33), (3, 3, 8, 8)])
def test_macs_are_those_of_pytorch(cost: ss.Cost, shape: tuple[int, ...]) -> None:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Net().eval()(torch.randn(*shape))
    sizes = {"N": shape[0], "H": shape[2], "W": shape[3]}
    assert 2 * cost.at(sizes).macs == counter.get_total_flops()
