# compiled: see CONTRIBUTING.md
"""Requirements of wrong declared shapes, by which onnxruntime lets tensors share memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from ..expr import Cond, Dim, Shape, ge
from ..model import Graph, Node
from .scopes import Scopes
from .types import OPEN, Known, Tensor

#: bytes per element and dims; onnxruntime's memory planner assumes that tensors with equal plans have equal sizes
_Plan = tuple[int, tuple[Dim, ...]]


def require_shared_memory(walk: Scopes, graph: Graph) -> None:
    """Require that a main graph tensor fits into a buffer that it reuses because of equal declared shapes.

    onnxruntime plans memory by the names of dims, and a run fails if the buffer turns out to be too small:
    https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/framework/allocation_planner.cc
    """
    pinned = {*graph.initializers, *(n for n, _ in graph.inputs), *(n for n, _ in graph.outputs)}
    pinned.update(n for node in graph.nodes if node.is_constant for n in node.outputs)
    nodes = in_execution_order(graph)
    last = {n: i for i, node in enumerate(nodes) for n in (*node.inputs, *node.captures)}
    plans = dict[str, _Plan | None]()
    buffers = dict[str, str]()  # the tensor that a buffer was allocated for, by tensor
    until = dict.fromkeys(pinned, len(nodes))  # last node that reads a buffer
    free = dict[_Plan, list[str]]()
    seen = set[Cond]()
    for i, node in enumerate(nodes):
        rule = walk.operators.rule(node, walk.scope.opsets)
        memory = "" if rule is None or rule.work is None else rule.work.memory
        for name in filter(None, node.outputs):
            plan = plans[name] = _plan(walk, node, name, plans)
            sources = [buffers.get(n, n) for n in node.inputs if n and node.inputs.count(n) == 1]
            if memory == "over":
                sources = [
                    b for b in sources if until.get(b) == i and plan is not None and plans.get(b) == plan
                ]
            owner = sources[0] if memory and sources else name
            if owner == name and name not in pinned and plan is not None and free.get(plan):
                owner = free[plan].pop()
                cond = ge(_numel(walk, owner), _numel(walk, name))
                is_new = cond not in seen
                seen.add(cond)
                if is_new and _may_fail(walk, cond):
                    why = f"{name} reuses the memory of {owner}, declared with the same shape"
                    walk.require(cond, why, (), node, walk.scope)
                    walk.note("memory", f"{why} but smaller", node, walk.scope)
            buffers[name] = owner
            until[owner] = max(until.get(owner, i), last.get(name, i), until.get(name, i))
        for name in dict.fromkeys((*node.inputs, *node.captures, *node.outputs)):
            owner = buffers.get(name, "")
            done = plans.get(owner)
            if done is not None and until[owner] == i:
                until[owner] = -1
                free.setdefault(done, []).append(owner)


def _may_fail(walk: Scopes, cond: Cond) -> bool:
    """Return True if the condition fails at some sizes that no other condition rejects."""
    if walk.facts.decide(cond) is True:
        return False
    entries = (e for e in walk.state.log if e.role in ("requirement", "user") and e.guard.is_true)
    asked = dict.fromkeys(e.cond for e in entries)
    names = sorted(cond.free.union(*(c.free for c in asked)))
    points = [
        {n: first + step * i for i, n in enumerate(names)} for first in range(1, 33) for step in (0, 1, 32)
    ]
    failing = [at for at in points if cond.evaluate(at) is False]
    return any(all(c.evaluate(at) is not False for c in asked) for at in failing)


def in_execution_order(graph: Graph) -> list[Node]:
    """Return the nodes as onnxruntime orders them: depth first from the outputs, later nodes first.

    https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/graph/graph.cc, `ReverseDFSFrom`
    """
    nodes, makers = graph.nodes, {n: i for i, node in enumerate(graph.nodes) for n in node.outputs if n}
    sources = [sorted({makers[n] for n in (*node.inputs, *node.captures) if n in makers}) for node in nodes]
    read = {i for found in sources for i in found}
    stack = [(i, False) for i in range(len(nodes)) if i not in read]
    order, seen = list[Node](), set[int]()
    while stack:
        i, is_done = stack.pop()
        if is_done:
            order.append(nodes[i])
        elif i not in seen:
            seen.add(i)
            stack.append((i, True))
            stack += [(k, False) for k in sources[i] if k not in seen]
    return order


def _plan(walk: Scopes, node: Node, name: str, plans: Mapping[str, _Plan | None]) -> _Plan | None:
    """Return what the planner knows of an output; None if it does not know all dims."""
    known, stated = walk.state.tensors.get(name), walk.scope.declared.get(name)
    if not isinstance(known, Tensor) or known.shape is None or known.dtype in (0, onnx.TensorProto.STRING):
        return None
    declared = tuple((stated.shape if isinstance(stated, Tensor) else None) or ())
    if len(declared) != len(known.shape):
        declared = (OPEN,) * len(known.shape)
    of_inputs = {d for n in node.inputs if (plan := plans.get(n)) is not None for d in plan[1]}
    of_inputs.update(
        d for n in node.inputs if n in walk.state.named_inputs for d in _dims(walk.state.tensors.get(n))
    )
    dims = tuple([d if not d.terms or s is OPEN else s for d, s in zip(known.shape, declared, strict=True)])
    if any(d.terms and s is OPEN and d not in of_inputs for d, s in zip(dims, declared, strict=True)):
        return None
    return int(onnx.helper.tensor_dtype_to_np_dtype(known.dtype).itemsize), dims


def _dims(known: Known | None) -> Iterable[Dim]:
    return known.shape or () if isinstance(known, Tensor) else ()


def _numel(walk: Scopes, name: str) -> Dim:
    return Shape(_dims(walk.state.tensors.get(name))).numel
