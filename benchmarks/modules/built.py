"""Modules drawn by construction: runs decide on right and wrong sizes, not notes by hand.

A case states its inputs and the range that each size is declared with. Which of these sizes run, and on which line the
module fails at the others, is what eager PyTorch does with it.
"""

from __future__ import annotations

import inspect
import itertools
import random
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.export import Dim

Sizes = Mapping[str, int]

_TERM = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<name>[A-Za-z]\w*)(?P<more>\+\d+)?")
_CHOSEN = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 200)
#: a size at which the inputs together have more elements is not run
_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Failure:
    """A size that does not run, with the deepest line of the module and PyTorch's message."""

    sizes: dict[str, int]
    line: int
    words: str


@dataclass(frozen=True)
class Built:
    """A module with the shapes of its inputs (``"N 3 H 2*w"``) and the ranges of its sizes: (min, max, example)."""

    make: Callable[[], Any]
    inputs: dict[str, str]
    ranges: dict[str, tuple[int, int, int]]
    #: what the inputs are when they are not drawn: made of the sizes
    data: Callable[..., tuple[Any, ...]] | None = None

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.make) or ""

    @property
    def example(self) -> dict[str, int]:
        return {name: example for name, (_, _, example) in self.ranges.items()}

    def args(self, sizes: Sizes | None = None) -> tuple[Any, ...]:
        sizes = dict(sizes or self.example)
        draw = torch.Generator().manual_seed(0)
        if self.data is not None:
            torch.manual_seed(0)
            return self.data(**sizes)
        return tuple(_drawn(text, sizes, draw) for text in self.inputs.values())

    def module(self) -> Any:
        torch.manual_seed(0)
        return self.make().eval()

    @property
    def dynamic_shapes(self) -> dict[str, Any]:
        dims = {name: Dim(name, min=low, max=high) for name, (low, high, _) in self.ranges.items()}
        return {name: dict(_declared(_terms(text), dims)) for name, text in self.inputs.items()}

    def tried(self) -> Iterator[dict[str, int]]:
        """Sizes of the declaration: each one alone next to the example, then some together."""
        draw = random.Random(0)
        chosen = {
            name: sorted(
                v
                for v in {*_CHOSEN, low, low + 1, high, high - 1, *range(example - 2, example + 4)}
                if low <= v <= high
            )
            for name, (low, high, example) in self.ranges.items()
        }
        alone = ({**self.example, name: v} for name, values in chosen.items() for v in values)
        together = ({name: draw.choice(values) for name, values in chosen.items()} for _ in range(16))
        least = {name: low for name, (low, _, _) in self.ranges.items()}
        for sizes in itertools.chain([self.example, least], alone, together if len(chosen) > 1 else ()):
            if self.elements(sizes) <= _ELEMENTS:
                yield sizes

    def elements(self, sizes: Sizes) -> int:
        total = 0
        for text in self.inputs.values():
            product = 1
            for term in _terms(text):
                product *= _value(term, sizes)
            total += product
        return total

    def fails(self, sizes: Sizes) -> Failure | None:
        """The failure of eager PyTorch at these sizes; None if it runs."""
        try:
            self.outputs(sizes)
        except Exception as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if self.is_own(f.filename)]
            return Failure(dict(sizes), lines[-1] or 0, str(error).partition("\n")[0])
        return None

    def outputs(self, sizes: Sizes) -> Any:
        """The outputs of eager PyTorch at these sizes."""
        with torch.no_grad():
            return self.module()(*self.args(sizes))

    def is_own(self, file: str) -> bool:
        return file == self.file

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        found = [f for sizes in self.tried() if (f := self.fails(sizes))]
        assert not any(f.sizes == self.example for f in found), (
            f"{self.name} fails on its example: {found[0]}"
        )
        return tuple(found)

    @property
    def lines(self) -> set[int]:
        """The lines on which it fails; a line marked as the origin of a tensor that does not fit is right too."""
        source, first = inspect.getsourcelines(self.make)
        return {f.line for f in self.failures} | {
            first + i for i, text in enumerate(source) if text.rstrip().endswith("# origin")
        }


class Cases(list[Built]):
    """Collects cases: ``@cases({"x": "N 3 H W"}, N=(1, 64, 2), ...)`` above a module."""

    def __call__(
        self,
        inputs: dict[str, str],
        *,
        data: Callable[..., tuple[Any, ...]] | None = None,
        **ranges: tuple[int, int, int],
    ) -> Any:
        def register(make: Any) -> Any:
            self.append(Built(make, inputs, ranges, data))
            return make

        return register


def _terms(text: str) -> list[str]:
    return text.split(":")[-1].split()


def _value(term: str, sizes: Sizes) -> int:
    if term.isdigit():
        return int(term)
    found = _TERM.fullmatch(term)
    assert found, term
    return int(found["factor"] or 1) * sizes[found["name"]] + int(found["more"] or 0)


def _declared(terms: list[str], dims: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    for axis, term in enumerate(terms):
        if term.isdigit():
            continue
        found = _TERM.fullmatch(term)
        assert found, term
        dim = dims[found["name"]]
        if found["factor"]:
            dim = int(found["factor"]) * dim
        yield axis, dim + int(found["more"]) if found["more"] else dim


def _drawn(text: str, sizes: Sizes, draw: torch.Generator) -> torch.Tensor:
    shape = [_value(t, sizes) for t in _terms(text)]
    if text.startswith("int:"):
        return torch.randint(0, 50, shape, generator=draw)
    if text.startswith("mask:"):
        return torch.ones(shape, dtype=torch.int64)
    if text.startswith("bool:"):
        return torch.rand(shape, generator=draw) < 0.7
    return torch.randn(shape, generator=draw)
