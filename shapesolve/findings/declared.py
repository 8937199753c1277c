"""Findings about wrong declared shapes, of computed tensors and of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers.solving import Opposed, opposed_by
from ..causes.finding import ExampleModel, Finding, Kind
from ..causes.limits import MAX_SHORT
from ..causes.wording import is_short
from ..expr import Dim
from ..expr.sizes import sizes_text
from ..solve.ambiguity import StaleShape, sharing_memory
from ..solve.contract.contract import text_of

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.facts.constraint import Site

CORRECT = "correct the declaration, or remove it"


@dataclass(frozen=True, eq=False)
class StaleDeclaration(Kind):
    """a declared shape disagrees with the inferred one

    The model declares a shape, in `value_info` or on an output, that contradicts the inferred one, either
    always or for some accepted sizes. Such declarations are left over from the example input of an export,
    or from an edit. The inferred shape is used.

    A runtime may rely on the declaration. onnxruntime lets tensors with equal declared shapes share memory,
    and then fails with `Shape mismatch attempting to re-use buffer` if the declaration is wrong for the
    run's sizes.

    ## What to do

    Correct or remove the declaration; `shapesolve annotate` writes the inferred shapes. If you trust the
    declaration, the finding is a bug: please report it. Until the file is fixed, `shapesolve inputs`
    generates sizes for which the declarations of intermediate tensors are right, if there are any.
    """

    code, severity = "SS102", "warning"
    example = ExampleModel(
        """g (float[batch, 8] past, float[batch, horizon] future) => (float[5, batch] y) <float[batch, 5] rows> {
        [level] mean = MatMul(past, w) [shift] rows = Add(future, mean) [turn] y = Transpose(rows) }""",
        {"w": (8, 1)},
    )

    stale: StaleShape
    size: Dim | None
    #: True if the runtime may let the tensor share memory with one of another size
    shares_memory: bool

    @property
    def site(self) -> Site:
        """The first dim whose declaration is wrong."""
        return self.stale.rows[0].origin.sites[0]

    def title(self) -> str:
        rule = self.stale.rows[0].origin.rule
        if self.size is None:  # in a graph whose iterations are not lowered one by one
            return rule
        return f"{rule}, but " + (f"its size is {self.size}" if self.size.terms else f"it is {self.size}")

    def notes(self) -> Iterator[str]:
        where = text_of(self.stale.cond)
        if is_short(where) and "max(" not in where:
            yield f"they agree only if {where}"
        more = len({site.tensor for site in self.stale.sites}) - 1
        if more:
            yield f"the same holds for {more} more tensor{'s' if more > 1 else ''}"
        if self.shares_memory:
            yield "onnxruntime lets tensors share memory whose declared shapes are equal: a run at other sizes may fail"

    def help(self) -> str:
        size = "" if self.size is None else str(self.size)
        if not size or len(size) > MAX_SHORT:
            return f"remove the declared shape of {self.site.tensor}"
        return f"declare {self.site.tensor}[{self.site.axis}] as {size}"


def find(analysis: Solved) -> Iterator[Finding]:
    """One finding per condition under which declared sizes are right, one per contradicted expression."""
    if analysis.request.opaque:
        law = analysis.again(bind={}, assume=(), opaque=frozenset())
        for opposed in opposed_by(law):
            if opposed.declared in analysis.request.opaque:
                yield _of_input(opposed)
    outputs = {name for name, _ in analysis.model.graph.outputs}
    for stale in analysis.stale_shapes:
        first = stale.rows[0].origin
        yield _told(analysis, stale, bool(sharing_memory([stale], outputs))).finding(
            first.node,
            first.op_type,
            nodes=tuple(dict.fromkeys(row.origin.node for row in stale.rows)),
            usual=analysis.usually(stale.cond),
            dims=(str(first.sites[0]),),
        )


def _told(analysis: Solved, stale: StaleShape, shares_memory: bool = False) -> StaleDeclaration:
    site = stale.rows[0].origin.sites[0]
    shape = analysis.simple_shapes.get(site.tensor)
    return StaleDeclaration(stale, None if shape is None else shape[site.axis or 0], shares_memory)


def _of_input(opposed: Opposed) -> Finding:
    """Return the finding on an input's declared expression and the sizes that the graph needs."""
    place, name = f"{opposed.tensor}[{opposed.axis}]", str(opposed.size)
    shown = {n: size for n, size in opposed.sizes.items() if n in opposed.declared.free or n == name}
    terms = [t for t in opposed.free.contract if name in t.symbols]
    needs = [f"the graph needs {t.text}" for t in terms if is_short(t.text)]
    return StaleDeclaration.worded(
        f"{place} is declared as {opposed.declared}, but some sizes that run differ",
        nodes=tuple(dict.fromkeys(n for t in terms for n in t.nodes)),
        notes=(f"it is treated as a separate size, `{name}`", *needs, f"it runs at {sizes_text(shown)}"),
        help=f"correct the declaration of {place}, or use another name",
        dims=(place,),
    )


def contradictions(analysis: Solved) -> list[str]:
    """Messages on declared element types and shapes that are wrong at all sizes."""
    return [note.message for note in analysis.lowered.notes if note.kind in ("declared", "type")]


def disagreements(analysis: Solved) -> list[str]:
    """Messages on declared types and shapes that are wrong at all or at some sizes."""
    return contradictions(analysis) + [_told(analysis, d).title() for d in analysis.stale_shapes]


def stale_dims(analysis: Solved) -> frozenset[tuple[str, int | None]]:
    """Return the dims (tensor, axis) whose declared size is right only for some sizes."""
    return frozenset((site.tensor, site.axis) for d in analysis.stale_shapes for site in d.sites)
