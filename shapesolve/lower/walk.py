# compiled: see CONTRIBUTING.md
"""`Walk`: lowers every node in order by its rule; conditions go to the log and to the facts.

Lowering is memoized: a node that says the same (`Node.key`) of the same inputs (interned, so compared by identity) gets the
same outputs, which makes the repeated layers of a model cost a lookup each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..expr import DimTooLarge, Shape
from ..model import Model, Node
from .fallback import inferred_by_schema, lower_unregistered
from .interface import misranked, mistyped, unchosen
from .limits import MAX_DERIVED, MAX_UNKNOWN
from .op import InvalidNode, MalformedNode, Op
from .reconcile import reconcile
from .records import Body, Entry, FactStore, LoweredNode, Open, Scope, Steps
from .request import Request, Watch
from .rule import Rule
from .scopes import Scopes, rehearsal
from .shared_memory import require_shared_memory
from .types import KINDS, Known, Tensor
from .values import INT_TYPES, Elem


class Call:
    """Node being lowered, with the state before; `steps` runs its subgraphs.

    Attributes:
        key: Key of the cached result, or None.
        version: Version of the facts.
        outputs: Known values of the outputs when the rule stopped.
    """

    __slots__ = ("clashes", "fits", "key", "op", "outputs", "scope", "steps", "version")

    def __init__(self, op: Op, scope: Scope, key: Any, version: int, clashes: int, fits: bool) -> None:
        self.op, self.scope, self.key = op, scope, key
        self.version, self.clashes, self.fits = version, clashes, fits
        self.steps: Steps | None = None
        self.outputs: Sequence[Known | None] = ()


class Walk(Scopes):
    """Lowers a model node by node. After `run`: `tensors`, `log`, `clashes`, `opens`, `notes`, `producers`."""

    def __init__(self, model: Model, request: Request, facts: FactStore, watch: Watch | None = None) -> None:
        super().__init__(model, request, facts)
        self.progress, self.observe, self.stop = watch or Watch()
        #: True if `stop` ended the lowering
        self.is_stopped = False
        self._depth = 0  # number of consecutive nodes whose integers are computed

    # ------------------------------------------------------------------ walking

    def run(self, inputs: Mapping[str, Known], taken: Iterable[str] = ()) -> None:
        """Lower the main graph with these inputs; `taken` are symbol names in use."""
        self.take(taken)
        scope = self.scope
        scope.env = self.state.tensors
        scope.env.update(inputs)
        self.state.named_inputs.update(inputs)
        self._lower_body(self.body(self.model.graph, scope))
        if self.is_stopped:
            return
        outputs = {name for name, _ in self.model.graph.outputs}
        stale = (
            e.node for e in self.state.log if e.role == "declared" and not e.prefix and e.node is not None
        )
        if self.request.semantics == "onnxruntime" and any(
            not outputs.issuperset(node.outputs) for node in stale
        ):
            require_shared_memory(self, self.model.graph)

    def lower(self, node: Node) -> None:
        """Lower one more node of the main graph, after `run`."""
        self._lower_body(Body((node,), self.scope))

    def _lower_body(self, body: Body) -> None:
        """Lower a body and the bodies nested in it, with an explicit stack. Python's stack is the host's."""
        around: list[tuple[Body, Call]] = []
        outer, error = self.scope, None
        while True:
            self.scope = body.scope
            self.state.opsets[body.scope.prefix] = body.scope.opsets
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
        nodes, scope = body.nodes, body.scope
        total = len(nodes) if scope.parent is None else 0
        for i in range(body.at, len(nodes)):
            if self.is_stopped:
                break
            said = len(self.state.log) + len(self.state.clashes)
            call = self._lower(nodes[i], scope)
            if self.stop is not None and total and len(self.state.log) + len(self.state.clashes) > said:
                self.is_stopped = self.stop(self.state)
            if total and self.progress is not None and not i % 64:
                self.progress(i, total)
            if call is None and self.observe is not None:
                self._show(nodes[i], scope)
            if call is not None:
                body.at = i + 1
                return call
        body.at = len(nodes)
        if scope.prefix:
            for name, known in scope.env.items():
                if name not in scope.refined:
                    self.state.tensors.setdefault(scope.prefix + name, known)
        return None

    def _resume(self, call: Call, error: BaseException | None) -> Body | None:
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
            outputs = call.outputs
        self._finish(call, outputs)
        if self.observe is not None:
            self._show(call.op.node, call.scope)
        return None

    def _show(self, node: Node, scope: Scope) -> None:
        if self.observe is not None and not self.state.trials:
            self.observe(
                node, {scope.prefix + n: self.current(scope.env[n]) for n in node.outputs if n in scope.env}
            )

    def _lower(self, node: Node, scope: Scope) -> Call | None:
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
        hit = self.state.memo.get(key)
        if hit is None or (hit.version != version and not self._still_holds(hit)):
            return self._apply(node, inputs, scope, key)
        known, prefix = hit.outputs, scope.prefix
        for cond, why, places in hit.requirements:
            self.state.log.append(Entry(cond, "requirement", node, prefix, why, places, scope.guard))
        for a, b, places in hit.ambiguous:
            self.state.opens.append(Open(a, b, node, prefix, places))
        declared = scope.declared
        if (
            self.state.hints
            or self.state.failed
            or self.request.instead
            or any(name in declared for name in node.outputs)
        ):
            self._bind(node, known, scope)
            return None
        made, producers = (node, prefix), self.state.producers
        for i, name in enumerate(node.outputs):
            if name:
                env[name] = known[i]
                producers[prefix + name] = made
        return None

    def _remember(self, call: Call, outputs: tuple[Known | None, ...]) -> None:
        known, op = tuple([self.interner.tensor(0, None) if k is None else k for k in outputs]), call.op
        self.state.memo[call.key] = LoweredNode(
            call.version, call.key[-1], known, op.requirements, op.ambiguous
        )

    def _still_holds(self, hit: LoweredNode) -> bool:
        changed = self.facts.changed
        for known in hit.inputs:
            if known is not None:
                for name in known.free:
                    if changed.get(name, 0) > hit.version:
                        return False
        hit.version = self.facts.version
        return True

    def _apply(self, node: Node, inputs: tuple[Known | None, ...], scope: Scope, key: Any) -> Call | None:
        version = scope.opsets.get(node.domain, 1)
        rule = self.operators.rule(node, scope.opsets)
        op = Op(self, node, inputs, version, scope.attrs, rule)
        clashes = len(self.state.clashes)
        unfit = None
        if rule is not None or not self.operators.is_local(node):
            unfit = self.operators.misfit(node, op.names, version, rule)
            unfit = unfit or mistyped(node, inputs, version) or unchosen(node, op, rule)
        if unfit is not None:  # it is refused, but its shapes are still worth knowing
            self.clash(unfit, node, scope, loads=False)
        if self.state.outside and rule is not None:
            self._look_outside(node, rule, scope)
        call = Call(op, scope, key, self.facts.version, clashes, unfit is None)
        outputs: Any = ()
        try:
            wrong = None if rule is None else misranked(node, inputs, rule)
            if wrong is not None:
                raise InvalidNode(wrong)
            if rule is None:
                call.steps = lower_unregistered(op, scope)
                return call
            outputs = rule.lower(op)
            if rule.bodies:
                call.steps = outputs
                return call
        except Exception as error:
            if not self._stopped(call, error):
                raise
            outputs = call.outputs
        self._finish(call, outputs)
        return None

    def _look_outside(self, node: Node, rule: Rule, scope: Scope) -> None:
        """Reports data of the node that is missing, or that onnxruntime does not read when it loads the model."""
        for i in rule.data:
            name = node.inputs[i] if i < len(node.inputs) else ""
            place = self.state.outside.get(self.full_name(name, scope.prefix))
            if place is None:
                continue
            location, found = place
            if not found:
                self.clash(
                    f"{name} is in the file {location}, which is missing or too short",
                    node,
                    scope,
                    loads=False,
                )
            elif self.request.semantics == "onnxruntime":
                what = f"onnxruntime does not load the model: {node.op_type} reads {name} from the file {location}"
                self.note("outside", what, node, scope)

    def _stopped(self, call: Call, error: Exception) -> bool:
        """Reports an exception of a rule as conflict or remark; False for an unexpected exception."""
        node, scope = call.op.node, call.scope
        if isinstance(error, InvalidNode):
            if call.fits:
                self.clash(str(error), node, scope, loads=not isinstance(error, MalformedNode))
            return True
        if isinstance(error, (DimTooLarge, ZeroDivisionError)):
            if not (self.state.failed and self.follows_from_failure(node, call.op.inputs, scope)):
                self.note("open", f"unsupported expression: {error}", node, scope)
            call.op.pure = False
            call.outputs = inferred_by_schema(call.op)
            return True
        if isinstance(error, MemoryError):
            return False
        if call.fits:  # otherwise the rule may have relied on inputs that its operator requires
            self._report_rule(call, f"raises {type(error).__name__}: {error}")
        return True

    def _report_rule(self, call: Call, what: str) -> None:
        node, op = call.op.node, call.op
        domain = f"{node.domain}." if node.domain else ""
        problem = f"the rule of {domain}{node.op_type} {what}"[:500]
        self.note("rule", f"{problem}: its outputs are unknown", node, call.scope)
        op.pure = False
        op.requirements, op.ambiguous = [], []

    def _finish(self, call: Call, outputs: Any) -> None:
        op, scope = call.op, call.scope
        node = op.node
        done = self._as_tuple(outputs, node)
        odd = next((k for k in done if k is not None and not isinstance(k, KINDS)), None)
        if odd is not None:
            self._report_rule(call, f"must return `op.out(shape)`, got {type(odd).__name__}")
            done = (None,) * len(node.outputs)
        for cond, why, places in op.requirements:
            self.require(cond, why, places, node, scope)
        for a, b, places in op.ambiguous:
            self.state.opens.append(Open(a, b, node, scope.prefix, places))
        done = self._typed(op, done)
        clean = len(self.state.clashes) == call.clashes
        if not clean and call.fits:
            done = tuple(self._opened(k, f"{scope.prefix}{node.label}") for k in done)
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

    def probe(self, node: Node, inputs: Mapping[str, Known], prefix: str) -> dict[str, Known]:
        """Return a node's outputs for other inputs, given by name; empty if it cannot run on them."""
        around = self.scope
        with rehearsal(self):
            self.scope = scope = Scope(prefix, self.state.opsets[prefix], dict(inputs))
            try:
                self.lower(node)
                if self.state.clashes:
                    return {}
                return {n: scope.env[n] for n in node.outputs if n in scope.env}
            finally:
                self.scope = around

    def computed(self, name: str, scope: Scope) -> tuple[Elem, ...] | None:
        """Return the elements of a tensor as its node computes them from symbols; None if unknown."""
        node = self.state.producers.get(scope.prefix + name, (None, ""))[0]
        rule = None if node is None else self.operators.rule(node, scope.opsets)
        if node is None or rule is None or not rule.values or rule.bodies or rule.draws or rule.sizes:
            return None
        if self._depth >= MAX_DERIVED:
            return None
        around, self.scope = self.scope, scope
        self._depth += 1
        try:
            inputs = tuple([self._with_elements(n, scope) for n in node.inputs])
            op = Op(self, node, inputs, scope.opsets.get(node.domain, 1), scope.attrs, rule)
            with rehearsal(self):
                made = self._as_tuple(rule.lower(op), node)[node.outputs.index(name)]
        except (InvalidNode, DimTooLarge, ZeroDivisionError):
            return None
        finally:
            self.scope = around
            self._depth -= 1
        value = made.value if op.pure and isinstance(made, Tensor) else None
        return None if value is None else value.elems

    def _with_elements(self, name: str, scope: Scope) -> Known | None:
        """Known value of a tensor, with symbols for its elements where these are few unknown integers."""
        known = self.read(name, scope)
        if not isinstance(known, Tensor) or known.shape is None or known.dtype not in INT_TYPES:
            return known
        n = known.shape.numel.value if len(known.shape) < 2 else None
        elems = (None,) if known.value is None else known.value.elems or (None,)
        if n is None or n > MAX_UNKNOWN or None not in elems:
            return known
        self.unknown_values(name, known, n)
        return self.read(name, scope)

    def _as_tuple(self, outputs: Any, node: Node) -> tuple[Any, ...]:
        n = len(node.outputs)
        if not isinstance(outputs, (tuple, list)) or isinstance(outputs, Shape):
            if n == 1:
                return (outputs,)
            outputs = (outputs,)
        return (*outputs[:n], *(None,) * (n - len(outputs)))

    def _typed(self, op: Op, outputs: tuple[Known | None, ...]) -> tuple[Known | None, ...]:
        for known in outputs:
            if known is None or (type(known) is Tensor and not known.dtype):
                break
        else:
            return outputs
        done: list[Known | None] = []
        for i, known in enumerate(outputs):
            if known is None:
                dtype = op.output_dtype(i)
                known = self.interner.tensor(dtype, None) if dtype else None
            elif isinstance(known, Tensor) and not known.dtype:
                dtype = op.output_dtype(i) or self._custom_dtype(op, i)
                known = self.interner.tensor(dtype, known.shape, known.value) if dtype else known
            done.append(known)
        return tuple(done)

    def _custom_dtype(self, op: Op, i: int) -> int:
        """Return the element type of an output without one in rule and schema: as declared, or the first input's."""
        declared = self.scope.declared.get(op.node.outputs[i])
        if isinstance(declared, Tensor) and declared.dtype:
            op.pure = False
            return declared.dtype
        return op.dtype(0) if op.rule is not None else 0

    def _bind(self, node: Node, outputs: tuple[Known | None, ...], scope: Scope) -> None:
        env, producers, prefix, declared = scope.env, self.state.producers, scope.prefix, scope.declared
        if self.state.failed:
            self.spread(node, [self.read(name, scope) for name in node.inputs], outputs, scope)
        for name, known in zip(node.outputs, outputs, strict=True):
            if name:
                if known is None:
                    known = self.interner.tensor(0, None)
                if isinstance(known, Tensor) and known.shape is None and prefix + name in self.state.hints:
                    known = self.interner.tensor(known.dtype, self.state.hints[prefix + name], known.value)
                    self.state.believed.add(prefix + name)
                if self.request.instead and node.is_constant and isinstance(known, Tensor):
                    known = self.replaced(prefix + name, known)
                if declared and name in declared:
                    known = reconcile(self, node, scope, name, known, declared[name])
                env[name] = known
                producers[prefix + name] = (node, prefix)

    def _opened(self, known: Known | None, label: str) -> Known | None:
        """Output of a node that cannot run: type and rank, with new symbols as sizes."""
        if not isinstance(known, Tensor) or known.shape is None:
            return known if not isinstance(known, Tensor) else self.interner.tensor(known.dtype, None)
        dims = [self.fresh(f"unknown, because {label} cannot run") for _ in known.shape]
        self.state.poisoned.update(*(d.free for d in dims))
        return self.interner.tensor(known.dtype, Shape(dims))
