# compiled: see CONTRIBUTING.md
"""Which rule lowers a node of a model, and whether the node fits its operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model import Model, Node
from .interface import misfit, mistyped, unchosen
from .registry import Registry, Rule
from .semantics import Semantics

if TYPE_CHECKING:
    from .op import Op


class Operators:
    """The operators of one model: those of a registry, and the functions that the model defines."""

    def __init__(self, model: Model, registry: Registry, semantics: Semantics) -> None:
        self.functions, self.registry, self.semantics = model.functions, registry, semantics
        self._rules: dict[tuple[int, str, str], Rule | None] = {}
        self._fitting: set[Any] = set()  # nodes that fit their operator, by key

    def rule(self, node: Node, opsets: Mapping[str, int]) -> Rule | None:
        """The registered rule for a node; None for operators defined by the model or unknown to us."""
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

    def is_unknown(self, node: Node, opsets: Mapping[str, int]) -> bool:
        """Is the operator neither registered nor defined by the model?"""
        return self.rule(node, opsets) is None and not self.is_local(node)

    def is_local(self, node: Node) -> bool:
        """Is the operator a function of the model?"""
        functions = self.functions
        return bool(functions) and any(k[0] == node.domain and k[1] == node.op_type for k in functions)

    def misfit(self, op: Op) -> str | None:
        """Why the node does not fit its operator, in a sentence; None where it does."""
        node = op.node
        if op.rule is None and self.is_local(node):
            return None
        key = (node.key, op.version) if op.names is node.inputs and node.key is not None else None
        wrong = None
        if key not in self._fitting:
            wrong = misfit(node, op.names, op.version, op.rule, lenient=self.semantics == "onnxruntime")
            if wrong is None and key is not None:
                self._fitting.add(key)
        return wrong or mistyped(node, op.inputs, op.version) or unchosen(op)
