"""Modules with one real-world mistake each, on the line that is marked."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch_bench import Bench

bench = Bench()
zeros = torch.zeros

batch = Dim("batch", min=1, max=64)
seq = Dim("seq", min=1, max=1024)
height = Dim("height", min=8, max=4096)
width = Dim("width", min=8, max=4096)


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@bench.add(lambda: (zeros(2, 6, 8),), {"x": {0: batch, 1: seq}}, "SS603")
class HardCodedBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        return y.view(2, -1, 8)  # the mistake


@bench.add(lambda: (zeros(2, 12, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class HardCodedLength(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        y = y.reshape(x.shape[0], 12, 2, 4)  # the mistake
        return y.transpose(1, 2)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class ArangeOfConstant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 8)

    def forward(self, x):
        positions = torch.arange(10)  # the mistake
        return x + self.table(positions)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class MaskOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(10, 10)))

    def forward(self, x):
        scores = x @ x.transpose(1, 2)
        scores = scores.masked_fill(self.mask == 0, -1e4)  # the mistake
        return scores.softmax(-1) @ x


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class ExpandToExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(zeros(1, 1, 8))

    def forward(self, x):
        token = self.token.expand(2, 1, 8)  # the mistake
        return torch.cat([token, x], dim=1)


@bench.add(lambda: (tokens(2, 10),), {"ids": {0: batch, 1: seq}}, "SS604")
class ShortPositionTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 8)
        self.positions = nn.Embedding(512, 8)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.words(ids) + self.positions(places)  # the mistake


@bench.add(lambda: (zeros(2, 8, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class WrongPermute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(x.permute(0, 2, 1))  # the mistake


@bench.add(lambda: (zeros(2, 16),), {"x": {0: batch, 1: seq}}, "SS603", "SS604")
class ReshapeByFour(nn.Module):
    def forward(self, x):
        n = x.shape[1] // 4
        return x.reshape(-1, 4, n)  # the mistake


@bench.add(lambda: (zeros(2, 3, 16, 16),), {"x": {0: batch, 2: height, 3: width}}, "SS603")
class StrideDropsRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 3, 3, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        y = self.down(x)
        y = self.up(y)
        return x + y  # the mistake


@bench.add(lambda: (zeros(2, 4, 20),), {"x": {0: batch, 2: seq}}, "SS604")
class PaddingDropsRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=0)

    def forward(self, x):
        y = self.conv(x)
        return nn.functional.pad(y, (1, 2))[:, :, : x.shape[2]] + x[:, :, :20]  # the mistake


@bench.add(lambda: (zeros(3, 8),), {"x": {0: batch}}, "SS601")
class IntOfShape(nn.Module):
    def forward(self, x):
        n = int(x.shape[0])  # the mistake
        return x * n


@bench.add(lambda: (zeros(2, 16, 8),), {"x": {0: batch, 1: seq}}, "SS604")
class BranchOnLength(nn.Module):
    def forward(self, x):
        if x.shape[1] > 8:  # the mistake
            return x * 2
        return x + 1


@bench.add(lambda: (zeros(2, 5, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class SqueezeBatch(nn.Module):
    def forward(self, x):
        y = x.squeeze(0)  # the mistake
        return y.sum(-1)


@bench.add(
    lambda: (zeros(2, 4, 3, 8), zeros(2, 4, 3, 8)),
    {"new": {0: batch, 2: Dim("seq", min=1, max=512)}, "past": {0: batch, 2: Dim("past", min=1, max=512)}},
    "SS602",
)
class CacheOnWrongAxis(nn.Module):
    def forward(self, new, past):
        keys = torch.cat([past, new], dim=1)  # the mistake
        return keys.sum(-1)


@bench.add(
    lambda: (zeros(2, 7, 8), zeros(2, 7, 8)),
    {"x": {0: batch, 1: seq}, "y": {0: batch, 1: Dim("other", min=1, max=1024)}},
    "SS602",
)
class LengthsMustAgree(nn.Module):
    def forward(self, x, y):
        z = torch.relu(x)
        return z + y  # the mistake


@bench.add(lambda: (zeros(2, 12, 8),), {"x": {0: batch, 1: seq}}, "SS603")
class ChunkInThree(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        y = x.view(b, n // 3, 3, c)  # the mistake
        return y.mean(2)


@bench.add(lambda: (zeros(2, 3, 32, 32),), {"x": {0: batch, 2: height, 3: width}}, "SS603")
class FlattenIntoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3, stride=4, padding=1)
        self.fc = nn.Linear(2 * 8 * 8, 5)

    def forward(self, x):
        y = self.conv(x).flatten(1)
        return self.fc(y)  # the mistake


@bench.add(lambda: (zeros(2, 9, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class LoopOverTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def forward(self, x):
        state = zeros(x.shape[0], 8)
        for t in range(x.shape[1]):  # the mistake
            state = torch.tanh(self.cell(x[:, t]) + state)
        return state


@bench.add(lambda: (zeros(2, 4, 8),), {"x": {0: batch}}, "SS601")
class StateOfExampleBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        h0 = torch.zeros(1, 2, 8)  # the mistake
        y, _ = self.gru(x, h0)
        return y


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601", "SS604")
class SplitInTwoFives(nn.Module):
    def forward(self, x):
        a, b = x.split([5, 5], dim=1)  # the mistake
        return a * b


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601", "SS604")
class UnbindTime(nn.Module):
    def forward(self, x):
        steps = x.unbind(1)  # the mistake
        return torch.stack(list(steps), dim=0)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class LearnedPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(zeros(1, 10, 8))

    def forward(self, x):
        y = nn.functional.layer_norm(x, (8,))
        return y + self.positions  # the mistake


@bench.add(lambda: (zeros(2, 10, 8), torch.tensor(4)), {"x": {0: batch, 1: seq}, "n": None}, "SS607")
class BranchOnData(nn.Module):
    def forward(self, x, n):
        k = n.item()
        if k > 3:  # the mistake
            return x[:, :4]
        return x


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS607")
class WidthDoesNotFit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(32, 8)

    def forward(self, x):
        y = self.up(x)
        return x + self.down(y)  # the mistake


@bench.add(lambda: (zeros(2, 3, 24, 24),), {"x": {0: batch, 2: height, 3: width}}, "SS601", "SS603")
class PatchesOfFixedGrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 8, stride=8)
        self.positions = nn.Parameter(zeros(1, 9, 8))

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        return y + self.positions  # the mistake


@bench.add(lambda: (zeros(2, 3, 16, 16),), {"x": {0: batch, 2: height, 3: width}}, "SS602")
class TransposedSkip(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y + x.transpose(2, 3)  # the mistake


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: Dim("seq", min=1, max=4096)}}, "SS604")
class RotaryTableTooShort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cos", zeros(2048, 8))

    def forward(self, x):
        places = torch.arange(x.shape[1])
        rotated = self.cos[places]  # the mistake
        return x * rotated


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS601")
class OnesOfExample(nn.Module):
    def forward(self, x):
        ones = torch.ones(2, 1, 8)  # the mistake
        y = torch.cat([ones, x], dim=1)
        return y.mean(1)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}}, "SS604")
class KernelNeedsFifty(nn.Module):
    def forward(self, x):
        assert x.shape[1] <= 50, "too long"  # the mistake
        return x.cumsum(1)


@bench.add(lambda: (zeros(4, 4, 8),), {"x": {0: batch, 1: seq}}, "SS602")
class BatchForLength(nn.Module):
    def forward(self, x):
        b, n, _ = x.shape
        y = x.reshape(b * n, 8)
        return x + y.reshape(n, b, 8)  # the mistake


@bench.add(lambda: (zeros(2, 9, 6),), {"x": {0: batch, 1: seq}}, "SS601")
class StateOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(6, 5, batch_first=True)
        self.register_buffer("state", zeros(1, 2, 5))

    def forward(self, x):
        scaled = x * 2
        y, state = self.layer(scaled, self.state)  # the mistake
        return y, state
