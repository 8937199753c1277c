"""Cases over images: pooling, windows, pyramids, crops, patches, anchors."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 64, 2)
SIDE = (8, 256, 16)


def conv(i: int, o: int, k: int = 3, s: int = 1) -> nn.Conv2d:
    return nn.Conv2d(i, o, k, stride=s, padding=k // 2)


class Block(nn.Module):
    def __init__(self, i: int, o: int, s: int = 1) -> None:
        super().__init__()
        self.conv = conv(i, o, s=s)
        self.norm = nn.BatchNorm2d(o)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class PoolThenLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(3, 4), nn.MaxPool2d(2), Block(4, 4), nn.MaxPool2d(2))
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        y = self.body(x)
        y = y.flatten(1)
        return self.head(y)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class PoolToOneThenLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(3, 4), nn.MaxPool2d(2), Block(4, 4), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


@cases({"x": "N 3 H W"}, N=N, H=(1, 256, 16), W=SIDE)
class PoolsAwaySmallImages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(3, 4), nn.MaxPool2d(2), Block(4, 4), nn.MaxPool2d(2))

    def forward(self, x):
        y = self.body(x)
        return y.mean((2, 3))


@cases({"x": "N 3 H W"}, N=N, H=(2, 256, 16), W=(2, 256, 16))
class PoolsWithCeil(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2, ceil_mode=True)

    def forward(self, x):
        return self.pool(self.pool(x)).mean((2, 3))


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class WindowsOfPadded(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        x = F.pad(x, (0, -w % 7, 0, -h % 7))
        hp, wp = x.shape[2:]
        y = x.view(b, c, hp // 7, 7, wp // 7, 7).permute(0, 2, 4, 3, 5, 1).reshape(-1, 49, c)
        y = torch.relu(y)
        y = y.view(b, hp // 7, wp // 7, 7, 7, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, hp, wp)
        return y[..., :h, :w]


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class WindowsOfUnpadded(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = torch.relu(x)
        y = y.view(b, c, h // 8, 8, w // 8, 8)
        return y.permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, c)


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=(8, 256, 16))
class WindowsPaddedByTheOtherSide(nn.Module):
    def forward(self, x):
        b, c, h, _w = x.shape
        pad = (4 - h % 4) % 4
        x = F.pad(x, (0, pad, 0, pad))
        hp, wp = x.shape[2:]
        return x.reshape(b, c, hp // 4, 4, wp // 4, 4).amax((3, 5))


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class WindowsPaddedAFullOne(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        x = F.pad(x, (0, 8 - w % 8, 0, 8 - h % 8))
        y = x.view(b, c, x.shape[2] // 8, 8, x.shape[3] // 8, 8).mean((3, 5))
        return y.repeat_interleave(8, 2).repeat_interleave(8, 3)[..., :h, :w]


@cases({"x": "N 8 8*h 8*w"}, N=N, h=(1, 32, 2), w=(1, 32, 3))
class WindowsDeclared(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        return x.view(b, c, h // 8, 8, w // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, c)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class FocusOfEven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(12, 8)

    def forward(self, x):
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        y = torch.cat(parts, 1)
        return self.conv(y)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class FocusOfPadded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(12, 8)

    def forward(self, x):
        x = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))
        y = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        return self.conv(y)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class Unshuffled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(27, 8)

    def forward(self, x):
        y = F.interpolate(x, scale_factor=1.5)
        y = F.pixel_unshuffle(y, 3)
        return self.conv(y)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class UnshuffledPadded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(48, 48)

    def forward(self, x):
        h, w = x.shape[-2:]
        y = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4), mode="replicate")
        y = F.pixel_shuffle(self.conv(F.pixel_unshuffle(y, 4)), 4)
        return x + y[:, :, :h, :w]


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class UpAndCropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = conv(3, 3, s=2)
        self.up = nn.ConvTranspose2d(3, 3, 2, stride=2)

    def forward(self, x):
        h, w = x.shape[-2:]
        return x + self.up(self.down(x))[..., :h, :w]


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class UpAndHalfCropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = conv(3, 3, s=2)
        self.up = nn.ConvTranspose2d(3, 3, 2, stride=2)

    def forward(self, x):
        y = self.up(self.down(x))
        y = y[..., : x.shape[-2], :]
        return x + y


class Levels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = Block(3, 4, 2), Block(4, 4, 2), Block(4, 4, 2)

    def forward(self, x):
        one = self.one(x)
        two = self.two(one)
        return one, two, self.three(two)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class PyramidBySizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.levels = Levels()

    def forward(self, x):
        one, two, three = self.levels(x)
        two = two + F.interpolate(three, size=two.shape[-2:])
        return one + F.interpolate(two, size=one.shape[-2:], mode="bilinear", align_corners=False)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class PyramidByFactor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.levels = Levels()

    def forward(self, x):
        one, two, three = self.levels(x)
        two = two + F.interpolate(three, scale_factor=2.0)
        return one + F.interpolate(two, scale_factor=2.0)


@cases({"x": "N 3 8*h 8*w"}, N=N, h=(1, 32, 2), w=(1, 32, 3))
class PyramidDeclared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.levels = Levels()

    def forward(self, x):
        one, two, three = self.levels(x)
        return one + F.interpolate(two + F.interpolate(three, scale_factor=2.0), scale_factor=2.0)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class PyramidToTheSizeOfTheExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.levels = Levels()

    def forward(self, x):
        _one, two, three = self.levels(x)
        three = F.interpolate(three, size=(4, 4))  # origin
        return torch.cat([two, three], 1)


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class SkipWithoutCrop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mid, self.dec = Block(3, 4), Block(4, 4), Block(8, 4)

    def forward(self, x):
        skip = self.enc(x)
        y = self.mid(F.max_pool2d(skip, 2))
        y = F.interpolate(y, scale_factor=2)
        return self.dec(torch.cat([skip, y], 1))


@cases({"x": "N 3 H W"}, N=N, H=SIDE, W=SIDE)
class SkipPaddedByDifference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mid, self.dec = Block(3, 4), Block(4, 4), Block(8, 4)

    def forward(self, x):
        skip = self.enc(x)
        y = F.interpolate(self.mid(F.max_pool2d(skip, 2)), scale_factor=2)
        dh, dw = skip.shape[2] - y.shape[2], skip.shape[3] - y.shape[3]
        y = F.pad(y, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2))
        return self.dec(torch.cat([skip, y], 1))


@cases({"x": "N 4 H W"}, N=N, H=(12, 128, 12), W=(12, 128, 12))
class PyramidPoolingByKernel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4 * (1 + 4 + 16), 5)

    def forward(self, x):
        h, w = x.shape[-2:]
        parts = [F.avg_pool2d(x, (h // b, w // b)).flatten(1) for b in (1, 2, 4)]
        y = torch.cat(parts, 1)
        return self.head(y)


@cases({"x": "N 4 H 12"}, N=N, H=(12, 128, 12))
class PyramidPoolingByCeil(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4 * (1 + 2 + 4), 5)

    def forward(self, x):
        h = x.shape[2]
        out = []
        for bins in (1, 2, 4):
            k = (h + bins - 1) // bins
            y = F.max_pool2d(x, (k, 12), stride=(k, 12))
            out.append(y.flatten(1))
        return self.head(torch.cat(out, 1))


@cases({"x": "N 4 H W"}, N=N, H=(12, 128, 12), W=(12, 128, 12))
class PyramidPoolingAdaptive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4 * (1 + 4 + 9), 5)

    def forward(self, x):
        parts = [F.adaptive_avg_pool2d(x, b).flatten(1) for b in (1, 2, 3)]
        return self.head(torch.cat(parts, 1))


@cases({"x": "N 4 H W"}, N=N, H=(12, 128, 12), W=(12, 128, 12))
class SceneParsing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 1, 1) for _ in range(3))

    def forward(self, x):
        h, w = x.shape[-2:]
        out = [x]
        for bins, layer in zip((1, 2, 4), self.convs, strict=True):
            y = layer(F.adaptive_avg_pool2d(x, bins))
            out.append(F.interpolate(y, (h, w), mode="bilinear", align_corners=True))
        return torch.cat(out, 1)


@cases({"x": "N 4 12*h 12"}, N=N, h=(1, 12, 2))
class PyramidPoolingDeclared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4 * 6, 5)

    def forward(self, x):
        h = x.shape[2]
        parts = [F.avg_pool2d(x, (h // b, 12)).flatten(1) for b in (1, 2, 3)]
        return self.head(torch.cat(parts, 1))


@cases({"x": "N 4 16 16", "z": "N 4 4 4"}, N=N)
class CorrelationPerSample(nn.Module):
    def forward(self, x, z):
        b, c = x.shape[:2]
        y = F.conv2d(x.reshape(1, b * c, 16, 16), z.reshape(b * c, 1, 4, 4), groups=b * c)
        return y.view(b, c, y.shape[2], y.shape[3])


@cases({"x": "N 4 16 16", "z": "N 4 4 4"}, N=N)
class CorrelationOfTwo(nn.Module):
    def forward(self, x, z):
        b, c = x.shape[:2]
        x = x.reshape(1, b * c, 16, 16)
        z = z.reshape(b * c, 1, 4, 4)
        y = F.conv2d(x, z, groups=8)
        return y.view(b, c, 13, 13)


@cases({"x": "N 4 H W", "z": "N 4 h w"}, N=N, H=(8, 64, 16), W=(8, 64, 16), h=(3, 16, 4), w=(3, 8, 4))
class CorrelationWithLargeTemplate(nn.Module):
    def forward(self, x, z):
        y = torch.relu(x)
        patches = F.unfold(y, 12)
        return patches.mean((1, 2)) + z.mean((1, 2, 3))


@cases({"a": "N 8 16 W", "b": "N 8 16 W"}, N=N, W=(2, 128, 16))
class CostVolume(nn.Module):
    def forward(self, a, b):
        planes = []
        for d in range(4):
            shifted = F.pad(b, (d, 0))[..., : b.shape[3]]
            planes.append((a * shifted).mean(1))
        return torch.stack(planes, 1)


@cases({"a": "N 8 16 W", "b": "N 8 16 W"}, N=N, W=(2, 128, 16))
class CostVolumeUnpadded(nn.Module):
    def forward(self, a, b):
        planes = []
        for d in (2, 4, 8):
            left, right = a[..., d:], b[..., : b.shape[3] - d]
            planes.append((left * right).mean(1))
        planes = [F.pad(p, (16 - p.shape[2], 0)) for p in planes]  # origin
        return torch.stack(planes, 1) + a.mean(1, keepdim=True)


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class CostInGroups(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = x.view(b, 4, c // 4, h, w) * x.flip(3).view(b, 4, c // 4, h, w)
        return y.mean(2)


@cases({"x": "N 8 H W"}, N=N, H=SIDE, W=SIDE)
class CostInGroupsOfExample(nn.Module):
    def forward(self, x):
        b, c, h, _w = x.shape
        left = torch.tanh(x)
        left = left.view(b, 4, c // 4, h, 16)
        return left.mean(2)
