"""Factories for ``shapesolve check --torch torch_factories:right``."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim
from torch_correct import ViewFromShape
from torch_mistakes import HardCodedBatch

SHAPES = {"x": {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=512)}}


def right() -> dict[str, Any]:
    return {"module": ViewFromShape(), "args": (torch.zeros(2, 6, 8),), "dynamic_shapes": SHAPES}


def wrong() -> tuple[Any, ...]:
    return HardCodedBatch(), (torch.zeros(2, 6, 8),), {}, SHAPES


def strange() -> dict[str, Any]:
    return {"model": None}


def failing() -> None:
    raise RuntimeError("no weights")
