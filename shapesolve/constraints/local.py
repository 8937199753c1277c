# compiled: see CONTRIBUTING.md
"""Lowers each node on its own, over variables for its inputs' dims: the rows of the constraint system.

An analysis carries expressions in the input symbols from node to node. Here, each tensor's dims become variables
(`Z[1]`) as soon as its
node is lowered, and the rule's result is kept as their definition. A definition is therefore local to one node, and a
model is the
conjunction of such local constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onnx import TensorProto

from ..expr import FALSE, TRUE, Cond, Dim, Shape, Substitution, all_of, eq, symbol
from ..lower.records import Body, Entry, Scope
from ..lower.request import Request
from ..lower.scopes import Settled
from ..lower.types import Known, Tensor
from ..lower.values import INT_TYPES, Value
from ..lower.walk import Call, Walk
from ..model import Graph, Model, Node
from ..solve.facts.facts import Facts

if TYPE_CHECKING:
    from ..solve.facts.constraint import Role

#: elements of these types may be sizes, axes or conditions: rules read them one by one
_READ = INT_TYPES | {TensorProto.BOOL}
Inputs = tuple[Known | None, ...]


class Definition:
    """Definition of a tensor's dim by its node: ``variable == dim``. It is an `Entry` whose condition is made when it is
    asked for.

    With axis -1 it says what a name stands for that the analysis gave to a size.
    """

    __slots__ = (
        "_cond", "axis", "dim", "guard", "node", "numbers", "prefix", "role", "tensor", "variable", "why",
    )  # fmt: skip

    def __init__(
        self,
        tensor: str,
        axis: int,
        variable: Dim,
        dim: Dim,
        role: Role,
        why: str,
        node: Node | None,
        prefix: str,
        guard: Cond,
        numbers: Cond = TRUE,
    ) -> None:
        """A definition that holds under `guard`; `numbers` is the part of it on numbers of sizes."""
        self.numbers = numbers
        self.tensor, self.axis, self.variable, self.dim = tensor, axis, variable, dim
        self.role, self.why, self.node, self.prefix, self.guard = role, why, node, prefix, guard
        self._cond: Cond | None = None

    @property
    def cond(self) -> Cond:
        """The equality."""
        if self._cond is None:
            self._cond = eq(self.variable, self.dim)
        return self._cond


@dataclass(slots=True, eq=False)
class Attempt:
    """State before lowering a node: inputs, and the numbers of rows, conflicts and names."""

    inputs: Inputs
    rows: int
    clashes: int
    names: int
    numbered: bool = False  # with the numbers that the analysis found


class Analysed(NamedTuple):
    """Shapes, data and walk of an analysis, with which local rows are compared."""

    walk: Walk
    shapes: Mapping[str, Shape]
    values: Mapping[str, Value]
    symbols: frozenset[str]


class LocalWalk(Walk):
    """Lowers a model node by node over variables; `rows` are the resulting definitions and conditions.

    If a rule needs a size as a number, the node is lowered with the numbers of the analysis, under the guard that the
    variables are equal to
    them. If the result is still less precise than the analysis, which reads sizes through everything it has learned,
    the analysis'
    result becomes the definition; `restated` has the labels of these nodes.
    """

    def __init__(self, model: Model, analysed: Analysed) -> None:
        super().__init__(model, Request((), {}, "named", analysed.walk.request.rules), Settled(Facts()))
        self.analysed = analysed
        self.rows: list[Entry | Definition] = []
        self.numbered: list[str] = []
        self.restated: list[str] = []
        self._variables: dict[tuple[str, int], Dim] = {}
        self._numbers: dict[str, Dim] = {}
        self._fixed: set[str] = set()  # variables that have their number whatever a node needs
        walk = analysed.walk
        self.state.numbers = dict(walk.state.numbers)
        self.reserve(walk.state.reserved)
        self._generated = frozenset(walk.state.reasons)
        self._refused = {(id(c.node), c.prefix) for c in walk.state.clashes if c.entry is None}
        self._entries: dict[tuple[int, str], list[Entry]] | None = None
        self._attempts: dict[tuple[int, str], Attempt] = {}

    def build(self, inputs: Mapping[str, Known]) -> None:
        """States the rows of a model with these inputs."""
        why = "declared for this input"
        cut = {name: self._cut(name, known, "input", why, None, "") for name, known in inputs.items()}
        self.run(cut, self.analysed.symbols)
        self._take_log()
        self._name_sizes()
        self.rows[:0] = self._given()

    def _given(self) -> list[Entry]:
        """The user's conditions, and the equalities of sizes that the analysis assumed."""
        made = {(id(r.node), r.prefix, r.why) for r in self.rows if r.role == "assumption"}
        log = self.analysed.walk.state.log
        assumed = [e for e in log if e.role == "assumption" and (id(e.node), e.prefix, e.why) not in made]
        return [*(e for e in log if e.role == "user"), *assumed]

    def _name_sizes(self) -> None:
        """Defines generated symbols of data-dependent sizes by the tensor dims that have them."""
        named: set[str] = set()
        for tensor, shape in self.analysed.shapes.items() if self._generated else ():
            for axis, d in enumerate(shape):
                name = d.name
                if name is not None and name in self._generated and name not in named:
                    named.add(name)
                    why = self.analysed.walk.state.reasons[name]
                    variable = self.variable(tensor, axis)
                    self.rows.append(Definition(name, -1, d, variable, "definition", why, None, "", TRUE))

    # ------------------------------------------------------------------ variables

    def variable(self, tensor: str, axis: int) -> Dim:
        """The variable of a tensor's dim, ``tensor[axis]``. It gets a prime where a dim of the model has that name."""
        found = self._variables.get((tensor, axis))
        if found is None:
            name = f"{tensor}[{axis}]"
            while name in self.analysed.symbols or name in self.state.reserved:
                name += "'"
            found = self._variables[tensor, axis] = symbol(name)
            shape = self.analysed.shapes.get(tensor)
            if shape is not None and axis < len(shape):
                dim = shape[axis]
                if not dim.terms:
                    self._numbers[name] = dim
                if dim.free <= self.analysed.walk.state.of_inputs:
                    self.state.of_inputs.add(name)
        return found

    def _cut(self, full: str, known: Known, role: Role, why: str, node: Node | None, prefix: str) -> Known:
        """Adds definitions of a tensor's dims; returns the tensor with variables for dims."""
        if not isinstance(known, Tensor) or known.shape is None:
            return known
        guard = TRUE if node is None else self.scope.guard
        dims: list[Dim] = []
        for axis, dim in enumerate(known.shape):
            variable = self.variable(full, axis)
            dims.append(variable)
            if role == "input" and not dim.terms:
                self._fixed.add(variable.name or "")
            if dim is not variable:
                self.rows.append(Definition(full, axis, variable, dim, role, why, node, prefix, guard))
        if known.value is not None and known.value.elems is not None and known.dtype in _READ:
            return known  # as long as its elements say, which rules follow one by one
        return self.interner.tensor(known.dtype, Shape(dims), known.value)

    # ------------------------------------------------------------------ nodes

    def body(self, graph: Graph, scope: Scope) -> Body:
        """The nodes of `graph` as a body to lower, with variables for the dims of its stored tensors."""
        if not self.state.trials:
            for name, stored in graph.initializers.items():
                if name not in scope.env:
                    known = self.interner.stored(stored.dtype, stored.dims, Value.stored(stored))
                    full = scope.prefix + name
                    scope.env[name] = self._cut(full, known, "input", "stored in the file", None, "")
        return super().body(graph, scope)

    def _lower(self, node: Node, scope: Scope) -> Call | None:
        if self.state.trials or scope.repeats:
            return super()._lower(node, scope)
        self._take_log()
        inputs = tuple([self.read(name, scope) for name in node.inputs])
        attempt = Attempt(inputs, len(self.rows), len(self.state.clashes), len(self.state.reasons))
        self._attempts[id(node), scope.prefix] = attempt
        return self._apply(node, inputs, scope, None)

    def _bind(self, node: Node, outputs: Inputs, scope: Scope) -> None:
        """Stores the outputs of a node, lowered again if they are less precise than in the analysis."""
        attempt = self._attempts.pop((id(node), scope.prefix), None)
        if attempt is not None:
            self._take_log()
            is_refused = (id(node), scope.prefix) in self._refused
            refused = [c for c in self.state.clashes[attempt.clashes :] if c.entry is None and c.node is node]
            poor = self._poor(node, outputs, scope, attempt)
            if (poor or bool(refused) is not is_refused) and not attempt.numbered:
                self._with_numbers(node, scope, attempt)
                return
            if refused:
                message = refused[-1].message
                self.rows.append(Entry(FALSE, "requirement", node, scope.prefix, message, (), scope.guard))
            elif poor:
                outputs = self._restated(node, scope, outputs, poor)
            self._complete(node, scope.prefix, attempt.rows)
        super()._bind(node, outputs, scope)
        if attempt is not None:  # requirements of a repeated body are read from the log by the loop node
            self._take_log()
        if not self.state.trials:
            self._cut_outputs(node, scope)

    def _cut_outputs(self, node: Node, scope: Scope) -> None:
        prefix, env, rule = scope.prefix, scope.env, f"what {node.op_type} gives"
        for name in node.outputs:
            if name:
                known = self._cut(prefix + name, env[name], "definition", rule, node, prefix)
                if not scope.repeats:  # in a body that runs repeatedly, a size may vary between iterations
                    env[name] = known

    def _poor(self, node: Node, outputs: Inputs, scope: Scope, attempt: Attempt) -> list[int]:
        made = list(self.state.reasons)[attempt.names :] if len(self.state.reasons) > attempt.names else ()
        new, prefix = frozenset(made), scope.prefix
        return [
            i
            for i, name in enumerate(node.outputs)
            if name and self._says_less(prefix + name, outputs[i], new)
        ]

    def _says_less(self, full: str, known: Known | None, new: frozenset[str]) -> bool:
        """True if the analysis has a size, element or bound that is unknown here or a `new` symbol."""
        shape, value = self.analysed.shapes.get(full), self.analysed.values.get(full)
        if shape is None:
            return False
        if not isinstance(known, Tensor) or known.shape is None or len(known.shape) != len(shape):
            return True
        for d, was in zip(known.shape, shape, strict=True):
            if not new.isdisjoint(d.free) and self._generated.isdisjoint(was.free):
                return True
        if value is None or known.dtype not in _READ:
            return False
        if known.value is None:
            return True
        if value.elems is None:
            pairs = zip(known.value.bounds, value.bounds, strict=True)
            return any(now is None and was is not None for now, was in pairs)
        elems = known.value.elems
        if elems is None or len(elems) != len(value.elems):
            return True
        return any(e is None and was is not None for e, was in zip(elems, value.elems, strict=True))

    def _with_numbers(self, node: Node, scope: Scope, attempt: Attempt) -> None:
        """Lower the node again with constant input dims as numbers. The resulting rows are guarded by the condition that
        the dims have these
        sizes.
        """
        used: dict[str, Dim] = {}

        def number(d: Dim) -> Dim:
            found = {n: self._numbers[n] for n in d.free if n in self._numbers}
            used.update(found)
            return Substitution(found)(d) if found else d

        inputs = tuple([None if k is None else self.interner.resolve(k, number) for k in attempt.inputs])
        captured: dict[str, Known] = {}
        for name in node.captures:
            if name in scope.env:
                captured[name] = scope.env[name]
                scope.env[name] = self.interner.resolve(captured[name], number)
        begin = attempt.rows
        del self.rows[begin:]
        again = Attempt(inputs, begin, len(self.state.clashes), len(self.state.reasons), True)
        self._attempts[id(node), scope.prefix] = again
        call = self._apply(node, inputs, scope, None)
        if call is not None:
            self._run(call)
        scope.env.update(captured)
        if used:
            self.numbered.append(f"{scope.prefix}{node.label}")
            given = all_of(eq(symbol(n), used[n]) for n in sorted(used) if n not in self._fixed)
            self.rows[begin:] = [_under(row, given) for row in self.rows[begin:]]
            self._complete(node, scope.prefix, begin)

    def _run(self, call: Call) -> None:
        error: BaseException | None = None
        while True:
            body = self._resume(call, error)
            if body is None:
                return
            error = None
            try:
                self._lower_body(body)
            except Exception as e:
                error = e

    def _restated(self, node: Node, scope: Scope, outputs: Inputs, poor: list[int]) -> Inputs:
        """Return the outputs, with imprecise ones replaced by the analysis's outputs."""
        walk = self.analysed.walk
        found = list(outputs)
        for i in poor:
            found[i] = walk.current(walk.state.tensors[scope.prefix + node.outputs[i]])
        self.restated.append(f"{scope.prefix}{node.label}")
        return tuple(found)

    def _complete(self, node: Node, prefix: str, begin: int) -> None:
        """Adds conditions of the analysis that local lowering of the node did not state."""
        logged = self._logged(node, prefix)
        if logged:
            rows = [row for row in self.rows[begin:] if row.node is node]
            stated = {row.why for row in rows}
            firm = {row.why for row in rows if row.guard.is_true}
            missing = [
                entry
                for entry in logged
                if entry.why not in stated
                # an equation that the numbers come from is trivial under the guard that they hold
                or (entry.cond.kind == "==" and entry.guard.is_true and entry.why not in firm)
            ]
            if missing:
                firm_now = {entry.cond for entry in missing if entry.guard.is_true}
                self.rows[begin:] = [row for row in self.rows[begin:] if row.cond not in firm_now]
                self.rows += missing
                self.restated.append(f"{prefix}{node.label}")

    def _logged(self, node: Node, prefix: str) -> list[Entry]:
        if self._entries is None:
            self._entries = {}
            for entry in self.analysed.walk.state.log:
                if entry.node is not None:
                    self._entries.setdefault((id(entry.node), entry.prefix), []).append(entry)
        return self._entries.get((id(node), prefix), [])

    def say_size(self, d: Dim, node: Node) -> None:
        """States nothing, as each variable is a size and not negative."""

    def _take_log(self) -> None:
        if not self.state.trials:
            self.rows += self.state.log
            self.state.log.clear()


def _under(row: Entry | Definition, numbers: Cond) -> Entry | Definition:
    """The row under the further condition that sizes have these numbers."""
    both = all_of((row.guard, numbers))
    if isinstance(row, Definition):
        where = (row.node, row.prefix, both, all_of((row.numbers, numbers)))
        return Definition(row.tensor, row.axis, row.variable, row.dim, row.role, row.why, *where)
    if row.cond.is_false:
        return row._replace(cond=~numbers)
    return row._replace(guard=both)
