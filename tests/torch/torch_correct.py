"""Modules without a mistake, many of them the repaired ones of `torch_mistakes`."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch_bench import Bench

bench = Bench()
zeros = torch.zeros

batch = Dim("batch", min=1, max=64)
seq = Dim("seq", min=1, max=512)
past = Dim("past", min=1, max=512)
height = Dim("height", min=8, max=4096)
width = Dim("width", min=8, max=4096)


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@bench.add(lambda: (zeros(2, 6, 8),), {"x": {0: batch, 1: seq}})
class ViewFromShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        return y.view(x.shape[0], -1, 4)


@bench.add(lambda: (zeros(2, 12, 8),), {"x": {0: batch, 1: seq}})
class SplitHeads(nn.Module):
    def forward(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, 2, 4).transpose(1, 2)


@bench.add(lambda: (tokens(2, 10),), {"ids": {0: batch, 1: seq}})
class PositionsFromLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 8)
        self.positions = nn.Embedding(512, 8)

    def forward(self, ids):
        return self.words(ids) + self.positions(torch.arange(ids.shape[1]))


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class CausalMaskFromLength(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, -1e4)
        return scores.softmax(-1) @ x


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class ExpandToBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(zeros(1, 1, 8))

    def forward(self, x):
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)


@bench.add(
    lambda: (zeros(2, 3, 16, 16),),
    {"x": {0: batch, 2: 2 * Dim("half_h", min=4), 3: 2 * Dim("half_w", min=4)}},
)
class EvenSkip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 3, 3, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        return x + self.up(self.down(x))


@bench.add(lambda: (zeros(2, 3, 17, 19),), {"x": {0: batch, 2: height, 3: width}})
class InterpolatedSkip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 3, 3, stride=2, padding=1)

    def forward(self, x):
        return x + nn.functional.interpolate(self.down(x), size=x.shape[-2:])


@bench.add(lambda: (zeros(3, 8),), {"x": {0: batch}})
class SizeAsFactor(nn.Module):
    def forward(self, x):
        return x * x.shape[0]


@bench.add(lambda: (zeros(2, 16, 8),), {"x": {0: batch, 1: Dim("seq", min=9, max=512)}})
class BranchWithinRange(nn.Module):
    def forward(self, x):
        if x.shape[1] > 8:
            return x * 2
        return x + 1


@bench.add(lambda: (zeros(2, 5, 1),), {"x": {0: batch, 1: seq}})
class SqueezeConstantDim(nn.Module):
    def forward(self, x):
        return x.squeeze(-1).sum(-1)


@bench.add(
    lambda: (zeros(2, 4, 3, 8), zeros(2, 4, 5, 8)),
    {"new": {0: batch, 2: seq}, "past": {0: batch, 2: past}},
)
class CacheOnTimeAxis(nn.Module):
    def forward(self, new, past):
        return torch.cat([past, new], dim=2)


@bench.add(lambda: (zeros(2, 7, 8), zeros(2, 7, 8)), {"x": {0: batch, 1: seq}, "y": {0: batch, 1: seq}})
class SameLength(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y


@bench.add(lambda: (zeros(2, 12, 8),), {"x": {0: batch, 1: 3 * Dim("third", min=1, max=100)}})
class ChunksOfThree(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        return x.view(b, n // 3, 3, c).mean(2)


@bench.add(lambda: (zeros(2, 3, 32, 32),), {"x": {0: batch, 2: height, 3: width}})
class PoolIntoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=4, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(self.pool(self.conv(x)).flatten(1))


@bench.add(lambda: (zeros(2, 4, 8),), {"x": {0: batch}})
class RecurrentWithoutState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, n, 8)


@bench.add(
    lambda: (zeros(2, 3, 16, 16),),
    {"x": {0: batch, 2: 4 * Dim("quarter_h", min=2), 3: 4 * Dim("quarter_w", min=2)}},
)
class SmallUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, 4), (4, 4), (8, 3)))

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 4))
        up = nn.functional.interpolate(b, scale_factor=4)
        return self.c(torch.cat([a, up], dim=1))


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class LastStep(nn.Module):
    def forward(self, x):
        return x[:, -1]


@bench.add(
    lambda: (zeros(2, 10, 8), zeros(2, 10).bool()), {"x": {0: batch, 1: seq}, "mask": {0: batch, 1: seq}}
)
class MaskedMean(nn.Module):
    def forward(self, x, mask):
        weights = mask.unsqueeze(-1).to(x.dtype)
        return (x * weights).sum(1) / weights.sum(1).clamp(min=1)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: seq}})
class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.ones(4))

    def forward(self, x):
        angles = torch.arange(x.shape[1]).float()[:, None] * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@bench.add(lambda: (zeros(2, 4, 40),), {"x": {0: batch, 2: Dim("frames", min=16, max=4096)}})
class ConvStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(4, 4, 5, stride=2),
            nn.ReLU(),
            nn.Conv1d(4, 4, 3, stride=2, padding=1),
            nn.BatchNorm1d(4),
        )

    def forward(self, x):
        return self.layers(x)


@bench.add(lambda: (zeros(2, 9, 8),), {"x": {0: batch, 1: seq}})
class CausalConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3)

    def forward(self, x):
        y = nn.functional.pad(x.transpose(1, 2), (2, 0))
        return x + self.conv(y).transpose(1, 2)


@bench.add(
    lambda: (zeros(2, 10, 8), zeros(2, 6, 8)), {"x": {0: batch, 1: seq}, "memory": {0: batch, 1: past}}
)
class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, memory):
        return self.attention(x, memory, memory, need_weights=False)[0]


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: batch, 1: Dim("seq", min=3, max=512)}})
class TopThree(nn.Module):
    def forward(self, x):
        return x.sum(-1).topk(3, dim=1).values


@bench.add(
    lambda: (zeros(6, 8), tokens(12)), {"x": {0: Dim("nodes", min=2)}, "index": {0: Dim("edges", min=2)}}
)
class GatherNodes(nn.Module):
    def forward(self, x, index):
        return x.index_select(0, index).sum(-1)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: Dim.DYNAMIC, 1: Dim.AUTO}})
class HintsOnly(nn.Module):
    def forward(self, x):
        return x.mean(1).softmax(-1)


@bench.add(lambda: (zeros(2, 10, 8),), {"x": {0: "batch", 1: "seq"}})
class NamesAsText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x).flatten(0, 1)
