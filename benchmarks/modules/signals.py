"""Cases over signals: pooling and dilation in time, frames of samples, overlaps."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 64, 2)


@cases({"x": "N 4 T"}, N=N, T=(2, 256, 12))
class PoolAndRepeat(nn.Module):
    def forward(self, x):
        y = F.avg_pool1d(x, 2)
        y = y.repeat_interleave(2, dim=2)
        return x - y


@cases({"x": "N 4 T"}, N=N, T=(2, 256, 12))
class PoolAndRepeatCropped(nn.Module):
    def forward(self, x):
        y = F.avg_pool1d(x, 2, ceil_mode=True).repeat_interleave(2, dim=2)
        return x - y[..., : x.shape[-1]]


@cases({"x": "N 4 T"}, N=N, T=(20, 256, 32))
class DilatedTrimmed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(4, 4, 3, dilation=d) for d in (1, 2, 4))

    def forward(self, x):
        for layer in self.convs:
            y = torch.relu(layer(x))
            x = x[..., -y.shape[-1] :] + y
        return x


@cases({"x": "N 4 T"}, N=N, T=(4, 256, 32))
class DilatedOverShort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(4, 4, 3, dilation=d) for d in (1, 2, 4))

    def forward(self, x):
        for layer in self.convs:
            y = torch.relu(layer(x))
            x = x[..., -y.shape[-1] :] + y
        return x


@cases({"x": "N 4 T", "mel": "N 4 F"}, N=N, T=(8, 256, 32), F=(2, 64, 8))
class FramesAndSamples(nn.Module):
    def forward(self, x, mel):
        mel = F.interpolate(mel, scale_factor=4.0)
        return x * torch.sigmoid(mel)


@cases({"x": "N 4 4*F", "mel": "N 4 F"}, N=N, F=(2, 64, 8))
class FramesAndSamplesDeclared(nn.Module):
    def forward(self, x, mel):
        mel = F.interpolate(mel, scale_factor=4.0)
        return x * torch.sigmoid(mel)


@cases({"x": "N T"}, N=N, T=(4, 512, 64))
class FramesOfShortSignal(nn.Module):
    def forward(self, x):
        y = x - x.mean(1, keepdim=True)
        y = y.unfold(1, 16, 8)
        return y.square().mean(-1)


@cases({"x": "N T"}, N=N, T=(16, 512, 64))
class FramesOfSignal(nn.Module):
    def forward(self, x):
        return (x - x.mean(1, keepdim=True)).unfold(1, 16, 8).square().mean(-1)


@cases({"x": "N T"}, N=N, T=(16, 512, 64))
class OverlapsAndAdds(nn.Module):
    def forward(self, x):
        frames = x.unfold(1, 16, 8)
        half = frames[:, 1:, :8] + frames[:, :-1, 8:]
        y = half.reshape(x.shape[0], -1)
        return y + x[:, 8:-8]
