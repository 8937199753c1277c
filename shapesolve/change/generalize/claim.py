"""Limits the new model to sizes that the exports cover.

Rounding can hide an operator: a network that pads its input to a multiple of 32 has no Pad node in exports at 64 and 128. So if
a size is divided (by a stride, a window, a Reshape that splits an axis, a rounded expression), the new model accepts only the
arithmetic progression through the exports. No size may be 0 unless it was 0 in an export. Each limit is a Reshape of an
input's shape vector, which fails in every runtime if the vector has another length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from ...analysis import Analysis
from ...expr import Atom, Cond, Dim, eq, exact_quotient, ge, le, of_atom, symbol
from ...expr.traverse import atoms_of
from ...lower.reads import NEW_SIZES, SCALES
from ...model import read_model
from ..draft import Draft
from ..limits import MAX_POINTS
from ..refused import Refused
from ..request import DynamicRequest
from ..size_nodes import SizeNodes
from ..writing import write

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class Shown:
    """A size in the exports, and the values that the new model accepts.

    Attributes:
        name: The size, or a sum of sizes that is divided.
        exports: Its values in the exports, ascending.
        condition: The arithmetic progression of accepted values; empty if the size is free.
        reason: Reason for the condition.
        export: A value for another export, which would admit more values; None if no such value is known.
        admits: The condition with that export.
        extrapolated: Accepted values outside the range of the exports.
    """

    name: str
    exports: tuple[int, ...]
    condition: str = ""
    reason: str = ""
    export: int | None = None
    admits: str = ""
    extrapolated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generalized:
    """A dynamic model, and the sizes that its exports show."""

    model: onnx.ModelProto
    shown: tuple[Shown, ...]


def claimed(
    made: onnx.ModelProto,
    analysis: Analysis,
    request: DynamicRequest,
    open_outside: Mapping[str, str],
) -> Generalized:
    """Limit a model to the sizes that its exports show.

    Args:
        made: The model, without limits.
        analysis: Its analysis.
        request: The dynamic axes, with their sizes in each export.
        open_outside: Symbols for which the exports decide nothing outside the progressions, with the reason.
    """
    sizes, reasons = request.sizes, dict(_divided(analysis))
    reasons |= {symbol(name): reason for name, reason in open_outside.items()}
    shown, limits, positive = [], [], []
    for dim in dict.fromkeys([*map(symbol, sizes[0]), *reasons]):
        one = _Progression(dim, sorted({dim.evaluate(s) or 0 for s in sizes}), analysis, sizes[0])
        found = Shown(str(dim), tuple(one.seen))
        if dim in reasons and not one.holds(one.condition):
            limits.append((one.missed(), str(one.condition)))
            found = replace(found, condition=str(one.condition), reason=reasons[dim])
            if (export := one.next()) is not None:
                admits = str(_progression(dim, one.seen[0], gcd(one.step, export - one.seen[0])))
                found = replace(found, export=export, admits=admits)
        if dim.name is not None:
            if one.seen[0] and not one.holds(ge(dim, 1)):
                positive.append(dim.name)
            found = replace(found, extrapolated=(*one.extrapolated(found.condition),))
        shown.append(found)
    empty = {n for n in sizes[0] if any(not s[n] for s in sizes)}
    return Generalized(_Limits(made, request, empty).written(positive, limits), tuple(shown))


class _Progression:
    """The arithmetic progression of a size through the exports.

    Args:
        dim: The size.
        seen: Its values, ascending.
        analysis: The analysis of the model without limits.
        around: The sizes of all symbols in the first export.
    """

    def __init__(self, dim: Dim, seen: Seq[int], analysis: Analysis, around: Mapping[str, int]) -> None:
        self.dim, self.seen, self._analysis, self._around = dim, seen, analysis, around
        self.step = gcd(*(n - seen[0] for n in seen))
        self.condition = _progression(dim, seen[0], self.step)

    def holds(self, cond: Cond) -> bool:
        """Return True if the model without limits accepts no other sizes."""
        return cond.is_true or bool(self._analysis.prove(cond))

    def missed(self) -> Dim:
        """Return an expression that is 0 on the progression, and positive elsewhere."""
        return (self.dim - self.seen[0] % self.step + self.step) % self.step

    def next(self) -> int | None:
        """Return a size that the model accepts outside the progression, with the largest common step first."""
        parts = (self.step // k for k in range(2, self.step + 1) if self.step % k == 0)
        others = (k for k in range(1, self.step) if self.step % k)
        tried = [*parts, *others][:MAX_POINTS]
        return next((n for k in tried if self._accepts(n := self.seen[0] + k)), None)

    def extrapolated(self, condition: str) -> Iterator[str]:
        """Yield the accepted sizes outside the range of the exports."""
        low, high, step = self.seen[0], self.seen[-1], self.step if condition else 1
        if low > step and (self._accepts(low - step) or not self.holds(ge(self.dim, low))):
            yield f"{self.dim} < {low}"
        if self._accepts(high + step) or not self.holds(le(self.dim, high)):
            yield f"{self.dim} > {high}"

    def _accepts(self, size: int) -> bool:
        name, known = self.dim.name, self._analysis.symbols
        if name is None:
            return False
        at = {n: s for n, s in {**self._around, name: size}.items() if n in known}
        return not self._analysis._solved.violations_at(at)


def _progression(dim: Dim, first: int, step: int) -> Cond:
    return eq(dim % step, first % step)


# ---------------------------------------------------------------------- divisions


def _divided(analysis: Analysis) -> Iterator[tuple[Dim, str]]:
    """Yield sizes that are rounded or resized, and sums of sizes that are, each with the reason."""
    solved, found = analysis._solved, set[Dim]()
    for dim, node in _rounded(analysis):
        single = {of_atom(a) for mono, _ in dim.terms for a in mono if a.kind == "sym" and len(mono) == 1}
        parts = [symbol(name) for name in sorted(dim.free)]
        if len(single) == len(dim.terms) > 1:
            parts.append(dim - dim.const)
        for part in parts:
            if part not in found and part.free <= solved.symbols.keys():
                found.add(part)
                yield part, f"{node} divides {part}"


def _rounded(analysis: Analysis) -> Iterator[tuple[Dim, str]]:
    solved, seen = analysis._solved, set[Atom]()
    producers = solved.lowered.producers

    def label(tensor: str) -> str:
        node, prefix = producers.get(tensor, (None, ""))
        return "" if node is None else f"{prefix}{node.label}"

    places: list[tuple[Dim | Cond, str]] = [
        (d, label(tensor)) for tensor, shape in solved.shapes.items() for d in shape
    ]
    places += [
        (e.cond, e.node.label) for e in solved.lowered.log if e.node is not None and e.role == "requirement"
    ]
    places += [(d, label(t)) for t, v in solved.values.items() for d in v.elems or () if isinstance(d, Dim)]
    for expression, node_label in places:
        for atom in atoms_of(expression):
            if atom.kind == "//" and atom not in seen:
                seen.add(atom)
                if _rounds(*atom.args):
                    yield atom.args[0], node_label
    for tensor, (node, prefix) in producers.items():
        rule = solved.lowered.rule(node, prefix)
        if rule is not None and rule.reads and any(r in (NEW_SIZES, SCALES) for r in rule.reads.values()):
            given, made = (
                solved.shapes.get(n, ()) for n in (solved.lowered.full_name(node.inputs[0], prefix), tensor)
            )
            for old, new in zip(given, made, strict=False):
                times = exact_quotient(new, old)
                if times is None or times.terms:
                    yield from ((d, label(tensor)) for d in (old, new) if d.terms)


def _rounds(n: Dim, d: Dim) -> bool:
    """Return True if a quotient has a remainder at some sample sizes."""
    names = sorted(n.free | d.free)
    for start in (2, 3, 5, 7, 11, 13):
        at = {name: start + 6 * k for k, name in enumerate(names)}
        over, under = n.evaluate(at), d.evaluate(at)
        if over is None or not under or over % under:
            return True
    return False


# ---------------------------------------------------------------------- writing


class _Limits:
    """Writes nodes that fail outside the limits, in front of a model.

    Args:
        made: The model.
        request: Its dynamic axes.
        empty: Symbols that may be 0.
    """

    def __init__(self, made: onnx.ModelProto, request: DynamicRequest, empty: Set[str]) -> None:
        self.made, self.request, self.empty = made, request, empty
        self.draft = Draft(read_model(made))
        self.sizes = SizeNodes(self.draft, request.sites)
        self.read = {name for node in self.draft.graph.nodes for name in node.reads()}
        self.inputs = {v.name: v for v in made.graph.input}
        #: the last checked copy of each input
        self.checked: dict[str, str] = {}

    def written(self, positive: Seq[str], limits: Seq[tuple[Dim, str]]) -> onnx.ModelProto:
        """Return the model with these sizes positive, and these expressions 0. A node is named after each expression."""
        if not (positive or limits) or self.read.isdisjoint(site.tensor for site in self.request.dims):
            return self.made  # no output depends on these sizes
        for name in positive:
            self._positive(name)
        if limits:
            self._zero(limits)
        graph = self.draft.graph
        for given, last in self.checked.items():
            graph.rename(given, last)
        graph.nodes = [*self.sizes.nodes, *graph.nodes]
        proto = write(self.draft)
        for given, last in self.checked.items():  # loaders cannot infer the rank of the passed-on input
            info = proto.graph.value_info.add()
            info.CopyFrom(self.inputs[given])
            info.name = last
        return proto

    def _positive(self, name: str) -> None:
        """Append an axis to an input with this size, and remove it: inferring its size fails if the input is empty."""
        places = [site.tensor for site, dim in self.request.dims.items() if dim.name == name]
        free = {site.tensor for site, dim in self.request.dims.items() if dim.free & self.empty}
        given = next((t for t in places if t in self.read and t not in free), None)
        if given is None and self.read.isdisjoint(places):
            return
        if given is None:
            raise Refused(f"{name} is never 0 in the exports, and no input allows a check of that")
        if given not in self.checked:
            rank = self._rank(given)
            longer = self._reshape(given, self.sizes.number([0] * rank + [-1]), f"limit {given} is not empty")
            self._reshape(given, self.sizes.number([0] * (rank - 1) + [-1]), f"{given}_limited", longer)

    def _zero(self, limits: Seq[tuple[Dim, str]]) -> None:
        """Reshape an input to its own shape, whose vector gets another length if an expression is positive."""
        if self.sizes.opset < 7:  # Add takes no integers
            raise Refused(
                f"{limits[0][1]} cannot be checked in opset {self.sizes.opset}: export with opset 7 or later"
            )
        given = next(site.tensor for site in self.request.sites.values() if site.tensor in self.read)
        shape = self.sizes.node("Shape", [given], 1, f"{given}_shape")
        for dim, text in limits:
            target = self.sizes.size(dim + self._rank(given))
            shape = self._node(shape, target, "limit", f"limit {text}")
        self._reshape(given, shape, f"{given}_limited")

    def _rank(self, given: str) -> int:
        return len(self.inputs[given].type.tensor_type.shape.dim)

    def _reshape(self, given: str, target: str, name: str, tensor: str = "") -> str:
        """Reshape the last checked copy of an input (or `tensor`)."""
        made = self._node(tensor or self.checked.get(given, given), target, f"{given}_limited", name)
        self.checked[given] = made
        return made

    def _node(self, tensor: str, target: str, hint: str, name: str) -> str:
        node = self.draft.graph.new_node("Reshape", [tensor, target], hint)
        node.name = self.draft.fresh_node(name)
        self.sizes.nodes.append(node)
        return node.outputs[0]
