"""Draws a whole model: declared inputs with shared, fixed, expression and unnamed dims, and a graph of random kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from random import Random

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .builder import FLOAT, INT, Builder, type_of, untyped
from .kinds.control import steps
from .runtime import Array, Data

#: a declared dim: a number, a name, a sum or product of names and numbers, or nothing
Declared = int | str | None
NAMES = ("N", "M", "seq", "H", "batch", "past_len")
#: names that look like others: an expression, names that an analysis could make up itself
ODD_NAMES = ("batch-size", "x0_d0", "_d0", "_1", "_e0", "_v0", "N.1", "max", "1st")
#: how a size is called here that the model does not name
UNNAMED = "?"
OPSETS = range(11, 25)
_REALS = np.random.default_rng(7).integers(0, 5, 4096).astype(np.float32)


def size_of(declared: str | int, sizes: Mapping[str, int]) -> int:
    """The size that a declared dim has: a number, a name, or a sum of products of both, maybe divided by a number."""
    if isinstance(declared, int):
        return declared
    if declared in sizes:
        return sizes[declared]
    above, _, below = declared.replace(" ", "").partition("//")
    terms = above.strip("()").replace("-", "+-").split("+")
    total = sum(prod(sizes[f] if f in sizes else int(f) for f in term.split("*")) for term in terms)
    return total // int(below or 1)


@dataclass(frozen=True)
class Drawn:
    """A model that gives out all of its tensors, the sizes that it was made at, and what its inputs declare."""

    model: onnx.ModelProto
    sizes: dict[str, int]
    #: per input its dims; an unnamed dim has a name here, which the model does not know
    declared: dict[str, tuple[str | int, ...]]
    #: inputs that have a default, and what may be given instead
    defaults: dict[str, Array] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Of the sizes that may be chosen."""
        return list(self.sizes)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs at these sizes."""
        return {n: tuple(size_of(d, sizes) for d in dims) for n, dims in self.declared.items()}

    def bindings(self, random: Random, count: int = 5) -> list[dict[str, int]]:
        """Sizes to try: those that it was made at, all 0, all 1, one changed, random ones."""
        tried = [dict(self.sizes)]
        for _ in range(3 * count):
            draw = random.randrange(6)
            if draw == 0:
                new = dict.fromkeys(self.sizes, random.choice((0, 1, 1, 2)))
            elif draw < 4 and self.sizes:
                name = random.choice(self.names)
                new = {**self.sizes, name: random.choice((0, 1, 2, 3, 5, 7, self.sizes[name] * 2))}
            else:
                new = {n: random.randint(0, 8) for n in self.sizes}
            if new not in tried and min(chain([0], *self.shapes(new).values())) >= 0:
                tried.append(new)
            if len(tried) >= count:
                break
        return tried


def array_of(shape: tuple[int, ...], kind: int) -> Array:
    """Input data of a shape, the same each time."""
    n = int(np.prod(shape))
    return np.resize(_REALS, n).reshape(shape).astype(helper.tensor_dtype_to_np_dtype(kind))


def feeds_of(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Data]:
    """Data for every input that has no default."""
    stored = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in stored]
    return {i.name: array_of(shapes[i.name], i.type.tensor_type.elem_type) for i in inputs}


def _dim(random: Random, sizes: dict[str, int], free: bool) -> tuple[Declared, str | int]:
    """A dim as the model declares it, and as `Drawn` knows it."""
    draw = random.random()
    name = random.choice([n for n in sizes if not n.startswith(UNNAMED)])
    if draw < 0.62 or name in ODD_NAMES:
        return name, name
    if draw < 0.85:
        number = random.choice((1, 2, 2, 3, 4, 6, 8))
        return number, number
    if draw < 0.95 or not free:
        other = random.choice([n for n in sizes if n in NAMES] or [name])
        text = random.choice(
            (
                f"2*{name}",
                f"{name} + {other}",
                f"{name} + 1",
                f"{name}*{other}",
                f"({name} + 1)//2",
                f"{name} - 1",
            )
        )
        return text, text
    unnamed = f"{UNNAMED}{len(sizes)}"
    sizes[unnamed] = random.choice((1, 2, 3, 4))
    return None, unnamed


def drawn_model(seed: int, only: frozenset[str] | None = None) -> Drawn:
    """A model, the same for the same seed and the same onnxruntime; of all kinds of operators, or of these only."""
    random = Random(seed)
    opset = random.choice(OPSETS)
    sizes = {
        n: random.choice((1, 2, 2, 3, 4, 4, 5, 6, 8)) for n in random.sample(NAMES, random.randint(1, 3))
    }
    if random.random() < 0.08:
        sizes[random.choice(ODD_NAMES)] = random.choice((1, 2, 3, 4))
    builder = Builder(random, opset)
    builder.only = only
    declared, inputs = {}, []
    for i in range(random.choice((1, 2, 2, 3))):
        name = f"x{i}"
        pairs = [_dim(random, sizes, True) for _ in range(random.choice((1, 2, 2, 3, 3, 4, 4, 5)))]
        declared[name] = tuple(known for _, known in pairs)
        dtype = INT if random.random() < 0.07 else FLOAT
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        builder.data[name] = array_of(tuple(size_of(k, sizes) for k in declared[name]), kind)
        builder.free.append(name)
        dims = [d for d, _ in pairs]
        inputs.append(helper.make_value_info(name, type_of(builder.data[name], dims)))
    steps(builder, random.choice((2, 4, 6, 9, 14)))
    if not builder.nodes:  # onnxruntime loads no graph without any; the input may be too large to be copied
        builder.add("Shape", ["x0"])
    outputs = [untyped(o) for node in builder.nodes for o in node.output if o]
    stored = [numpy_helper.from_array(a, n) for n, a in builder.stored.items()]
    defaults = _defaults(random, builder) if random.random() < 0.15 else {}
    inputs += [helper.make_value_info(n, type_of(a, _declared(random, a))) for n, a in defaults.items()]
    graph = helper.make_graph(builder.nodes, "drawn", inputs, outputs, stored)
    return Drawn(builder.model_of(graph), sizes, declared, defaults)


def _declared(random: Random, data: Array) -> list[int | None]:
    return [None if random.random() < 0.2 else d for d in data.shape]


def _defaults(random: Random, builder: Builder) -> dict[str, Array]:
    """Some stored tensors that may be given as inputs, and what is given: the same shape, other elements."""
    names = random.sample(list(builder.stored), min(len(builder.stored), random.choice((1, 2))))
    return {
        n: np.roll(a, 1) + random.choice((0, 1))
        for n in names
        if (a := builder.stored[n]).dtype in (FLOAT, INT)
    }
