"""`Figures`: symbolic cost of a model, at given sizes, and by scope."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ...arguments import wrong
from ...expr import Dim
from ..limits import SCOPED
from ..sizes import NoSizes
from .memory import Largest, largest
from .trace import CostTracer, NodeCost, summed

if TYPE_CHECKING:
    from ...analysis import Analysis

#: parts of a weight's name: a number belongs to the word before it
_WORDS = re.compile(r"\.(?!\d)")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Cost of a run at given sizes, as numbers."""

    macs: int
    flops: int
    activation_bytes: int
    peak: int
    peak_reused: int
    parameter_bytes: int

    @property
    def memory(self) -> int:
        """Bytes of weights plus peak bytes of tensors."""
        return self.parameter_bytes + self.peak

    @property
    def memory_reused(self) -> int:
        """`memory` if tensors reuse each other's buffers."""
        return self.parameter_bytes + self.peak_reused


@dataclass(frozen=True, slots=True)
class ScopeCost:
    """Cost of a scope: sums over its nodes, and `live`, the maximum bytes held while one of them runs."""

    name: str
    nodes: int
    macs: Dim
    flops: Dim
    parameters: int
    parameter_bytes: int
    bytes: Dim
    live: Largest


class Figures:
    """Computation of the attributes of `Cost`, which documents them."""

    def __init__(self, analysis: Analysis) -> None:
        if not hasattr(analysis, "model"):
            raise wrong("Cost expects an Analysis (cost() accepts a model)", analysis)
        self.analysis = analysis
        graph = analysis.model.graph
        tracer = CostTracer(analysis)
        body = tracer.graph(graph, "", None, own_inputs=True)
        assert body.work is not None
        self.nodes: tuple[NodeCost, ...] = tuple(tracer.rows)
        self.parameters = sum(n for n, _ in tracer.weights.values())
        self.parameter_bytes = sum(n for _, n in tracer.weights.values())
        self._strides = tracer.strides
        self.macs, self.flops = map(self._strides.shown, (body.work.macs, body.work.flops))
        self.activation_bytes = self._strides.shown(summed([row.bytes for row in self.nodes]))
        self.peak, self.peak_reused = tracer.shown(body.plain), tracer.shown(body.reused)
        self.uncounted: Mapping[str, int] = Counter(tracer.uncounted.values())
        self.unmeasured: tuple[str, ...] = tuple(tracer.unmeasured)
        self.remarks: tuple[str, ...] = tuple(tracer.remarks)

    @property
    def free(self) -> frozenset[str]:
        """Symbols in any figure."""
        dims = (self.macs, self.flops, self.activation_bytes)
        return frozenset().union(self.peak.free, self.peak_reused.free, *(d.free for d in dims))

    def at(self, sizes: Mapping[str, int]) -> Numbers:
        """Return the figures at these sizes.

        Raises:
            NoSizes: If the model does not accept the sizes.
            ValueError: If a name is missing or unknown.
        """
        self.check(sizes)
        found = self.numbers(sizes)
        if found is None:
            raise ValueError(f"missing sizes: {self.missing(sizes)}")
        return found

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` for unknown names, and `NoSizes` for sizes that the model rejects."""
        broken = self.analysis.evaluate(sizes).violations
        if broken:
            raise NoSizes(broken[0].message, broken)

    def missing(self, sizes: Mapping[str, int]) -> str:
        """Return the names without a size as a string, with explanations of data-dependent ones."""
        reasons = self.analysis._solved.lowered.reasons
        left = sorted(self.free - self.known(sizes).keys())
        return ", ".join(f"{n} ({reasons[n]})" if n in reasons else n for n in left)

    def numbers(self, sizes: Mapping[str, int]) -> Numbers | None:
        """Return all figures at these sizes, accepted or not, or None if a size is missing."""
        found = self.decided(sizes)
        return Numbers(**found) if len(found) == len(fields(Numbers)) else None

    def decided(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the values of the figures that these sizes determine, by name."""
        known = self.known(sizes)
        found = {
            "macs": self.macs.evaluate(known),
            "flops": self.flops.evaluate(known),
            "activation_bytes": self.activation_bytes.evaluate(known),
            "peak": self._most(self.peak, known),
            "peak_reused": self._most(self.peak_reused, known),
            "parameter_bytes": self.parameter_bytes,
        }
        return {name: number for name, number in found.items() if number is not None}

    def _most(self, held: Largest, known: Mapping[str, int]) -> int | None:
        """Return the value of a maximum, or None if a term of unknown value might exceed the known ones."""
        found = [d.evaluate(known) for d in held.of]
        most = max((n for n in found if n is not None), default=-1)
        for dim, number in zip(held.of, found, strict=True):
            if number is None:
                high = self._at_most(dim, known)
                if high is None or high > most:
                    return None
        return most

    def _at_most(self, dim: Dim, known: Mapping[str, int]) -> int | None:
        try:
            found = self.analysis.bounds(dim.subs({n: known[n] for n in dim.free if n in known}))
        except ZeroDivisionError:
            return None
        return None if found.assumptions else found[1]

    def known(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return these sizes with values of symbols that follow from them."""
        known = {**self.analysis._solved.fixed_sizes, **sizes}
        for name, dim in self.analysis.contract.derived:
            value = dim.evaluate(known)
            if value is not None:
                known.setdefault(name, value)
        return known

    # ------------------------------------------------------------------ scopes

    def scopes(self, depth: int = 3) -> tuple[ScopeCost, ...]:
        """Return the cost per scope: nodes grouped by the first `depth` parts of their names.

        If fewer than 30 % of the nodes have such names, scopes come from the dotted names of the weights that they
        read; a node without a weight belongs to the scope of the preceding node.
        """
        members: dict[str, list[NodeCost]] = {}
        by_name = [[p for p in row.name.split("/")[:-1] if p] for row in self.nodes]
        named = sum(map(bool, by_name)) >= SCOPED * len(by_name)
        scope = ""
        for row, parts in zip(self.nodes, by_name, strict=True):
            if named:
                scope = "/".join(parts[:depth])
            elif row.weight:
                scope = ".".join(_WORDS.split(row.weight)[:-1][:depth])
            members.setdefault(scope, []).append(row)
        return tuple(self._joined(name, rows) for name, rows in members.items())

    def _joined(self, name: str, rows: list[NodeCost]) -> ScopeCost:
        shown = self._strides.shown
        live = largest(self._strides.inward(d) for r in rows for d in r.live.of)
        return ScopeCost(
            name,
            len(rows),
            shown(summed([r.macs for r in rows if r.macs is not None])),
            shown(summed([r.flops for r in rows if r.flops is not None])),
            sum(r.parameters for r in rows),
            sum(r.parameter_bytes for r in rows),
            shown(summed([r.bytes for r in rows])),
            Largest(tuple(map(shown, live.of))),
        )
