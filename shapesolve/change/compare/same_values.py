"""Proof that outputs of two models have equal values, by value numbering of their nodes.

Nodes of the same operator, version, attributes and numbered inputs have the same number; stored tensors have it by content.
Whatever is not known to be a function of its inputs gets its own number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from sys import maxsize
from typing import Any, NamedTuple

from ...analysis import Analysis
from ...lower.rule import Rules
from ...model import Function, Graph, Model, Node, read_model
from ...model.constant import Constant
from ...model.node import AttrRef
from ...model.saving import with_weights
from ..simplify.simplify import simplified

#: number of a tensor by what computes it; its own object if that is unknown
Number = int | object


class _Unknown(Exception):
    """Raised for an attribute that has no key to compare it by."""


def same_values(
    before: Analysis,
    after: Analysis,
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
) -> dict[str, bool]:
    """For each output of the first model, True if its values are proved equal in the second model.

    Operators compute the same for the same inputs, unless their declaration says that they draw numbers. Operands of those that
    are declared to commute may be swapped.

    Args:
        before, after: analyses of the models.
        inputs, outputs: pairs of names that stand for the same.
    """
    table: dict[Any, int] = {}
    first = _Numbers(before, {a: a for a, _ in inputs}, table).outputs
    second = _Numbers(after, {b: a for a, b in inputs}, table).outputs
    return {a: isinstance(first.get(a), int) and first.get(a) == second.get(b) for a, b in outputs}


class _Scope(NamedTuple):
    """A graph in which nodes are numbered: value numbers by tensor, opsets, attributes of a function's call, depth."""

    env: dict[str, Number]
    opsets: Mapping[str, int]
    given: Mapping[str, Any]
    depth: int


class _Numbers:
    """Value numbers of the tensors of one model: equal numbers mean equal values.

    `table` holds those given so far, by key.
    """

    def __init__(self, analysis: Analysis, names: Mapping[str, str], table: dict[Any, int]) -> None:
        self.original = analysis.model
        self.model: Model = read_model(with_weights(simplified(self.original).model, self.original))
        self.rules: Rules = analysis._solved.request.rules
        self.table, self.contents = table, dict[int, Any]()
        graph, env = self.model.graph, dict[str, Number]()
        for info in self.model.proto.graph.input:
            kind = info.type.tensor_type.elem_type or info.type.SerializeToString(deterministic=True)
            default = self._stored(info.name, graph) if info.name in graph.overridable else None
            env[info.name] = self._number(
                ("input", names.get(info.name, ("other", info.name)), kind, default)
            )
        self._run(graph, _Scope(env, self.model.opsets, {}, 0))
        self.outputs = {name: env[name] for name, _ in graph.outputs if name in env}

    def _number(self, key: Any) -> int:
        return self.table.setdefault(key, len(self.table))

    def _run(self, graph: Graph | Function, scope: _Scope) -> None:
        if isinstance(graph, Graph):
            for name in graph.initializers:
                if scope.depth or name not in scope.env:
                    scope.env[name] = self._stored(name, graph)
        for node in graph.nodes:
            try:
                found = self._outputs(node, scope)
            except _Unknown:
                found = [object() for _ in node.outputs]
            scope.env.update({name: number for name, number in zip(node.outputs, found, strict=True) if name})

    def _outputs(self, node: Node, scope: _Scope) -> list[Number]:
        inputs = [scope.env.get(name) if name else "" for name in node.inputs]
        if None in inputs:
            raise _Unknown
        attributes = {n: self._attribute(v, scope) for n, v in node.attributes.items()}
        attributes = {n: v for n, v in attributes.items() if v is not None}
        domain = "" if node.domain == "ai.onnx" else node.domain
        body = self.model.functions.get((domain, node.op_type, node.overload))
        if body is not None:
            return self._called(body, inputs, attributes, scope.depth)
        if node.is_constant and attributes.keys() == {"value"}:
            return [self._number(attributes["value"])]
        version = scope.opsets.get(domain, 0)
        rule = self.rules.lookup(domain, node.op_type, version)
        if rule is None or rule.draws:
            raise _Unknown
        if rule.commutes and len(inputs) == 2 and all(isinstance(i, int) for i in inputs):
            inputs = sorted(inputs, key=lambda i: i if isinstance(i, int) else 0)
        kind = (
            domain,
            node.op_type,
            version,
            tuple(sorted(attributes.items())),
            tuple(map(bool, node.outputs)),
        )
        return [self._number((kind, tuple(inputs), i)) for i in range(len(node.outputs))]

    def _called(
        self, body: Function, inputs: Sequence[Any], attributes: Mapping[str, Any], depth: int
    ) -> list[Number]:
        missing = len(body.inputs) - len(inputs)
        own: dict[str, Number] = {
            name: number if number != "" else self._number("left out")
            for name, number in zip(body.inputs, [*inputs, *[""] * missing])
        }
        defaults = {
            n: self._attribute(v, _Scope({}, body.opsets, {}, depth)) for n, v in body.defaults.items()
        }
        self._run(body, _Scope(own, body.opsets, {**defaults, **attributes}, depth))
        return [own.get(name, object()) for name in body.outputs]

    def _attribute(self, value: Any, scope: _Scope) -> Any:
        """Comparison key of an attribute's value; None for a reference to an attribute that the call omits."""
        if isinstance(value, AttrRef):
            return scope.given.get(value.name)
        if isinstance(value, Constant):
            return self._content(value)
        if isinstance(value, Graph):
            own = dict(scope.env)
            own.update(
                {name: self._number(("formal", scope.depth, i)) for i, (name, _) in enumerate(value.inputs)}
            )
            self._run(value, scope._replace(env=own, depth=scope.depth + 1))
            ends = [own.get(name) for name, _ in value.outputs]
            if not all(isinstance(number, int) for number in ends):
                raise _Unknown
            return ("graph", len(value.inputs), *ends)
        if isinstance(value, tuple):
            return ("list", *[self._attribute(v, scope) for v in value])
        if isinstance(value, float):
            return "float", value.hex()
        if isinstance(value, int | str | bytes):
            return type(value).__name__, value
        raise _Unknown

    def _stored(self, name: str, graph: Graph) -> Number:
        """Value number of an initializer; external data is read through the original model."""
        for constant in (graph.initializers[name], self.original.graph.initializers.get(name)):
            try:
                if constant is not None:
                    return self._number(self._content(constant))
            except _Unknown:
                continue
        return object()

    def _content(self, constant: Constant) -> Any:
        """Element type, shape and a digest of the elements."""
        if (
            id(constant) not in self.contents
        ):  # the constant is kept too: its id must not be another one's later
            array = constant.array(maxsize)
            if array is None or array.dtype.hasobject:
                raise _Unknown
            digest = sha256(array.tobytes()).digest()
            key = "stored", constant.dtype, tuple(array.shape), digest
            self.contents[id(constant)] = constant, key
        return self.contents[id(constant)][1]
