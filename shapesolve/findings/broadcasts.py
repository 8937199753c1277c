"""Findings about broadcasts that the model does not decide."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers.names import unknown_sizes
from ..causes.finding import ExampleModel, Finding, Kind
from ..causes.limits import MAX_LISTED
from ..causes.operands import sides_of
from ..causes.wording import is_short, operand_rows, quoted_conditions
from ..expr import Cond, Dim, broadcast, eq, ge, parse_cond
from ..expr.traverse import atoms_of
from ..solve.contract.contract import heading
from ..solve.groups import members, text_of
from ..solve.simplify import Simplifier

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.ambiguity import Ambiguity

#: characters that a shell does not interpret between double quotes
_HARMLESS = re.compile(r"[^$`\"\\!]*")
#: atoms that a person reads at a glance: of the others (``max``, ``broadcast``) one is enough
_PLAIN = frozenset(("sym", "//", "%"))


@dataclass(frozen=True, eq=False)
class OpenBroadcast(Kind):
    """ambiguous broadcast

    A broadcast of two sizes is legal if they are equal or if one of them is 1, and the model does not
    determine which. The result is reported as `broadcast(a, b)`. The same pair at several nodes is one
    finding.

    If typical inputs resolve the ambiguity, such as a mask with the length of the past and the new tokens,
    the finding is an info, and `check` shows it only with `--limits`.

    ## What to do

    Add the condition from the `help` line. `--broadcast equal` assumes that all such pairs are equal, and
    reports the assumption.
    """

    code, severity = "SS301", "warning"
    example = ExampleModel("g (float[batch, m] a, float[batch, n] b) => (y) { [sum] y = Add(a, b) }")

    ambiguity: Ambiguity
    #: the two sizes at typical inputs, with conditions for them; None if typical inputs leave it open
    usual: tuple[Dim, Dim, Sequence[Cond]] | None
    #: a condition that closes it and that a caller can check, or an empty text
    condition: str

    @property
    def is_plain(self) -> bool:
        """True if the sizes at typical inputs can be read."""
        text = "" if self.usual is None else f"{self.usual[0]}{self.usual[1]}"
        return self.usual is not None and is_short(text) and "broadcast(" not in text

    def title(self) -> str:
        if self.usual is not None and self.is_plain:
            left, right, fits = self.usual
            limited = f", {heading(fits)}" if fits else ""
            return f"{left} and {right} are broadcast: they must be equal, or one of them 1{limited}"
        sites = self.ambiguity.sites
        where = "" if len(sites) == 1 else f" ({len(sites)} nodes, this one first)"
        return f"{_open_text(*self.ambiguity.pair)}{where}"

    def notes(self) -> Iterator[str]:
        if not self.is_plain:
            cases = quoted_conditions([str(c) for c in self.ambiguity.cases], quote="")
            yield f"it runs if one of these holds: {cases}"

    def help(self) -> str:
        return f"--assume {_quoted(self.condition)} if it always holds" if self.condition else ""


def find(analysis: Solved) -> Iterator[Finding]:
    """Yield the broadcasts whose sizes may be equal or 1, one finding per pair of sizes."""
    opens = {f"{o.prefix}{o.node.label}": o for o in reversed(analysis.lowered.opens)}
    unknown = unknown_sizes(analysis.lowered)  # of an operator without a rule
    for a in analysis.ambiguities:
        left, right = a.pair
        if not {*unknown, *analysis.lowered.poisoned}.isdisjoint(left.free | right.free):
            continue  # caused by a node that cannot run
        first, usual, suggestion = a.sites[0], None, a.suggestion
        rows = operand_rows(sides_of(opens[first], analysis.lowered), analysis.lowered)
        if analysis.usually(eq(left, right)):
            scope = analysis.contract.usual.whole
            simplifier = Simplifier([*scope.sizes, *scope.fits])
            left, right = sorted((simplifier.dim(left), simplifier.dim(right)), key=lambda d: d.name is None)
            if left is right:
                continue  # they differ only outside the scope
            usual, suggestion = (left, right, scope.fits), f"{left} == {right}"
            rows = () if any("broadcast(" in shape for _, shape, _ in rows) else rows
        condition = suggestion if _may_be_assumed(suggestion, analysis) else ""
        yield OpenBroadcast(a, usual, condition).finding(
            first,
            opens[first].node.op_type,
            nodes=tuple(a.sites),
            operands=rows,
            usual=usual is not None,
            dims=tuple(sorted(a.pair[0].free | a.pair[1].free)),
        )


def _open_text(left: Dim, right: Dim) -> str:
    """Describe an ambiguity: whether two sizes are equal, or all sizes of a group."""
    group = members(broadcast(left, right))
    if group is not None and len(group) >= MAX_LISTED:
        return f"{len(group)} sizes are broadcast together: {text_of(group, MAX_LISTED)}"
    return f"cannot determine whether {_size_text(left)} equals {_size_text(right)} in a broadcast"


def _size_text(size: Dim) -> str:
    """Return a size of a broadcast as text for a title."""
    text = str(size)
    return f"`{text}`" if is_short(text) else "a long expression"


def _quoted(text: str) -> str:
    """Return the text quoted for a shell."""
    return f'"{text}"' if _HARMLESS.fullmatch(text) else shlex.quote(text)


def _may_be_assumed(text: str, analysis: Solved) -> bool:
    """Return True if the text is a condition on inputs that some accepted sizes of at least 2 satisfy."""
    if not text:
        return False
    cond = parse_cond(text, analysis.symbols)
    if not is_short(text) or sum(a.kind not in _PLAIN for a in atoms_of(cond)) > 1:
        return False  # too complex for a user to check
    if not cond.free <= analysis.symbols.keys():
        return False
    several = [ge(analysis.symbols[name], 2) for name in sorted(cond.free)]
    asked = [cond, *several, *analysis.accepted.conds]
    return analysis.prover.engine.model(asked, cheap=True) is not None
