"""`read_model`: reads a file or proto into a checked, ordered, immutable `Model`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import onnx

from .errors import ModelError, check_text, quoted
from .external import DataFolder
from .graph import Function, FunctionKey, Model
from .node import Node, read_attributes, read_metadata
from .order import find_cycle, render_cycle
from .scope import ReadState, ScopeReader, read_value_info, settle_all
from .source import load_proto


def read_model(source: Any) -> Model:
    """Read a model.

    Weights stay in the proto or in external files until `Constant.array` needs them.

    Args:
        source: A path, bytes, `onnx.ModelProto`, `onnx_ir.Model`, an exporter's `ONNXProgram`, or an onnxscript
            function. External data
            is only found if a path is given. A `Model` is returned unchanged.

    Raises:
        ModelError: If it is not a usable model; the message is one sentence.
    """
    if isinstance(source, Model):
        return source
    proto, path, own = load_proto(source)
    if not proto.HasField("graph"):
        raise ModelError("the model has no graph")
    reading = ReadState(proto.ir_version, None if path is None else DataFolder(path.parent, own))
    opsets = _read_opsets(proto.opset_import, "the model", reading)
    if not proto.ir_version:
        reading.faults.append("the model states no ir_version")
    if not opsets and 0 < proto.ir_version < 3:
        opsets = {"": 1}  # https://onnx.ai/onnx/repo-docs/IR.html: opset_import came with IR version 3
    bodies = _function_protos(proto)

    root = ScopeReader(reading, proto.graph, "the graph")
    settle_all(root)
    assert root.graph is not None
    functions = {key: _read_function(body, opsets, reading, bodies) for key, body in bodies.items()}
    _check_recursion(functions)
    _add_domains(root, opsets, bodies)
    _check_domains(root, root.graph.nodes, opsets, bodies)
    return Model(
        graph=root.graph,
        opsets=MappingProxyType(opsets),
        functions=MappingProxyType(functions),
        ir_version=proto.ir_version,
        path=path,
        own_file=own,
        proto=proto,
        metadata=read_metadata(proto.metadata_props),
        remarks=tuple(dict.fromkeys(reading.remarks)),
        faults=tuple(dict.fromkeys(reading.faults)),
    )


def function_of(proto: onnx.FunctionProto, ir_version: int = 10) -> Function:
    """Reads a `FunctionProto` outside of a model, for example the body in an operator schema."""
    return _read_function(proto, {}, ReadState(ir_version, None))


def _read_opsets(
    imports: Iterable[onnx.OperatorSetIdProto], owner: str, reading: ReadState
) -> dict[str, int]:
    """Imported opset versions by domain; the last import of a domain counts, as in onnxruntime."""
    opsets: dict[str, int] = {}
    for entry in imports:
        check_text([entry.domain], owner)
        domain = _standard(entry.domain)
        version = opsets.get(domain, entry.version)
        if version != entry.version:
            reading.remarks.append(
                f"{owner} imports two versions of opset {quoted(domain or 'ai.onnx')},"
                f" {version} and {entry.version}: the last one counts"
            )
        opsets[domain] = entry.version
    if opsets.get("", 1) < 1:
        raise ModelError(f"{owner} imports version {opsets['']} of opset 'ai.onnx', which does not exist")
    return opsets


def _add_domains(scope: ScopeReader, opsets: dict[str, int], functions: Collection[FunctionKey]) -> None:
    """Adds versions of the domains that onnxruntime knows without an opset import: its newest."""
    used = {
        domain for op_type, domain, overload in scope.kinds if (domain, op_type, overload) not in functions
    }
    missing = sorted(used - opsets.keys()) if opsets else ()
    if not missing:
        return
    newest = {**{d: most for d, (_, most) in onnx.defs.C.schema_version_map().items()}, "com.microsoft": 1}
    for domain in missing:
        if domain in newest:
            opsets[domain] = newest[domain]
            scope.reading.remarks.append(
                f"the model has no opset_import for domain {quoted(domain or 'ai.onnx')}:"
                f" version {newest[domain]}, the newest, is taken"
            )


def _standard(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _function_protos(proto: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    bodies: dict[FunctionKey, onnx.FunctionProto] = {}
    for body in proto.functions:
        texts = (body.domain, body.name, body.overload, *body.input, *body.output, *body.attribute)
        check_text(texts, "a function of the model")
        key = (_standard(body.domain), body.name, body.overload)
        if bodies.setdefault(key, body) is not body:
            raise ModelError(f"the model has two functions {_function_name(key)}")
    return bodies


def _function_name(key: FunctionKey) -> str:
    return quoted(":".join(filter(None, key)))


def _read_function(
    proto: onnx.FunctionProto,
    opsets: Mapping[str, int],
    reading: ReadState,
    others: Collection[FunctionKey] | None = None,
) -> Function:
    """The function in `proto`. With `others`, the functions of its model, the domains that it uses are checked."""
    key = (_standard(proto.domain), proto.name, proto.overload)
    owner = f"function {_function_name(key)}"
    scope = ScopeReader(reading, proto, "its body")
    problem = None
    try:
        scope.give(proto.input, "input")
        scope.outputs = tuple(proto.output)
        nodes = settle_all(scope)
    except ModelError as error:
        problem = f"in {owner}: {error}"
    if problem is not None:  # raised outside the handler, so that it is not chained
        raise ModelError(problem)
    imported = {**opsets, **_read_opsets(proto.opset_import, owner, reading)}
    if others is not None:
        _check_domains(scope, nodes, imported, others)
    return Function(
        domain=key[0],
        name=key[1],
        overload=key[2],
        inputs=tuple(proto.input),
        outputs=scope.outputs,
        attributes=tuple(proto.attribute),
        defaults=read_attributes(proto.attribute_proto, reading.folder, owner),
        opsets=MappingProxyType(imported),
        nodes=nodes,
        value_info=read_value_info(reading, proto.value_info),
    )


def _check_recursion(functions: Mapping[FunctionKey, Function]) -> None:
    """Raises `ModelError` if a function calls itself, directly or through others."""
    if not functions:
        return
    calls = {
        key: [call for call in dict.fromkeys(map(_callee, all_nodes(function.nodes))) if call in functions]
        for key, function in functions.items()
    }
    cycle = find_cycle(calls)
    if cycle:
        loop = render_cycle([":".join(filter(None, key)) for key in cycle])
        raise ModelError(f"the functions of the model call each other in a loop: {loop}")


def _callee(node: Node) -> FunctionKey:
    return node.domain, node.op_type, node.overload


def all_nodes(nodes: Iterable[Node]) -> Iterable[Node]:
    """Return the nodes, followed by the nodes of all subgraphs."""
    waiting: list[Iterable[Node]] = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting.extend([graph.nodes for _, graph in node.subgraphs])


def _check_domains(
    scope: ScopeReader, nodes: Iterable[Node], opsets: Mapping[str, int], functions: Collection[FunctionKey]
) -> None:
    """Raises `ModelError` for an operator of a domain that is not imported and has no function for it."""
    for op_type, domain, overload in scope.kinds:
        callee = domain, op_type, overload
        if domain not in opsets and callee not in functions:
            node = next(node for node in all_nodes(nodes) if _callee(node) == callee)
            raise ModelError(
                f"node {quoted(node.label)} is of domain {quoted(domain or 'ai.onnx')},"
                f" but the model has no opset_import for it"
            )
