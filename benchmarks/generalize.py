# ruff: noqa: D102, D103, E501, N812  # a table of blocks, one a line
"""`generalize` on random PyTorch modules: exported at two sizes, judged at others. Needs torch and onnxscript.

    python -m benchmarks.generalize --count 200 --seed 0

A module is a chain of blocks that use the length of a sequence, or the height and width of an image, in ways that exporters
fold into constants. The truth is PyTorch itself, or an export of that size. Printed: how many are right, refused or wrong, and every one that is wrong.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from torch import nn

import shapesolve as ss

C = 8
Block = Callable[[torch.Tensor, dict[str, Any]], torch.Tensor]


def scores(x: torch.Tensor) -> torch.Tensor:
    return x @ x.transpose(1, 2) / C**0.5


def masked(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores(x).masked_fill(~keep, -1e9), -1) @ x


def distance(x: torch.Tensor) -> torch.Tensor:
    i = torch.arange(x.shape[1])
    return i[None, :] - i[:, None]


def padded(x: torch.Tensor, k: int) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, (-x.shape[1]) % k))


def windows(x: torch.Tensor, k: int) -> torch.Tensor:
    y = padded(x, k)
    return y.view(y.shape[0], y.shape[1] // k, k, C).softmax(2).reshape(y.shape[0], -1, C)


def resized(x: torch.Tensor, n: int) -> torch.Tensor:
    return F.interpolate(x.transpose(1, 2), size=n, mode="nearest").transpose(1, 2)


SEQUENCE: dict[str, Callable[[random.Random], Block]] = {
    "relu": lambda r: lambda x, p: torch.relu(x),
    "heads": lambda r: lambda x, p: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).softmax(-1).transpose(1, 2).reshape(x.shape),
    "rows": lambda r: lambda x, p: torch.softmax(x.reshape(-1, C), -1).view(x.shape),
    "causal": lambda r: lambda x, p: masked(x, torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool))),
    "sliding": lambda r: (lambda w: lambda x, p: masked(x, (distance(x) <= 0) & (distance(x) > -w)))(r.randint(2, 9)),
    "band": lambda r: (lambda w: lambda x, p: masked(x, distance(x).abs() < w))(r.randint(1, 6)),
    "blocks": lambda r: (lambda b: lambda x, p: masked(x, (torch.arange(x.shape[1]) // b)[:, None] == torch.arange(x.shape[1]) // b))(r.randint(2, 5)),
    "learned": lambda r: lambda x, p: x + p["table"][: x.shape[1]],
    "last": lambda r: lambda x, p: x + p["table"][64 - x.shape[1] :],
    "places": lambda r: lambda x, p: x * torch.arange(x.shape[1]).view(1, -1, 1),
    "backwards": lambda r: lambda x, p: x * torch.arange(x.shape[1] - 1, -1, -1).view(1, -1, 1),
    "linspace": lambda r: lambda x, p: x + torch.linspace(0, 1, x.shape[1]).view(1, -1, 1),
    "parts": lambda r: lambda x, p: x + (torch.arange(x.shape[1]) / x.shape[1]).view(1, -1, 1),
    "sines": lambda r: lambda x, p: x + torch.sin(torch.arange(x.shape[1])[:, None] * p["freq"]),
    "mean": lambda r: lambda x, p: x + x.sum(1, keepdim=True) / x.shape[1],
    "root": lambda r: lambda x, p: x * x.shape[1] ** -0.5,
    "log": lambda r: lambda x, p: x * float(np.log(x.shape[1])),
    "first half": lambda r: lambda x, p: x[:, : x.shape[1] // 2],
    "second half": lambda r: lambda x, p: x[:, x.shape[1] // 2 :],
    "every second": lambda r: lambda x, p: x[:, ::2],
    "but last": lambda r: lambda x, p: x[:, : x.shape[1] - 1],
    "from": lambda r: (lambda k: lambda x, p: x[:, k:])(r.randint(1, 3)),
    "at most": lambda r: (lambda k: lambda x, p: x[:, : min(x.shape[1], k)])(r.randint(3, 16)),
    "last few": lambda r: (lambda k: lambda x, p: x[:, -k:])(r.randint(1, 5)),
    "windows": lambda r: (lambda k: lambda x, p: windows(x, k))(r.randint(2, 5)),
    "windows cut": lambda r: (lambda k: lambda x, p: windows(x, k)[:, : x.shape[1]])(r.randint(2, 5)),
    "pad": lambda r: (lambda k: lambda x, p: padded(x, k))(r.randint(2, 8)),
    "pad by": lambda r: (lambda k: lambda x, p: F.pad(x, (0, 0, k, 1)))(r.randint(1, 3)),
    "pad by half": lambda r: lambda x, p: F.pad(x, (0, 0, x.shape[1] // 2, 0)),
    "mirrored": lambda r: lambda x, p: torch.cat([x, x.flip(1)], 1),
    "roll": lambda r: (lambda k: lambda x, p: torch.roll(x, k, 1))(r.randint(1, 3)),
    "roll half": lambda r: lambda x, p: torch.roll(x, x.shape[1] // 2, 1),
    "twice": lambda r: lambda x, p: x.repeat_interleave(2, 1),
    "repeat": lambda r: lambda x, p: x.repeat(1, 2, 1),
    "up": lambda r: lambda x, p: resized(x, 2 * x.shape[1]),
    "down": lambda r: lambda x, p: resized(x, (x.shape[1] + 1) // 2),
    "to fixed": lambda r: (lambda k: lambda x, p: resized(x, k))(r.randint(3, 9)),
    "cumsum": lambda r: lambda x, p: torch.cumsum(x, 1) / x.shape[1],
    "relative": lambda r: (lambda w: lambda x, p: torch.softmax(scores(x) + p["bias"][distance(x).clamp(-w, w) + w], -1) @ x)(r.randint(1, 6)),
    "distances": lambda r: lambda x, p: torch.softmax(scores(x) - 0.5 * distance(x).abs(), -1) @ x,
    "bias": lambda r: lambda x, p: torch.softmax(scores(x) + p["bias"][distance(x) + 63], -1) @ x,
    "identity": lambda r: lambda x, p: x + torch.eye(x.shape[1]) @ x,
    "class token": lambda r: lambda x, p: torch.cat([p["table"][:1].expand(x.shape[0], 1, C), x], 1),
    "transposed": lambda r: lambda x, p: torch.relu(x.transpose(1, 2)).reshape(x.shape[0], C, x.shape[1]).transpose(1, 2),
    "conv": lambda r: lambda x, p: F.conv1d(x.transpose(1, 2), p["kernel"], stride=2, padding=1).transpose(1, 2),
    "pool": lambda r: lambda x, p: x + F.avg_pool1d(x.transpose(1, 2), x.shape[1]).transpose(1, 2),
    "top": lambda r: lambda x, p: x.topk(max(x.shape[1] // 2, 1), 1).values,
    "hann": lambda r: lambda x, p: x * torch.hann_window(x.shape[1]).view(1, -1, 1),
    "same pad": lambda r: lambda x, p: F.conv1d(F.pad(x.transpose(1, 2), (0, (x.shape[1] - 1) // 2 * 2 + 3 - x.shape[1])), p["kernel"], stride=2).transpose(1, 2),
    "dilated": lambda r: lambda x, p: masked(x, distance(x) % 2 == 0),
    "prefix mask": lambda r: (lambda k: lambda x, p: masked(x, (distance(x) <= 0) | (torch.arange(x.shape[1]) < k)))(r.randint(1, 4)),
    "half mask": lambda r: lambda x, p: x * (torch.arange(x.shape[1]) < x.shape[1] // 2).view(1, -1, 1),
}  # fmt: skip


class Chain(nn.Module):  # type: ignore[misc]
    """Blocks one after the other."""

    def __init__(self, blocks: list[Block], seed: int) -> None:
        super().__init__()
        self.blocks = blocks
        g = torch.Generator().manual_seed(seed)
        self.tables = {
            "table": torch.randn(64, C, generator=g), "bias": torch.randn(127, generator=g),
            "kernel": torch.randn(C, C, 3, generator=g) * 0.3, "freq": 10000.0 ** (-torch.arange(C) / C),
        }  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, self.tables)
        return x


def exported(module: nn.Module, x: torch.Tensor, dynamo: bool) -> onnx.ModelProto:
    """The module as a fixed export of this input's size."""
    file = io.BytesIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        if dynamo:
            program = torch.onnx.export(module, (x,), dynamo=True, verbose=False, input_names=["x"])
            assert program is not None
            proto: onnx.ModelProto = program.model_proto
            return proto
        torch.onnx.export(module, (x,), file, dynamo=False, input_names=["x"])
    return onnx.load_from_string(file.getvalue())


def close(want: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> bool:
    return want.shape == got.shape and np.allclose(want, got, rtol=2e-2, atol=2e-3)


def rerun(module: nn.Module, x: torch.Tensor, seed: int) -> np.ndarray[Any, Any]:
    """What an export of this size gives: onnxruntime rounds places in a resized tensor in another way than PyTorch."""
    model = exported(module, x, dynamo=bool(seed % 2))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray[Any, Any] = session.run(None, {"x": x.numpy()})[0]
    return found


def judged(seed: int) -> tuple[str, str, str]:
    """The verdict on one random module, its blocks, and why."""
    rng = random.Random(seed)
    names = [rng.choice([*SEQUENCE]) for _ in range(rng.randint(1, 3))]
    module = Chain([SEQUENCE[n](rng) for n in names], seed).eval()
    sizes = rng.sample(range(5, 24), 2)
    others = [n for n in rng.sample(range(4, 30), 5) if n not in sizes][:3]
    what = f"{seed}: {' > '.join(names)} at {sizes}"
    try:
        exports = [exported(module, torch.randn(2, n, C), dynamo=bool(seed % 2)) for n in sizes]
    except Exception as e:
        return "no export", what, str(e)[:100]
    try:
        made = ss.generalize(exports, {"x[1]": "seq"})
    except ss.Refused as e:
        return "refused", what, str(e)[:300]
    except Exception as e:
        return "error", what, f"{type(e).__name__}: {e}"[:300]
    analysis = ss.analyze(made)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    tried = 0
    for n in (*sizes, *others):
        x = torch.randn(2, n, C)
        if analysis.check_inputs({"x": tuple(x.shape)}):
            if n in sizes:
                return "wrong", what, f"its contract excludes {n}: {analysis.contract}"
            continue
        try:
            want = module(x).numpy()
        except Exception:
            continue
        try:
            (got,) = session.run(None, {"x": x.numpy()})
        except Exception as e:
            return "crash", what, f"at {n}: {e}"[:300]
        if not close(want, got) and not close(rerun(module, x, seed), got):
            return "wrong", what, f"at {n}: {want.shape} {got.shape}"
        tried += n not in sizes
    return ("right" if tried else "exported sizes only"), what, ""


def main() -> None:
    """Judge modules and print what came of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    ort.set_default_logger_severity(4)
    counts: collections.Counter[str] = collections.Counter()
    with torch.no_grad():
        for seed in range(args.seed, args.seed + args.count):
            verdict, what, why = judged(seed)
            counts[verdict] += 1
            if args.v or verdict in ("wrong", "crash", "error"):
                print(verdict, what, why, flush=True)
    print(dict(counts))
    sys.exit(any(counts[v] for v in ("wrong", "crash", "error")))


if __name__ == "__main__":
    main()
