"""Cases of how a module is put together: names, nesting, blocks used twice; edges of a graph; copies for a batch."""

from __future__ import annotations

import torch
from torch import nn

from .built import Cases

cases = Cases()
N = (1, 64, 2)
T = (1, 256, 12)


@cases({"x": "N T 8"}, N=N, T=T)
class NamedLikeTheGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.graph = nn.Linear(8, 8)
        self.code = nn.Linear(8, 8)

    def forward(self, x):
        y = self.code(self.graph(x))
        return y.view(2, -1, 8)


class Inner(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, 8))

    def forward(self, x):
        return x * self.weight


@cases({"x": "N T 8"}, N=N, T=T)
class NamedLikeTheModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Sequential(nn.Linear(8, 8), Inner(12))
        self.graph_module = nn.Linear(8, 8)

    def forward(self, x):
        return self.graph_module(self.module(x))


@cases({"x": "N T 8"}, N=N, T=T)
class NamedLikeMetadata(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.meta = nn.Linear(8, 8)
        self.nodes = nn.Linear(8, 8)
        self.forward_hook = nn.Linear(8, 8)

    def forward(self, x):
        return self.forward_hook(self.nodes(self.meta(x)))


@cases({"x": "N T 8"}, N=N, T=T)
class SameBlockTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.inner = Inner(12)

    def forward(self, x):
        y = self.fc(self.fc(x))
        return self.inner(self.inner(y))


@cases(
    {"x": "N 8", "edges": "int:2 E"},
    data=lambda N, E: (torch.randn(N, 8), torch.arange(2 * E).view(2, E) % N),
    N=(2, 64, 6),
    E=(1, 200, 9),
)
class SumsOverEdges(nn.Module):
    def forward(self, x, edges):
        zero = torch.zeros(x.shape[0], 8)
        return zero.index_add(0, edges[1], x[edges[0]])


@cases(
    {"x": "N 8", "edges": "int:2 E"},
    data=lambda N, E: (torch.randn(N, 8), torch.arange(2 * E).view(2, E) % N),
    N=(2, 64, 6),
    E=(1, 200, 9),
)
class SumsOverEdgesOfExample(nn.Module):
    def forward(self, x, edges):
        zero = torch.zeros(6, 8)  # origin
        out = zero.index_add(0, edges[1], x[edges[0]])
        return x + out


@cases({"x": "N T 8"}, N=N, T=T)
class ExpandsToExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x):
        token = self.token.expand(2, -1, -1)  # origin
        return torch.cat([token, x], 1)


@cases({"x": "N T 8"}, N=N, T=T)
class RepeatsByExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        q = self.query.unsqueeze(0).repeat(2, 1, 1)  # origin
        scores = torch.bmm(q, x.transpose(1, 2))
        return scores.softmax(-1) @ x


@cases({"x": "N T 8"}, N=N, T=T)
class RepeatsByBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        q = self.query.unsqueeze(0).repeat(x.shape[0], 1, 1)
        return torch.bmm(q, x.transpose(1, 2)).softmax(-1) @ x
