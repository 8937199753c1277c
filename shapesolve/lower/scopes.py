# compiled: see CONTRIBUTING.md
"""Lowering state by scope: tensors, their producers, and elements that rules ask for."""

from __future__ import annotations

from collections.abc import Mapping

from ..expr import TRUE, Cond, Dim, Shape, all_of, constant, eq, le
from ..model import Graph, Model
from ..model.limits import MAX_NESTING
from .attributes import InvalidNode
from .declared import declared_known
from .limits import MAX_EXPANDED
from .operators import Operators
from .records import Body, FactStore, Scope, Standard
from .request import OtherShape
from .rule import Rules
from .semantics import Semantics
from .statements import TRUTH, Statements
from .types import Known, Tensor
from .values import FLOAT_TYPES, Elem, Ratio, Value


class Scopes(Statements):
    """Known tensors by scope; `Walk` lowers the nodes."""

    def __init__(
        self,
        model: Model,
        registry: Rules,
        facts: FactStore,
        *,
        equal: bool = False,
        semantics: Semantics = "onnxruntime",
    ) -> None:
        super().__init__(facts, Scope("", model.opsets), equal=equal)
        self.model, self.registry = model, registry
        self.semantics = semantics
        self.operators = Operators(model, registry, semantics)
        self.standard: Standard | None = None  # what onnx's own inference knows, once somebody asked
        written = len(model.graph.nodes) + sum(len(f.nodes) for f in model.functions.values())
        self.expandable = MAX_EXPANDED + 20 * written  # nodes of function bodies that may still be lowered
        self.instead: Mapping[
            str, tuple[Elem, ...] | OtherShape
        ] = {}  # elements of stored tensors, in place of their own
        self.named_inputs: frozenset[str] = frozenset()  # the inputs of the main graph

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
            here.refined.add(name)  # true where this branch is taken
            scope = here
        elif not self.state.trials:
            self.state.hints[scope.prefix + name] = shape
        scope.env[name] = self.interner.tensor(known.dtype, shape, known.value)

    def unknown_values(self, name: str, tensor: Tensor, n: int) -> tuple[Dim, ...]:
        """Elements of a small integer tensor: computed ones, else new symbols, the same at every use.

        They are what the node computes that makes it, where it does so of few integers; else symbols.
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
        """Elements of a tensor as its node computes them from symbols; None if unknown."""
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
        """A stored tensor with the elements or shape that a trial assumes instead of its own."""
        given = self.instead.get(full)
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
        """Stores more precise knowledge of a tensor, during a trial or for good."""
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
        """The nodes of `graph` as a body to lower in `scope`."""
        declared_inputs = dict(graph.inputs) if graph.overridable else {}
        read = self.operators.read_as_data(graph.nodes, scope.opsets) if graph.overridable else set()
        for name, stored in graph.initializers.items():
            if name not in scope.env:
                value = Value.stored(stored)
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
                scope.env[name] = self.replaced(scope.prefix + name, tensor) if self.instead else tensor
        for name, declared in (*graph.value_info.items(), *graph.outputs):
            known = declared_known(self, declared)
            if scope.repeats and isinstance(known, Tensor):  # a name cannot stand for a size that changes
                known = self.interner.tensor(known.dtype, None)
            if known is not None:
                scope.declared[name] = known
        return Body(graph.nodes, scope)


def _element(i: int, name: str, tensor: Tensor) -> str:
    """Name of an element of a tensor in messages."""
    return name if tensor.shape is not None and not tensor.shape else f"element {i} of {name}"
