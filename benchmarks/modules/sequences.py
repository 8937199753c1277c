"""Cases over sequences: recurrence, chunks, caches, shifts, truncation, lengths."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 64, 2)
T = (1, 256, 12)


@cases({"x": "N T 8"}, N=N, T=T)
class RecurrentFromZero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        zero = torch.zeros(1, x.shape[0], 6)
        y, _ = self.cell(x, (zero, zero))
        return self.head(y[:, -1])


@cases({"x": "N T 8"}, N=N, T=T)
class RecurrentFromExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 6, batch_first=True)

    def forward(self, x):
        zero = torch.zeros(1, 2, 6)  # origin
        y, _ = self.cell(x, (zero, zero))
        return y[:, -1]


@cases({"x": "N T 8"}, N=N, T=T)
class RecurrentBothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(8, 6, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, last = self.cell(x)
        return y, torch.cat([last[-2], last[-1]], 1)


@cases({"x": "N T 8", "h": "1 N 6"}, N=N, T=T)
class RecurrentFromGiven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(8, 6, batch_first=True)

    def forward(self, x, h):
        return self.cell(x, h)


@cases({"x": "N T 8", "h": "1 M 6"}, N=N, M=N, T=T)
class RecurrentFromOtherBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(8, 6, batch_first=True)

    def forward(self, x, h):
        x = torch.relu(x)
        y, last = self.cell(x, h)
        return y, last


@cases({"x": "N T 8"}, N=N, T=T)
class ChunksOfPadded(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        y = F.pad(x, (0, 0, 0, -n % 8))
        y = y.view(b, -1, 8, c)
        y = (y @ y.transpose(2, 3)).softmax(-1) @ y
        return y.reshape(b, -1, c)[:, :n]


@cases({"x": "N T 8"}, N=N, T=(1, 256, 16))
class ChunksOfUnpadded(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        y = torch.relu(x)
        y = y.reshape(b, n // 8, 8, c)
        return y.mean(2)


@cases({"x": "N T 8"}, N=N, T=T)
class ChunksPaddedByMultiple(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        blocks = (n + 15) // 16
        y = F.pad(x, (0, 0, 0, blocks * 16 - n))
        return y.reshape(b, blocks, 16, c).amax(2)


@cases({"x": "N T 8"}, N=N, T=(1, 64, 16))
class CacheAtFullLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.randn(1, 64, 8))

    def forward(self, x):
        keys = self.cache[:, : x.shape[1]]
        return (x * keys).sum(-1)


@cases({"x": "N T 8"}, N=N, T=(1, 128, 16))
class CacheTooShort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.randn(1, 64, 8))

    def forward(self, x):
        keys = self.cache[:, : x.shape[1]]
        return (x * keys).sum(-1)


@cases({"x": "N T 8"}, N=(1, 4, 2), T=(1, 64, 16))
class CacheWritten(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 64, 8))

    def forward(self, x):
        cache = self.cache.clone()
        cache[: x.shape[0], : x.shape[1]] = x
        return cache.mean((0, 1)) + x


@cases({"x": "N T 8"}, N=(1, 4, 2), T=(1, 96, 16))
class CacheWrittenTooFar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 64, 8))

    def forward(self, x):
        cache = self.cache.clone()
        cache[: x.shape[0], : x.shape[1]] = x
        return cache.mean((0, 1)) + x


@cases({"x": "N T 8"}, N=N, T=(3, 256, 12))
class ShiftedDifferences(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        parts = [x[:, i : n - 2 + i] for i in range(3)]
        return parts[0] - 2 * parts[1] + parts[2]


@cases({"x": "N T 8"}, N=N, T=(3, 256, 12))
class ShiftedDifferencesUneven(nn.Module):
    def forward(self, x):
        a = x[:, 2:] - x[:, :-2]
        b = x[:, 1:] - x[:, :-1]
        a = F.pad(a, (0, 0, 0, 12 - a.shape[1]))  # origin
        return x + a + F.pad(b, (0, 0, 1, 0))


@cases({"x": "N T 8"}, N=N, T=(8, 256, 32))
class TruncatedThenTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 8))

    def forward(self, x):
        y = x[:, :16]
        return y + self.table


@cases({"x": "N T 8"}, N=N, T=(8, 256, 32))
class TruncatedWithTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 8))

    def forward(self, x):
        y = x[:, :16]
        return y + self.table[: y.shape[1]]


@cases({"x": "N T 8"}, N=N, T=(8, 256, 12))
class TruncatedFromShort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 8))

    def forward(self, x):
        y = x[:, :16]
        return y * self.table[: x.shape[1]]


@cases({"ids": "int:N T"}, N=N, T=(1, 512, 20))
class TruncatedTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 8), nn.Embedding(32, 8)

    def forward(self, ids):
        ids = ids[:, :32]
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))


@cases({"ids": "int:N T"}, N=N, T=(1, 512, 20))
class TokensBeyondTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 8), nn.Embedding(128, 8)

    def forward(self, ids):
        x = self.words(ids)
        return x + self.places(torch.arange(ids.shape[1]))


@cases({"x": "N T 8"}, N=(1, 64, 1), T=T)
class ExampleOfOne(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        b, n, _c = x.shape
        return self.fc(x).view(b, n, 2, 4).transpose(1, 2).reshape(b, 2, n * 4)


@cases({"x": "N T 8"}, N=(1, 64, 2), T=(1, 64, 1))
class ExampleOfOneStep(nn.Module):
    def forward(self, x):
        return x.cumsum(1) + x.mean(1, keepdim=True)


@cases({"x": "N T 8", "mask": "bool:N T"}, N=(1, 64, 1), T=T)
class ExampleOfOneMasked(nn.Module):
    def forward(self, x, mask):
        n = x.shape[0]
        y = x.reshape(1, -1, 8)
        y = y.masked_fill(mask[..., None].view(n, -1, 1), 0.0)
        return y.reshape(n, -1)


def lengths(N: int, T: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(N, T, 8), torch.arange(N) % T + 1


@cases({"x": "N T 8", "n": "int:N"}, data=lengths, N=N, T=T)
class MaskedByLength(nn.Module):
    def forward(self, x, n):
        mask = torch.arange(x.shape[1])[None] < n[:, None]
        return (x * mask[..., None]).sum(1) / n[:, None]


@cases({"x": "N T 8", "n": "int:N"}, data=lengths, N=N, T=T)
class MaskedByLongest(nn.Module):
    def forward(self, x, n):
        longest = n.max().item()
        mask = torch.arange(longest)[None] < n[:, None]
        return mask.float().sum(1) + x.sum((1, 2))


def full(N: int, T: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(N, T, 8), torch.full((N,), T)


@cases({"x": "N T 8", "n": "int:N"}, data=full, N=N, T=(2, 64, 6))
class MaskOfLongestOnAll(nn.Module):
    def forward(self, x, n):
        longest = n.max().item()
        mask = torch.arange(longest)[None] < n[:, None]
        return x * mask[..., None]


@cases({"x": "N T 8"}, N=N, T=(4, 256, 12))
class HalvesOfBatch(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=0)
        return torch.cat([a + b, a - b], 0)


@cases({"x": "2*n T 8"}, n=(1, 32, 2), T=T)
class HalvesOfEvenBatch(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=0)
        return torch.cat([a + b, a - b], 0)


@cases({"x": "N T 8"}, N=N, T=T)
class HalvesOfChannels(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return a * torch.sigmoid(b)


@cases({"x": "N T 8"}, N=N, T=(1, 256, 12))
class ThreeOfTime(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        a, b, c = y.split(4, dim=1)
        return a + b + c


@cases({"x": "N T 8"}, N=N, T=(2, 256, 12))
class BestTen(nn.Module):
    def forward(self, x):
        score = x.sum(-1)
        return score.topk(10, dim=1).indices


@cases({"x": "N T 8"}, N=N, T=(2, 256, 12))
class BestTenAtMost(nn.Module):
    def forward(self, x):
        score = x.sum(-1)
        return score.topk(min(10, score.shape[1]), dim=1).values


@cases({"x": "N T 8"}, N=N, T=(2, 256, 12))
class TheFifth(nn.Module):
    def forward(self, x):
        y = x.cumsum(1)
        return y[:, 5] - y[:, 0]


@cases({"x": "N T 8"}, N=N, T=T)
class FirstAndLast(nn.Module):
    def forward(self, x):
        return torch.cat([x[:, 0], x[:, -1]], -1)


@cases({"x": "N T 8"}, N=N, T=(4, 256, 20))
class NarrowsToSixteen(nn.Module):
    def forward(self, x):
        y = x.narrow(1, 0, 16)
        return y.flatten(1)


@cases({"x": "N T 8"}, N=(1, 64, 12), T=(1, 256, 12))
class AddsTransposed(nn.Module):
    def forward(self, x):
        y = torch.tanh(x)
        return y + y.transpose(0, 1)


@cases({"x": "N T 8"}, N=N, T=T)
class ScaledByLength(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        return x.sum(1) / math.sqrt(n) + x.mean(1) * (1.0 / n)


@cases({"x": "N T 8"}, N=N, T=(4, 256, 12))
class KeepsShare(nn.Module):
    def forward(self, x):
        keep = int(x.shape[1] * 0.5)
        return x[:, :keep].mean(1)


@cases({"x": "N T 8"}, N=N, T=(1, 256, 12))
class StridedTwoWays(nn.Module):
    def forward(self, x):
        a = x[:, ::2]
        b = F.avg_pool1d(x.transpose(1, 2), 2, ceil_mode=True).transpose(1, 2)
        return a + b


@cases({"x": "N T 8"}, N=N, T=(2, 256, 12))
class StridedFloorAndCeil(nn.Module):
    def forward(self, x):
        a = x[:, ::2]
        b = x[:, 1::2]
        return a + b


@cases({"x": "N T 8"}, N=N, T=(4, 256, 12))
class FourStepsToOne(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 8)

    def forward(self, x):
        b, n, c = x.shape
        y = x.reshape(b, n // 4, 4 * c)
        return self.fc(y)


@cases({"x": "N 4*t 8"}, N=N, t=(1, 64, 3))
class FourStepsToOneDeclared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 8)

    def forward(self, x):
        b, n, c = x.shape
        return self.fc(x.reshape(b, n // 4, 4 * c))


@cases({"x": "N T 8"}, N=N, T=(4, 256, 13))
class FourStepsCut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 8)

    def forward(self, x):
        b, n, c = x.shape
        n = n - n % 4
        return self.fc(x[:, :n].reshape(b, n // 4, 4 * c))


@cases({"x": "N T 8"}, N=N, T=(1, 256, 16))
class MixesBatch(nn.Module):
    def forward(self, x):
        y = x.reshape(-1, 8 * 16)
        return y.view(x.shape[0], -1)
