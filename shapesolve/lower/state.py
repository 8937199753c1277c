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
        log: the stated conditions, in order.
        clashes: contradictions.
        opens: broadcasts whose two dims may be equal or not.
        notes: remarks on nodes and tensors.
        tensors: what is known of each tensor, by its full name.
        producers: the node that makes each tensor, and the prefix of its scope.
        memo: what nodes gave, by what they say and read.
        overwritten: what a trial replaced in scopes around it, to be put back: (names, name, before).
        trials: the number of trials inside each other; 0 for what counts.
        usual: Conditions that usual inputs satisfy, in graph order (see `Op.usual`).
        caches: Names of sizes that a node extends and that may be 0 (see `Op.extends`).
        poisoned: symbols of tensors that a contradiction made meaningless.
        failed: nodes that cannot run, or follow from such.
        made: the generated symbols.
        reasons: what each generated symbol stands for.
        unknown: generated sizes of what an unknown operator makes, or a node behind an input without a rank.
        unnamed: symbols of input dims that have no name.
        author: names that the author gives to such dims elsewhere.
        taken: names that inputs or assumptions use.
        opsets: versions of operators, by prefix of scope.
        aliases: formal input of a body -> (name, prefix) outside.
        hints: shapes of tensors whose rank only later nodes tell.
        possible_ranks: of tensors whose rank sizes decide.
        chosen: names of choices that depend on data.
        named: names of expressions too large to carry, by guard.
        trips: the number of trips of a loop, by the full name of its node.
        undeclared: symbols of inputs that are declared without a rank.
        believed: tensors whose rank is known only by what later nodes need.
        varying: tensors whose rank is not the same in every run.
        others: what is no tensor, read through the facts of a version.
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
        """A copy of the state, for a trial. Nothing is stated and it has no tensor of its own yet; names and what is
        known of them are copied.
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
