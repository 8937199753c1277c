"""Operations and memory, computed node by node in execution order.

Two memory models are tracked. In the plain one, every output has a separate buffer, from the start of its node to the
end of its last consumer. In the other one, outputs share memory if their operator allows it (`Rule.work`): a view
shares its input's buffer, and an output may overwrite an input of the same number of bytes without later consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...expr import ZERO, Dim, Shape, ceil_div, constant, maximum
from ...lower.fallback import call_attributes
from ...lower.op import InvalidNode, Op
from ...lower.rule import Memory, Operations
from ...lower.types import Interner, Known, Tensor
from ...model import Graph, Node
from ...model.constant import element_bits
from .memory import NOTHING, Buffers, Largest, largest

if TYPE_CHECKING:
    from ...analysis import Analysis

Attributes = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Cost of one node, including its subgraphs or function body.

    Attributes:
        name: Name of the node in the analysis.
        macs, flops: Multiply-accumulates and floating-point operations; None if they are not counted.
        parameters, parameter_bytes: Number of stored elements that this node is the first to read, and their bytes.
        bytes: Bytes of its outputs.
        live: Bytes of all tensors held while it runs, each in a separate buffer.
        weight: Name of the first weight that it reads whose name has several parts.
    """

    name: str
    op_type: str
    macs: Dim | None
    flops: Dim | None
    parameters: int
    parameter_bytes: int
    bytes: Dim
    live: Largest
    weight: str = ""


@dataclass(frozen=True, slots=True)
class BodyCost:
    """Cost of a subgraph or function body: operations, and peak bytes with and without buffer reuse.

    Attributes:
        instead: Whether the body's outputs are the node's outputs; if not, the node's outputs exist in addition.
    """

    work: Operations | None
    plain: Largest = NOTHING
    reused: Largest = NOTHING
    instead: bool = True


class CostTracer:
    """Tracer of the cost of graphs and bodies of one analysis. Gaps are in `uncounted`, `unmeasured`, and `remarks`."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.walk, self.interner = analysis, analysis._solved.walk, Interner()
        self.lowered = analysis._solved.lowered
        self.uncounted: dict[str, str] = {}  # operator, by full name of the node
        self.unmeasured: dict[str, None] = {}  # tensors of unknown size in bytes
        self.remarks: dict[str, None] = {}
        self.weights: dict[str, tuple[int, int]] = {}  # elements and bytes, by name
        self.rows: list[NodeCost] = []
        self.strides = analysis._solved.simple_shapes.strides
        self._followed: set[str] = set()
        self._taken: set[str] = set()  # weights that a row already counts

    # ------------------------------------------------------------------ bodies

    def graph(self, graph: Graph, prefix: str, attrs: Attributes, *, own_inputs: bool) -> BodyCost:
        """Return the cost of a graph; with `own_inputs`, its inputs take memory in it."""
        for name, stored in graph.initializers.items():
            self._weigh(prefix + name, stored.numel, stored.dtype)
        given = [n for n, _ in graph.inputs if own_inputs and n not in graph.initializers]
        return self.body(graph.nodes, prefix, attrs, given, [n for n, _ in graph.outputs])

    def body(
        self, nodes: Sequence[Node], prefix: str, attrs: Attributes, given: Sequence[str], kept: Sequence[str]
    ) -> BodyCost:
        """Return the cost of nodes in order; tensors in `given` and `kept` are held to the end."""
        last = {name: i for i, node in enumerate(nodes) for name in node.outputs}
        for i, node in enumerate(nodes):
            last.update(dict.fromkeys((*node.inputs, *node.captures), i))
        last.update(dict.fromkeys((*given, *kept), len(nodes)))
        plain, reused = Buffers(last, given, shares=False), Buffers(last, given, shares=True)
        for name in given:
            size = self.bytes_of(prefix + name)
            for held in (plain, reused):
                held.take(name, size)
                held.note((ZERO,))
        work: Counter[Operations] = Counter()
        for i, node in enumerate(nodes):
            if node.is_constant:
                self._weigh_constant(node, prefix)
                continue
            done = self._node(node, prefix, attrs, i, plain, reused)
            if done is not None:
                work[done] += 1
        macs = [w.macs.scale(n) for w, n in work.items()]
        other = [w.other.scale(n) for w, n in work.items()]
        return BodyCost(Operations(summed(macs), summed(other)), largest(plain.peaks), largest(reused.peaks))

    def _node(
        self, node: Node, prefix: str, attrs: Attributes, at: int, plain: Buffers, reused: Buffers
    ) -> Operations | None:
        op, before = self._op(node, prefix, attrs), len(self.weights)
        inside = self._inside(op, prefix)
        memory: Memory = ""
        if inside is not None:
            work = inside.work
        else:
            work, memory = self._work(op, prefix)
        if work is None:
            self.uncounted[prefix + node.label] = node.op_type
        outputs = [(name, self.bytes_of(prefix + name)) for name in node.outputs if name]
        live: list[Dim] = []
        for held in (plain, reused):
            most = (ZERO,) if inside is None else (inside.plain if held is plain else inside.reused).of
            if inside is not None and inside.instead:
                held.note(most)
                live += [held.bytes + d for d in most] if held is plain else []
                most = (ZERO,)
            for k, (name, size) in enumerate(outputs):
                held.place(name, size, node, at, memory if not k and name == node.outputs[0] else "")
            held.note(most)
            live += [held.bytes + d for d in most] if held is plain else []
            held.give_back((*node.inputs, *node.captures, *node.outputs), at)
        if not prefix:
            read = [n for n in (*node.inputs, *node.captures) if n in self.weights]
            read += islice(self.weights, before, None)
            self._row(node, work, read, summed([size for _, size in outputs]), largest(live))
        return work

    # ------------------------------------------------------------------ what runs inside a node

    def _inside(self, op: Op, prefix: str) -> BodyCost | None:
        """Return the cost of a node's subgraphs or function, or None if it has none."""
        node = op.node
        inner = f"{prefix}{node.label}/"
        if not node.subgraphs:
            function = self.walk.model.functions.get((node.domain, node.op_type, node.overload))
            if function is None or op.rule is not None:
                return None
            if not self._first(inner):
                return BodyCost(None)
            try:
                attrs = call_attributes(op, function)
            except InvalidNode:
                return BodyCost(None)
            return self.body(function.nodes, inner, attrs, (), function.outputs)
        runs = "" if op.rule is None else op.rule.bodies
        if runs not in ("one", "trips") or not self._first(inner):
            return BodyCost(None)
        if runs == "one":
            return self._branches(op, inner)
        (name, graph), *_ = node.subgraphs
        body = self.graph(graph, f"{inner}{name}/", op.attrs, own_inputs=True)
        return self._repeated(op, prefix, body)

    def _branches(self, op: Op, inner: str) -> BodyCost:
        """Return the cost of an If: the larger figures of its branches."""
        lowered = [(n, g) for n, g in op.node.subgraphs if f"{inner}{n}/" in self.lowered.opsets]
        found = [self.graph(g, f"{inner}{n}/", op.attrs, own_inputs=False) for n, g in lowered]
        works = [b.work for b in found if b.work is not None]
        if not works:
            return BodyCost(None)
        if len(found) > 1:
            self.remarks["an If counts the larger figure of its branches"] = None
        work = Operations(maximum(*(w.macs for w in works)), maximum(*(w.other for w in works)))
        plain, reused = ([d for b in found for d in getattr(b, way).of] for way in ("plain", "reused"))
        return BodyCost(work, largest(plain), largest(reused))

    def _repeated(self, op: Op, prefix: str, body: BodyCost) -> BodyCost:
        """Return the cost of a loop: its body times the iteration count; the state is held twice."""
        trips, outside = self.lowered.trips.get(f"{prefix}{op.node.label}"), self._names(op, prefix)
        work = body.work
        if trips is None or work is None or not (work.macs.free | work.other.free) <= outside:
            work = None
        else:
            work = Operations(work.macs * trips, work.other * trips)
        if (body.plain.free | body.reused.free) <= outside:
            return BodyCost(work, body.plain, body.reused, instead=False)
        remark = f"memory inside {prefix}{op.node.label} varies between iterations and is left out"
        self.remarks[remark] = None
        return BodyCost(work, instead=False)

    def _names(self, op: Op, prefix: str) -> frozenset[str]:
        """Return symbols with a constant value while the node runs: symbols in the model's inputs and the node's inputs."""
        reads = (*op.inputs, *(self._known(n, prefix) for n in op.node.captures))
        return frozenset(self.analysis.symbols).union(*(k.free for k in reads if k is not None))

    def _first(self, inner: str) -> bool:
        """Return True at the first body with this scope name."""
        if inner in self._followed:
            return False
        self._followed.add(inner)
        return True

    # ------------------------------------------------------------------ one node

    def _known(self, name: str, prefix: str) -> Known | None:
        """Return the known value of a tensor by its name in a scope."""
        return self._tensor(self.lowered.outer(self.lowered.full_name(name, prefix))) if name else None

    def _tensor(self, full: str) -> Known | None:
        """Return the known value of a tensor, with its shape in canonical form."""
        known = self.lowered.tensors.get(full)
        known = None if known is None else self.walk.current(known)
        if not isinstance(known, Tensor) or full not in self.analysis.shapes:
            return known
        shape = Shape(map(self.strides.inward, self.analysis._solved.simple_shapes[full]))
        return self.interner.tensor(known.dtype, shape, known.value)

    def _op(self, node: Node, prefix: str, attrs: Attributes) -> Op:
        opsets = self.lowered.opsets.get(prefix, self.walk.model.opsets)
        inputs = tuple(self._known(name, prefix) for name in node.inputs)
        return Op(
            self.walk, node, inputs, opsets.get(node.domain, 1), attrs, self.walk.operators.rule(node, opsets)
        )

    def _work(self, op: Op, prefix: str) -> tuple[Operations | None, Memory]:
        declared = op.rule.work if op.rule is not None else None
        if declared is None:
            return None, ""
        known = [self._known(name, prefix) for name in op.node.outputs]
        try:
            work = declared.count(op, [k.shape if isinstance(k, Tensor) else None for k in known])
        except (InvalidNode, ValueError, ZeroDivisionError):  # the node cannot run
            work = None
        return work, declared.memory

    def bytes_of(self, full: str) -> Dim:
        """Return the bytes of a tensor, or 0 with a note if unknown."""
        known = self._tensor(full)
        bits = element_bits(known.dtype) if isinstance(known, Tensor) else None
        if bits is None or not isinstance(known, Tensor) or known.shape is None:
            self.unmeasured[full] = None
            return ZERO
        n = known.shape.numel
        return n.scale(bits // 8) if bits % 8 == 0 else ceil_div(n.scale(bits), constant(8))

    # ------------------------------------------------------------------ weights

    def _weigh(self, full: str, numel: int, dtype: int) -> None:
        bits = element_bits(dtype)
        if bits is None:
            self.unmeasured[full] = None
        self.weights[full] = numel, -(-numel * (bits or 0) // 8)

    def _weigh_constant(self, node: Node, prefix: str) -> None:
        """Count the output of a Constant as a weight."""
        for name in node.outputs:
            known = self._known(name, prefix)
            if isinstance(known, Tensor) and known.shape is not None and known.shape.numel.value is not None:
                # a function's constants are stored only once, however often it is called
                self._weigh(f"{prefix and id(node)}{name}", known.shape.numel.const, known.dtype)

    def shown(self, most: Largest) -> Largest:
        """Return the maximum with its dims in the form to print."""
        return Largest(tuple(map(self.strides.outward, most.of)))

    def _row(
        self, node: Node, work: Operations | None, read: Sequence[str], size: Dim, live: Largest
    ) -> None:
        first = [n for n in dict.fromkeys(read) if n not in self._taken]
        self._taken.update(first)
        self.rows.append(
            NodeCost(
                node.label,
                node.op_type,
                None if work is None else self.strides.outward(work.macs),
                None if work is None else self.strides.outward(work.flops),
                sum(self.weights[n][0] for n in first),
                sum(self.weights[n][1] for n in first),
                self.strides.outward(size),
                self.shown(live),
                next((n for n in read if "." in n), ""),
            )
        )


def summed(dims: Sequence[Dim]) -> Dim:
    """Return the sum of many dims, with equal ones grouped."""
    result = ZERO
    for d, n in Counter(dims).items():
        result = result + d.scale(n)
    return result
