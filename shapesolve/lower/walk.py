# compiled: see CONTRIBUTING.md
"""The walk: every node in order, lowered by its rule; what it states goes to the log and to the facts.

Lowering is memoized: a node that says the same (`Node.key`) of the same inputs (interned, so compared by identity) gets the
same outputs, which makes the repeated layers of a model cost a lookup each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..expr import TRUE, Cond, Dim, DimTooLarge, Shape, all_of, eq, le
from ..model import Graph, Model, Node
from .declared import declared_known
from .interface import misranked
from .op import InvalidNode, MalformedNode, Op
from .operators import Operators
from .records import Body, Call, Entry, FactStore, LoweredNode, Open, Scope
from .registry import Registry
from .schema import fill_types
from .semantics import Semantics
from .standard import Sizes
from .statements import Statements
from .types import KINDS, Interner, Known, Tensor
from .values import INT_TYPES, Value

#: walks over the graph: a node whose rank became known by a later one is lowered again
MAX_ROUNDS = 3
#: subgraphs and function bodies inside each other
MAX_DEPTH = 256


class Walk(Statements):
    """Lowers a model. After `run`: `tensors`, `log`, `clashes`, `opens`, `notes`, `producers`."""

    def __init__(
        self,
        model: Model,
        registry: Registry,
        facts: FactStore,
        *,
        equal: bool = False,
        semantics: Semantics = "onnxruntime",
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(facts, Scope("", model.opsets), equal=equal)
        self.model, self.registry, self.progress = model, registry, progress
        self.semantics = semantics
        self.operators = Operators(model, registry, semantics)
        self.standard: Mapping[str, Sizes] | None = (
            None  # what onnx's own inference knows, once somebody asked
        )
        self.interner = Interner()
        self.tensors: dict[str, Known] = {}
        self.producers: dict[str, tuple[Node, str]] = {}
        self.opsets: dict[str, Mapping[str, int]] = {}  # versions of operators, by prefix
        self.aliases: dict[str, tuple[str, str]] = {}  # formal input of a body -> (name, prefix) outside
        self.hints: dict[str, Shape] = {}
        self.chosen: dict[Dim, Dim] = {}  # names of choices that depend on data
        self.named: dict[tuple[Dim, Cond], Dim] = {}  # names of expressions too large to carry, by guard
        self.trips: dict[str, Dim] = {}  # how often the body of a loop runs, by the full name of its node
        self.rehearsing = 0
        self.overwritten: list[tuple[dict[str, Known], str, Known]] = []  # by the trial that is under way
        self.expanded = 0  # nodes of function bodies lowered so far
        self.undeclared: set[str] = set()  # symbols of inputs that are declared without a rank
        self.named_inputs: frozenset[str] = frozenset()  # the inputs of the main graph
        self.varying: set[str] = set()  # tensors whose rank is not the same in every run
        self._memo: dict[Any, LoweredNode] = {}
        self._others: dict[
            Known, tuple[int, Known]
        ] = {}  # what is no tensor, read through the facts of a version

    # ------------------------------------------------------------------ walking

    def run(self, inputs: Mapping[str, Known], taken: Iterable[str] = ()) -> None:
        """Lower the main graph with these inputs; `taken` are symbol names in use."""
        self.take(taken)
        scope = self.scope
        scope.env = self.tensors
        scope.env.update(inputs)
        self.named_inputs = frozenset(inputs)
        self._lower_body(self.body(self.model.graph, scope))

    def lower(self, node: Node) -> None:
        """Lower one more node of the main graph, after `run`."""
        self._lower_body(Body((node,), self.scope))

    def body(self, graph: Graph, scope: Scope) -> Body:
        """The nodes of `graph`, to be lowered in `scope` (its inputs are bound already)."""
        declared_inputs = dict(graph.inputs) if graph.overridable else {}
        for name, stored in graph.initializers.items():
            if name not in scope.env:
                value = Value.stored(stored)
                if name in graph.overridable:
                    known = declared_known(self, declared_inputs[name])
                    fixed = isinstance(known, Tensor) and known.shape is not None and not known.free
                    if not fixed or (value is not None and stored.dtype in INT_TYPES):
                        told = "value" if fixed else "value and shape"
                        said = f"input {name} has a default value, which is taken for its {told}"
                        self.note("default", said, None, scope, name)
                scope.env[name] = self.interner.stored(stored.dtype, stored.dims, value)
        for name, declared in (*graph.value_info.items(), *graph.outputs):
            known = declared_known(self, declared)
            if scope.repeats and isinstance(known, Tensor):  # a name cannot stand for a size that changes
                known = self.interner.tensor(known.dtype, None)
            if known is not None:
                scope.declared[name] = known
        return Body(graph.nodes, scope)

    def _lower_body(self, body: Body) -> None:
        """Lower a body, and those that its nodes run, however deep inside each other: Python's stack is the host's."""
        around: list[tuple[Body, Call]] = []
        outer, error = self.scope, None
        while True:
            self.scope = body.scope
            self.opsets[body.scope.prefix] = body.scope.opsets
            call = None
            if error is None:
                try:
                    call = self._next_call(body)
                except BaseException as e:
                    error = e
            if call is None:  # all nodes are lowered, or one failed
                if not around:
                    break
                body, call = around.pop()
                self.scope = body.scope
            try:
                inner = self._resume(call, error)
                error = None
            except BaseException as e:
                inner, error = None, e
            if inner is not None:
                around.append((body, call))
                body = inner
        self.scope = outer
        if error is not None:
            try:
                raise error
            finally:
                error = None  # it holds this frame

    def _next_call(self, body: Body) -> Call | None:
        """Lower nodes in order, up to one that runs bodies; None when all are lowered."""
        nodes, scope = body.nodes, body.scope
        total = len(nodes) if scope.parent is None else 0
        for i in range(body.at, len(nodes)):
            call = self._lower(nodes[i], scope)
            if total and self.progress is not None and not i % 64:
                self.progress(i, total)
            if call is not None:
                body.at = i + 1
                return call
        body.at = len(nodes)
        if scope.prefix:
            for name, known in scope.env.items():
                if name not in scope.refined:
                    self.tensors.setdefault(scope.prefix + name, known)
        return None

    def _resume(self, call: Call, error: BaseException | None) -> Body | None:
        """The next body that a node runs, after the one before was lowered or failed; None when the node is done."""
        outputs: Any = ()
        steps: Any = call.steps
        try:
            body: Body = steps.send(None) if error is None else steps.throw(error)
            return body
        except StopIteration as done:
            outputs = done.value
        except Exception as e:
            if not self._stopped(call, e):
                raise
        self._finish(call, outputs)
        return None

    def _lower(self, node: Node, scope: Scope) -> Call | None:
        """Lower one node: outputs into the scope, statements into the log. The call of its rule, if that runs bodies."""
        env, version = scope.env, self.facts.version
        given: list[Known | None] = []
        for name in node.inputs:
            found = env.get(name)
            if found is None:
                found = self.read(name, scope)
            elif type(found) is Tensor and found.as_of == version:
                found = found.now or found
            else:
                found = self.current(found)
            given.append(found)
        inputs = tuple(given)
        key = node.key
        if key is None or scope.attrs is not None:
            return self._apply(node, inputs, scope, None)
        key = (key, id(scope.opsets), scope.guard, inputs)
        hit = self._memo.get(key)
        if hit is None or (hit.version != version and not self._still_holds(hit)):
            return self._apply(node, inputs, scope, key)
        known, prefix = hit.outputs, scope.prefix
        for cond, why, places in hit.requirements:
            self.log.append(Entry(cond, "requirement", node, prefix, why, places, scope.guard))
        for a, b, places in hit.ambiguous:
            self.opens.append(Open(a, b, node, prefix, places))
        if self.hints or self.failed or not scope.declared.keys().isdisjoint(node.outputs):
            self._bind(node, known, scope)
            return None
        made, producers = (node, prefix), self.producers
        for i, name in enumerate(node.outputs):
            if name:
                env[name] = known[i]
                producers[prefix + name] = made
        return None

    def _remember(self, call: Call, outputs: tuple[Known | None, ...]) -> None:
        known, op = tuple([self.interner.tensor(0, None) if k is None else k for k in outputs]), call.op
        self._memo[call.key] = LoweredNode(call.version, call.key[-1], known, op.requirements, op.ambiguous)

    def _still_holds(self, hit: LoweredNode) -> bool:
        """Has nothing been learned since about the symbols that it depends on?"""
        changed = self.facts.changed
        for known in hit.inputs:
            if known is not None:
                for name in known.free:
                    if changed.get(name, 0) > hit.version:
                        return False
        hit.version = self.facts.version
        return True

    def _apply(self, node: Node, inputs: tuple[Known | None, ...], scope: Scope, key: Any) -> Call | None:
        """Have the rule of a node lower it; the call, where it runs bodies and waits for the first."""
        version = scope.opsets.get(node.domain, 1)
        rule = self.operators.rule(node, scope.opsets)
        op = Op(self, node, inputs, version, scope.attrs, rule)
        clashes = len(self.clashes)
        unfit = self.operators.misfit(op)
        if unfit is not None:  # it is refused, but its shapes are still worth knowing
            self.clash(unfit, node, scope, loads=False)
        call = Call(op, scope, key, self.facts.version, clashes, unfit is None)
        outputs: Any = ()
        try:
            wrong = None if rule is None else misranked(node, inputs, rule)
            if wrong is not None:
                raise InvalidNode(wrong)
            if rule is None:
                from .fallback import lower_unregistered

                call.steps = lower_unregistered(op, scope)
                return call
            outputs = rule.lower(op)
            if rule.bodies:
                call.steps = outputs
                return call
        except Exception as error:
            if not self._stopped(call, error):
                raise
        self._finish(call, outputs)
        return None

    def _stopped(self, call: Call, error: Exception) -> bool:
        """Say why a rule gave no outputs; False for an error that no rule should make."""
        node, scope = call.op.node, call.scope
        if isinstance(error, InvalidNode):
            if call.fits:
                self.clash(str(error), node, scope, loads=not isinstance(error, MalformedNode))
            return True
        if isinstance(error, (DimTooLarge, ZeroDivisionError)):
            if not (self.failed and self.follows_from_failure(node, call.op.inputs, scope)):
                self.note("open", f"an expression could not be followed: {error}", node, scope)
            call.op.pure = False
            return True
        if isinstance(error, MemoryError):
            return False
        if call.fits:  # else the rule may have relied on what its operator always has
            self._report_rule(call, f"raises {type(error).__name__}: {error}")
        return True

    def _report_rule(self, call: Call, what: str) -> None:
        node, op = call.op.node, call.op
        domain = f"{node.domain}." if node.domain else ""
        told = f"the rule of {domain}{node.op_type} {what}"[:500]
        self.note("rule", f"{told}: nothing is known of the outputs", node, call.scope)
        op.pure = False
        op.requirements, op.ambiguous = [], []

    def _finish(self, call: Call, outputs: Any) -> None:
        """Take down what a rule stated and gave."""
        op, scope = call.op, call.scope
        node = op.node
        done = self._as_tuple(outputs, node)
        odd = next((k for k in done if k is not None and not isinstance(k, KINDS)), None)
        if odd is not None:
            self._report_rule(call, f"gives a {type(odd).__name__} where `op.out(shape)` is due")
            done = (None,) * len(node.outputs)
        for cond, why, places in op.requirements:
            self.require(cond, why, places, node, scope)
        for a, b, places in op.ambiguous:
            self.opens.append(Open(a, b, node, scope.prefix, places))
        done = fill_types(op, done)
        clean = len(self.clashes) == call.clashes
        if not clean and call.fits:
            done = tuple(self._opened(k) for k in done)
            self.spoil(node, op.inputs, done, scope)
        for known in done:
            if isinstance(known, Tensor) and known.shape is not None:
                for d in known.shape:
                    if d.terms:
                        lo = (d.bounds_memo or d.bounds())[0]
                        if lo is None or lo < 0:
                            self.say_size(d, node)
        if clean and op.pure and call.key is not None and call.version == self.facts.version:
            self._remember(call, done)
        self._bind(node, done, scope)

    def _as_tuple(self, outputs: Any, node: Node) -> tuple[Any, ...]:
        n = len(node.outputs)
        if not isinstance(outputs, (tuple, list)) or isinstance(outputs, Shape):
            if n == 1:
                return (outputs,)
            outputs = (outputs,)
        return (*outputs[:n], *(None,) * (n - len(outputs)))

    def _bind(self, node: Node, outputs: tuple[Known | None, ...], scope: Scope) -> None:
        env, producers, prefix, declared = scope.env, self.producers, scope.prefix, scope.declared
        if self.failed:
            self.spread(node, [self.read(name, scope) for name in node.inputs], outputs, scope)
        for name, known in zip(node.outputs, outputs, strict=True):
            if name:
                if known is None:
                    known = self.interner.tensor(0, self.hints.get(prefix + name))
                elif prefix + name in self.hints and isinstance(known, Tensor) and known.shape is None:
                    known = self.interner.tensor(known.dtype, self.hints[prefix + name], known.value)
                if declared and name in declared:
                    from .declared import reconcile

                    known = reconcile(self, node, scope, name, known, declared[name])
                env[name] = known
                producers[prefix + name] = (node, prefix)

    def _opened(self, known: Known | None) -> Known | None:
        """What is left of an output of a node that cannot run: type and rank, and sizes of which nothing more is required."""
        if not isinstance(known, Tensor) or known.shape is None:
            return known if not isinstance(known, Tensor) else self.interner.tensor(known.dtype, None)
        dims = [self.fresh("output of a node that cannot run") for _ in known.shape]
        self.poisoned.update(*(d.free for d in dims))
        return self.interner.tensor(known.dtype, Shape(dims))

    # ------------------------------------------------------------------ what rules use

    def read(self, name: str, scope: Scope) -> Known | None:
        """What is known of a tensor now, read through the facts; None for an absent input."""
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
        """`known` read through the facts as they are now."""
        changed, version = self.facts.changed, self.facts.version
        if not isinstance(known, Tensor):
            if changed.keys().isdisjoint(known.free):
                return known
            made, found = self._others.get(known, (-1, known))
            if made != version:
                found = self.interner.resolve(known, self.facts.dim)
                self._others[known] = version, found
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
        """A tensor of unknown rank has this shape (a node needs its rank)."""
        scope = self._owner(name)
        if scope is None:
            return
        known = scope.env[name]
        if not isinstance(known, Tensor):
            return
        here = self.scope
        if scope is not here and (self.rehearsing or scope.guard is not here.guard):
            here.refined.add(name)  # true where this branch is taken
            scope = here
        elif not self.rehearsing:
            self.hints[scope.prefix + name] = shape
        scope.env[name] = self.interner.tensor(known.dtype, shape, known.value)

    def unknown_values(self, name: str, tensor: Tensor, n: int) -> tuple[Dim, ...]:
        """Symbols for the unknown elements of a small integer tensor, the same at every use."""
        known = tensor.value.elems if tensor.value is not None else None
        elems = tuple(
            e if isinstance(e, Dim) else self.fresh(f"element {i} of {name}", "value")
            for i, e in enumerate(known or (None,) * n)
        )
        shape = tuple(int(d) for d in tensor.shape or ())
        scope = self._owner(name)
        if scope is not None:
            self._learn(scope, name, self.interner.tensor(tensor.dtype, tensor.shape, Value(shape, elems)))
        return elems

    def unknown_truth(self, name: str, tensor: Tensor | None) -> Cond:
        """The truth of an unknown boolean scalar as a condition on a 0/1 symbol, the same at every use."""
        bit = self.fresh(f"truth of {name}")
        self.define(le(bit, 1), f"{name} is true or false", None)
        scope, cond = self._owner(name), eq(bit, 1)
        if scope is not None and tensor is not None and tensor.shape is not None and len(tensor.shape) < 2:
            value = Value((1,) * len(tensor.shape), (cond,))
            self._learn(scope, name, self.interner.tensor(tensor.dtype, tensor.shape, value))
        return cond

    def _learn(self, scope: Scope, name: str, known: Known) -> None:
        """More is known of a tensor, for the time of a trial or for good."""
        if self.rehearsing:
            self.overwritten.append((scope.env, name, scope.env[name]))
        scope.env[name] = known

    def _owner(self, name: str) -> Scope | None:
        s: Scope | None = self.scope
        while s is not None and name not in s.env:
            s = s.parent
        return s

    def full_name(self, name: str, prefix: str) -> str:
        """The tensor that `name` means inside the scope of `prefix`, as `tensors` has it."""
        while True:
            full = prefix + name
            if full in self.tensors or not prefix:
                return full
            prefix = prefix.rstrip("/").rpartition("/")[0]
            prefix = f"{prefix}/" if prefix else ""

    def under(self, scope: Scope, prefix: str, guard: Cond = TRUE) -> Scope:
        """A scope inside `scope`."""
        if scope.depth >= MAX_DEPTH:
            raise InvalidNode(f"subgraphs are nested more than {MAX_DEPTH} deep")
        inner = Scope(prefix, scope.opsets, parent=scope, attrs=scope.attrs)
        inner.guard = all_of((scope.guard, guard))
        inner.depth, inner.repeats = scope.depth + 1, scope.repeats
        return inner
