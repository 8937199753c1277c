"""Control flow: If and Loop, whose subgraphs are lowered in their own scope and path condition."""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from onnx import TensorProto

from ..expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    constant,
    eq,
    floor_div,
    ge,
    ite,
    lt,
    minimum,
)
from ..expr.canonical import pos
from ..expr.limits import SAFE
from ..expr.traverse import atoms_of
from ..lower.join import Choice, by_rank
from ..lower.needed import need_inside
from ..lower.op import MalformedNode, Op
from ..lower.reads import between
from ..lower.records import Body, Scope, Steps
from ..lower.registry import lower_bodies
from ..lower.scopes import rehearsal
from ..lower.standard import standard_ranked, standard_room, stops_loading
from ..lower.types import Known, Tensor
from ..lower.values import Elem, Value
from ..model import TensorType, ValueType
from ..model.types import type_name
from .iteration import Carried
from .limits import DEEP, MAX_REHEARSING, MAX_TRIPS, MAX_UNROLLED


def lower_inside(
    op: Op, name: str, given: list[Known | None], guard: Cond
) -> Generator[Body, None, list[Known | None]]:
    """Lower the subgraph in attribute `name` with these inputs; returns its outputs."""
    walk, graph = op.walk, op.graph_attr(name)
    scope = walk.under(walk.scope, f"{walk.scope.prefix}{op.node.label}/{name}/", guard)
    once = op.rule is not None and op.rule.bodies == "one"
    scope.repeats = scope.repeats or not once
    if once:
        need_inside(op, scope.prefix, [out for out, _ in graph.outputs])
    for (inner, declared), known in zip(graph.inputs, given, strict=False):
        dtype = declared.dtype if isinstance(declared, TensorType) else 0
        if isinstance(known, Tensor) and known.dtype and dtype and known.dtype != dtype:
            kinds = f"{type_name(dtype)}, got {type_name(known.dtype)}"
            raise MalformedNode(f"the input {inner} of its {name} must be {kinds}")
        if known is None or (isinstance(known, Tensor) and not known.dtype):
            known = walk.interner.tensor(dtype, known.shape if known is not None else None)
        scope.env[inner] = known
    if walk.state.failed and walk.follows_from_failure(op.node, op.inputs, walk.scope):
        scope.meaningless.update(scope.env)
    yield walk.body(graph, scope)
    return [walk.read(out, scope) for out, _ in graph.outputs]


def require_room(op: Op, name: str, outs: Seq[Known | None], ran: Cond) -> None:
    """Require the sizes that onnxruntime allocates for outputs of the subgraph in attribute `name`. The condition is
    `ran`: the graph was run.

    It does so where it knows all sizes of an output when it loads the file; only declarations can make these wrong.
    """
    graph, prefix = op.graph_attr(name), f"{op.walk.scope.prefix}{op.node.label}/{name}/"
    declared = (*graph.value_info.values(), *(t for _, t in (*graph.inputs, *graph.outputs)))
    numbers = any(isinstance(d, int) for t in declared if isinstance(t, TensorType) for d in t.dims or ())
    if not numbers or not op.as_onnxruntime("declared-bodies"):
        return
    for i, ((out, _), known) in enumerate(zip(graph.outputs, outs, strict=False)):
        room = standard_room(op.walk, prefix + out) if op.wants(i) else None
        if room is None or not isinstance(known, Tensor) or known.shape is None:
            continue
        why = f"{out} in {name} is declared with shape {list(room)}"
        if len(room) != len(known.shape):
            op.require(~ran, why)
        else:
            op.require(any_of((~ran, all_of(map(eq, known.shape, room)))), why)


def _lower_dead(op: Op, name: str, given: list[Known | None]) -> Generator[Body, None, list[Known | None]]:
    """Lower a subgraph that never runs, as onnxruntime may reject the file for it."""
    walk = op.walk
    with rehearsal(walk):
        outs = yield from lower_inside(op, name, given, TRUE)
        found = [(c.node, c.prefix, c.message, c.loads) for c in walk.state.clashes if c.entry is None]
        wrong = [e for e in walk.state.log if e.role == "requirement" and e.cond.is_false]
    found += [(e.node, e.prefix, e.why, True) for e in wrong]
    for node, prefix, message, loads in found if op.as_onnxruntime("declared-bodies") else ():
        if node is not None and (not loads or stops_loading(walk, node)):
            what = f"onnxruntime does not load the file, although this {node.op_type} never runs: {message}"
            walk.note("load", what, node, Scope(prefix, walk.scope.opsets))
    return outs


def truth_of(op: Op, i: int) -> Cond | None:
    """Return the boolean in input `i` as a condition; None if it depends on data."""
    value = op.value(i)
    if value is None or value.elems is None or len(value.elems) != 1 or not isinstance(value.elems[0], Cond):
        return None
    cond = op.walk.facts.cond(value.elems[0])
    guard = op.walk.scope.guard  # inside a branch its condition holds
    holds = guard.args if guard.kind == "and" else (guard,)
    return TRUE if cond in holds else FALSE if ~cond in holds else cond


def visible_symbols(op: Op) -> frozenset[str]:
    """Symbols in the node's inputs and in outer tensors that its subgraphs read."""
    walk = op.walk
    known = [walk.read(name, walk.scope) for name in (*op.node.inputs, *op.node.captures)]
    return frozenset().union(*[k.free for k in known if k is not None])


# https://onnx.ai/onnx/operators/onnx__If.html
@lower_bodies("If", bodies="one", data=(0,))
def either_branch(op: Op) -> Steps:
    for name in ("then_branch", "else_branch"):
        graph = op.graph_attr(name)
        if len(graph.outputs) != op.n_out:
            raise MalformedNode(f"{name} must have {op.n_out} outputs, got {len(graph.outputs)}")
        if any(given not in graph.initializers for given, _ in graph.inputs):
            raise MalformedNode(f"{name} takes inputs, but a branch has none")
    shape = op.shape(0)
    if shape is not None:
        op.require(eq(shape.numel, 1), "the condition must be a single element", (0, None))
    cond = truth_of(op, 0)
    if cond is None:
        cond = op.walk.unknown_truth(op.node.inputs[0], op.tensor(0))
    if cond.is_true or cond.is_false:
        taken, dead = ("then_branch", "else_branch")[:: 1 if cond.is_true else -1]
        yield from _lower_dead(op, dead, [])
        return (yield from lower_inside(op, taken, [], TRUE))  # onnxruntime puts it in the place of the node
    then = yield from lower_inside(op, "then_branch", [], cond)
    other = yield from lower_inside(op, "else_branch", [], ~cond)
    require_room(op, "then_branch", then, cond)
    require_room(op, "else_branch", other, ~cond)
    choice = Choice(op, op.walk.facts.cond(cond))  # a branch that cannot run has settled it
    return [choice.output(i, a, b) for i, (a, b) in enumerate(zip(then, other, strict=False))]


# ---------------------------------------------------------------------- loops


@dataclass(frozen=True, slots=True)
class Trips:
    """Iteration count of a loop, a flag that it is exact, and the condition that it is above 0."""

    count: Dim
    exact: bool
    ran: Cond

    def record(self, op: Op) -> None:
        """Record the iteration count in the lowering state, under the name of the node."""
        op.walk.state.trips[f"{op.walk.scope.prefix}{op.node.label}"] = self.count


# https://onnx.ai/onnx/operators/onnx__Loop.html
@lower_bodies("Loop", bodies="trips", data=(0, 1), reads={0: between(1, 4, "a trip count")})
def loop(op: Op) -> Steps:
    body = op.graph_attr("body")
    first = [op.known(i) for i in range(2, len(op.node.inputs))]
    n = len(first)
    if len(body.inputs) != n + 2 or op.n_out < n or len(body.outputs) != op.n_out + 1:
        raise MalformedNode(
            f"the body takes {len(body.inputs)} inputs and gives {len(body.outputs)} outputs: unfit for"
            f" {n} carried values and {op.n_out} outputs"
        )
    for i, what in ((0, "the number of iterations"), (1, "the condition")):
        shape = op.shape(i) if op.has(i) else None
        if shape is not None:
            op.require(eq(shape.numel, 1), f"{what} must be a single element", (i, None))
    limit = op.scalar(0)
    if limit is None and op.has(0):  # a limit of unknown value
        limit = op.walk.fresh(f"the number of iterations that {op.name_of(0)} allows", "value")
    if limit is not None and limit.value is not None and limit.const >= SAFE:
        limit = None
    starts = truth_of(op, 1) if op.has(1) else TRUE
    if limit is not None and limit.value is not None and limit.const <= 1:
        return (yield from _at_most_once(op, first, limit.const > 0, starts))
    trip = op.fresh(f"iteration of {op.node.label}", 0, None if limit is None else pos(limit - 1))
    carried = Carried(op, first, trip, visible_symbols(op))
    goes_on = yield from _rehearse(op, carried, trip)
    trips = _count_trips(op, limit, starts, goes_on, trip, carried.visible)
    trips.record(op)
    begin = len(op.walk.state.log)
    if trips.ran.is_false:
        outs = yield from _lower_dead(op, "body", _given(op, trip, carried.guess))
    else:
        if carried.is_open:
            yield from _tried_trip(op, ZERO, first, trips.ran, carried.visible)
        outs = yield from lower_inside(op, "body", _given(op, trip, carried.guess), trips.ran)
        _on_first_and_last(op, begin, trip, trips)
    if carried.is_open and limit is not None and starts is not None and starts.is_true:
        known = yield from _unrolled(op, first, limit, carried.visible)
        if known is not None:
            after, trips = known
            trips.record(op)
            return [*after, *_scan_outputs(op, n, outs, trip, trips)]
    return [*carried.after(trips.count, trips.ran), *_scan_outputs(op, n, outs, trip, trips)]


def _tried_trip(
    op: Op, trip: Dim, carried: Seq[Known | None], ran: Cond, visible: frozenset[str]
) -> Generator[Body, None, list[Known | None]]:
    """Return the outputs of one iteration with these carried values, and require its conditions on sizes known outside."""
    walk = op.walk
    with rehearsal(walk):
        outs = yield from lower_inside(op, "body", _given(op, trip, carried), ran)
        stated = [
            e for e in walk.state.log if e.role == "requirement" and e.cond.free | e.guard.free <= visible
        ]
    for entry in stated:
        if entry.node is not None and not entry.cond.is_true:
            scope = Scope(entry.prefix, walk.scope.opsets, guard=entry.guard)
            walk.require(entry.cond, entry.why, entry.places, entry.node, scope)
    return outs


def _unrolled(
    op: Op, first: Seq[Known | None], limit: Dim, visible: frozenset[str]
) -> Generator[Body, None, tuple[list[Known | None], Trips] | None]:
    """Unroll a loop of few iterations; return the final carried values and the count.

    None if there are too many iterations, if data determines whether there is another one, or if a size is known only
    in
    the body.
    """
    most = MAX_UNROLLED // max(len(op.graph_attr("body").nodes), 1)
    if limit.value is None or limit.const > min(most, MAX_TRIPS) or op.walk.state.trials:
        return None
    carried, made = list(first), 0
    while made < limit.const:
        outs = yield from _tried_trip(op, constant(made), carried, TRUE, visible)
        carried, made, goes_on = outs[1 : len(first) + 1], made + 1, _condition_of(outs[0])
        if any(known is not None and not known.free <= visible for known in carried):
            return None
        if goes_on is None or goes_on.args:
            if made < limit.const:
                return None
        elif goes_on.is_false:
            break
    return carried, Trips(constant(made), True, TRUE)


def _given(op: Op, trip: Dim, carried: Seq[Known | None]) -> list[Known | None]:
    """Inputs of a loop's body: iteration number, condition (true), carried values."""
    scalars: tuple[tuple[int, Elem], ...] = ((TensorProto.INT64, trip), (TensorProto.BOOL, TRUE))
    given: list[Known | None] = []
    for (dtype, elem), (_, declared) in zip(scalars, op.graph_attr("body").inputs, strict=False):
        vector = isinstance(declared, TensorType) and declared.dims is not None and len(declared.dims) == 1
        shape = (1,) if vector else ()
        declared_dtype = declared.dtype if isinstance(declared, TensorType) else 0
        free = (
            dtype == TensorProto.BOOL and not op.has(1) and declared_dtype not in (0, dtype)
        )  # without a condition it has any type
        value = None if free else Value(shape, (elem,))
        given.append(op.walk.interner.tensor(declared_dtype if free else dtype, Shape(shape), value))
    return [*given, *carried]


def _rehearse(op: Op, carried: Carried, trip: Dim) -> Generator[Body, None, Cond | None]:
    """Find carried values valid in every iteration (fixpoint); returns the body's condition for these."""
    walk = op.walk
    if walk.state.trials >= (MAX_REHEARSING if walk.scope.depth < DEEP else 1):
        carried.give_up()
        return None
    while True:
        with rehearsal(walk):
            outs = yield from lower_inside(op, "body", _given(op, trip, carried.guess), TRUE)
        if carried.hold_against(outs[1 : len(carried.first) + 1]):
            return _condition_of(outs[0])


def _condition_of(known: Known | None) -> Cond | None:
    elems = known.value.elems if isinstance(known, Tensor) and known.value is not None else None
    return elems[0] if elems is not None and len(elems) == 1 and isinstance(elems[0], Cond) else None


def _count_trips(
    op: Op, limit: Dim | None, starts: Cond | None, goes_on: Cond | None, trip: Dim, visible: frozenset[str]
) -> Trips:
    """Iteration count of a Loop with limit, initial condition and continuation condition."""
    ran = None if starts is None else starts if limit is None else all_of((starts, ge(limit, 1)))
    if ran is not None:
        ran = op.walk.facts.cond(ran)
        more = None if goes_on is None else _goes_on_for(goes_on, trip, visible)
        if more is not None and starts is not None:
            count = more if limit is None else minimum(pos(limit), more)
            return Trips(ite(starts, count, ZERO), True, ran)
        if goes_on is not None and goes_on.free <= visible and limit is not None and starts is not None:
            count = ite(goes_on, pos(limit), minimum(pos(limit), ONE))
            return Trips(ite(starts, count, ZERO), True, ran)
    count = op.fresh(f"the number of iterations of {op.node.label}", 0, None if limit is None else pos(limit))
    if ran is None:
        return Trips(count, False, ge(count, 1))
    op.define(any_of((~ran, ge(count, 1))), "a loop that starts has an iteration")
    op.define(any_of((ran, eq(count, 0))), "a loop that does not start has none")
    return Trips(count, False, ran)


def _goes_on_for(goes_on: Cond, trip: Dim, visible: frozenset[str]) -> Dim | None:
    """Iteration count of a loop whose continuation condition is ``k - c*trip >= 0``; None for others."""
    if goes_on.is_false:
        return ONE
    if goes_on.kind != ">=" or trip.atom is None:
        return None
    rest: Dim = goes_on.args[0]
    step = -dict(rest.terms).get((trip.atom,), 0)
    rest = rest + trip.scale(step)
    if step < 1 or not rest.free <= visible:
        return None
    return pos(floor_div(rest, constant(step)) + 1) + 1


def _at_most_once(op: Op, first: Seq[Known | None], allowed: bool, starts: Cond | None) -> Steps:
    """A Loop of at most one iteration, lowered as a branch under `starts`; not taken unless `allowed`.

    `first` are the values that it carries.
    """
    if not allowed:
        starts = FALSE
    elif starts is None:
        starts = op.walk.unknown_truth(op.node.inputs[1], op.tensor(1))
    trips = Trips(ite(starts, ONE, ZERO), True, starts)
    trips.record(op)
    if starts.is_false:
        outs = yield from _lower_dead(op, "body", _given(op, ZERO, first))
    else:
        outs = yield from lower_inside(op, "body", _given(op, ZERO, first), starts)
    choice = Choice(op, op.walk.facts.cond(starts))
    n = len(first)
    pairs = zip(outs[1 : n + 1], first, strict=True)
    carried = [choice.output(i, out, start) for i, (out, start) in enumerate(pairs)]
    return [*carried, *_scan_outputs(op, n, outs, ZERO, trips)]


def _on_first_and_last(op: Op, begin: int, trip: Dim, trips: Trips) -> None:
    """Record requirements that hold in every iteration for the first and last one too."""
    walk, name, visible = op.walk, trip.name or "", visible_symbols(op)
    ends = (ZERO, trips.count - 1) if trips.exact else (ZERO,)
    for entry in walk.state.log[begin:]:
        if (
            entry.role != "requirement"
            or entry.node is None
            or name not in entry.cond.free | entry.guard.free
        ):
            continue
        if entry.cond.free | entry.guard.free <= visible | {name}:
            for at in ends:
                guard = entry.guard.subs({name: at})
                scope = Scope(entry.prefix, walk.scope.opsets, guard=guard)
                cond = entry.cond.subs({name: at})
                if not cond.is_true and not guard.is_false:
                    walk.require(cond, entry.why, entry.places, entry.node, scope)


def _none(op: Op, trips: Trips) -> Cond:
    return op.walk.facts.cond(eq(trips.count, 0) if trips.exact else ~trips.ran)


def _scan_outputs(op: Op, n: int, outs: Seq[Known | None], trip: Dim, trips: Trips) -> list[Known | None]:
    """Stacked outputs of a Loop with `n` carried values, from the outputs of its body."""
    rows = []
    none = _none(op, trips)
    for i, (out, (_, kind)) in enumerate(
        zip(outs[n + 1 :], op.graph_attr("body").outputs[n + 1 :], strict=True), n
    ):
        ranked = isinstance(kind, TensorType) and kind.dims is not None
        made = rows_of(op, out, trip, trips, 0, kind)
        if isinstance(made, Tensor) and not ranked and not none.is_false and not standard_ranked(op, i):
            empty = op.out((0,), made.dtype)  # the value without iterations
            if made.shape is None or len(made.shape) > 1:
                made = by_rank(op, i, ~none, made, empty)
        rows.append(made)
    return rows


def rows_of(
    op: Op, out: Known | None, trip: Dim, trips: Trips, axis: int, declared: ValueType | None = None
) -> Known | None:
    """Return a body output stacked over all iterations along a new axis.

    All iterations must give the same number of elements: onnxruntime counts them and keeps the first shape. Without
    iterations, the standard does not define the other sizes. onnxruntime uses the numbers known before the run and
    sets the
    rest to 0. It knows at least the declared ones, and none that depend on input sizes. (A generated size may hide a
    number,
    for example from a branch that is never taken.)
    """
    if not isinstance(out, Tensor):
        return None
    if out.shape is None:
        return op.out(None, out.dtype)
    axis = op.axis(axis, len(out.shape) + 1, "scan_output_axes")
    visible, name = visible_symbols(op), trip.name or ""
    none = _none(op, trips)
    declared_dims = (declared.dims or ()) if isinstance(declared, TensorType) else ()
    start = out.shape.subs({name: ZERO})
    if trips.exact and out.shape.free_symbols() <= visible | {name}:
        same = eq(start.numel, out.shape.subs({name: trips.count - 1}).numel)
        op.require(any_of((lt(trips.count, 2), same)), "all iterations must give outputs of the same size")
    dims: list[Dim] = []
    for k, row in enumerate(start):
        d = row if row.free <= visible else op.fresh("a size of the rows that a loop outputs")
        known = declared_dims[k] if len(declared_dims) == len(out.shape) else None
        if isinstance(known, int):
            d = ite(none, constant(known), d)
        elif none.is_false:
            pass
        elif row.terms and not any(a.made for a in atoms_of(row)):
            d = ite(none, ZERO, d)
        else:
            most = None if row.terms else row
            d = ite(none, op.fresh("an output size of a loop without iterations", hi=most), d)
        dims.append(d)
    dims.insert(axis, trips.count)
    return op.out(dims, out.dtype)
