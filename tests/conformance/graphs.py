"""Random graphs of operators whose shapes interact: broadcasts, joins, reshapes, pools, shape arithmetic."""

from __future__ import annotations

from random import Random

import onnx
from onnx import TensorProto, helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


class Maker:
    """Adds nodes that fit in rank and type; whether their sizes fit is for the analysis to find out."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.ranks: dict[str, int] = {}

    def add(self, op_type: str, inputs: list[str], rank: int | None, **attributes: object) -> str:
        """A node with one output; tensors of rank None are not used further."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        if rank is not None:
            self.ranks[name] = rank
        return name

    def ints(self, values: list[int]) -> str:
        """A stored vector."""
        name = f"c{len(self.stored)}"
        self.stored.append(helper.make_tensor(name, INT, [len(values)], values))
        return name

    def weight(self, dims: list[int]) -> str:
        """A stored tensor of zeros."""
        name = f"w{len(self.stored)}"
        size = 1
        for d in dims:
            size *= d
        self.stored.append(helper.make_tensor(name, FLOAT, dims, [0.0] * size))
        return name

    def pick(self, rank: int | None = None) -> str | None:
        """A tensor, of some rank if that matters."""
        found = [n for n, r in self.ranks.items() if rank is None or r == rank]
        return self.random.choice(found) if found else None

    def size_of(self, tensor: str, axis: int) -> str:
        """One size of a tensor as a vector of one element."""
        shape = self.add("Shape", [tensor], None)
        return self.add("Gather", [shape, self.ints([axis])], None, axis=0)

    def step(self) -> None:
        """One random operator."""
        r = self.random
        x = self.pick()
        assert x is not None
        rank = self.ranks[x]
        kind = r.randrange(9)
        y = self.pick(rank)
        if kind <= 1 and y is not None:
            self.add(r.choice(("Add", "Mul")), [x, y], rank)
        elif kind == 2 and y is not None:
            self.add("Concat", [x, y], rank, axis=r.randrange(rank))
        elif kind == 3 and rank >= 2 and y is not None:
            self.add("MatMul", [x, y], rank)
        elif kind == 4:
            start, end = sorted(r.sample(range(-3, 6), 2))
            limits = [self.ints([v]) for v in (start, end, r.randrange(rank))]
            self.add("Slice", [x, *limits], rank)
        elif kind == 5 and rank == 4:
            k, s = r.choice((2, 3)), r.choice((1, 2))
            self.add("MaxPool", [x], 4, kernel_shape=[k, k], strides=[s, s], pads=[k // 2] * 4)
        elif kind == 6 and rank == 4:
            self.add("Conv", [x, self.weight([2, 2, 3, 3])], 4, strides=[2, 2])
        elif kind == 7:
            target = [self.size_of(x, 0), self.ints([r.choice((-1, 2, 4))])]
            self.add("Reshape", [x, self.add("Concat", target, None, axis=0)], 2)
        else:
            order = list(range(rank))
            r.shuffle(order)
            self.add("Transpose", [x], rank, perm=order)


def random_model(seed: int) -> onnx.ModelProto:
    """A model of three inputs and a few nodes; the same for the same seed."""
    maker = Maker(seed)
    inputs = []
    for i, rank in enumerate((2, 2, 4)):
        dims = [maker.random.choice(("a", "b", "c", 2, 4, 1)) for _ in range(rank)]
        inputs.append(helper.make_tensor_value_info(f"x{i}", FLOAT, dims))
        maker.ranks[f"x{i}"] = rank
    for _ in range(maker.random.randint(3, 9)):
        maker.step()
    last = [n for n in maker.ranks if n.startswith("t")][-1:]
    outputs = [helper.make_tensor_value_info(n, FLOAT, None) for n in last]
    graph = helper.make_graph(maker.nodes, "random", inputs, outputs, maker.stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
