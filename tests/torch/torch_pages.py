"""An example for the page of each finding about a module.

``python tests/torch/torch_pages.py`` checks them, and writes what is printed to ``shapesolve/findings/pytorch.md``.
``python .ci/pages.py docs`` makes the pages of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import shapesolve
from shapesolve.lines import plain
from shapesolve.torch import check
from shapesolve.torch.places import shown_path
from shapesolve.torch.report import source_lines

#: the file with what is printed
PRINTED = Path(shapesolve.__file__).parent / "findings" / "pytorch.md"

SEQ = {"ids": {0: Dim("batch", max=64), 1: Dim("seq", max=64)}}


class Positions(nn.Module):
    def forward(self, x):
        positions = torch.arange(7)
        return x + positions


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b


class Pairs(nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0], -1, 4)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(1000, 8), nn.Embedding(32, 8)

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        return self.words(ids) + self.positions(places)


class Gate(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Distances(nn.Module):
    def forward(self, a, b):
        return torch.cdist(a, b).argmin(-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Kept(nn.Module):
    def forward(self, x, keep):
        return x[keep].view(x.shape[0], -1)


#: the arguments of a check, by code
EXAMPLES: dict[str, dict[str, Any]] = {
    "SS601": {
        "module": Positions(),
        "args": (torch.zeros(2, 7),),
        "dynamic_shapes": {"x": {0: Dim("batch", max=64), 1: Dim("seq", max=64)}},
    },
    "SS602": {
        "module": Sum(),
        "args": (torch.zeros(5), torch.zeros(5)),
        "dynamic_shapes": {"a": {0: Dim("n", min=2, max=64)}, "b": {0: Dim("m", min=2, max=64)}},
    },
    "SS603": {
        "module": Pairs(),
        "args": (torch.zeros(2, 8),),
        "dynamic_shapes": {"x": {0: Dim("batch", max=64), 1: Dim("width", max=64)}},
    },
    "SS604": {"module": Tagger(), "args": (torch.zeros(2, 9, dtype=torch.int64),), "dynamic_shapes": SEQ},
    "SS605": {
        "module": Tagger(),
        "args": (torch.zeros(2, 9, dtype=torch.int64),),
        "dynamic_shapes": {"ids": {0: Dim("batch"), 1: Dim("seq")}},
    },
    "SS606": {
        "module": Positions(),
        "args": (torch.zeros(2, 7),),
        "dynamic_shapes": {"x": {0: Dim.AUTO, 1: Dim.AUTO}},
    },
    "SS607": {
        "module": Gate(),
        "args": (torch.ones(2, 3),),
        "dynamic_shapes": {"x": {0: Dim("batch", max=64)}},
    },
    "SS608": {
        "module": Distances(),
        "args": (torch.zeros(6, 5), torch.zeros(9, 5)),
        "dynamic_shapes": {"a": {0: Dim("n", min=2, max=20)}, "b": {0: Dim("m", min=2, max=20)}},
    },
    "SS609": {
        "module": Recurrent().eval(),
        "args": (torch.zeros(2, 6, 8),),
        "dynamic_shapes": {"x": {1: Dim("time", min=2, max=64)}},
    },
    "SS612": {"module": Sum(), "args": (torch.zeros(2, 3), torch.zeros(2, 3))},
    "SS613": {"module": nn.Conv1d(3, 4, 7), "args": (torch.zeros(2, 3, 20),), "infer": True},
    "SS614": {
        "module": Kept(),
        "args": (torch.zeros(2, 6), torch.arange(6).lt(2).expand(2, 6)),
        "dynamic_shapes": {n: {1: Dim("n", min=2, max=64)} for n in ("x", "keep")},
    },
}


def printed(code: str) -> str:
    """What a check prints of the finding, with a plain name for this file."""
    torch.manual_seed(0)
    report = check(**EXAMPLES[code])
    finding = next(f for f in report.findings if f.code == code)
    text = plain(source_lines(finding, set())).replace(str(Path(__file__).resolve()), "net.py")
    return text.replace(shown_path(__file__), "net.py")


if __name__ == "__main__":
    PRINTED.write_text(
        "".join([f"## {code}\n\n{printed(code)}\n\n" for code in EXAMPLES]).rstrip() + "\n", "utf-8"
    )
