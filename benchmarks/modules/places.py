"""Cases over images, continued: patches, positions, anchors, tiles, borders."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 64, 2)
SIDE = (8, 256, 16)


@cases({"x": "N 3 H W"}, N=N, H=(8, 256, 16), W=(8, 256, 16))
class PatchesWithTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, 16, 8))

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.places
        return y.mean(1)


@cases({"x": "N 3 H W"}, N=N, H=(8, 256, 16), W=(8, 256, 16))
class PatchesWithResizedTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x):
        y = self.patch(x)
        y = y + F.interpolate(self.places, size=y.shape[-2:], mode="bilinear")
        return y.flatten(2).transpose(1, 2)


@cases({"x": "N 3 H 16"}, N=N, H=(8, 256, 16))
class PatchesWithSlicedTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, 128, 8))

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.places[:, : y.shape[1]]
        return y.mean(1)


@cases({"x": "N 3 H 16"}, N=N, H=(8, 128, 16))
class PatchesWithinTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, 128, 8))
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.places[:, : y.shape[1]]
        return torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1)


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class AnchorsOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(8, 4, 3, stride=2, padding=1)
        self.register_buffer("anchors", torch.randn(64, 4))

    def forward(self, x):
        boxes = self.head(x).flatten(2).transpose(1, 2)
        return boxes + self.anchors


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class AnchorsFromShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(8, 2, 3, stride=2, padding=1)

    def forward(self, x):
        y = self.head(x)
        h, w = y.shape[-2:]
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        anchors = torch.stack([columns, rows], -1).reshape(-1, 2).float() * 2
        return y.flatten(2).transpose(1, 2) + anchors


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class CoordinatesOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.linspace(-1, 1, 16).view(1, 1, 16, 1))
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        rows = self.rows.expand(x.shape[0], 1, x.shape[2], x.shape[3])
        return self.conv(torch.cat([x, rows], 1))


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class CoordinatesFromShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        n, _, h, w = x.shape
        rows = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(n, 1, h, w)
        return self.conv(torch.cat([x, rows], 1))


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class ValidConvResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 5)

    def forward(self, x):
        return x[:, :, 2:-2, 2:-2] + self.conv(x)


@cases({"x": "N 3 H W"}, N=N, H=(2, 256, 16), W=SIDE)
class KernelOverSmallImage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 7, stride=2)
        self.rest = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        y = self.stem(x)
        return self.rest(y).mean((2, 3))


@cases({"x": "N 3 H W"}, N=N, H=(2, 256, 16), W=SIDE)
class ReflectsSmallImage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 9)

    def forward(self, x):
        y = F.pad(x, (4, 4, 4, 4), mode="reflect")
        return self.conv(y)


@cases({"x": "N 3 H W"}, N=N, H=(5, 256, 16), W=SIDE)
class ReflectsWithin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 9)

    def forward(self, x):
        return self.conv(F.pad(x, (4, 4, 4, 4), mode="reflect"))


@cases({"x": "N 4 H W"}, N=N, H=SIDE, W=SIDE)
class WaveletOfEven(nn.Module):
    def forward(self, x):
        low = x[:, :, 0::2] + x[:, :, 1::2]
        high = x[:, :, 0::2] - x[:, :, 1::2]
        return torch.cat([low, high], 1)


@cases({"x": "N 4 2*h W"}, N=N, h=(4, 128, 8), W=SIDE)
class WaveletDeclared(nn.Module):
    def forward(self, x):
        low = x[:, :, 0::2] + x[:, :, 1::2]
        return torch.cat([low, x[:, :, 0::2] - x[:, :, 1::2]], 1)


@cases({"x": "N 4 H W"}, N=N, H=SIDE, W=SIDE)
class FoldsToExample(nn.Module):
    def forward(self, x):
        columns = F.unfold(x, 3, padding=1)
        columns = torch.relu(columns)
        return F.fold(columns, (16, 16), 3, padding=1)


@cases({"x": "N 4 H 16"}, N=N, H=SIDE)
class PatchesByUnfold(nn.Module):
    def forward(self, x):
        y = x.unfold(2, 4, 4).unfold(3, 4, 4)
        n, c, rows, columns = y.shape[:4]
        return y.reshape(n, c, rows * columns, 16).mean(1)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class SamplesGridOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", torch.rand(2, 8, 8, 2) * 2 - 1)

    def forward(self, x):
        y = torch.relu(x)
        return F.grid_sample(y, self.grid, align_corners=False)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class SamplesExpandedGrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", torch.rand(1, 8, 8, 2) * 2 - 1)

    def forward(self, x):
        return F.grid_sample(x, self.grid.expand(x.shape[0], -1, -1, -1), align_corners=False)


@cases({"x": "N 3 H W"}, N=N, H=(8, 256, 32), W=(8, 256, 32))
class CentreCropThenLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3 * 16 * 16, 4)

    def forward(self, x):
        top, left = (x.shape[2] - 16) // 2, (x.shape[3] - 16) // 2
        y = x[:, :, top : top + 16, left : left + 16]
        y = y.flatten(1)
        return self.head(y)


@cases({"x": "N 3 H W"}, N=N, H=(16, 256, 32), W=(16, 256, 32))
class CentreCropOfLarge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3 * 16 * 16, 4)

    def forward(self, x):
        top, left = (x.shape[2] - 16) // 2, (x.shape[3] - 16) // 2
        return self.head(x[:, :, top : top + 16, left : left + 16].flatten(1))


@cases({"x": "N 3 H W"}, N=N, H=(16, 256, 16), W=(16, 256, 20))
class TruncatedSides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3 * 16 * 16, 4)

    def forward(self, x):
        return self.head(x[:, :, :16, :16].reshape(x.shape[0], -1))


@cases({"x": "N 6 H W"}, N=N, H=(1, 64, 8), W=(1, 64, 8))
class SqueezesAll(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        y = F.adaptive_avg_pool2d(x, 1).squeeze()
        y = y.transpose(0, 1)
        return self.fc(y.transpose(0, 1))


@cases({"x": "N 6 H W"}, N=N, H=(1, 64, 8), W=(1, 64, 8))
class SqueezesTheLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1))


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class TransposedBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        y = self.up(self.down(x))
        return x + y


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class TransposedToSize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return F.interpolate(self.up(self.down(x)), size=(x.shape[2], x.shape[3]))


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class ShiftedWindowsOfExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        mask = torch.zeros(16, 16)
        mask[-4:] = 1
        self.register_buffer("mask", mask)

    def forward(self, x):
        y = torch.roll(x, (-4, -4), (2, 3))
        y = y.masked_fill(self.mask.bool(), 0.0)
        return torch.roll(y, (4, 4), (2, 3))


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class ShiftedWindowsFromShape(nn.Module):
    def forward(self, x):
        y = torch.roll(x, (-4, -4), (2, 3))
        mask = torch.arange(x.shape[2])[:, None] >= x.shape[2] - 4
        return torch.roll(y.masked_fill(mask, 0.0), (4, 4), (2, 3))


@cases({"x": "N 3 H H"}, N=N, H=SIDE)
class SquareImages(nn.Module):
    def forward(self, x):
        return x @ x.transpose(2, 3) + x


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class SquareImagesUndeclared(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y + y.transpose(2, 3)


@cases({"x": "N 4 H W"}, N=N, H=SIDE, W=SIDE)
class GramAndCode(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        f = x.reshape(n, c, h * w)
        return f @ f.transpose(1, 2) / (c * h * w)


@cases({"x": "N 4 H W"}, N=N, H=SIDE, W=SIDE)
class HalvesByInterpolation(nn.Module):
    def forward(self, x):
        y = F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False)
        return torch.cat([y, F.max_pool2d(x, 2)], 1)


@cases({"x": "N 4 H W"}, N=N, H=SIDE, W=SIDE)
class HalvesByConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, stride=2, padding=1)

    def forward(self, x):
        a, b = self.conv(x), F.avg_pool2d(x, 2)
        return torch.cat([a, b], 1)


@cases({"x": "N 3 H W"}, N=N, H=(1, 256, 16), W=(1, 256, 16))
class InstanceNormOfSmall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(3)

    def forward(self, x):
        y = F.max_pool2d(x, 3, stride=2, padding=1)
        return self.norm(y)


@cases({"x": "N 4 H W", "flow": "N 2 H W"}, N=N, H=SIDE, W=SIDE)
class WarpsByFlow(nn.Module):
    def forward(self, x, flow):
        _n, _, h, w = x.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        gx = 2 * (xs + flow[:, 0]) / (w - 1) - 1
        gy = 2 * (ys + flow[:, 1]) / (h - 1) - 1
        return F.grid_sample(x, torch.stack([gx, gy], -1), align_corners=True)


@cases({"x": "N 4 H W", "flow": "N 2 h w"}, N=N, H=SIDE, W=SIDE, h=(8, 256, 16), w=(8, 256, 16))
class AddsFlowOfOtherSize(nn.Module):
    def forward(self, x, flow):
        y = x.mean(1, keepdim=True)
        return y + flow
