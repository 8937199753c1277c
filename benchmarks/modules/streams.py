"""Popular blocks on sequences: attention with a cache, tables, masks, ragged lengths, pooling over time."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 32, 2)
T = (1, 128, 10)
P = (1, 64, 7)


# ---------------------------------------------------------------------- attention


class WithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(16, 16)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)

    def joined(self, x, keys, values):
        k, v = self.kv(x).chunk(2, -1)
        return torch.cat([keys, self.split(k)], 2), torch.cat([values, self.split(v)], 2)

    def forward(self, x, keys, values):
        n, t, _ = x.shape
        k, v = self.joined(x, keys, values)
        scores = self.split(self.q(x)) @ k.transpose(2, 3) / math.sqrt(8)
        scores = scores.masked_fill(~self.visible(t, k.shape[2]), float("-inf"))
        y = scores.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(n, t, 16)), k, v


CACHED = {"x": "N T 16", "keys": "N 2 P 8", "values": "N 2 P 8"}


@cases(CACHED, N=N, T=(1, 32, 4), P=P)
class CausalWithCache(WithCache):
    def visible(self, t, total):
        return torch.ones(t, total, dtype=torch.bool).tril(total - t)


@cases(CACHED, N=N, T=(1, 32, 4), P=P)
class CausalWithCacheOfSeven(WithCache):
    def visible(self, t, total):
        return torch.ones(t, t + 7, dtype=torch.bool).tril(7)


@cases(CACHED, N=N, T=(1, 32, 4), P=P)
class CausalByTableOfThirtyTwo(WithCache):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(32, 32, dtype=torch.bool).tril())

    def visible(self, t, total):
        return self.table[total - t : total, :total]


@cases({"x": "N T 16"}, N=N, T=T)
class EinsumAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, 4, 4) for y in self.qkv(x).split(16, -1))
        scores = torch.einsum("bihd,bjhd->bhij", q, k)
        hidden = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        scores = scores.masked_fill(hidden, -1e9).softmax(-1)
        return torch.einsum("bhij,bjhd->bihd", scores, v).flatten(2)


@cases({"x": "N T 16"}, N=N, T=T)
class EinsumMixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(10, 10))

    def forward(self, x):
        y = torch.einsum("btc,ts->bsc", x, self.mix)
        return F.gelu(y) + x


class Relative(nn.Module):
    """Relative places by the skewing of the Music Transformer."""

    longest = 128

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(self.longest, 16))

    def skewed(self, scores):
        n, t, s = scores.shape
        y = F.pad(scores, (1, 0)).reshape(n, s + 1, t)
        return y[:, 1:, :]

    def forward(self, x):
        t = x.shape[1]
        places = self.table[self.longest - t :]
        return (x @ x.transpose(1, 2) + self.skewed(x @ places.t())).softmax(-1) @ x


@cases({"x": "N T 16"}, N=N, T=T)
class Skewed(Relative):
    longest = 128


@cases({"x": "N T 16"}, N=N, T=T)
class SkewedBeyondTable(Relative):
    longest = 48


@cases({"x": "N T 16"}, N=N, T=T)
class SlopesByDistance(nn.Module):
    def forward(self, x):
        n, t, c = x.shape
        q = x.view(n, t, 4, c // 4).permute(0, 2, 1, 3)
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(4, 1, 1)
        places = torch.arange(t)
        bias = slopes * (places[None, :] - places[:, None]).clamp(max=0)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias).permute(0, 2, 1, 3).reshape(n, t, c)


class Sinusoid(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, 16, 2) * -0.5)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None])

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


@cases({"ids": "int:N T"}, N=N, T=T)
class WordsWithSinusoid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(50, 16), Sinusoid(128), nn.Linear(16, 50)

    def forward(self, ids):
        return self.head(self.places(self.words(ids)))


@cases({"ids": "int:N T"}, N=N, T=T)
class WordsWithShortSinusoid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(50, 16), Sinusoid(64), nn.Linear(16, 50)

    def forward(self, ids):
        return self.head(self.places(self.words(ids)))


@cases({"x": "N T 16", "memory": "N S 16"}, N=N, T=T, S=(1, 40, 6))
class CrossHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, x, memory):
        q = self.q(x).unflatten(-1, (4, 4)).transpose(1, 2)
        k, v = self.kv(memory).unflatten(-1, (2, 4, 4)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@cases({"x": "N T 16", "memory": "N S 16"}, N=N, T=T, S=(1, 40, 6))
class CrossHeadsOfSix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, x, memory):
        n, t, _ = x.shape
        q = self.q(x).view(n, t, 4, 4).transpose(1, 2)
        k, v = self.kv(memory).view(n, 6, 2, 4, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


# ---------------------------------------------------------------------- lengths and masks


def ragged(N: int, T: int) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(N, T, 8, generator=draw), torch.randint(1, T + 1, (N,), generator=draw)


@cases({"x": "N T 8", "lengths": "int:N"}, data=ragged, N=N, T=T)
class MeanOfRagged(nn.Module):
    def forward(self, x, lengths):
        inside = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        total = (x * inside[..., None]).sum(1)
        return total / lengths[:, None].clamp(min=1)


@cases({"x": "N T 8", "lengths": "int:N"}, data=ragged, N=N, T=T)
class LastOfRagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        y, _ = self.rnn(x)
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.shape[2])
        return y.gather(1, last).squeeze(1)


@cases({"x": "N T 8", "lengths": "int:N"}, data=ragged, N=N, T=T)
class MeanOfRaggedWithin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(100))

    def forward(self, x, lengths):
        inside = self.places[: x.shape[1]][None, :] < lengths[:, None]
        return (x * inside.unsqueeze(-1)).sum(1)


@cases({"x": "N T 8", "mask": "bool:N T"}, N=N, T=T)
class AttentivePooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 1)

    def forward(self, x, mask):
        weights = self.score(x).squeeze(-1).masked_fill(~mask, -1e4).softmax(1)
        mean = torch.einsum("bt,btc->bc", weights, x)
        spread = torch.einsum("bt,btc->bc", weights, (x - mean[:, None]) ** 2)
        return torch.cat([mean, spread.clamp(min=1e-6).sqrt()], 1)


# ---------------------------------------------------------------------- time


@cases({"x": "N T 8"}, N=N, T=(2, 128, 12))
class HalvesTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(8, 8, batch_first=True), nn.LSTM(16, 8, batch_first=True)

    def forward(self, x):
        n, t, _ = x.shape
        y, _ = self.first(x)
        y = y.reshape(n, t // 2, 16)
        return self.second(y)[0]


@cases({"x": "N T 8"}, N=N, T=(2, 128, 12))
class HalvesTimeCut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRU(8, 8, batch_first=True), nn.GRU(16, 8, batch_first=True)

    def forward(self, x):
        n, t, _ = x.shape
        y, _ = self.first(x)
        y = y[:, : t // 2 * 2].reshape(n, t // 2, 16)
        return self.second(y)[0]


@cases({"x": "N 8 T"}, N=N, T=T)
class GatedConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(8, 16, 3, dilation=d) for d in (1, 2, 4))

    def forward(self, x):
        skips = 0
        for i, layer in enumerate(self.layers):
            a, b = layer(F.pad(x, (2 * 2**i, 0))).chunk(2, 1)
            y = a.tanh() * b.sigmoid()
            x, skips = x + y, skips + y
        return skips


@cases({"x": "N 8 T"}, N=N, T=T)
class ReflectedConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 9)

    def forward(self, x):
        y = F.pad(x, (4, 4), mode="reflect")
        return x + self.conv(y)


@cases({"x": "N L"}, N=N, L=(16, 400, 64))
class WindowedFrames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.basis = nn.Linear(16, 8)

    def forward(self, x):
        frames = x.unfold(1, 16, 8) * self.window
        return self.basis(frames).square().clamp(min=1e-5).log()


@cases({"x": "N T 8"}, N=N, T=(4, 128, 12))
class StacksFourParts(nn.Module):
    def forward(self, x):
        parts = x.chunk(4, dim=1)
        return torch.stack(parts, 1).mean(1)


@cases({"x": "N T 8"}, N=N, T=(1, 60, 12))
class UnpacksThreeParts(nn.Module):
    def forward(self, x):
        a, b, c = x.split(4, dim=1)
        return a.mean(1) + b.mean(1) + c.mean(1)


@cases({"x": "N T 8"}, N=N, T=T)
class BestEight(nn.Module):
    def forward(self, x):
        _, places = x.norm(dim=-1).topk(8, dim=1)
        return x.gather(1, places[..., None].expand(-1, -1, 8)).mean(1)


@cases({"x": "N T 8"}, N=N, T=T)
class BestHalf(nn.Module):
    def forward(self, x):
        keep = (x.shape[1] + 1) // 2
        places = x.norm(dim=-1).topk(keep, dim=1).indices
        return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


@cases({"x": "N T 8"}, N=N, T=T)
class PyramidOverTime(nn.Module):
    def forward(self, x):
        y = x.transpose(1, 2)
        bins = [F.adaptive_max_pool1d(y, n).flatten(1) for n in (1,)]
        bins += [F.avg_pool1d(y, 2, ceil_mode=True).mean(-1), F.interpolate(y, size=6).flatten(1)]
        return torch.cat(bins, 1)


@cases({"x": "N T 8"}, N=N, T=T)
class BlocksAveraged(nn.Module):
    def forward(self, x):
        n, t, c = x.shape
        y = F.pad(x, (0, 0, 0, (5 - t % 5) % 5)).view(n, -1, 5, c).mean(2)
        return x - y.repeat_interleave(5, dim=1)[:, :t]


@cases(
    {"x": "N T 8", "order": "int:N"},
    data=lambda N, T: (torch.randn(N, T, 8), torch.arange(N).flip(0)),
    N=N,
    T=T,
)
class ReordersBeams(nn.Module):
    def forward(self, x, order):
        return x.index_select(0, order) + x.flip(1)
