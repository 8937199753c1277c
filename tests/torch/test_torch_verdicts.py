"""What is said of sizes that only torch.export's trace rules out, and for which sizes the graph is judged."""

from __future__ import annotations

import pytest
from torch_needed import need

need("torch", "onnxscript")

import torch
from torch import nn
from torch.export import Dim

from shapesolve.expr import parse_cond
from shapesolve.solve.contract.contract import Term
from shapesolve.solve.proof import Unknown
from shapesolve.torch import check
from shapesolve.torch.declared import Declaration, Root
from shapesolve.torch.outcome import Restriction, classify
from shapesolve.torch.verdicts import excluded_text


@pytest.mark.parametrize(
    ("cond", "excluded"),
    [
        ("t != 5", "t = 5"),
        ("t >= 6", "t = 4 and t = 5"),
        ("t >= 8", "t <= 7"),
        ("t <= 30", "t >= 31"),
        ("t == 10", "every t but 10"),
        ("t % 12 == 0", "every t but 12 and 24"),
        ("t % 2 == 0", "every t with t % 2 != 0 (5, 7, 9, 11, …)"),
    ],
)
def test_what_is_ruled_out_is_said_exactly(cond: str, excluded: str) -> None:
    read = parse_cond(cond)
    term = Term(read, "residual", cond, ("t",), ())
    declaration = Declaration({"t": Root("t", 4, 33)})
    found = Restriction(term, classify(read), ("t",), Unknown(""), guarded=True)
    assert excluded_text(found, declaration) == excluded


class RolledWithinWindows(nn.Module):
    def forward(self, x):
        t = x.shape[1]
        y = nn.functional.pad(x, (0, 0, 0, (4 - t % 4) % 4))
        return x + torch.roll(torch.roll(y, -2, 1).relu(), 2, 1)[:, :t]


def test_the_graph_is_judged_for_the_declared_sizes() -> None:
    shapes = {"x": {1: Dim("t", min=4, max=64)}}
    report = check(RolledWithinWindows(), (torch.zeros(2, 10, 8),), dynamic_shapes=shapes)
    assert not [f for f in report.findings if f.verdict == "unknown"], str(report)
