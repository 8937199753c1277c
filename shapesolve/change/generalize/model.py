"""`generalize`: one dynamic model from exports of it at several fixed sizes.

The exports are matched node by node, and equal constants stay. Numbers and tables that differ become the simplest expressions
of the sizes that fit all exports (their least general generalization). An ambiguous number is a generated symbol at first, and
the constraint system determines its expression; if several expressions remain, the exports are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...expr import Dim
from ...expr.sizes import sizes_text
from ...lower.limits import MAX_UNKNOWN
from ...lower.reads import ENDS, NEW_SIZES, TARGET
from ...lower.rule import Reading
from ...model import Model, Node, read_model
from ...model.saving import with_weights
from ...solve.facts.constraint import Site
from ..draft import Draft
from ..limits import OPEN_AXES
from ..refused import Refused
from ..request import asked, consistent, inlined, relabelled
from ..simplify.simplify import simplified
from ..size_nodes import SizeNodes, target_of
from ..writing import write
from .claim import Generalized, claimed
from .fit import OPEN, Fitter, OpenNumber, Unknowns
from .match import StoredOperand, array_of, match
from .program import Array, Nodes, Rule
from .settle import Settler, check_chance
from .tables import Integers, Tables

if TYPE_CHECKING:
    import onnx


@checked
def generalize(models: Iterable[Any], names: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Merge exports of the same model at two or more fixed sizes into one dynamic model.

    Inputs, outputs, their names, and their order are taken from the first export. At each export's sizes, the new model is
    proved to have the export's shapes; `verify_exports` runs it there. If a size is divided (by a stride, a window, a
    Reshape), the new model accepts only the arithmetic progression through the exports, and no size may be 0 unless it
    was 0 in an export. The contract has these conditions, and nodes at the start of the model check them.

    Args:
        models: The exports, each as for `analyze`.
        names: Name for the size of each input axis that differs, ``{"ids[1]": "seq"}``, or a sum or product of such
            names. By default, axes that differ are named after their input, and axes that are equal in every export
            share a name.

    Raises:
        Refused: If the exports are different graphs, or do not show how a number or table depends on the sizes. The
            message has the node, number, or tensor, and an export that would settle it.
        ModelError: If a model cannot be read.
        ValueError: If an argument is invalid.
    """
    exports = [read_model(model) for model in models]
    return with_weights(generalized(exports, names or {}).model, exports[0])


def generalized(exports: Seq[Model], names: Mapping[str, str]) -> Generalized:
    """`generalize`, for models whose weights were left in their files (see `model.saving`)."""
    if len(exports) < 2:
        raise ValueError("generalize takes two exports or more")
    flat = [read_model(inlined(e.proto)) if e.proto.functions else e for e in exports]
    labels = [e.path.name if e.path is not None else f"export {k + 1}" for k, e in enumerate(exports)]
    return _Work(flat, labels, names).run()


# ---------------------------------------------------------------------- the work


@dataclass(slots=True)
class _Change:
    """A stored operand that differs between exports, with the rule to compute it."""

    place: StoredOperand
    rule: Rule
    #: the largest ends of a Slice that takes all in every export: beyond them nothing shows that it still does
    most: Array | None


class _Work:
    """The state of one `generalize`: the exports, and the names of their sizes."""

    def __init__(self, exports: Seq[Model], labels: Seq[str], names: Mapping[str, str]) -> None:
        self.exports, self.labels, self.request = exports, labels, asked(exports, names, labels)
        self.sizes = self.request.sizes
        self.fixed = [analyze(export, broadcast="strict") for export in exports]
        base = read_model(relabelled(exports[0].proto, self.request, exports[0]))
        self.draft = Draft(base)
        self.found = match([base, *exports[1:]], self.draft.graph, labels)
        self.unknowns = Unknowns(Fitter(self.sizes))

    def run(self) -> Generalized:
        """Builds the dynamic model."""
        changes = self._changes()
        assumed = [f"{name} >= 1" for name in self.sizes[0]]
        trial = consistent(self._trial(changes), "equal", assumed)
        fitter = self.unknowns.fitter
        settler = Settler(trial, self.unknowns.opens, fitter, self._keeps(changes, trial))
        settled = settler.settle()
        builder = Nodes(SizeNodes(self.draft, self.request.sites), settled)
        left = [c for c in changes if not self._as_constant(c, builder, trial, settler)]
        made = self._written(left, builder)
        done = simplified(read_model(made), keep=builder.guards).model
        analysis = self._proved(done)
        padded = check_chance(analysis, self.found, self.fixed, fitter, self._reading)
        return claimed(done, analysis, self.request, {**settler.open_outside, **padded})

    # ------------------------------------------------------------------ what differs

    def _changes(self) -> list[_Change]:
        changes: list[_Change] = []
        tables = Tables(self.unknowns)
        known: dict[tuple[object, ...], Rule] = {}
        for place in self.found.places:
            arrays, name = self._inferred(place), place.stored[0].name
            key = (*map(id, place.stored), str(arrays) if arrays[0].size <= MAX_UNKNOWN else "")
            before = len(self.unknowns.opens)
            tables.reason = ""
            rule = known.get(key) or tables.rule(arrays, f"the stored operand {name}")
            if rule is None:
                shapes = " and ".join(str(list(a.shape)) for a in arrays)
                raise Refused(
                    f"{place.node.label} ({place.node.op_type}) has the stored tensor {name}, {shapes} in the exports: no rule "
                    f"shows how it follows the sizes{'; ' if tables.reason else ''}{tables.reason}",
                    node=place.node.label,
                )
            if len(self.unknowns.opens) == before:
                known[key] = rule
            changes.append(
                _Change(place, rule, np.maximum.reduce(arrays) if self._takes_all(place) else None)
            )
        return changes

    def _shapes(self, place: StoredOperand, *, made: bool) -> list[list[int | None] | None]:
        """Sizes of the node's first output (`made`) or input, in each export; None if unknown."""
        if place.graph is not self.draft.graph:
            return [None]
        names = [n.outputs[0] if made else n.inputs[0] for n in place.nodes]
        shapes = [f.shapes.get(name) for f, name in zip(self.fixed, names, strict=True)]
        return [None if s is None else [d.value for d in s] for s in shapes]

    def _takes_all(self, place: StoredOperand) -> bool:
        """True if the operand is the end of a Slice that keeps its whole input in every export."""
        if self._reading(place.nodes[0], place.index) is not ENDS:
            return False
        made = self._shapes(place, made=True)
        return None not in made and made == self._shapes(place, made=False)

    def _inferred(self, place: StoredOperand) -> list[Array]:
        """The operand in each export; -1 in a Reshape target is replaced by the inferred size."""
        arrays = [array_of(s) for s in place.stored]
        made = (
            self._shapes(place, made=True) if self._reading(place.nodes[0], place.index) is TARGET else [None]
        )
        if any(s is None or None in s for s in made) or any(a.ndim != 1 for a in arrays):
            return arrays
        pairs = [(a, np.array(s, np.int64)) for a, s in zip(arrays, made, strict=True)]
        return (
            [np.where(a == -1, s, a) for a, s in pairs] if all(a.size == s.size for a, s in pairs) else arrays
        )

    def _reading(self, node: Node, i: int) -> Reading | None:
        """The role of an operand by its operator's declaration (target, ends, ...); None without one."""
        rule = self.fixed[0]._solved.walk.operators.rule(node, self.draft.model.opsets)
        return None if rule is None or rule.domain or rule.reads is None else rule.reads.get(i)

    # ------------------------------------------------------------------ writing

    def _trial(self, changes: Seq[_Change]) -> onnx.ModelProto:
        """Return a trial model in which undetermined numbers are the sizes of additional inputs."""
        import onnx

        opens = [o.name for o in self.unknowns.opens]
        sites = {name: Site(f"{OPEN}_in_{k // OPEN_AXES}", k % OPEN_AXES) for k, name in enumerate(opens)}
        before = [(c.place.node, [*c.place.node.inputs]) for c in changes]
        nodes = self.draft.graph.nodes
        proto = self._written(changes, Nodes(SizeNodes(self.draft, {**self.request.sites, **sites}), {}))
        self.draft.graph.nodes = nodes
        for node, inputs in before:
            node.inputs = inputs
        for k in range(0, len(opens), OPEN_AXES):
            name, rank = f"{OPEN}_in_{k // OPEN_AXES}", len(opens[k : k + OPEN_AXES])
            kind = onnx.TensorProto.BOOL
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, [None] * rank))
        return proto

    def _written(self, changes: Seq[_Change], builder: Nodes) -> onnx.ModelProto:
        made: dict[int, str] = {}
        for change in changes:
            if id(change.rule) not in made:
                made[id(change.rule)] = change.rule(builder)
            change.place.node.inputs[change.place.index] = made[id(change.rule)]
        graph = self.draft.graph
        graph.nodes = [*builder.sizes.nodes, *graph.nodes]
        return write(self.draft)

    def _as_constant(self, change: _Change, builder: Nodes, trial: Analysis, settler: Settler) -> bool:
        """Write an operand as a constant that is right at all sizes (Reshape target, Slice end). False if none is."""
        node, graph, index = change.place.node, self.draft.graph, change.place.index
        inner = change.place.graph is not graph
        given, made = ((None if inner else trial.shapes.get(n)) for n in (node.inputs[0], node.outputs[0]))
        known = given is not None and made is not None
        now, then = ([settler.size(d) for d in side or ()] for side in (given, made))
        if (
            known
            and change.most is not None
            and now == then
            and all(d.free <= self.sizes[0].keys() for d in now)
        ):
            node.inputs[index] = graph.constant(np.ascontiguousarray(change.most), "largest")
            whole = node.outputs[0]
            checked = graph.new_node("Reshape", [f"{whole}_cut", builder.vector(now)], whole)
            node.outputs, checked.outputs = [checked.inputs[0], *node.outputs[1:]], [whole]
            builder.guards += [checked.inputs[0], whole]
            graph.nodes.insert(graph.nodes.index(node) + 1, checked)
            return True
        if self._reading(change.place.nodes[0], index) is not TARGET or not isinstance(change.rule, Integers):
            return False
        values = [d.subs(builder.settled).value for d in change.rule.dims]
        if node.attribute("allowzero", 0) or 0 in values:
            return False
        target = target_of(then, now, copies=True) if known else None
        if target is not None:
            node.inputs[index] = graph.constant(np.array(target, np.int64), "target")
        elif builder.sizes.opset >= 14 and -1 not in values:  # allowzero
            node.own["allowzero"] = 1
        return target is not None

    def _keeps(self, changes: Seq[_Change], trial: Analysis) -> list[tuple[OpenNumber, Dim]]:
        """Resized axes of open size, each with the input size that it may equal."""
        found = []
        for place, rule in ((c.place, c.rule) for c in changes if c.place.graph is self.draft.graph):
            if self._reading(place.nodes[0], place.index) is NEW_SIZES and isinstance(rule, Integers):
                for d, entry in zip(trial.shapes.get(place.node.inputs[0]) or (), rule.dims, strict=False):
                    found += [(o, d) for o in self.unknowns.opens if entry.free == {o.name}]
        return found

    # ------------------------------------------------------------------ the proof

    def _proved(self, made: onnx.ModelProto) -> Analysis:
        """Analyzes the new model; raises `Refused` unless it agrees with every export."""
        analysis = consistent(made)
        for fixed, sizes, label in zip(self.fixed, self.sizes, self.labels, strict=True):
            if fixed.conflicts:
                continue  # nothing runs at these sizes
            broken = analysis._solved.violations_at({n: s for n, s in sizes.items() if n in analysis.symbols})
            if broken:
                raise Refused(
                    f"the new model does not run at {sizes_text(sizes)}, the sizes of {label}: {broken[0].message}"
                )
            for value, (other, _) in zip(made.graph.output, fixed.model.graph.outputs, strict=True):
                mine, theirs = analysis.shapes.get(value.name), fixed.shapes.get(other)
                for a, b in zip(mine or (), theirs or (), strict=False):
                    x, y = a.evaluate(sizes), b.value
                    if x is not None and y is not None and x != y:
                        raise Refused(
                            f"output {value.name} has the size {x} at {sizes_text(sizes)}, and {y} in {label}"
                        )
        for name in self.sizes[0]:
            now = analysis._solved.facts.dim(analysis.symbols[name]) if name in analysis.symbols else None
            if now is not None and not now.terms:
                raise Refused(f"the new model runs only with {name} = {now}", term=f"{name} == {now}")
        return analysis
