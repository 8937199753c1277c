"""The sizes that tensors have at given sizes of the inputs, by what nodes make of them alone.

`Lowered.shapes` is read through what nodes require: where sizes break a requirement, what it says there is not what a node
gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..expr import Dim
from ..lower.types import Tensor

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..system.constraints import ConstraintSystem


class GivenSizes:
    """The rows of the system are made when a tensor is asked for that is no input."""

    def __init__(self, lowered: Lowered, system: ConstraintSystem) -> None:
        self.lowered, self._content = lowered, system.content

    def text(self, tensor: str, sizes: Mapping[str, int]) -> str:
        """``name [2, 3]``; a size that these sizes do not decide is written as what it is known as."""
        shape = self.lowered.shapes.get(tensor)
        if shape is None:
            return tensor
        known = self.lowered.inputs.get(tensor)
        own = known.shape if isinstance(known, Tensor) else None
        told = []
        for axis, dim in enumerate(shape):
            made = own[axis] if own is not None and len(own) == len(shape) else self._made(tensor, axis)
            size = None if made is None else made.evaluate(sizes)
            told.append(str(dim if size is None else size))
        return f"{tensor} [{', '.join(told)}]"

    def _made(self, tensor: str, axis: int) -> Dim | None:
        """The size over those of the inputs, by definitions alone."""
        name = self._content.walk.variable(tensor, axis).name
        return self._content.composition.sizes.get(name or "")
