# compiled: see CONTRIBUTING.md
"""The state of one lowering. All that a trial rolls back is here, so that a trial is `LoweringState.fork`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..expr import Cond, Dim, Shape
    from ..model import Node
    from .records import Clash, Entry, LoweredNode, Note, Open
    from .types import Known


#: Fields that are empty when a trial begins.
_BEGUN = ("log", "clashes", "opens", "notes", "tensors", "producers", "memo", "overwritten", "trials")
#: Fields that a trial shares with the lowering around it: facts about the file, and numbers that must not repeat.
SHARED = ("of_inputs", "named_inputs", "reserved", "words", "opaque", "outside", "numbers")


@dataclass(eq=False)
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
        trips: Number of iterations of a loop, by the full name of its node.
        undeclared: Symbols of inputs declared without a rank.
        believed: Tensors whose rank is known only from later nodes.
        varying: Tensors whose rank differs between runs.
        others: Values other than tensors, simplified by the facts of a version.
        of_inputs: Names of input sizes, which never depend on data.
        named_inputs: Inputs of the main graph.
        reserved: Names that the file uses anywhere.
        words: Names that stand for a separate size.
        opaque: Declared expressions treated as names, and their symbols.
        outside: Small external tensors: the file, and whether it exists.
        numbers: Next number of a generated symbol, by kind.
    """

    log: list[Entry] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    opens: list[Open] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    tensors: dict[str, Known] = field(default_factory=dict)
    producers: dict[str, tuple[Node, str]] = field(default_factory=dict)
    memo: dict[Any, LoweredNode] = field(default_factory=dict)
    overwritten: list[tuple[dict[str, Known], str, Known]] = field(default_factory=list)
    trials: int = 0
    usual: dict[Cond, None] = field(default_factory=dict)
    caches: dict[str, None] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    made: dict[str, Dim] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    author: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    opsets: dict[str, Mapping[str, int]] = field(default_factory=dict)
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict)
    hints: dict[str, Shape] = field(default_factory=dict)
    possible_ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    chosen: dict[Dim, Dim] = field(default_factory=dict)
    named: dict[tuple[Dim, Cond], Dim] = field(default_factory=dict)
    trips: dict[str, Dim] = field(default_factory=dict)
    undeclared: set[str] = field(default_factory=set)
    believed: set[str] = field(default_factory=set)
    varying: set[str] = field(default_factory=set)
    others: dict[Known, tuple[int, Known]] = field(default_factory=dict)
    of_inputs: set[str] = field(default_factory=set)
    named_inputs: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    opaque: dict[Dim, Dim | None] = field(default_factory=dict)
    outside: dict[str, tuple[str, bool]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def fork(self) -> LoweringState:
        """Return a copy of the state for a trial, without conditions and tensors.

        Names and known facts about them are copied.
        """
        other = LoweringState(trials=self.trials + 1)
        for one in fields(LoweringState):
            if one.name not in _BEGUN:
                mine = getattr(self, one.name)
                setattr(other, one.name, mine if one.name in SHARED else mine.copy())
        return other
