"""`GivenSizes`: sizes of all tensors for given input sizes, computed from definitions alone.

`Lowered.shapes` is simplified by node requirements. If sizes break a requirement, it does not show the sizes that the
node receives.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from ..constraints.local import Definition
from ..expr import Dim
from ..lower.types import Tensor
from .limits import MAX_NUMBERS

if TYPE_CHECKING:
    from ..constraints.constraints import ConstraintSystem
    from ..lower.lowered import Lowered


class GivenSizes:
    """Sizes of tensors at given input sizes, also at sizes that are not accepted."""

    def __init__(self, lowered: Lowered, system: ConstraintSystem) -> None:
        self.lowered, self._content = lowered, system.content
        self._sizes: dict[str, int] | None = None  # name whose sizes were computed last
        self._found: dict[str, int] = {}

    def text(self, tensor: str, sizes: Mapping[str, int]) -> str:
        """Text of a tensor at these sizes: ``name [2, 3]``, or ``name = [2, -1]`` for few numbers. Undetermined sizes
        are shown by name, or as ``?``.
        """
        shape = self.lowered.shapes.get(tensor)
        if shape is None:
            return tensor
        if sizes != self._sizes:
            self._sizes, self._found = dict(sizes), dict(sizes)
        held = self._held(tensor)
        if held:
            return f"{tensor} = {held}"
        known = self.lowered.inputs.get(tensor)
        own = known.shape if isinstance(known, Tensor) else None
        if own is not None and len(own) == len(shape):
            found = [self._at(d) for d in own]
        else:
            found = self._made(tensor, len(shape))
        return f"{tensor} [{', '.join(found)}]"

    def until(self, failing: Container[str], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the main graph's tensors that a run makes before it stops at one of the failing nodes."""
        graph = self.lowered.model.graph
        dead: set[str] = set()
        for node in graph.nodes:
            if node.label in failing or not dead.isdisjoint((*node.inputs, *node.captures)):
                dead.update(node.outputs)
        self._sizes, self._found = dict(sizes), dict(sizes)
        found = {}
        for name in (*self.lowered.inputs, *(n for node in graph.nodes for n in node.outputs)):
            shape = self.lowered.shapes.get(name)
            if shape is None or name in dead:
                continue
            known = self.lowered.inputs.get(name)
            own = known.shape if isinstance(known, Tensor) else None
            texts = self._made(name, len(shape)) if own is None else [self._at(d) for d in own]
            if all(text.isdigit() for text in texts):
                found[name] = tuple(map(int, texts))
        return found

    def _held(self, tensor: str) -> str:
        """Return the text of the elements of a small tensor; empty if not all are known."""
        known = self._content.walk.state.tensors.get(tensor)
        value = known.value if isinstance(known, Tensor) else None
        elems = () if value is None or value.elems is None else value.elems
        dims = [e for e in elems if isinstance(e, Dim)]
        if value is None or not dims or len(dims) < len(elems) or len(dims) > MAX_NUMBERS:
            return ""
        self._find(n for d in dims for n in sorted(d.free))
        sizes = [d.evaluate(self._found) for d in dims]
        if None in sizes:
            return ""
        return str(sizes if value.shape else sizes[0])

    def _made(self, tensor: str, rank: int) -> list[str]:
        """Return the sizes of a tensor as text, by definitions alone."""
        names = [self._content.walk.variable(tensor, axis).name or "" for axis in range(rank)]
        self._find(names)
        composed = self._content.composition.sizes if not self._found.keys() >= set(names) else {}
        return [
            str(self._found[name]) if name in self._found else self._at(composed.get(name)) for name in names
        ]

    def _at(self, dim: Dim | None) -> str:
        """A size as text at the given input sizes; "?" if it is not determined."""
        try:
            left = None if dim is None else dim.subs(self._sizes or {})
        except ZeroDivisionError:
            left = None
        return "?" if left is None or not left.free <= self.lowered.symbols.keys() else str(left)

    def _find(self, names: Iterable[str]) -> None:
        """Compute the values of these variables, those in their definitions first."""
        waiting, opened = list(names), set[str]()
        while waiting:
            name = waiting[-1]
            number = None if name in self._found else self._content.definitions.get(name)
            row = None if number is None else self._content.rows[number]
            if not isinstance(row, Definition):
                waiting.pop()
                continue
            needs = [n for n in row.dim.free | row.numbers.free if n not in self._found]
            if needs and name not in opened:
                opened.add(name)
                waiting += [n for n in sorted(needs) if n not in opened]
                continue
            waiting.pop()
            size = row.dim.evaluate(self._found)
            if size is not None and row.numbers.evaluate(self._found):
                self._found[name] = size
