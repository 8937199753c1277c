"""Kinds of findings about dims declared dynamic that the graph fixes or restricts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..answers.rejected import requirement_text
from ..causes.finding import ExampleModel, Finding, Kind, Operand
from ..causes.limits import MAX_LISTED
from ..causes.repair import Repair
from ..causes.wording import export_note, is_short, limit_help, listed
from ..expr import Dim
from ..expr.sizes import sizes_text
from ..solve.bindings import listed_sizes

if TYPE_CHECKING:
    from ..solve.contract.contract import Term


@dataclass(frozen=True, eq=False, kw_only=True)
class Limit(Kind):
    """Limits of dims that one node sets, for one reason."""

    names: tuple[str, ...]
    terms: tuple[Term, ...] = ()
    node: str = ""
    op_type: str = ""
    nodes: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    #: why the node needs it
    reasons: tuple[str, ...] = ()
    #: sizes of the dims, and what a node before it makes at these sizes
    at: Mapping[str, int] = field(default_factory=dict)
    made: str = ""
    samples: tuple[str, ...] = ()
    #: edits that take the limits away
    repairs: tuple[Repair, ...] = ()
    #: sizes to declare, if these are the ones that run
    declare: Mapping[str, int] = field(default_factory=dict)
    #: stored tensors with a size that limits the dims, and the one of them that holds a size of the export
    constants: tuple[str, ...] = ()
    export: str = ""
    runs: tuple[tuple[str, int], ...] = ()
    fails: tuple[tuple[str, int], ...] = ()

    def notes(self) -> Iterator[str]:
        yield from self.reasons
        if self.made:
            yield f"at {sizes_text(self.at, self.names)}, {self.made}"
        yield from self.samples
        if self.export:
            yield from export_note(self.names, self.export)

    def help(self) -> str:
        return limit_help(self.declare, self.repairs)

    def condition(self) -> str:
        """Return the condition, if it is short and no title has it."""
        return ""

    def cause(self) -> object:
        """Return what limits with one cause share."""
        return self

    def and_(self, other: Limit) -> Limit:
        """Return this limit, and another one with the same cause."""
        return replace(
            self,
            names=tuple(dict.fromkeys((*self.names, *other.names))),
            terms=(*self.terms, *other.terms),
            nodes=tuple(dict.fromkeys((*self.nodes, *other.nodes))),
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons)))[:MAX_LISTED],
            samples=tuple(dict.fromkeys((*self.samples, *other.samples)))[:MAX_LISTED],
            declare={**self.declare, **other.declare},
            at={**self.at, **other.at},
        )

    def told(self) -> Finding:
        """Return the finding."""
        return self.finding(
            self.node,
            self.op_type,
            nodes=self.nodes,
            operands=self.operands,
            runs=self.runs,
            fails=self.fails,
            constants=self.constants,
            condition=self.condition(),
            dims=self.names,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OneSize(Limit):
    """the model runs at only one size of a dim declared dynamic

    An input dim with a name can only have a single size. The most common cause is an export that recorded
    the traced size as a constant.

    ## What to do

    Look at the node after `-->`. If a stored tensor holds the size, the `help` line names it, or an edit of
    it; the model was analyzed again with that edit, and the limit was gone.

    With a second export at another size, `shapesolve generalize` compares both and computes the differing
    constants from Shape. If the size is a batch of one, a single file is enough if its rows are proved to
    be independent: `shapesolve free --dim batch`. If the size really is fixed, declare it as a number.
    """

    code, severity = "SS401", "warning"
    example = ExampleModel(
        """g (float[1, seq, 32] x) => (y) {
        [turn] t = Transpose<perm: ints = [1, 0, 2]>(x)
        [view] y = Reshape(t, target) }""",
        data={"target": (9, 4, 8)},
    )

    size: int

    def title(self) -> str:
        (name,) = self.names
        if not self.size:
            return f"{name} must be 0: the model runs only on empty inputs"
        return f"{name} is declared dynamic, but only {name} = {self.size} runs"

    def help(self) -> str:
        if not self.size and not self.repairs:
            return f"{self.node} fails for every other size: start there"
        return super().help()


@dataclass(frozen=True, eq=False, kw_only=True)
class SameDim(Limit):
    """two dims declared as different names must be equal

    Two names that inputs declare must be equal, or one follows from the others, for the model to run.

    ## What to do

    Declare the dim by the expression that the title gives, so that callers see it.
    """

    code, severity = "SS402", "warning"
    example = ExampleModel("g (float[m, k] a, float[j, n] b) => (y) { [product] y = MatMul(a, b) }")

    claim: str
    #: the dim to declare it as, if no edit helps
    to: Dim | None = None

    def title(self) -> str:
        return self.claim

    def help(self) -> str:
        return super().help() or ("" if self.to is None else f"declare {self.names[0]} as {self.to}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Restricted(Limit):
    """a dim declared dynamic is restricted to a range or to multiples

    The model does not accept every size of a dim that it declares dynamic, for a reason inherent in the
    model: skip connections require multiples, a position table ends, a kernel must fit, or two dims are
    related. Every contract condition stronger than "not empty" has such a finding, with a size that runs
    and the nearest one that does not. If the cause is a size of the example input, the finding is
    [SS404](SS404.md).

    ## What to do

    Callers must satisfy the condition, which is part of the contract. `shapesolve sizes` finds the nearest
    accepted sizes.
    """

    code, severity = "SS403", "info"
    example = ExampleModel(
        """g (float[batch, 4, height, 32] x) => (y) {
        [down] d = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
        [up] u = Resize<mode: string = "nearest">(d, , scales)
        [skip] y = Concat<axis: int = 1>(x, u) }""",
        data={"scales": (1.0, 1.0, 2.0, 2.0)},
    )

    def cause(self) -> object:
        return self.node, self.title()

    def title(self) -> str:
        term = self.terms[0]
        if not is_short(str(term)):
            return f"the model does not run at every size of {listed(self.names)}"
        return requirement_text(term.text) + (f" for {', '.join(term.assumptions)}" if term.scope else "")

    def help(self) -> str:
        return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class BakedSize(Limit):
    """a dim declared dynamic is limited by a size that was baked in at export

    A dim accepts only a few sizes, or only sizes for which rows of a batch are cut and mixed, because of a
    constant in the model. The finding shows the constant and its values: the target of a Reshape or Expand,
    the sizes of a Resize, the end of a Slice, or positions or a mask for the example. This is usually an
    error of the export. Limits inherent in the model are reported separately: multiples for skip
    connections, the length of a table, and the size of a kernel are [SS403](SS403.md), channels and widths
    are [SS405](SS405.md).

    ## What to do

    The `help` line names the stored tensor that holds the example's size. Export the model at two sizes and
    run `shapesolve generalize` on both files. Constants that differ between them are computed from Shape,
    and the result is run at both sizes.

    Alternatively, find the constant in the source: a size that was a Python number when the model was
    traced. Take it from the tensor's shape, export with that dim dynamic, or declare the dim as a number.
    """

    code, severity = "SS404", "warning"
    example = ExampleModel(
        """g (float[batch, seq, 32] x) => (y) {
        [view] y = Reshape(x, target)
        [bias] z = Add(y, table) }""",
        {"table": (9, 32)},
        {"target": (-1, 9, 32)},
    )

    #: tensors and targets that limit the dims
    culprits: tuple[str, ...] = ()

    def cause(self) -> object:
        return (self.node, self.culprits) if self.culprits else self

    def title(self) -> str:
        them = "it" if len(self.names) == 1 else "them"
        one, many = ("fixes", "fix") if all(map(_fixes, self.terms)) else ("limits", "limit")
        what = one if len(self.culprits) == 1 else many
        cause = f"{listed(self.culprits)} {what} {them}" if self.culprits else "few sizes run"
        return f"{listed(self.names)} {'is' if len(self.names) == 1 else 'are'} dynamic, but {cause}"

    def condition(self) -> str:
        text = " and ".join(map(str, self.terms))
        return text if is_short(text) else ""


def _fixes(term: Term) -> bool:
    return any(listed_sizes(term.cond, name) for name in term.symbols)


@dataclass(frozen=True, eq=False, kw_only=True)
class FixedWidth(Limit):
    """a dim declared dynamic is a width or a number of channels that the model has fixed

    A dim that an input declares as a name meets the channels of a weight, the rows of a matrix or the width
    of a head: it has one size, which every model of this kind fixes. The declaration promises more than
    there is, and does no harm otherwise.

    ## What to do

    Declare the dim as the number, so that callers see it.
    """

    code, severity = "SS405", "info"
    example = ExampleModel(
        """g (float[batch, channels, 32, 32] image) => (y) {
        [conv] y = Conv<kernel_shape: ints = [3, 3]>(image, conv_weight) }""",
        {"conv_weight": (8, 3, 3, 3)},
    )

    size: int

    def title(self) -> str:
        return f"{self.names[0]} is declared dynamic, but only {self.names[0]} = {self.size} runs"

    def help(self) -> str:
        return f"declare {self.names[0]} as {self.size}"


class OnlyEmpty(Kind):
    """the model runs only on empty inputs

    All accepted sizes include a 0: if no input is empty, a node fails whatever the sizes are. Sizes that
    include a 0 are accepted only because many operators have nothing to check on empty tensors. If one
    particular dim must be 0, [SS401](SS401.md) is reported instead.

    ## What to do

    Look at the node after `-->`, which fails for all inputs that are not empty. An example is a Reshape
    whose target keeps all dims but one, and has another number for that one.
    """

    code, severity = "SS406", "warning"
    example = ExampleModel(
        """g (float[batch, seq, 4] x) => (y) {
        [rows] r = Reshape(x, target) [head] y = MatMul(r, weight) }""",
        {"weight": (6, 2)},
        {"target": (0, 0, 6)},
    )
