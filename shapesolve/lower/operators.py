# compiled: see CONTRIBUTING.md
"""`Operators`: rules for the operators of one model, and checks that nodes fit these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import Model, Node
from .interface import misfit
from .rule import Rule, Rules
from .semantics import Semantics


class Operators:
    """The operators that a model can use: those of a registry and its own functions."""

    def __init__(self, model: Model, registry: Rules, semantics: Semantics) -> None:
        self.functions, self.registry, self.semantics = model.functions, registry, semantics
        self._rules: dict[tuple[int, str, str], Rule | None] = {}
        self._fitting: set[Any] = set()  # nodes that fit their operator, by key

    def rule(self, node: Node, opsets: Mapping[str, int]) -> Rule | None:
        """The registered rule for a node; None for functions of the model and unknown operators."""
        key = (id(opsets), node.domain, node.op_type)
        if key in self._rules:
            return self._rules[key]
        version = opsets.get(node.domain, 1)
        rule = self.registry.lookup(node.domain, node.op_type, version)
        if rule is not None and self.is_local(node):
            runs = not node.overload and rule.has_kernel
            rule = rule if runs and self.semantics == "onnxruntime" else None
        self._rules[key] = rule
        return rule

    def read_as_data(self, nodes: Iterable[Node], opsets: Mapping[str, int]) -> set[str]:
        """Tensors whose elements can affect sizes, by the rules of these nodes. Rules read them, or make of them what
        is read (`nodes` in order).

        What runs graphs or has a body may read all that it gets.
        """
        read: set[str] = set()
        for node in reversed(tuple(nodes)):
            rule = self.rule(node, opsets)
            names = node.inputs
            if rule is None or rule.bodies or rule.form in ("body", "schema"):
                read.update(names, node.captures)
            elif rule.values and not read.isdisjoint(node.outputs):
                read.update(names)
            else:
                read.update([names[i] for i in (*rule.data, *rule.elements) if i < len(names)])
        return read

    def is_unknown(self, node: Node, opsets: Mapping[str, int]) -> bool:
        """True if the operator is neither registered nor defined by the model."""
        return self.rule(node, opsets) is None and not self.is_local(node)

    def is_local(self, node: Node) -> bool:
        """True if the operator is a function of the model."""
        functions = self.functions
        return bool(functions) and any(k[0] == node.domain and k[1] == node.op_type for k in functions)

    def misfit(self, node: Node, names: tuple[str, ...], version: int, rule: Rule | None) -> str | None:
        """Message on wrong numbers of inputs or outputs, or wrong attributes; None where the node fits.

        `names` are its inputs, without those that the caller of the function around it left out.
        """
        key = (node.key, version) if names is node.inputs and node.key is not None else None
        if key in self._fitting:
            return None
        wrong = misfit(node, names, version, rule, lenient=self.semantics == "onnxruntime")
        if wrong is None and key is not None:
            self._fitting.add(key)
        return wrong
