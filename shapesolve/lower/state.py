# compiled: see CONTRIBUTING.md
"""The state of one lowering. All that a trial rolls back is here, so that a trial is `LoweringState.fork`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..expr import Cond, Dim, Shape
    from ..model import Node
    from .records import Clash, Entry, LoweredNode, Note, Open
    from .types import Known


class LoweringState:
    """State of one lowering: log, symbols, tensors, notes.

    Attributes:
        log: Recorded conditions, in order.
        clashes: Contradictions.
        opens: Broadcasts of two dims that may or may not be equal.
        notes: Remarks on nodes and tensors.
        tensors: Known value of each tensor, by its full name.
        producers: Node that computes each tensor, and the prefix of its scope.
        memo: Results of nodes, by operator, attributes, and inputs.
        overwritten: Values that a trial replaced in enclosing scopes, to be restored: (names, name, before).
        trials: Number of nested trials; 0 outside of trials.
        usual: Conditions that typical inputs satisfy, in graph order (see `Op.usual`).
        caches: Names of sizes that a node extends and that may be 0 (see `Op.extends`).
        poisoned: Symbols of tensors that a contradiction made meaningless.
        failed: Nodes that cannot run, or depend on such nodes.
        made: Generated symbols.
        reasons: Meaning of each generated symbol.
        unknown: Generated sizes of the outputs of an unknown operator, or of a node after an input of unknown rank.
        unnamed: Symbols of unnamed input dims.
        author: Names that the author gives to such dims elsewhere.
        taken: Names used by inputs or assumptions.
        opsets: Operator versions, by prefix of scope.
        aliases: Formal input of a body -> (name, prefix) outside.
        hints: Shapes of tensors whose rank only later nodes imply.
        possible_ranks: Possible ranks of tensors whose rank depends on sizes.
        chosen: Names of data-dependent choices.
        named: Names of expressions too large to carry, by guard.
        trips: Number of a loop's iterations, by its node's full name.
        undeclared: Symbols of inputs declared without a rank.
        believed: Tensors whose rank is known only from later nodes.
        varying: Tensors whose rank differs between runs.
        others: Values other than tensors, simplified by the facts of a version.
    """

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.clashes: list[Clash] = []
        self.opens: list[Open] = []
        self.notes: list[Note] = []
        self.tensors: dict[str, Known] = {}
        self.producers: dict[str, tuple[Node, str]] = {}
        self.memo: dict[Any, LoweredNode] = {}
        self.overwritten: list[tuple[dict[str, Known], str, Known]] = []
        self.trials = 0
        self.usual: dict[Cond, None] = {}
        self.caches: dict[str, None] = {}
        self.poisoned: set[str] = set()
        self.failed: set[str] = set()
        self.made: dict[str, Dim] = {}
        self.reasons: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.unnamed: set[str] = set()
        self.author: dict[str, str] = {}
        self.taken: set[str] = set()
        self.opsets: dict[str, Mapping[str, int]] = {}
        self.aliases: dict[str, tuple[str, str]] = {}
        self.hints: dict[str, Shape] = {}
        self.possible_ranks: dict[str, tuple[int, ...]] = {}
        self.chosen: dict[Dim, Dim] = {}
        self.named: dict[tuple[Dim, Cond], Dim] = {}
        self.trips: dict[str, Dim] = {}
        self.undeclared: set[str] = set()
        self.believed: set[str] = set()
        self.varying: set[str] = set()
        self.others: dict[Known, tuple[int, Known]] = {}

    def fork(self) -> LoweringState:
        """Return a copy of the state for a trial, with no conditions and no tensors of its own yet.

        Names and known facts about them are copied.
        """
        other = LoweringState()
        other.trials = self.trials + 1
        other.usual, other.caches = self.usual.copy(), self.caches.copy()
        other.poisoned, other.failed = self.poisoned.copy(), self.failed.copy()
        other.made, other.reasons = self.made.copy(), self.reasons.copy()
        other.unknown = self.unknown.copy()
        other.unnamed, other.author, other.taken = self.unnamed.copy(), self.author.copy(), self.taken.copy()
        other.opsets, other.aliases, other.hints = self.opsets.copy(), self.aliases.copy(), self.hints.copy()
        other.possible_ranks, other.chosen = self.possible_ranks.copy(), self.chosen.copy()
        other.named, other.trips = self.named.copy(), self.trips.copy()
        other.undeclared, other.believed = self.undeclared.copy(), self.believed.copy()
        other.varying, other.others = self.varying.copy(), self.others.copy()
        return other
