"""Popular blocks, as papers and their repositories write them: some right at all declared sizes, some not."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .built import Cases

cases = Cases()
N = (1, 32, 2)
T = (1, 128, 10)
H, W = (4, 128, 20), (4, 128, 24)


# ---------------------------------------------------------------------- images


def conv(i: int, o: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down1, self.down2 = conv(3, 4), conv(4, 4), conv(4, 4)
        self.pool = nn.MaxPool2d(2)
        self.up1, self.up2 = nn.ConvTranspose2d(4, 4, 2, 2), nn.ConvTranspose2d(4, 4, 2, 2)
        self.out1, self.out2 = conv(8, 4), conv(8, 1)

    def fit(self, x, like):
        return x

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(self.pool(a))
        c = self.down2(self.pool(b))
        y = self.out1(torch.cat([b, self.fit(self.up1(c), b)], 1))
        return self.out2(torch.cat([a, self.fit(self.up2(y), a)], 1))


@cases({"x": "N 3 H W"}, N=N, H=H, W=W)
class UNetFittingSkips(UNet):
    def fit(self, x, like):
        dy, dx = like.shape[2] - x.shape[2], like.shape[3] - x.shape[3]
        return F.pad(x, (dx // 2, dx - dx // 2, dy // 2, dy - dy // 2))


@cases({"x": "N 3 H W"}, N=N, H=H, W=W)
class UNetFittingWidthOnly(UNet):
    def fit(self, x, like):
        dx = like.shape[3] - x.shape[3]
        return F.pad(x, (dx // 2, dx - dx // 2))


class TopDown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.c3, self.c4, self.c5 = conv(3, 4), conv(4, 4, 2), conv(4, 4, 2), conv(4, 4, 2)
        self.lateral = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))
        self.smooth = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x):
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        c5 = self.c5(c4)
        maps = [layer(c) for layer, c in zip(self.lateral, (c3, c4, c5))]
        for i in (1, 0):
            maps[i] = maps[i] + self.upsample(maps[i + 1], maps[i])
        return [layer(m) for layer, m in zip(self.smooth, maps)]


@cases({"x": "N 3 H W"}, N=N, H=(8, 128, 32), W=(8, 128, 40))
class TopDownBySize(TopDown):
    def upsample(self, x, like):
        return F.interpolate(x, size=like.shape[-2:], mode="nearest")


@cases({"x": "N 3 H W"}, N=N, H=(8, 128, 32), W=(8, 128, 40))
class TopDownByTwo(TopDown):
    def upsample(self, x, like):
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


class Atrous(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=r, dilation=r) for r in (1, 2, 4))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1))
        self.project = nn.Conv2d(16, 4, 1)


@cases({"x": "N 4 H W"}, N=N, H=(2, 64, 14), W=(2, 64, 14))
class AtrousPooling(Atrous):
    def forward(self, x):
        y = F.interpolate(self.pool(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.project(torch.cat([b(x) for b in self.branches] + [y], 1))


@cases({"x": "N 4 H W"}, N=N, H=(2, 64, 14), W=(2, 64, 14))
class AtrousPoolingOfExample(Atrous):
    def forward(self, x):
        y = F.interpolate(self.pool(x), size=(14, 14), mode="bilinear", align_corners=False)  # origin
        return self.project(torch.cat([b(x) for b in self.branches] + [y], 1))


def windows(x: torch.Tensor, size: int) -> torch.Tensor:
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def unwindowed(x: torch.Tensor, size: int, h: int, w: int) -> torch.Tensor:
    x = x.view(-1, h // size, w // size, size, size, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(x.shape[0], h, w, -1)


class ShiftedWindows(nn.Module):
    size, shift = 4, 2

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)

    def mask(self, h, w):
        """Which places of a shifted window belong together."""
        image = torch.zeros(1, h, w, 1)
        count = 0
        for rows in (slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None)):
            for cols in (slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None)):
                image[:, rows, cols, :] = count
                count += 1
        ids = windows(image, self.size).squeeze(-1)
        return (ids[:, None, :] != ids[:, :, None]).float() * -100.0

    def attend(self, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / math.sqrt(c)
        scores = scores.view(-1, mask.shape[0], n, n) + mask[None]
        return self.proj(scores.view(b, n, n).softmax(-1) @ v)

    def blocks(self, x, h, w):
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        y = self.attend(windows(x, self.size), self.mask(h, w))
        y = y.view(-1, h // self.size, w // self.size, self.size, self.size, y.shape[-1])
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, y.shape[-1])
        return torch.roll(y, (self.shift, self.shift), (1, 2))


@cases({"x": "N H W 8"}, N=N, H=(4, 64, 10), W=(4, 64, 14))
class ShiftedWindowsPadded(ShiftedWindows):
    def forward(self, x):
        h, w = x.shape[1:3]
        y = F.pad(
            x, (0, 0, 0, (self.size - w % self.size) % self.size, 0, (self.size - h % self.size) % self.size)
        )
        return x + self.blocks(y, y.shape[1], y.shape[2])[:, :h, :w]


@cases({"x": "N H W 8"}, N=N, H=(4, 64, 12), W=(4, 64, 16))
class ShiftedWindowsMaskedOnce(ShiftedWindows):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("at_first", self.mask(12, 16))

    def forward(self, x):
        h, w = x.shape[1:3]
        y = F.pad(x, (0, 0, 0, -w % self.size, 0, -h % self.size))
        return self.attend(windows(y, self.size), self.at_first)


class ConvLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(2 + 4, 16, 3, padding=1)

    def step(self, x, h, c):
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


@cases({"x": "N 3 2 H W"}, N=N, H=(1, 64, 9), W=(1, 64, 11))
class ConvLSTMOfClip(ConvLSTM):
    def forward(self, x):
        n, _, _, height, width = x.shape
        h = c = x.new_zeros(n, 4, height, width)
        for frame in x.unbind(1):
            h, c = self.step(frame, h, c)
        return h


@cases({"x": "N 3 2 H W"}, N=N, H=(1, 64, 9), W=(1, 64, 11))
class ConvLSTMOfSquares(ConvLSTM):
    def initial(self, x):
        return torch.zeros(x.size(0), 4, 9, x.size(4))  # origin

    def forward(self, x):
        h = c = self.initial(x)
        for frame in x.unbind(1):
            h, c = self.step(frame, h, c)
        return h


@cases({"x": "N 8 H W"}, N=N, H=(1, 64, 9), W=(1, 64, 11))
class GroupsShuffled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduce, self.depthwise = nn.Conv2d(8, 8, 1, groups=4), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.expand = nn.Conv2d(8, 8, 1, groups=4)

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.reduce(x).view(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w)
        return F.relu(x + self.expand(self.depthwise(y)))


@cases({"x": "N 8 H W", "kernels": "N 8 3 3"}, N=(1, 16, 3), H=(1, 64, 9), W=(1, 64, 11))
class KernelPerSampleOfThree(nn.Module):
    def forward(self, x, kernels):
        n, c, h, w = x.shape
        y = F.conv2d(x.reshape(1, 24, h, w), kernels.reshape(n * c, 1, 3, 3), padding=1, groups=n * c)
        return y.view(n, c, h, w)


@cases({"x": "N 4 H W"}, N=N, H=(2, 40, 9), W=(2, 40, 11))
class NeighbourAttention(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        keys = F.unfold(x, 3, padding=1).view(n, c, 9, h * w)
        scores = (x.view(n, c, 1, h * w) * keys).sum(1, keepdim=True).softmax(2)
        return (scores * keys).sum(2).view(n, c, h, w)


@cases({"x": "N 4 H W"}, N=N, H=(3, 40, 9), W=(3, 40, 11))
class NeighbourAttentionUnpadded(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        keys = F.unfold(x, 3, stride=2, padding=1)
        scores = keys.view(n, c, 9, -1).softmax(2)
        return scores.sum(2).view(n, c, h // 2 + 1, w // 2 + 1)


@cases({"x": "N 3 H W"}, N=N, H=(4, 64, 12), W=(4, 64, 20))
class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.up = conv(3, 8), nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.up(self.body(x)) + base


@cases({"x": "N 4 H W"}, N=N, H=(2, 64, 10), W=(2, 64, 14))
class NonLocal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(4, 4, 1) for _ in range(3))

    def forward(self, x):
        n, c, h, w = x.shape
        q = self.q(x).flatten(2).transpose(1, 2)
        k = F.max_pool2d(self.k(x), 2).flatten(2)
        v = F.max_pool2d(self.v(x), 2).flatten(2).transpose(1, 2)
        return x + ((q @ k).softmax(-1) @ v).transpose(1, 2).reshape(n, c, h, w)


@cases({"x": "N 3 H W"}, N=N, H=(4, 96, 16), W=(4, 96, 24))
class TableResizedByCeil(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 8, 7, 7))

    def forward(self, x):
        h, w = math.ceil(x.shape[2] / 4), math.ceil(x.shape[3] / 4)
        return self.patches(x) + F.interpolate(self.places, size=(h, w), mode="bilinear", align_corners=False)


@cases({"x": "N 3 H W"}, N=N, H=(4, 96, 16), W=(4, 96, 24))
class TableResizedToPatches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 8, 7, 7))
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x):
        y = self.patches(x)
        y = y + F.interpolate(self.places, size=y.shape[2:], mode="bilinear", align_corners=False)
        return torch.cat([self.token.expand(y.shape[0], -1, -1), y.flatten(2).transpose(1, 2)], 1)


@cases({"x": "N 4 H W"}, N=N, H=(2, 64, 9), W=(2, 64, 12))
class UpToTheSizeBefore(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(4, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 3, 2, 1)

    def forward(self, x):
        return x + self.up(self.down(x), output_size=x.shape[-2:])


@cases({"x": "N 4 H W"}, N=N, H=(2, 64, 10), W=(2, 64, 12))
class UpByOutputPadding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(4, 8, 3, 2, 1)
        self.up = nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1)

    def forward(self, x):
        return x + self.up(self.down(x))


@cases({"x": "N 4 H W"}, N=N, H=(1, 64, 16), W=(1, 64, 20))
class SqueezeAndExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x.mean((2, 3)))[:, :, None, None]


@cases({"x": "N 4 H W"}, N=N, H=(1, 64, 16), W=(1, 64, 20))
class PooledBySeven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = conv(4, 4, 2), nn.Linear(4, 5)

    def forward(self, x):
        y = F.avg_pool2d(self.conv(x), 7)
        return self.fc(y.mean((2, 3)))
