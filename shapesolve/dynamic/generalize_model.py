"""`generalize`: one dynamic model from exports of it at several fixed sizes.

The exports are matched node by node; what is the same in all of them stays. Numbers and tables that differ become the simplest
expressions of the sizes that fit all exports (their least general generalization). What the numbers leave open is a generated
symbol at first, and the constraint system says which sizes it has to follow for the model to run; what stays open is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..change.draft import Draft, DraftGraph, DraftNode
from ..change.refused import Refused
from ..change.simplify import simplified
from ..expr import Dim, constant, symbol
from ..lower.reads import ENDS, NEW_SIZES, TARGET
from ..lower.rule import Reading
from ..model import Model, ModelError, read_model
from ..model.saving import with_weights
from ..operators import with_built_in
from ..propagate.constraint import Site
from .generalize_chance import check_chance
from .generalize_fit import Fit, Fitter, Seen
from .generalize_match import Matched, Place, array_of, match
from .generalize_program import Array, Nodes, Rule
from .generalize_settle import OPEN, OPEN_AXES, Open, Settler
from .generalize_tables import Integers, Tables, Undecided
from .request import Request, asked, inlined, relabelled
from .sizes import ALLOW_ZERO, Sizes, target_of

if TYPE_CHECKING:
    import onnx

#: max elements of an integer tensor that can be the target of a Reshape
_FEW = 16


@checked
def generalize(models: Iterable[Any], names: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """One dynamic model from exports of the same model at two or more fixed sizes.

    Inputs, outputs, their names and order are those of the first export. At the sizes of each export the result is proved to
    have its shapes; `verify_exports` runs it there. A number or table of which the exports do not show how it follows the sizes
    is refused; so are exports that are not the same graph.

    Args:
        models: the exports, each as for `analyze`.
        names: for each input axis that differs the name that its size gets, ``{"ids[1]": "seq"}``, or a sum or product of such
            names. Without it, axes that differ are named after their input, those that are equal in every export alike.

    Raises:
        Refused: the exports do not show one model; says which node, number or tensor, and which export would settle it.
        ModelError: a model cannot be read.
        ValueError: an argument makes no sense.
    """
    exports = [read_model(model) for model in models]
    return with_weights(generalized(exports, names or {}), exports[0])


def generalized(exports: Seq[Model], names: Mapping[str, str]) -> onnx.ModelProto:
    """`generalize`, with weights left where those of the first export's proto are (see `model.saving`)."""
    if len(exports) < 2:
        raise ValueError("generalize takes two exports or more")
    flat = [_flat(export) for export in exports]
    labels = _labels(exports)
    request = asked(flat, names, labels)
    work = _Work(flat, labels, request, request.sizes)
    return work.run()


def _flat(export: Model) -> Model:
    return export if not export.proto.functions else read_model(inlined(export.proto))


def _labels(exports: Seq[Model]) -> list[str]:
    """Names of the exports in messages."""
    return [e.path.name if e.path is not None else f"export {k + 1}" for k, e in enumerate(exports)]


# ---------------------------------------------------------------------- the work


@dataclass(slots=True)
class _Change:
    """An operand, or an output, that is computed from now on."""

    node: DraftNode | None
    index: int
    rule: Rule
    graph: DraftGraph
    #: the largest ends of a Slice that takes all in every export: beyond them nothing shows that it still does
    most: Array | None = None


@dataclass(slots=True)
class _Work:
    exports: Seq[Model]
    labels: Seq[str]
    request: Request
    sizes: Seq[Mapping[str, int]]
    opens: list[Open] = field(default_factory=list)
    fitter: Fitter = field(init=False)
    fixed: list[Analysis] = field(init=False)
    draft: Draft = field(init=False)
    settler: Settler = field(init=False)
    open_all: bool = False
    #: tensors whose nodes bound the sizes
    guards: list[str] = field(default_factory=list)

    def run(self) -> onnx.ModelProto:
        """The new model. Numbers that equal input sizes in all exports are taken for these first, then left open."""
        self.fitter = Fitter(self.sizes)
        self.fixed = [analyze(export, broadcast="strict") for export in self.exports]
        first: Refused | None = None
        for self.open_all in (False, True):
            try:
                return self._attempt()
            except Refused as refused:
                first = first or refused
        assert first is not None
        raise first

    def _attempt(self) -> onnx.ModelProto:
        self.opens.clear()
        base = read_model(relabelled(self.exports[0].proto, self.request, self.exports[0]))
        self.draft = Draft(base)
        found = match([base, *self.exports[1:]], self.draft.graph, self.labels)
        changes = self._changes(found)
        assumed = [f"{name} >= 1" for name in self.sizes[0]]
        trial = analyze(self._write(changes, {}, None), broadcast="equal", assume=assumed)
        if trial.conflicts:
            conflict = trial.conflicts[0]
            raise Refused(conflict.message, node=conflict.nodes[0] if conflict.nodes else "")
        self.settler = Settler(trial, self.opens, self.sizes, self.fitter, self._keeps(changes, trial))
        made = self._write(changes, self.settler.settle(), trial)
        done = simplified(read_model(made), keep=self.guards).model
        self._prove(done, found)
        return done

    # ------------------------------------------------------------------ what differs

    def _changes(self, found: Matched) -> list[_Change]:
        changes: list[_Change] = []
        tables = Tables(self.dim, self._hint, self.bindings, lambda: len(self.opens), self._reset)
        known: dict[tuple[object, ...], Rule] = {}
        for place in found.places:
            arrays = self._inferred(place, [array_of(s) for s in place.stored])
            key, before = (
                (*map(id, place.stored), str(arrays) if arrays[0].size <= _FEW else ""),
                len(self.opens),
            )
            rule = known.get(key)
            if rule is None:
                tables.reason = ""
                rule = tables.rule(arrays, f"the stored operand {place.stored[0].name}")
                if rule is None:
                    shapes = " and ".join(str(list(a.shape)) for a in arrays)
                    raise Refused(
                        f"{place.label} has the stored tensor {place.stored[0].name}, {shapes} in the exports: no rule shows "
                        f"how it follows the sizes{'; ' if tables.reason else ''}{tables.reason}",
                        node=place.node.label if place.node is not None else "",
                    )
                if len(self.opens) == before:
                    known[key] = rule
            most = np.maximum.reduce(arrays) if self._takes_all(place) else None
            changes.append(_Change(place.node, place.index, rule, place.graph, most=most))
        return changes

    def _takes_all(self, place: Place) -> bool:
        """True if it is the end of a Slice that passes its whole input in every export."""
        if place.node is None or self._reads(place.node, place.index) is not ENDS:
            return False
        pairs = zip(self.fixed, place.reads, place.made, strict=True)
        return all(f.shapes.get(given) == f.shapes.get(made) is not None for f, given, made in pairs)

    def _inferred(self, place: Place, arrays: list[Any]) -> list[Any]:
        """Targets of a Reshape, with each entry of -1 replaced by its size in each export."""
        if (
            place.node is None
            or self._reads(place.node, 1) is not TARGET
            or place.graph is not self.draft.graph
        ):
            return arrays
        found = []
        for array, fixed, name in zip(arrays, self.fixed, place.made, strict=True):
            shape = fixed.shapes.get(name)
            if (
                shape is None
                or array.ndim != 1
                or len(shape) != array.size
                or any(d.value is None for d in shape)
            ):
                return arrays
            sizes = np.array([int(d) for d in shape], np.int64)
            found.append(np.where(array == -1, sizes, array))
        return found

    def _reads(self, node: DraftNode, i: int) -> Reading | None:
        return None if node.domain else self._reading(node.op_type, i)

    def _reading(self, op_type: str, i: int) -> Reading | None:
        """The use of an operand's numbers, for a standard operator."""
        rule = with_built_in(None).lookup("", op_type, self.draft.model.opsets.get("", 1))
        return None if rule is None or rule.reads is None else rule.reads.get(i)

    def dim(self, seen: Seen, what: str) -> Dim:
        """The expression of a number that was seen in each export: a constant, or a generated symbol."""
        rivals = self.fitter.rivals(seen)
        known = [v for v in seen if v is not None]
        if len({*known}) == 1 and len(known) == len(seen) and known[0] in self.fitter.coincident:
            part = self.fitter.coincident[known[0]]
            raise Undecided(f"{what} is {known[0]} in all exports, which is also {part} in all of them")
        if len(rivals) == 1 and (
            None in seen or not rivals[0].dim.terms or self._is_size(rivals[0].dim, known)
        ):
            return rivals[0].dim
        if None in seen or not known:
            raise Undecided(f"{what} does not follow the sizes in a way that is plain")
        low = min(1, *known)
        fits = [Fit(f.dim - low, f.cost, tuple(v - low for v in f.values)) for f in self.fitter.fits(seen)]
        name = f"{OPEN}_{len(self.opens)}"
        self.opens.append(Open(name, [v - low for v in known], low, fits, what))
        return symbol(name) + low

    def _is_size(self, dim: Dim, known: Seq[int]) -> bool:
        """True for a plain size that the exports tell from twice another one."""
        even = all(v % 2 == 0 for v in known)
        return not self.open_all and not even and self.fitter.is_plain(dim)

    def _hint(self, seen: Seq[int]) -> Dim:
        found = self.fitter.fits(seen)
        return found[0].dim if found else constant(seen[0])

    def bindings(self) -> list[dict[str, int]]:
        """The sizes of each export, of generated symbols too."""
        return [{**sizes, **{o.name: o.seen[k] for o in self.opens}} for k, sizes in enumerate(self.sizes)]

    def _reset(self, count: int) -> None:
        del self.opens[count:]

    # ------------------------------------------------------------------ writing

    def _write(
        self, changes: Seq[_Change], settled: Mapping[str, Dim], trial: Analysis | None
    ) -> onnx.ModelProto:
        """The model with sizes computed. Without a trial's analysis, a trial model whose inputs have the open sizes."""
        import onnx

        graph = self.draft.graph
        sites = dict(self.request.sites)
        if trial is None:
            sites.update(
                {o.name: Site(f"{OPEN}_in_{k // OPEN_AXES}", k % OPEN_AXES) for k, o in enumerate(self.opens)}
            )
        sizes = Sizes(self.draft, sites)
        builder = Nodes(sizes, settled)
        before = [(c.node, [*c.node.inputs]) for c in changes if c.node is not None]
        lists = {id(g): (g, [*g.nodes]) for g in (graph, *(c.graph for c in changes))}
        made: dict[int, str] = {}
        for change in changes:
            target = None if trial is None else self._target(change, settled, trial)
            if target is not None and change.node is not None:
                change.node.inputs[1] = graph.constant(np.array(target, np.int64), "target")
                continue
            if trial is not None and self._bound(change, trial, builder):
                continue
            if id(change.rule) not in made:
                made[id(change.rule)] = change.rule(builder)
            name = made[id(change.rule)]
            if change.node is not None:
                change.node.inputs[change.index] = name
            else:
                self._replace_output(change, name)
        self.guards = builder.guards
        graph.nodes = [*sizes.nodes, *graph.nodes]
        proto = self.draft.to_proto()
        if trial is None:
            for k in range(0, len(self.opens), OPEN_AXES):
                rank = len(self.opens[k : k + OPEN_AXES])
                name = f"{OPEN}_in_{k // OPEN_AXES}"
                proto.graph.input.append(
                    onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, [None] * rank)
                )
            for inner, nodes in lists.values():
                inner.nodes = nodes
            for node, inputs in before:
                node.inputs = inputs
        return proto

    def _target(self, change: _Change, settled: Mapping[str, Dim], trial: Analysis) -> list[int] | None:
        """The target of a Reshape in numbers, 0 and -1, where that says the same at all sizes, 0 included."""
        node, rule = change.node, change.rule
        if node is None or self._reads(node, 1) is not TARGET or not isinstance(rule, Integers):
            return None
        given = trial.shapes.get(node.inputs[0]) if change.graph is self.draft.graph else None
        dims = [d.subs(settled) for d in rule.dims]
        copies = not node.attribute("allowzero", 0)
        if not copies or any(d.value == 0 for d in dims):
            return None
        out = trial.shapes.get(node.outputs[0])
        if given is not None and out is not None:
            now, then = ([self.settler.size(d) for d in side] for side in (given, out))
            target = target_of(then, now, copies=True)
            if target is not None:
                return target
        if trial.model.opsets.get("", 1) >= ALLOW_ZERO and all(d.value != -1 for d in dims):
            node.own["allowzero"] = 1
        return None

    def _bound(self, change: _Change, trial: Analysis, b: Nodes) -> bool:
        """Restores a Slice that keeps everything at all sizes: it ends as in the largest export, with a check."""
        node, graph = change.node, change.graph
        if change.most is None or node is None:
            return False
        dims, cut = (
            [self.settler.size(d) for d in trial.shapes[n]] for n in (node.inputs[0], node.outputs[0])
        )
        if dims != cut or any(not d.free <= self.sizes[0].keys() for d in dims):
            return False
        node.inputs[change.index] = graph.constant(np.ascontiguousarray(change.most), "largest")
        whole = node.outputs[0]
        checked = graph.new_node("Reshape", [f"{whole}_cut", b.vector(dims)], whole)
        node.outputs, checked.outputs = [checked.inputs[0], *node.outputs[1:]], [whole]
        b.guards += [checked.inputs[0], whole]
        at = graph.nodes.index(node) + 1
        graph.nodes = [*graph.nodes[:at], checked, *graph.nodes[at:]]
        return True

    def _replace_output(self, change: _Change, name: str) -> None:
        raise Refused(f"output {change.graph.outputs[change.index]} is stored, and differs in the exports")

    def _keeps(self, changes: Seq[_Change], trial: Analysis) -> list[tuple[str, Dim]]:
        """Open sizes of Resizes, each with the size of the axis that is resized."""
        found = []
        for change in changes:
            node, rule = change.node, change.rule
            if (
                node is not None
                and self._reads(node, change.index) is NEW_SIZES
                and isinstance(rule, Integers)
            ):
                given = trial.shapes.get(node.inputs[0]) if change.graph is self.draft.graph else None
                for d, entry in zip(given or (), rule.dims, strict=False):
                    found += [(o.name, d) for o in self.opens if entry.free == {o.name}]
        return found

    # ------------------------------------------------------------------ the proof

    def _prove(self, made: onnx.ModelProto, found: Matched) -> None:
        """At the sizes of each export the model runs, with the shapes of the export; and it runs at others."""
        try:
            analysis = analyze(made, broadcast="strict")
        except ModelError as error:
            raise Refused(f"the new model cannot be read: {error}") from error
        if analysis.conflicts:
            conflict = analysis.conflicts[0]
            raise Refused(conflict.message, node=conflict.nodes[0] if conflict.nodes else "")
        for fixed, sizes, label in zip(self.fixed, self.sizes, self.labels, strict=True):
            told = ", ".join(f"{n} = {size}" for n, size in sizes.items())
            if fixed.conflicts:
                continue  # nothing runs at these sizes
            broken = analysis._solved.violations_at({n: s for n, s in sizes.items() if n in analysis.symbols})
            if broken:
                raise Refused(
                    f"the new model does not run at {told}, the sizes of {label}: {broken[0].message}"
                )
            for value, (other, _) in zip(made.graph.output, fixed.model.graph.outputs, strict=True):
                mine, theirs = analysis.shapes.get(value.name), fixed.shapes.get(other)
                for a, b in zip(mine or (), theirs or (), strict=False):
                    x, y = a.evaluate(sizes), b.value
                    if x is not None and y is not None and x != y:
                        raise Refused(f"output {value.name} has the size {x} at {told}, and {y} in {label}")
        for name in self.sizes[0]:
            if name not in analysis.symbols:
                continue
            now = analysis._solved.facts.dim(analysis.symbols[name])
            if not now.terms:
                raise Refused(f"the new model runs only with {name} = {now}", term=f"{name} == {now}")
        for point in self.settler.broken_at():
            if not analysis._solved.violations_at({n: s for n, s in point.items() if n in analysis.symbols}):
                shown = ", ".join(f"{n} = {s}" for n, s in point.items())
                raise Refused(
                    f"numbers that fit the exports do not fit together at {shown}: a further export is needed"
                )
        check_chance(analysis, found, self.fixed, self.sizes, self.fitter.coincident, self._reading)


__all__ = ["generalize", "generalized"]
