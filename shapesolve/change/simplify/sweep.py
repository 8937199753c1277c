# compiled: see CONTRIBUTING.md
"""Applies the rules of `simplify` to the graphs of a draft until nothing changes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from onnx import numpy_helper

from ...analysis import Analysis
from ...model import Constant
from ..draft import Draft, DraftGraph, DraftNode
from ..limits import MAX_CHANGES, MAX_SWEEPS
from .branches import inlined
from .knowledge import Knowledge, bodies
from .rules import RewriteRule, rules_by_operator
from .site import At, Become, Change, Looked, Store, Use
from .sizes import compute_sizes_once


class Sweeps:
    """Simplifies a draft in place.

    Attributes:
        reasons: why a node was removed or replaced, by the identity of the original node.
        settled: nodes that no rule changed when it was tried last, and what the rules looked at.
        touched: nodes that were changed since.
        compared: is it known that no two nodes, as they were before this sweep, compute the same?
    """

    def __init__(self, analysis: Analysis, draft: Draft, keep: tuple[str, ...]) -> None:
        self.draft, self.keep = draft, keep
        self.known = {id(known.graph): known for known in bodies(analysis, draft)}
        self.hidden = _hidden(draft)
        self.reasons: dict[int, str] = {}
        self.rules = rules_by_operator()
        self.settled: dict[DraftNode, Looked] = {}
        self.touched: set[DraftNode] = set()
        self.compared = False

    def run(self) -> None:
        """Simplifies all graphs."""
        for body in (self.draft.graph, *self.draft.functions.values()):
            known = self.known[id(body)]
            self._until_settled(known)
            read_anew = compute_sizes_once(known, self.stays)
            if read_anew:
                self.touched.update(read_anew)
                self._until_settled(known)

    def _until_settled(self, known: Knowledge) -> None:
        self.compared = False
        for _ in range(MAX_SWEEPS):
            reads: Counter[str] = Counter()
            known.graph.drop_dead(self.stays, reads)
            sweep = Sweep(self, known, None, reads)
            if not sweep.run():
                break
            self.compared = True
        known.graph.drop_dead(self.stays)

    def stays(self, node: DraftNode) -> bool:
        """True if the caller asked to keep the node (`keep`)."""
        return bool(self.keep) and any(
            fnmatchcase(name, pattern) for name in names_of(node) for pattern in self.keep
        )

    def may_stand_for(self, name: str, other: str) -> bool:
        """True if one name can replace the other: both mean the same tensor in every graph that reads them."""
        return name not in self.hidden and other not in self.hidden

    def explain(self, node: DraftNode, reason: str) -> None:
        """Records the reason why a node of the original was changed or removed."""
        if node.origin is not None:
            self.reasons.setdefault(id(node.origin), reason)


def names_of(node: DraftNode) -> tuple[str, ...]:
    """Names of a node that a pattern can match: label, operator, outputs."""
    return (node.label, node.op_type, *node.outputs)


class Sweep:
    """One pass over a graph and the graphs inside its nodes."""

    def __init__(
        self, whole: Sweeps, known: Knowledge, around: Sweep | None, reads: Counter[str] | None = None
    ) -> None:
        """A sweep; `reads` is the number of readers of each tensor."""
        self.whole, self.known, self.graph, self.around = whole, known, known.graph, around
        self.now: dict[str, str] = {}  # the tensor that is read instead
        self.producers: dict[str, DraftNode] = {}
        self.reads: Counter[str] = Counter()
        if reads is None:
            self.reads.update(self.graph.outputs)
            for node in self.graph.nodes:
                self.reads.update(node.reads())
        else:
            self.reads = reads
        self.done: list[DraftNode] = []
        self.twins: _Twins | None = None
        self.changed = False

    def run(self) -> bool:
        """Runs the sweep. Returns True if anything changed."""
        waiting = deque(self.graph.nodes)
        done = self.done
        while waiting:
            node = waiting.popleft()
            if self._is_as_before(node):
                done.append(node)
                self.producers.update([(name, node) for name in node.outputs if name])
                continue
            node.inputs = [self.read(name) for name in node.inputs]
            for graph in node.graphs.values():
                inner = Sweep(self.whole, self.whole.known[id(graph)], self)
                self.changed |= inner.run()
            branch = None if self.whole.stays(node) else inlined(node, self.known, self.whole.known)
            if branch is not None:
                self._note(node, "its condition is the same for every input: the branch is inlined")
                waiting.extendleft(reversed(branch))
                for moved in branch:
                    self.reads.update(moved.reads())
            elif self._is_left(node):
                done.append(node)
                self.producers.update([(name, node) for name in node.outputs if name])
        if self.around is None:
            self.whole.touched.clear()
        self.graph.nodes = done
        self.graph.outputs = tuple([self._read_outside(name) for name in self.graph.outputs])
        self._name_outputs()
        return self.changed

    def read(self, name: str) -> str:
        """The name that replaces a tensor after the edits so far."""
        if name in self.now:
            return self.now[name]
        return self._read_outside(name)

    def _read_outside(self, name: str) -> str:
        """The name that now replaces a tensor of an outer graph."""
        if self.around is None or not name or self.known.is_own(name):
            return name
        return self.around.read(name)

    # ------------------------------------------------------------------ one node

    def _is_as_before(self, node: DraftNode) -> bool:
        """True if neither rules nor the search for equal nodes need to run again, as nothing changed nearby."""
        if self.changed or self.now or self.around is not None:
            return False
        looked, touched = self.whole.settled.get(node), self.whole.touched
        if looked is None or node in touched or not touched.isdisjoint(looked.makers):
            return False
        if any(self.reads[name] != count for name, count in looked.reads.items()):
            return False
        return not self._has_twin(node)

    def _is_left(self, node: DraftNode) -> bool:
        """Applies the rules to a node; True if the node remains."""
        if node.is_standard("Constant"):
            self.known.record_stored(node)
        if self.whole.stays(node):
            return True
        self.whole.settled.pop(node, None)
        for _ in range(MAX_CHANGES):
            looked = Looked()
            found = self._first_change(node, looked)
            if found is None:
                if len(node.outputs) == 1 and not node.graphs and self.around is None:
                    self.whole.settled[node] = looked
                break
            rule, change = found
            reason = f"{rule.pattern} -> {rule.replacement}: {rule.obligation}"
            if not self._apply(node, change, reason):
                return False
            if not isinstance(change, Become):
                return True
        return not self._is_known_in_parts(node) and not self._has_twin(node)

    def _first_change(self, node: DraftNode, looked: Looked) -> tuple[RewriteRule, Change] | None:
        rules = self.whole.rules
        key = node.op_type if not node.domain and node.op_type in rules else ""
        site = At(node, self.known, self.producers, self.reads, looked)
        for rule in rules[key]:
            change = rule.apply(site)
            if change is not None and self._is_news(node, change):
                return rule, change
        return None

    def _is_news(self, node: DraftNode, change: Change) -> bool:
        output = node.outputs[0]
        if isinstance(change, Use):
            is_end = output in self.graph.outputs
            done = is_end and node.is_standard("Identity") and node.inputs == [change.name]
            return not done and self.whole.may_stand_for(output, change.name)
        if isinstance(change, Store):
            several = [name for name in node.outputs if name and name != output and self.reads[name]]
            return not several and self.whole.may_stand_for(output, output)
        return all(name not in self.whole.hidden for name in change.inputs)

    def _apply(self, node: DraftNode, change: Change, reason: str) -> bool:
        self._note(node, reason)
        output = node.outputs[0]
        is_end = output in self.graph.outputs
        if isinstance(change, Become):
            self._become(node, change)
            return True
        if isinstance(change, Store):
            if not is_end:
                self.now[output] = self.known.constant(change.array, output)
                return False
            node.op_type, node.domain, node.inputs, node.outputs = "Constant", "", [], [output]
            node.own = {"value": numpy_helper.from_array(change.array)}
        elif not is_end:
            self.now[output] = change.name
            return False
        else:
            node.op_type, node.domain, node.inputs, node.outputs = "Identity", "", [change.name], [output]
            node.own = {}
        node.graphs = {}
        return True

    def _become(self, node: DraftNode, change: Become) -> None:
        if node.op_type == change.op_type:
            own = {**node.own, **change.attributes}
            original = () if node.origin is None else node.origin.attributes
            node.own = {k: v for k, v in own.items() if v is not None or k in original}
        else:
            node.own = {k: v for k, v in change.attributes.items() if v is not None}
        node.op_type, node.inputs = change.op_type, [*change.inputs]

    def _is_known_in_parts(self, node: DraftNode) -> bool:
        """Replaces known outputs of a node by constants; True if no other output is read.

        Returns True if it has no other reader.
        """
        known = 0
        for name in filter(None, node.outputs if len(node.outputs) > 1 else ()):
            array = self.known.array(name)
            if array is not None and name not in self.graph.outputs and name not in self.whole.hidden:
                self.now[name] = self.known.constant(array, name)
                known += 1
        return known > 0 and not any(self.reads[name] for name in node.outputs if name not in self.now)

    def _has_twin(self, node: DraftNode) -> bool:
        if self.twins is None:
            if self.whole.compared and self.around is None and not self.changed and not self.now:
                return False
            self.twins = _Twins(self.known)
            for earlier in self.done:
                if not self._is_end(earlier) and not self.whole.stays(earlier):
                    self.twins.of(earlier)
        if self._is_end(node):
            return False
        twin = self.twins.of(node)
        if twin is None or self.whole.stays(twin):
            return False
        pairs = [*zip(node.outputs, twin.outputs, strict=True)]
        if not all(self.whole.may_stand_for(a, b) for a, b in pairs) or any(a and not b for a, b in pairs):
            return False
        self._note(node, f"equal to {twin.label}, which comes before it")
        self.now.update((a, b) for a, b in pairs if a)
        return True

    def _is_end(self, node: DraftNode) -> bool:
        return any(name in self.graph.outputs for name in node.outputs)

    def _note(self, node: DraftNode, reason: str) -> None:
        self.changed = True
        self.whole.explain(node, reason)

    # ------------------------------------------------------------------ outputs of the graph

    def _name_outputs(self) -> None:
        """Gives a tensor the name of an output that only repeats it."""
        graph = self.graph
        for node in [n for n in graph.nodes if n.is_standard("Identity") and n.outputs[0] in graph.outputs]:
            old, new = node.inputs[0], node.outputs[0]
            maker = self.producers.get(old)
            if maker is None or old in graph.outputs or self.whole.stays(node) or self.whole.stays(maker):
                continue
            if not self.whole.may_stand_for(old, new):
                continue
            graph.nodes = [n for n in graph.nodes if n is not node]
            self.whole.touched.update([n for n in graph.nodes if n is maker or old in n.reads()])
            maker.outputs = [new if name == old else name for name in maker.outputs]
            graph.rename(old, new)
            self.producers[new] = maker
            self._note(node, "the tensor that it repeats has got the name of the output")


def _hidden(draft: Draft) -> frozenset[str]:
    """Names that mean different tensors in a graph and an inner graph, and so cannot be substituted."""
    found: set[str] = set()
    for body in (draft.graph, *draft.functions.values()):
        for graph, visible in _visible(body, frozenset()):
            found |= graph.made() & visible
    return frozenset(found)


def _visible(graph: DraftGraph, around: frozenset[str]) -> Iterator[tuple[DraftGraph, frozenset[str]]]:
    yield graph, around
    inner = [g for node in graph.nodes for g in node.graphs.values()]
    seen = around | graph.made() if inner else around
    for g in inner:
        yield from _visible(g, seen)


#: domains whose operators have no state
_PURE_DOMAINS = frozenset(("", "ai.onnx.ml"))


class _Twins:
    """Finds earlier nodes of one graph that compute the same (common subexpressions)."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._seen: dict[Any, DraftNode] = {}

    def of(self, node: DraftNode) -> DraftNode | None:
        """An earlier node that computes the same; None (and `node` is remembered) when there is none."""
        key = None if self._known.draws(node) else _key(node)
        if key is None:
            return None
        found = self._seen.setdefault(key, node)
        return None if found is node else found


def _key(node: DraftNode) -> Any:
    if node.graphs or node.domain not in _PURE_DOMAINS:
        return None
    origin = node.origin
    if origin is not None and origin.key is None:
        return None
    own: tuple[tuple[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()
    if node.own:
        own = tuple(sorted((k, v) for k, v in node.own.items() if v is not None))
        if any(isinstance(v, (Constant, list)) for _, v in own):
            return None
        left_out = tuple(sorted(k for k, v in node.own.items() if v is None))
    kind = None if origin is None else origin.key
    return (
        node.op_type,
        node.domain,
        (*node.inputs,),
        [*map(bool, node.outputs)].count(True),
        kind,
        own,
        left_out,
    )
