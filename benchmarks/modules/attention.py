"""Cases with attention, tables of positions, several inputs; blocks, and what only running shows."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 64, 2)
T = (1, 256, 12)


def causal(n: int = 12) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def distances(n: int) -> torch.Tensor:
    places = torch.arange(n)
    return (places[None] - places[:, None]).abs().float()


def heads(x: torch.Tensor, count: int = 2) -> torch.Tensor:
    b, n, c = x.shape
    return x.view(b, n, count, c // count).transpose(1, 2)


@cases({"x": "N T 8"}, N=N, T=T)
class BiasFromHelper(nn.Module):
    def forward(self, x):
        q = heads(x)
        scores = q @ q.transpose(2, 3)
        scores = scores.masked_fill(~causal(), -1e4)
        return scores.softmax(-1) @ q


@cases({"x": "N T 8"}, N=N, T=T)
class BiasFromHelperOfLength(nn.Module):
    def forward(self, x):
        q = heads(x)
        scores = q @ q.transpose(2, 3) - distances(x.shape[1])
        return scores.masked_fill(~causal(x.shape[1]), -1e4).softmax(-1) @ q


@cases({"x": "N T 8"}, N=N, T=T)
class BiasByMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.limit = 12

    def bias(self):
        return distances(self.limit)

    def forward(self, x):
        scores = x @ x.transpose(1, 2)
        scores = scores - self.bias()
        return scores.softmax(-1)


@cases({"x": "N T 8"}, N=N, T=T)
class BufferedMaskSliced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", causal(256))

    def forward(self, x):
        n = x.shape[1]
        scores = x @ x.transpose(1, 2)
        return scores.masked_fill(~self.mask[:n, :n], -1e4).softmax(-1)


@cases({"x": "N T 8"}, N=N, T=(1, 512, 12))
class BufferedMaskTooSmall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", causal(100))

    def forward(self, x):
        n = x.shape[1]
        scores = x @ x.transpose(1, 2)
        scores = scores.masked_fill(~self.mask[:n, :n], -1e4)
        return scores.softmax(-1)


class Rotary(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(length), torch.tensor([1.0, 0.1]))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        n = x.shape[-2]
        cos, sin = self.cos[:n], self.sin[:n]
        a, b = x[..., :2], x[..., 2:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


@cases({"x": "N T 8"}, N=N, T=(1, 96, 12))
class RotaryTooShort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary(64)

    def forward(self, x):
        q = self.rotary(heads(x))
        return F.scaled_dot_product_attention(q, q, heads(x))


@cases({"x": "N T 8"}, N=N, T=(1, 64, 12))
class RotaryLongEnough(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary(64)

    def forward(self, x):
        q = self.rotary(heads(x))
        return F.scaled_dot_product_attention(q, q, heads(x))


@cases({"x": "N T 8"}, N=N, T=(1, 128, 12))
class RelativeBeyondTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(63, 1)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        relative = places[None] - places[:, None] + 31
        bias = self.table(relative).squeeze(-1)
        return (x @ x.transpose(1, 2) + bias).softmax(-1)


@cases({"x": "N T 8"}, N=N, T=(1, 128, 12))
class RelativeClamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(63, 1)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        relative = (places[None] - places[:, None]).clamp(-31, 31) + 31
        return (x @ x.transpose(1, 2) + self.table(relative).squeeze(-1)).softmax(-1)


@cases({"x": "N T 8"}, N=N, T=T)
class MultiheadWithMaskOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("mask", ~causal(12))

    def forward(self, x):
        y, _ = self.attention(x, x, x, attn_mask=self.mask, need_weights=False)
        return x + y


@cases({"x": "N T 8"}, N=N, T=T)
class MultiheadCausal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        mask = ~causal(x.shape[1])
        y, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return x + y


@cases({"x": "N T 8"}, N=N, T=T)
class EncoderLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


@cases({"x": "N T 8", "past": "N P 8"}, N=N, T=(1, 64, 4), P=(1, 64, 8))
class PastAndNew(nn.Module):
    def forward(self, x, past):
        keys = torch.cat([past, x], 1)
        mask = torch.arange(keys.shape[1])[None] <= torch.arange(x.shape[1])[:, None] + past.shape[1]
        scores = x @ keys.transpose(1, 2)
        return scores.masked_fill(~mask, -1e4).softmax(-1) @ keys


@cases({"x": "N T 8", "past": "N P 8", "mask": "bool:N K"}, N=N, T=(1, 64, 4), P=(1, 64, 8), K=(1, 128, 12))
class PastAndNewWithMask(nn.Module):
    def forward(self, x, past, mask):
        keys = torch.cat([past, x], 1)
        scores = x @ keys.transpose(1, 2)
        scores = scores.masked_fill(~mask[:, None], -1e4)
        return scores.softmax(-1) @ keys


@cases({"x": "N T 8", "y": "N S 8"}, N=N, T=T, S=T)
class AddsTwoSequences(nn.Module):
    def forward(self, x, y):
        x, y = torch.relu(x), torch.relu(y)
        return torch.cat([x, y + x], 1)


@cases({"x": "N T 8", "y": "N S 8"}, N=N, T=T, S=(1, 256, 7))
class CrossAttention(nn.Module):
    def forward(self, x, y):
        return F.scaled_dot_product_attention(x, y, y)


@cases({"x": "N T 8", "y": "M S 8"}, N=N, M=(1, 64, 2), T=T, S=(1, 256, 7))
class CrossAttentionOfBatches(nn.Module):
    def forward(self, x, y):
        scores = torch.bmm(x, y.transpose(1, 2))
        return scores.softmax(-1)


@cases({"x": "N T 8"}, N=N, T=T)
class FlattensIntoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(96, 4)

    def forward(self, x):
        return self.fc(torch.relu(x).flatten(1))


@cases({"x": "N T 8"}, N=N, T=T)
class MixesTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(12, 12), nn.GELU())

    def forward(self, x):
        y = self.mix(x.transpose(1, 2))
        return x + y.transpose(1, 2)


@cases({"x": "N T 8"}, N=N, T=T)
class PoolsByMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 1)

    def forward(self, x):
        weights = self.gate(x).softmax(1)
        return (weights * x).sum(1)


@cases({"x": "N T 8"}, N=N, T=T)
class NormOverTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm([12, 8])

    def forward(self, x):
        return self.norm(x) + x


@cases({"x": "N T 8"}, N=N, T=T)
class NormOverChannels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2) + x


@cases({"x": "N T 8"}, N=N, T=(1, 256, 16))
class ReshapesForHeads(nn.Module):
    def forward(self, x):
        y = x.reshape(x.shape[0], 16, 2, 4)
        return y.permute(0, 2, 1, 3) @ y.permute(0, 2, 3, 1)


@cases({"x": "N T 8"}, N=N, T=T)
class LocalAttention(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        near = distances(n) <= 3
        return (x @ x.transpose(1, 2)).masked_fill(~near, -1e4).softmax(-1) @ x


@cases({"x": "N T 8"}, N=N, T=T)
class BlockAttentionPadded(nn.Module):
    def forward(self, x):
        b, n, c = x.shape
        extra = -n % 4
        y = torch.cat([x, x.new_zeros(b, extra, c)], 1)
        y = y.unflatten(1, (-1, 4))
        y = F.scaled_dot_product_attention(y, y, y).flatten(1, 2)
        return y[:, :n]


@cases({"x": "N T 8"}, N=N, T=(1, 256, 12))
class BlockAttention(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        y = y.unflatten(1, (-1, 4))
        y = F.scaled_dot_product_attention(y, y, y)
        return y.flatten(1, 2)


@cases({"x": "N T 8"}, N=N, T=T)
class EinsumOfTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(12, 12))

    def forward(self, x):
        return torch.einsum("btc,ts->bsc", x, self.mix)


@cases({"x": "N T 8"}, N=(1, 8, 3), T=T)
class WeightPerSample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3, 1, 1))

    def forward(self, x):
        return x * self.scale


@cases({"x": "N T 8"}, N=(1, 60, 6), T=T)
class FramesInBatch(nn.Module):
    def forward(self, x):
        n, t, c = x.shape
        y = x.view(n // 3, 3, t, c)
        return y.mean(1)


@cases({"x": "3*n T 8"}, n=(1, 20, 2), T=T)
class FramesInBatchDeclared(nn.Module):
    def forward(self, x):
        n, t, c = x.shape
        return (x.view(n // 3, 3, t, c) - x[: n // 3, None]).mean(1)


@cases({"x": "N T 8"}, N=N, T=(2, 256, 12))
class StatesOfPairs(nn.Module):
    def forward(self, x):
        pairs = x.unsqueeze(1) - x.unsqueeze(2)
        row, column = torch.triu_indices(12, 12, 1)
        pairs = pairs[:, row, column]
        return pairs.abs().sum(-1)


@cases({"x": "N T 8"}, N=N, T=T)
class QuantilesByIndex(nn.Module):
    def forward(self, x):
        y = x.sort(1).values
        n = y.shape[1]
        return torch.stack([y[:, n // 4], y[:, n // 2], y[:, (3 * n) // 4]], 1)
