# compiled: see CONTRIBUTING.md
"""Lowering state by scope: tensors, their producers, and elements that rules ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..expr import TRUE, Cond, Dim, Shape, all_of, constant, eq, le
from ..model import Graph, Model
from ..model.limits import MAX_NESTING
from .attributes import InvalidNode
from .declared import declared_known
from .limits import MAX_ELEMENTS, MAX_EXPANDED
from .records import Body, FactStore, Scope, Standard
from .request import OtherShape, Request
from .rule import Rules
from .semantics import Semantics
from .statements import TRUTH, Statements
from .types import Known, Tensor
from .values import FLOAT_TYPES, Elem, Ratio, Value

if TYPE_CHECKING:
    from ..expr import Cond
    from .records import FactStore


from collections.abc import Iterable
from typing import Any

from ..model import Node
from .interface import find_schema, misfit
from .rule import Rule


class Operators:
    """Operators available to a model: a registry's and the model's own functions."""

    def __init__(self, model: Model, registry: Rules, semantics: Semantics) -> None:
        self.functions, self.registry, self.semantics = model.functions, registry, semantics
        self._rules: dict[tuple[int, str, str], Rule | None] = {}
        self._fitting: set[Any] = set()  # nodes that fit their operator, by key

    def rule(self, node: Node, opsets: Mapping[str, int]) -> Rule | None:
        """Return the registered rule for a node; None for functions of the model and unknown operators."""
        key = (id(opsets), node.domain, node.op_type)
        if key in self._rules:
            return self._rules[key]
        version = opsets.get(node.domain, 1)
        rule = self.registry.lookup(node.domain, node.op_type, version)
        if (
            rule is None
            and not self.is_local(node)
            and find_schema(node.domain, node.op_type, version) is None
        ):
            rule = self.registry.sought(node.domain, node.op_type, version)
        if rule is not None and self.is_local(node):
            runs = not node.overload and rule.has_kernel
            rule = rule if runs and self.semantics == "onnxruntime" else None
        self._rules[key] = rule
        return rule

    def read_as_data(self, nodes: Iterable[Node], opsets: Mapping[str, int]) -> set[str]:
        """Return the tensors whose elements can affect sizes, by the rules of these nodes (`nodes` in order).

        Rules read them, or compute the elements that others read. Nodes with subgraphs or a body may read all their
        inputs.
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
        """Return True if the operator is neither registered nor defined by the model."""
        return self.rule(node, opsets) is None and not self.is_local(node)

    def is_local(self, node: Node) -> bool:
        """Return True if the operator is a model-local function."""
        functions = self.functions
        return bool(functions) and any(k[0] == node.domain and k[1] == node.op_type for k in functions)

    def misfit(self, node: Node, names: tuple[str, ...], version: int, rule: Rule | None) -> str | None:
        """Return a message on wrong numbers of inputs or outputs, or wrong attributes; None if the node is valid.

        `names` are its inputs, without those that the enclosing function's caller omitted.
        """
        key = (node.key, version) if names is node.inputs and node.key is not None else None
        if key in self._fitting:
            return None
        wrong = misfit(node, names, version, rule, lenient=self.semantics == "onnxruntime")
        if wrong is None and key is not None:
            self._fitting.add(key)
        return wrong


class Settled:
    """Read-only facts for a speculative run: nothing is learned."""

    def __init__(self, facts: FactStore) -> None:
        self.version, self.changed = facts.version, facts.changed
        self.dim, self.cond, self.why = facts.dim, facts.cond, facts.why
        self.decide, self.contradiction = facts.decide, facts.contradiction

    def introduce(self, name: str) -> None:
        """Do nothing: the symbol exists only in the trial."""

    def assume(self, cond: Cond, cause: int) -> bool:
        """Ignored: the condition is not learned."""
        return True


@contextmanager
def rehearsal(walk: Scopes) -> Iterator[None]:
    """Context in which lowering is speculative: log, notes, names and facts are rolled back."""
    state, facts = walk.state, walk.facts
    walk.state, walk.facts = state.fork(), Settled(facts)
    try:
        yield
    finally:
        for env, tensor, known in reversed(walk.state.overwritten):
            env[tensor] = known
        walk.state, walk.facts = state, facts


class Scopes(Statements):
    """Known tensors by scope; `Walk` lowers the nodes."""

    def __init__(self, model: Model, request: Request, facts: FactStore) -> None:
        super().__init__(facts, Scope("", model.opsets), request)
        self.model = model
        self.operators = Operators(model, request.rules, request.semantics)
        self.standard: Standard | None = None  # result of onnx's own inference, computed at first use
        written = len(model.graph.nodes) + sum(len(f.nodes) for f in model.functions.values())
        self.expandable = MAX_EXPANDED + 20 * written  # nodes of function bodies that may still be lowered

    # ------------------------------------------------------------------ tensors

    def read(self, name: str, scope: Scope) -> Known | None:
        """Known value of a tensor, simplified by the facts; None for an absent input."""
        if not name:
            return None
        s: Scope | None = scope
        while s is not None:
            known = s.env.get(name)
            if known is not None:
                return self.current(known)
            s = s.parent
        return None

    def current(self, known: Known) -> Known:
        """`known` simplified by the current facts."""
        changed, version = self.facts.changed, self.facts.version
        if not isinstance(known, Tensor):
            if changed.keys().isdisjoint(known.free):
                return known
            made, found = self.state.others.get(known, (-1, known))
            if made != version:
                found = self.interner.resolve(known, self.facts.dim)
                self.state.others[known] = version, found
            return found
        now = known.now
        if known.as_of != version:
            for name in known.free if now is None else known.free | now.free:
                if changed.get(name, 0) > known.as_of:
                    resolved = self.interner.resolve(known, self.facts.dim)
                    assert isinstance(resolved, Tensor)
                    known.now = now = None if resolved is known else resolved
                    break
            known.as_of = version
        return now or known

    def refine(self, name: str, shape: Shape) -> None:
        """Gives a tensor of unknown rank this shape."""
        scope = self._owner(name)
        if scope is None:
            return
        known = scope.env[name]
        if not isinstance(known, Tensor):
            return
        here = self.scope
        if scope is not here and (self.state.trials or scope.guard is not here.guard):
            here.refined.add(name)  # true in this branch
            scope = here
        elif not self.state.trials:
            self.state.hints[scope.prefix + name] = shape
        scope.env[name] = self.interner.tensor(known.dtype, shape, known.value)

    def unknown_values(self, name: str, tensor: Tensor, n: int) -> tuple[Dim, ...]:
        """Return the elements of a small integer tensor: computed ones, or new symbols, the same at every use.

        They are computed if the producer derives them from a few integers.
        """
        scope = self._owner(name)
        learned = tensor if scope is None else scope.env[name]  # maybe since the node was read
        value = (learned.value if isinstance(learned, Tensor) else None) or tensor.value
        known = None if value is None else value.elems
        whole = known is not None and None not in known
        made = None if scope is None or whole else self.computed(name, scope)
        if made is not None and len(made) == n:
            known = made
        elems = tuple(
            e if isinstance(e, Dim) else self.fresh(_element(i, name, tensor), "value")
            for i, e in enumerate(known or (None,) * n)
        )
        shape = tuple(int(d) for d in tensor.shape or ())
        if scope is not None:
            self._learn(scope, name, self.interner.tensor(tensor.dtype, tensor.shape, Value(shape, elems)))
        return elems

    def computed(self, name: str, scope: Scope) -> tuple[Elem, ...] | None:
        """Return the elements of a tensor as its node computes them from symbols; None if unknown."""
        return None

    def unknown_truth(self, name: str, tensor: Tensor | None) -> Cond:
        """An unknown boolean scalar as a condition on a 0/1 symbol, the same at every use."""
        bit = self.fresh(TRUTH + name)
        self.define(le(bit, 1), f"{name} is true or false", None)
        scope, cond = self._owner(name), eq(bit, 1)
        if scope is not None and tensor is not None and tensor.shape is not None and len(tensor.shape) < 2:
            value = Value((1,) * len(tensor.shape), (cond,))
            self._learn(scope, name, self.interner.tensor(tensor.dtype, tensor.shape, value))
        return cond

    def replaced(self, full: str, tensor: Tensor) -> Tensor:
        """Return an initializer with the elements or shape that a trial assumes for it."""
        given = self.request.instead.get(full)
        if given is None or tensor.shape is None:
            return tensor
        if isinstance(given, OtherShape):
            sizes = [self.fresh(f"a size of {full}") if d is None else constant(d) for d in given.dims]
            return self.interner.tensor(tensor.dtype, Shape(sizes))
        elems: list[Elem] = []
        for i, e in enumerate(given):
            e = self.fresh(_element(i, full, tensor), "value") if e is None else e
            elems.append(Ratio(e) if isinstance(e, Dim) and tensor.dtype in FLOAT_TYPES else e)
        shape = tuple([d.const for d in tensor.shape])
        return self.interner.tensor(tensor.dtype, tensor.shape, Value.known(shape, tuple(elems)))

    def _learn(self, scope: Scope, name: str, known: Known) -> None:
        if self.state.trials:
            self.state.overwritten.append((scope.env, name, scope.env[name]))
        scope.env[name] = known

    def _owner(self, name: str) -> Scope | None:
        s: Scope | None = self.scope
        while s is not None and name not in s.env:
            s = s.parent
        return s

    def full_name(self, name: str, prefix: str) -> str:
        """Full name of the tensor that `name` means in the scope `prefix`."""
        while True:
            full = prefix + name
            if full in self.state.tensors or not prefix:
                return full
            prefix = prefix.rstrip("/").rpartition("/")[0]
            prefix = f"{prefix}/" if prefix else ""

    def under(self, scope: Scope, prefix: str, guard: Cond = TRUE) -> Scope:
        """A new scope inside `scope`."""
        if scope.depth >= MAX_NESTING:
            raise InvalidNode(f"subgraphs are nested more than {MAX_NESTING} deep")
        inner = Scope(prefix, scope.opsets, parent=scope, attrs=scope.attrs)
        inner.guard = all_of((scope.guard, guard))
        inner.depth, inner.repeats = scope.depth + 1, scope.repeats
        return inner

    def body(self, graph: Graph, scope: Scope) -> Body:
        """Return the nodes of `graph` as a body to lower in `scope`."""
        declared_inputs = dict(graph.inputs) if graph.overridable else {}
        read = self.operators.read_as_data(graph.nodes, scope.opsets) if graph.overridable else set()
        for name, stored in graph.initializers.items():
            if name not in scope.env:
                value = Value.stored(stored)
                if stored.location is not None and stored.numel <= MAX_ELEMENTS:
                    self.state.outside[scope.prefix + name] = stored.location, value is not None
                if name in graph.overridable:
                    known = declared_known(self, declared_inputs[name])
                    fixed = isinstance(known, Tensor) and known.shape is not None and not known.free
                    # small numbers of other types than float are there to decide something, floats mostly to be computed with
                    decides = stored.dtype not in FLOAT_TYPES or name in read
                    if not fixed or (value is not None and decides):
                        taken = "value" if fixed else "value and shape"
                        text = f"input {name} has a default value: the analysis assumes this {taken}"
                        text += ", at others results may differ"
                        self.note("default", text, None, scope, name)
                tensor = self.interner.stored(stored.dtype, stored.dims, value)
                scope.env[name] = (
                    self.replaced(scope.prefix + name, tensor) if self.request.instead else tensor
                )
        for name, declared in (*graph.value_info.items(), *graph.outputs):
            known = declared_known(self, declared)
            if scope.repeats and isinstance(known, Tensor):  # a name cannot stand for a size that changes
                known = self.interner.tensor(known.dtype, None)
            if known is not None:
                scope.declared[name] = known
        return Body(graph.nodes, scope)


def _element(i: int, name: str, tensor: Tensor) -> str:
    return name if tensor.shape is not None and not tensor.shape else f"element {i} of {name}"
