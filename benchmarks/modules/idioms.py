"""Cases in other idioms of vision, audio and language code: merged patches, skips, statistics, banks, routing, sampling."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 32, 2)
T = (1, 128, 12)


@cases({"x": "N 8 H W"}, N=N, H=(4, 64, 8), W=(4, 64, 12))
class PatchMerging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Linear(32, 16, bias=False)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        corners = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduce(torch.cat(corners, -1))


@cases({"wave": "N 1 T"}, N=N, T=(64, 512, 128))
class EncoderDecoderSkips(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv1d(c, 8, 8, 4, 2) for c in (1, 8))
        self.up = nn.ModuleList(nn.ConvTranspose1d(8, c, 8, 4, 2) for c in (8, 1))

    def forward(self, wave):
        a = F.gelu(self.down[0](wave))
        b = F.gelu(self.down[1](a))
        a = F.gelu(self.up[0](b)) + a
        return self.up[1](a) * wave.std(-1, keepdim=True)


@cases({"tokens": "int:N T"}, N=N, T=(1, 128, 16))
class SinusoidTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        angle = torch.arange(100)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
        self.register_buffer("table", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))

    def forward(self, tokens):
        h = self.embed(tokens) * math.sqrt(8)
        h += self.table[: tokens.size(1)]
        return h


@cases({"x": "N 3 H W"}, N=N, H=(16, 96, 32), W=(16, 96, 32))
class PositionsOfGrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 8, 8)
        self.cls = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos = nn.Parameter(torch.randn(1, 17, 8))

    def forward(self, x):
        x = self.stem(x).flatten(2).mT
        x = torch.cat((self.cls.expand(x.size(0), -1, -1), x), dim=1)
        return F.layer_norm(x + self.pos, (8,))


@cases({"x": "N 40 T"}, N=N, T=(8, 200, 30))
class StatisticsOfContext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(40, 8, 5), nn.ReLU(), nn.Conv1d(8, 8, 3, dilation=3), nn.ReLU())

    def forward(self, x):
        h = self.layers(x)
        return torch.cat((h.mean(-1), h.var(-1).sqrt()), 1)


@cases({"q": "N 4 8", "bank": "M 8"}, N=(1, 32, 2), M=(1, 64, 20))
class NearestOfBank(nn.Module):
    def forward(self, q, bank):
        sim = torch.einsum("nqc,mc->nqm", F.normalize(q, dim=-1), F.normalize(bank, dim=-1))
        score, index = sim.topk(5, dim=-1)
        return (score.softmax(-1).unsqueeze(-1) * bank[index]).sum(-2)


@cases({"x": "N T 8"}, N=N, T=(1, 128, 12))
class FusedHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, 12, 8)


@cases({"x": "N 6 H W"}, N=N, H=(6, 64, 12), W=(6, 64, 12))
class PyramidByStride(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p1, self.p2 = nn.Conv2d(6, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 2, 1)

    def forward(self, x):
        c1 = self.p1(x)
        c2 = self.p2(c1)
        top = F.interpolate(c2, scale_factor=2.0, mode="nearest")
        return torch.cat([c1, top], dim=1)


@cases({"x": "N T 8"}, N=N, T=(2, 128, 12))
class ConvGate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 16, 4, padding=2)

    def forward(self, x):
        y = F.glu(self.conv(x.transpose(1, 2)), dim=1)
        return x + y[..., :12].transpose(1, 2)


@cases({"x": "N T 8"}, N=N, T=(1, 128, 20))
class WindowsByUnfold(nn.Module):
    def forward(self, x):
        w = x.unfold(1, 5, 5)
        return w.softmax(-1).flatten(2)


@cases({"x": "N 4 T"}, N=N, T=(8, 256, 32))
class DownThenBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool1d(4, return_indices=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.pool(x).flatten(0, 1)).view(-1, 4, 3)


@cases({"logits": "N T 6", "gold": "int:N S"}, N=N, T=(2, 64, 12), S=(1, 64, 12))
class GatheredScores(nn.Module):
    def forward(self, logits, gold):
        logp = logits.log_softmax(-1)
        return logp.gather(2, (gold % 6).unsqueeze(2)).squeeze(2).sum(1)


@cases({"x": "N T 8", "mask": "bool:N T"}, N=N, T=T)
class MaskOnHeads(nn.Module):
    def forward(self, x, mask):
        h = x.unflatten(-1, (2, 4)).transpose(1, 2)
        scores = h @ h.transpose(-1, -2)
        scores = scores.masked_fill(~mask[:, None], -1e4)
        return scores.softmax(-1) @ h


@cases({"x": "N 8 T"}, N=N, T=(4, 128, 16))
class DeltaFeatures(nn.Module):
    def forward(self, x):
        d = x[..., 2:] - x[..., :-2]
        dd = F.pad(d[..., 1:] - d[..., :-1], (1, 0))
        return torch.cat((x[..., 1:15], d, dd), 1)


@cases({"x": "N 9 4 H"}, N=N, H=(4, 64, 8))
class ShiftOfFrames(nn.Module):
    def forward(self, x):
        _, t, c, h = x.shape
        out = x.new_zeros(2, t, c, h)
        out[:, :-1, :2] = x[:, 1:, :2]
        out[:, 1:, 2:] = x[:, :-1, 2:]
        return out


@cases({"x": "N 8 H W"}, N=N, H=(2, 64, 8), W=(2, 64, 12))
class PatchMergingPadded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Linear(32, 16, bias=False)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = F.pad(x, (0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2))
        corners = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduce(torch.cat(corners, -1))


@cases({"wave": "N 1 T"}, N=N, T=(64, 512, 128))
class EncoderDecoderCropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv1d(1, 8, 8, 4, 2), nn.ConvTranspose1d(8, 1, 8, 4, 2)

    def forward(self, wave):
        y = self.up(F.gelu(self.down(wave)))
        t = min(y.size(-1), wave.size(-1))
        return y[..., :t] + wave[..., :t]


@cases({"x": "N T 8"}, N=N, T=T)
class LinearBiases(nn.Module):
    def forward(self, x):
        t = x.size(1)
        steps = torch.arange(t, device=x.device)
        bias = -(steps[None, :] - steps[:, None]).abs().float()
        slopes = 2.0 ** -torch.arange(1, 3).float()
        h = x.unflatten(2, (2, 4)).permute(0, 2, 1, 3)
        return ((h @ h.mT + slopes[:, None, None] * bias).softmax(-1) @ h).permute(0, 2, 1, 3).flatten(2)


@cases({"x": "N 3 H W"}, N=N, H=(16, 96, 32), W=(16, 96, 40))
class PositionsResized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x):
        y = self.stem(x)
        pos = F.interpolate(self.pos, size=y.shape[-2:], mode="bilinear", align_corners=False)
        return (y + pos).flatten(2).mT


@cases({"x": "N 16 T"}, N=N, T=(2, 200, 30))
class StatisticsOfFrames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(16, 8, 5, padding="same")
        self.att = nn.Conv1d(8, 8, 1)

    def forward(self, x):
        h = self.conv(x).relu()
        w = self.att(h).softmax(-1)
        mean = (w * h).sum(-1)
        return torch.cat((mean, ((w * h * h).sum(-1) - mean**2).clamp(min=1e-6).sqrt()), 1)


@cases({"q": "N 4 8", "bank": "M 8"}, N=N, M=(1, 64, 20))
class NearestAtMostFive(nn.Module):
    def forward(self, q, bank):
        sim = torch.cdist(q, bank.expand(q.size(0), -1, -1))
        score, index = sim.topk(min(5, bank.size(0)), dim=-1, largest=False)
        return (score.neg().softmax(-1).unsqueeze(-1) * bank[index]).sum(-2)


@cases({"x": "N T 8"}, N=N, T=T)
class CausalByPad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, dilation=2, groups=8)

    def forward(self, x):
        y = self.conv(F.pad(x.mT, (4, 0)))
        return x + F.silu(y).mT


@cases({"x": "N 6 H W"}, N=N, H=(2, 64, 12), W=(2, 64, 13))
class PyramidToSize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p1, self.p2 = nn.Conv2d(6, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 2, 1)

    def forward(self, x):
        c1 = self.p1(x)
        top = F.interpolate(self.p2(c1), size=c1.shape[2:], mode="nearest")
        return torch.cat([c1, top], dim=1)


@cases({"x": "N 4 H W"}, N=N, H=(1, 48, 8), W=(1, 48, 8))
class SampledByGrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        _, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h)
        xs = torch.linspace(-1, 1, w)
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)
        grid = grid + self.offset(x).permute(0, 2, 3, 1).tanh() * 0.1
        return F.grid_sample(x, grid, align_corners=False)


@cases({"x": "N T 8", "mask": "bool:N T"}, N=N, T=T)
class MaskedMean(nn.Module):
    def forward(self, x, mask):
        m = mask.unsqueeze(-1).to(x.dtype)
        return (x * m).sum(1) / m.sum(1).clamp_min(1)


@cases({"x": "N T 8"}, N=N, T=T)
class RoutedExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.w = nn.Parameter(torch.randn(4, 8, 8) / 3)

    def forward(self, x):
        flat = x.reshape(-1, 8)
        p, i = self.gate(flat).softmax(-1).topk(2, -1)
        dense = torch.zeros(flat.size(0), 4).scatter(1, i, p)
        y = torch.einsum("tc,ecd,te->td", flat, self.w, dense)
        return y.view_as(x)


@cases({"x": "N 8 T"}, N=N, T=(4, 128, 16))
class DeltaFeaturesPadded(nn.Module):
    def forward(self, x):
        p = F.pad(x, (2, 2), mode="replicate")
        d = (p[..., 3:-1] - p[..., 1:-3] + 2 * (p[..., 4:] - p[..., :-4])) / 10
        return torch.cat((x, d), 1)


@cases({"x": "N 9 4 H"}, N=N, H=(1, 64, 8))
class ShiftOfFramesLikeInput(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, :-1, :2] = x[:, 1:, :2]
        out[:, 1:, 2:] = x[:, :-1, 2:]
        return out


@cases({"ids": "int:N T"}, N=N, T=(1, 64, 10))
class WithPrompt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.prompt = nn.Parameter(torch.randn(3, 8))
        self.norm = nn.RMSNorm(8)

    def forward(self, ids):
        h = torch.cat([self.prompt.repeat(ids.shape[0], 1, 1), self.embed(ids)], 1)
        h = h + h.cumsum(1) / torch.arange(1, h.size(1) + 1)[:, None]
        return self.norm(h)[:, 3:] @ self.embed.weight.T


@cases({"x": "N 4 H W"}, N=N, H=(1, 32, 6), W=(1, 32, 6))
class ShuffledUp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 16, 3, padding=1, padding_mode="replicate")
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        y = F.pixel_shuffle(self.conv(x), 2)
        return self.norm(y) + F.interpolate(x, scale_factor=2, mode="bilinear")
