"""Makes a failing model small: independent passes, each with candidates that are a little smaller, to a fixed point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
from onnx import helper

from .builder import captured, untyped
from .model import Drawn, feeds_of, size_of
from .runtime import Failed, Session

#: what nodes are in, besides the graph
Body = onnx.GraphProto | onnx.FunctionProto
#: candidates of one step, smallest first
Pass = Callable[[Drawn], Iterator[Drawn]]


def _with(
    drawn: Drawn, nodes: list[onnx.NodeProto], declared: Mapping[str, tuple[str | int, ...]] | None = None
) -> Drawn:
    """The same model with other nodes; what nothing uses any more is left out."""
    declared = dict(declared or drawn.declared)
    used = {n for node in nodes for n in [*node.input, *captured(node)]}
    model = onnx.ModelProto()
    model.CopyFrom(drawn.model)
    g = model.graph
    stored = [t for t in g.initializer if t.name in used]
    defaults = {n: a for n, a in drawn.defaults.items() if n in used}
    inputs = [i for i in g.input if i.name in used and (i.name in declared or i.name in defaults)]
    del g.node[:], g.initializer[:], g.input[:], g.output[:]
    g.node.extend(nodes)
    g.initializer.extend(stored)
    g.input.extend(inputs)
    g.output.extend(untyped(o) for node in nodes for o in node.output if o)
    called = {n.op_type for n in _all_nodes(nodes)}
    functions = [f for f in model.functions if f.name in called]
    del model.functions[:]
    model.functions.extend(functions)
    kept = {i.name for i in inputs}
    declared = {n: d for n, d in declared.items() if n in kept}
    return replace(drawn, model=model, declared=declared, defaults=defaults)


def _all_nodes(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _all_nodes(list(attribute.g.node))


def _uses(node: onnx.NodeProto, names: set[str]) -> bool:
    return bool(names.intersection([*node.input, *captured(node)]))


def without_followers(drawn: Drawn) -> Iterator[Drawn]:
    """Each node left out, with all that takes its outputs."""
    nodes = list(drawn.model.graph.node)
    for i in range(len(nodes)):
        gone = set(nodes[i].output)
        kept = nodes[:i]
        for node in nodes[i + 1 :]:
            if _uses(node, gone):
                gone.update(node.output)
            else:
                kept.append(node)
        if kept:
            yield _with(drawn, kept)


def unused_nodes(drawn: Drawn) -> Iterator[Drawn]:
    """All nodes but the ancestors of one."""
    nodes = list(drawn.model.graph.node)
    for i in range(len(nodes)):
        wanted, kept = set(nodes[i].output), []
        for node in reversed(nodes[: i + 1]):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update([*node.input, *captured(node)])
        if len(kept) < len(nodes):
            yield _with(drawn, kept[::-1])


def _renamed(nodes: list[onnx.NodeProto], old: str, new: str) -> list[onnx.NodeProto]:
    changed = []
    for node in nodes:
        if _uses(node, {old}):
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            _rename(copy, old, new)
            node = copy
        changed.append(node)
    return changed


def _rename(node: onnx.NodeProto, old: str, new: str) -> None:
    node.input[:] = [new if n == old else n for n in node.input]
    for attribute in node.attribute:
        for inside in attribute.g.node:
            _rename(inside, old, new)


def bypassed(drawn: Drawn) -> Iterator[Drawn]:
    """Each node left out, one of its inputs in the place of its first output."""
    nodes = list(drawn.model.graph.node)
    for i, node in enumerate(nodes):
        for name in dict.fromkeys(filter(None, node.input)):
            if len(nodes) > 1:
                yield _with(drawn, nodes[:i] + _renamed(nodes[i + 1 :], node.output[0], name))


def cut(drawn: Drawn) -> Iterator[Drawn]:
    """Each node left out, its outputs new inputs of the shapes that they have here."""
    try:
        results = Session(drawn.model).run(feeds_of(drawn.model, drawn.shapes(drawn.sizes)))
    except Failed:
        return
    nodes = list(drawn.model.graph.node)
    for i, node in enumerate(nodes):
        if node.op_type == "Constant" or len(nodes) == 1:
            continue
        taken = [o for o in node.output if any(_uses(later, {o}) for later in nodes[i + 1 :])]
        if not taken or not all(
            isinstance(results.get(o), np.ndarray) and results[o].dtype == np.float32 for o in taken
        ):
            continue
        sizes, declared = dict(drawn.sizes), dict(drawn.declared)
        model = onnx.ModelProto()
        model.CopyFrom(drawn.model)
        for o in taken:
            names = [f"{o}_{k}" for k in range(results[o].ndim)]
            sizes |= dict(zip(names, results[o].shape, strict=True))
            declared[o] = tuple(names)
            model.graph.input.append(helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, names))
        yield _with(replace(drawn, model=model, sizes=sizes), nodes[:i] + nodes[i + 1 :], declared)


def branches_for_ifs(drawn: Drawn) -> Iterator[Drawn]:
    """Each If replaced by the nodes of a branch."""
    nodes = list(drawn.model.graph.node)
    for i, node in enumerate(nodes):
        for body in [a.g for a in node.attribute] if node.op_type == "If" else []:
            inside = [onnx.NodeProto.FromString(k.SerializeToString()) for k in body.node]
            inside = _renamed(inside, body.output[0].name, node.output[0])
            for k in inside:
                k.output[:] = [node.output[0] if o == body.output[0].name else o for o in k.output]
            copy = onnx.ModelProto()
            copy.CopyFrom(drawn.model)
            copy.graph.initializer.extend(body.initializer)
            yield _with(replace(drawn, model=copy), nodes[:i] + inside + nodes[i + 1 :])


def smaller_bodies(drawn: Drawn) -> Iterator[Drawn]:
    """Each body without what its results do not need; each of its nodes left out, an input in its place or not."""
    for n, count in enumerate([len(body.node) for body in _bodies(drawn.model)]):
        yield _with_body(drawn, n, _prune)
        for i in reversed(range(count)):
            for k in (-1, 0, 1):
                yield _with_body(drawn, n, partial(_leave_out, i=i, k=k))


def _bodies(model: onnx.ModelProto) -> list[Body]:
    """Bodies of functions and of nodes, the inner ones too, in an order that stays."""
    found: list[Body] = list(model.functions)
    for graph in (model.graph, *model.functions):
        found += [a.g for node in _all_nodes(list(graph.node)) for a in node.attribute if a.HasField("g")]
    return found


def _with_body(drawn: Drawn, n: int, change: Callable[[Body], None]) -> Drawn:
    model = onnx.ModelProto()
    model.CopyFrom(drawn.model)
    change(_bodies(model)[n])
    return _with(replace(drawn, model=model), list(model.graph.node))


def _prune(body: Body) -> None:
    wanted = {o if isinstance(o, str) else o.name for o in body.output}
    for i in reversed(range(len(body.node))):
        if wanted.intersection(body.node[i].output):
            wanted.update([*body.node[i].input, *captured(body.node[i])])
        else:
            del body.node[i]
    if isinstance(body, onnx.GraphProto):
        kept = [t for t in body.initializer if t.name in wanted]
        del body.initializer[:]
        body.initializer.extend(kept)


def _leave_out(body: Body, i: int, k: int) -> None:
    node = body.node[i]
    if 0 <= k < len(node.input) and node.input[k]:
        for later in list(body.node)[i + 1 :]:
            _rename(later, node.output[0], node.input[k])
    del body.node[i]


def without_attributes(drawn: Drawn) -> Iterator[Drawn]:
    """Each attribute left out."""
    nodes = list(drawn.model.graph.node)
    for i, node in enumerate(nodes):
        for k, attribute in enumerate(node.attribute):
            if attribute.type != onnx.AttributeProto.GRAPH:
                copy = onnx.NodeProto()
                copy.CopyFrom(node)
                del copy.attribute[k]
                yield _with(drawn, [*nodes[:i], copy, *nodes[i + 1 :]])


def fewer_names(drawn: Drawn) -> Iterator[Drawn]:
    """Each dim of an input replaced by the number that it is."""
    for name, dims in drawn.declared.items():
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                value = size_of(dim, drawn.sizes)
                model = onnx.ModelProto()
                model.CopyFrom(drawn.model)
                for i in model.graph.input:
                    if i.name == name:
                        i.type.tensor_type.shape.dim[axis].Clear()
                        i.type.tensor_type.shape.dim[axis].dim_value = value
                changed = tuple(value if k == axis else d for k, d in enumerate(dims))
                yield replace(drawn, model=model, declared={**drawn.declared, name: changed})


def smaller_sizes(drawn: Drawn) -> Iterator[Drawn]:
    """Each size smaller."""
    for name, size in drawn.sizes.items():
        for less in range(min(size, 4)):
            sizes = {**drawn.sizes, name: less}
            if all(n >= 0 for shape in drawn.shapes(sizes).values() for n in shape):
                yield replace(drawn, sizes=sizes)


PASSES: tuple[Pass, ...] = (
    unused_nodes,
    without_followers,
    cut,
    bypassed,
    branches_for_ifs,
    smaller_bodies,
    without_attributes,
    fewer_names,
    smaller_sizes,
)


def shrunk(drawn: Drawn, still_fails: Callable[[Drawn], bool], most: int = 1200) -> Drawn:
    """The smallest model that the passes find in so many tries."""
    tries = 0
    again = True
    while again:
        again = False
        for step in PASSES:
            found = True
            while found:
                found = False
                for candidate in step(drawn):
                    tries += 1
                    if tries > most:
                        return drawn
                    if candidate.model.graph.node and still_fails(candidate):
                        drawn, found, again = candidate, True, True
                        break
    return replace(drawn, sizes={n: v for n, v in drawn.sizes.items() if _mentions(drawn, n)})


def _mentions(drawn: Drawn, name: str) -> bool:
    texts = {d for dims in drawn.declared.values() for d in dims if isinstance(d, str)}
    return name in texts or any(name in re.split(r"[ +*/()-]+", text) for text in texts)
