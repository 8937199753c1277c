"""Enumerates small edits of an ONNX model that may undo an export error.

Candidates are found among the nodes that a failing node depends on: an attribute (a permutation, an axis, an element
type),
an element of a stored shape or bound, a size of a weight, the order of two operands, an extra or a missing axis. The
new
number is not guessed: it becomes a symbol, and the constraints of the lowered model determine it (`repair`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import onnx

from ..expr import Dim, constant
from ..lines import join_names
from ..lower.request import OtherShape
from ..lower.types import Tensor
from ..model import Model, Node
from .limits import MAX_CONE, MAX_NUMBERS, MAX_RANK

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.values import Elem

#: Elements of a stored shape that are not sizes: computed (-1), copied (0), or trivial (1).
_IDLE = frozenset((-1, 0, 1))

#: element types that ONNX defines
_TYPES = frozenset(onnx.TensorProto.DataType.values())

Stored = Mapping[str, "tuple[Elem, ...] | OtherShape"]


@dataclass(frozen=True)
class Edit:
    """Small change of a model: replaced nodes, or new elements or shapes for initializers.

    Attributes:
        subject: The node or the tensors that change.
        parts: What to do, as one imperative, split around the number if it is a symbol.
        cost: 1 for a changed value, 2 for an added Transpose, 3 for an added axis.
        node: The node of the main graph that `nodes` replace, if any.
        stored: New elements or new shapes of initializers.
        is_of_type: True if an element type changes.
        computed: The tensor with the symbolic element as a size, if its consumer computes that size for a -1.
    """

    subject: str
    parts: tuple[str, ...]
    cost: int = 1
    node: Node | None = None
    nodes: tuple[onnx.NodeProto, ...] = ()
    stored: Stored = field(default_factory=dict)
    computed: str = ""
    is_of_type: bool = False

    def text(self, freed: object = "") -> str:
        """Imperative sentence for the edit, with the symbolic number's value."""
        return str(freed).join(self.parts)

    @property
    def is_open(self) -> bool:
        """True if the edit replaces a number by a free symbol, whose value the constraints determine."""
        freed = (now.dims if isinstance(now, OtherShape) else now for now in self.stored.values())
        return bool(self.computed) or any(None in now for now in freed)

    def applied(self, model: Model) -> Model:
        """Return the model with the edit's nodes; stored tensors are replaced through the `Request`."""
        if self.node is None:
            return model
        graph = model.graph
        at = graph.nodes.index(self.node)
        nodes = (*graph.nodes[:at], *map(_read, self.nodes), *graph.nodes[at + 1 :])
        return replace(model, graph=replace(graph, nodes=nodes))


def edits(node: Node, lowered: Lowered, *, by_itself: bool = False) -> Iterator[Edit]:
    """Yield edits of a failing node of the main graph and of the nodes that it depends on, nearest first.

    `by_itself`: The node fails because of its rank or attributes, not because of mismatched sizes.
    """
    graph = lowered.model.graph
    own = {id(n) for n in graph.nodes}
    read = [lowered.dtypes[n] for n in node.inputs if lowered.dtypes.get(n)]
    yield from _at_node(node, lowered, read)
    yield from _insertions(node, lowered, by_itself)
    count = 0
    for other in _cone(node, lowered):
        found = list(_at_node(other, lowered, read)) if id(other) in own else []
        count += bool(found)
        if count > MAX_CONE:
            break
        yield from found


def _cone(node: Node, lowered: Lowered) -> Iterator[Node]:
    """Yield the nodes from which a node's inputs are computed, nearest first."""
    for name in lowered.behind(*filter(None, node.inputs), sizes=True):
        made, prefix = lowered.producers.get(name, (None, ""))
        if made is not None and not prefix and not made.is_constant:
            yield made


def _at_node(node: Node, lowered: Lowered, types: Sequence[int]) -> Iterator[Edit]:
    if not node.subgraphs:  # a changed node is parsed again, without its subgraphs
        yield from _attributes(node, lowered, types)
        yield from _operands(node, lowered)
    yield from _elements(node, lowered)
    yield from _sizes(node, lowered)


def _attributes(node: Node, lowered: Lowered, types: Sequence[int]) -> Iterator[Edit]:
    """Edits of attributes: another axis order, another axis, another element type, or a flag inverted."""
    found = node.attributes
    perm, axis, to = found.get("perm"), found.get("axis"), found.get("to")
    if isinstance(perm, tuple) and 1 < len(perm) <= MAX_RANK:
        for i, j in combinations(range(len(perm)), 2):
            other = list(perm)
            other[i], other[j] = other[j], other[i]
            yield _with(node, "perm", other, f"perm = {other} (now {list(perm)})")
    if isinstance(axis, int):
        rank = _rank(node, lowered)
        alike = (n.attributes.get("axis") for n in lowered.model.graph.nodes if n.op_type == node.op_type)
        used = set(alike)
        for k in range(rank):
            if k not in (axis, axis + rank):
                k -= rank if k - rank in used and k not in used else 0  # as other nodes count it
                yield _with(node, "axis", k, f"axis = {k} (now {axis})")
    if isinstance(to, int) and to in _TYPES:
        for kind in dict.fromkeys((*types, *_types_around(node, lowered))):
            if kind != to and kind in _TYPES:
                yield _with(node, "to", kind, f"to = {_type_text(kind)} (now {_type_text(to)})")
    if isinstance(found.get("group", 1), int) and _has_attribute(node, "group"):
        now = found.get("group", 1)
        sizes = (d.const for n in node.inputs for d in lowered.shapes.get(n) or () if not d.terms)
        for count in sorted({1, *sizes} - {0, now}):
            yield _with(node, "group", count, f"group = {count} (now {now})")
    for name in ("transA", "transB"):
        if isinstance(found.get(name, 0), int) and _has_attribute(node, name):
            now = int(found.get(name, 0))
            yield _with(node, name, 1 - now, f"{name} = {1 - now} (now {now})")


def _operands(node: Node, lowered: Lowered) -> Iterator[Edit]:
    """Edit that swaps the first two operands of a product."""
    rule = lowered.rule(node, "")
    if rule is not None and rule.advice == "product" and len(node.inputs) == 2:
        proto = _copy(node)
        proto.input[:] = proto.input[::-1]
        a, b = node.inputs
        yield Edit(
            node.label,
            (f"swap the inputs of {node.label} to compute {b} times {a}",),
            1,
            node,
            (proto,),
        )


def _elements(node: Node, lowered: Lowered) -> Iterator[Edit]:
    """Edits of stored tensors read as data: one element freed, or neighbouring elements swapped."""
    for i in lowered.data_inputs(node, ""):
        name = node.inputs[i] if i < len(node.inputs) else ""
        value = lowered.values.get(name) if name and lowered.is_stored(name) else None
        held = None if value is None else value.elems
        if not held or len(held) > MAX_NUMBERS or not all(isinstance(e, Dim) and not e.terms for e in held):
            continue
        numbers = [e.const for e in held if isinstance(e, Dim)]
        rule = lowered.rule(node, "")
        computes = rule is not None and rule.advice == "target" and -1 not in numbers
        rank = len(lowered.shapes.get(node.inputs[0], ())) if computes else 0
        for k, n in enumerate(numbers):
            before, after = (", ".join(map(str, part)) for part in (numbers[:k], numbers[k + 1 :]))
            start, end = (
                f"change {name} from {numbers} to [{before}{', ' * bool(before)}",
                f"{', ' * bool(after)}{after}]",
            )
            if n not in _IDLE:
                freed = (*held[:k], constant(-1) if computes else None, *held[k + 1 :])
                yield Edit(
                    name, (start, end), stored={name: freed}, computed=node.outputs[0] if computes else ""
                )
            elif computes and not n and k >= rank:  # it copies a missing axis
                yield Edit(
                    name, (f"{start}-1{end}",), stored={name: (*held[:k], constant(-1), *held[k + 1 :])}
                )
        for k in range(len(numbers) - 1):
            if numbers[k] != numbers[k + 1]:
                moved = (*held[:k], held[k + 1], held[k], *held[k + 2 :])
                other = [e.const for e in moved if isinstance(e, Dim)]
                if not (rule is not None and rule.advice == "target" and _turns(node, other, lowered)):
                    yield Edit(name, (f"change {name} from {numbers} to {other}",), stored={name: moved})


def _turns(node: Node, target: Sequence[int], lowered: Lowered) -> bool:
    """Return True if a Reshape to `target` would put sizes of its input in another order, which transposes no data."""
    given = lowered.shapes.get(node.inputs[0])
    if given is None:
        return False
    made = [given[k] if n == 0 and k < len(given) else constant(n) for k, n in enumerate(target)]
    kept = [d for d in made if d in given and d != constant(1)]
    order = [given.index(d) for d in kept]
    return order != sorted(order)


def _sizes(node: Node, lowered: Lowered) -> Iterator[Edit]:
    """Yield shape edits of stored operands: last two axes swapped, or one size made symbolic.

    Tensors with the same shape are also changed together.
    """
    data = lowered.data_inputs(node, "")
    alike: dict[tuple[int, ...], list[str]] = {}
    for i, name in enumerate(node.inputs):
        shape = lowered.shapes.get(name) if name and i not in data and lowered.is_stored(name) else None
        if shape is not None and 0 < len(shape) <= MAX_RANK:
            alike.setdefault(tuple([d.const for d in shape]), []).append(name)
    for dims, names in alike.items():
        for together in (*([n] for n in names), *([names] if len(names) > 1 else ())):
            if len(dims) > 1 and dims[-2] != dims[-1]:
                swapped = (*dims[:-2], dims[-1], dims[-2])
                text = f"change the shape of {join_names(together)} from {list(dims)} to {list(swapped)}"
                yield Edit(join_names(together), (text,), stored=dict.fromkeys(together, OtherShape(swapped)))
            for axis in range(len(dims)):
                freed = OtherShape((*dims[:axis], None, *dims[axis + 1 :]))
                before, after = (", ".join(map(str, part)) for part in (dims[:axis], dims[axis + 1 :]))
                parts = (
                    f"change the shape of {join_names(together)} from {list(dims)} to [{before}{', ' * bool(before)}",
                    f"{', ' * bool(after)}{after}]",
                )
                yield Edit(join_names(together), parts, stored=dict.fromkeys(together, freed))


def _insertions(node: Node, lowered: Lowered, by_itself: bool) -> Iterator[Edit]:
    """Edits that insert an Unsqueeze or a Transpose before a node with several operands or another rank."""
    ranks = {n: len(lowered.shapes[n]) for n in node.inputs if n in lowered.shapes}
    data = {node.inputs[i] for i in lowered.data_inputs(node, "") if i < len(node.inputs)}
    most, alone = max(ranks.values(), default=0), len(ranks.keys() - data) < 2
    if node.subgraphs or (alone and not by_itself):
        return
    for name, rank in reversed(ranks.items()):
        if name in data or lowered.is_stored(name):
            continue
        for order in _orders(rank) if not alone else ():
            yield _between(node, name, lowered, f"a Transpose (perm = {order})", perm=order)
        for axis in range(rank + 1) if by_itself or rank < most else ():
            yield _between(node, name, lowered, f"an Unsqueeze (axes = [{axis}])", axes=axis)


def _orders(rank: int) -> Iterator[list[int]]:
    """Axis permutations that exports get wrong: channels first or last, and swapped axes."""
    if not 1 < rank <= MAX_RANK:
        return
    if rank > 3:
        yield [0, rank - 1, *range(1, rank - 1)]
        yield [0, *range(2, rank), 1]
    for i, j in combinations(range(rank), 2):
        order = list(range(rank))
        order[i], order[j] = order[j], order[i]
        yield order


def _between(
    node: Node, name: str, lowered: Lowered, text: str, axes: int | None = None, perm: Sequence[int] = ()
) -> Edit:
    """Edit that inserts a node between a tensor and the failing node."""
    graph = lowered.model.graph
    taken = {n for other in graph.nodes for n in (*other.inputs, *other.outputs)} | graph.initializers.keys()
    result = f"{name}_changed"
    while result in taken or f"{result}_axes" in taken:
        result += "_"
    made: list[onnx.NodeProto] = []
    if axes is None:
        made.append(_made("Transpose", [name], result, perm=perm))
    elif lowered.model.opsets.get("", 1) < 13:  # axes as an attribute
        made.append(_made("Unsqueeze", [name], result, axes=[axes]))
    else:
        made.append(_made("Constant", [], f"{result}_axes", value_ints=[axes]))
        made.append(_made("Unsqueeze", [name, f"{result}_axes"], result))
    proto = _copy(node)
    proto.input[:] = [result if n == name else n for n in proto.input]
    text = f"insert {text} between {name} and {node.label}"
    return Edit(name, (text,), 2 if axes is None else 3, node, (*made, proto))


def _made(op_type: str, inputs: Sequence[str], output: str, **lists: Sequence[int]) -> onnx.NodeProto:
    """A node with lists of integers as attributes, made without `onnx.helper`, which loads numpy."""
    attributes = [_attribute(name, value) for name, value in lists.items()]
    return onnx.NodeProto(op_type=op_type, input=inputs, output=[output], attribute=attributes)


def _attribute(name: str, value: int | Sequence[int]) -> onnx.AttributeProto:
    if isinstance(value, int):
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INT, i=value)
    return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS, ints=value)


def _with(node: Node, name: str, value: int | Sequence[int], text: str) -> Edit:
    proto = _copy(node)
    kept = [a for a in proto.attribute if a.name != name]
    del proto.attribute[:]
    proto.attribute.extend([*kept, _attribute(name, value)])
    is_of_type = name == "to"
    value_text, _, now = text.partition(" (now")
    return Edit(
        node.label, (f"set {value_text} on {node.label} (now{now}",), 1, node, (proto,), is_of_type=is_of_type
    )


def _copy(node: Node) -> onnx.NodeProto:
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    return proto


def _read(proto: onnx.NodeProto) -> Node:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    names = tuple(proto.input), tuple(proto.output)
    return Node([proto], proto.op_type, domain, proto.overload, proto.name, *names, 0, None)


def _rank(node: Node, lowered: Lowered) -> int:
    shapes = [lowered.shapes[n] for n in node.inputs if n in lowered.shapes]
    return min(max((len(s) for s in shapes), default=0), MAX_RANK)


def _types_around(node: Node, lowered: Lowered) -> Iterator[int]:
    """Return element types to try: types of the consumers' other operands, then of the node's inputs."""
    made = set(node.outputs)
    for other in lowered.model.graph.nodes:
        if not made.isdisjoint(other.inputs):
            yield from (lowered.dtypes[n] for n in other.inputs if n not in made and lowered.dtypes.get(n))
    yield from (lowered.dtypes[n] for n in node.inputs if lowered.dtypes.get(n))
    yield from (k.dtype for k in lowered.inputs.values() if isinstance(k, Tensor) and k.dtype)
    yield from (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64)


def _type_text(kind: int) -> str:
    return str(onnx.TensorProto.DataType.Name(kind)).lower()


def _has_attribute(node: Node, name: str) -> bool:
    """Return True if the operator's schema has the attribute."""
    try:
        return name in onnx.defs.get_schema(node.op_type, domain=node.domain).attributes
    except onnx.defs.SchemaError:
        return False


__all__ = ["Edit", "edits"]
