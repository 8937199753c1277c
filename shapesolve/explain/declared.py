"""Findings about wrong declarations: of computed tensors (`solve.stale_shapes`), and of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, Dim, all_of, ge, le, solve_for_symbol
from ..expr.sizes import sizes_text
from ..solve.contract.contract import text_of
from ..solve.stale_shapes import LARGEST, StaleShape, sharing_memory
from .finding import Finding
from .wording import is_short

if TYPE_CHECKING:
    from .solved import Solved

HELP = "the inferred size is used; correct the declaration, or remove it (`shapesolve annotate` writes the inferred one)"


def findings(analysis: Solved) -> Iterator[Finding]:
    """Findings: one per condition under which declared sizes are right, one per contradicted expression."""
    if analysis.request.opaque:
        law = analysis.again(bind={}, assume=(), opaque=frozenset())
        yield from (o.finding() for o in opposed_by(law) if o.said in analysis.request.opaque)
    outputs = {name for name, _ in analysis.model.graph.outputs}
    for stale in analysis.stale_shapes:
        first = stale.rows[0].origin
        tensors = dict.fromkeys(site.tensor for site in stale.sites)
        more = len(tensors) - 1
        where = text_of(stale.cond)
        notes = [f"they agree only where {where}"] if is_short(where) else []
        if more:
            notes.append(f"so {'are' if more > 1 else 'is'} {more} more tensor{'s' if more > 1 else ''}")
        if sharing_memory([stale], outputs):
            notes.append(
                "onnxruntime lets tensors share memory whose declared shapes are equal: a run at other sizes may fail"
            )
        nodes = tuple(dict.fromkeys(row.origin.node for row in stale.rows))
        yield Finding(
            "SS102",
            title(analysis, stale),
            first.node,
            first.op_type,
            nodes,
            notes=tuple(notes),
            help=HELP,
        )


class Opposed(NamedTuple):
    """A declared expression of an input's dim, with accepted sizes at which the graph needs another one."""

    tensor: str
    axis: int
    said: Dim
    free: Solved  # with the dim as a size of its own
    sizes: Mapping[str, int]

    @property
    def size(self) -> Dim:
        """The dim as a size of its own."""
        shape = getattr(self.free.inputs[self.tensor], "shape", None)
        assert shape is not None
        dim: Dim = shape[self.axis]
        return dim

    def finding(self) -> Finding:
        """The finding: the declared expression and the sizes that the graph needs."""
        place, name = f"{self.tensor}[{self.axis}]", str(self.size)
        shown = {n: size for n, size in self.sizes.items() if n in self.said.free or n == name}
        terms = [t for t in self.free.contract if name in t.symbols]
        needs = [f"the graph needs {t.text}" for t in terms if is_short(t.text)]
        return Finding(
            "SS102",
            f"{place} is declared as {self.said}, which is not so at sizes that run",
            nodes=tuple(dict.fromkeys(n for t in terms for n in t.nodes)),
            notes=(f"it is taken for a size of its own, `{name}`", *needs, f"it runs at {sizes_text(shown)}"),
            help=f"correct the declaration of {place}, or give it a name of its own",
        )


def opposed_by(law: Solved) -> Iterator[Opposed]:
    """Declared input expressions that the graph contradicts at sizes that run without them.

    `law` is the model with all of them taken for true. One is contradicted where, with it as a size of its own, the graph
    ties that size by an equality to other sizes, and it is something else at some of these that run. A limit or a divisor of
    such a size does not contradict what it is declared as.
    """
    if law.stuck:
        return
    shapes = {n: getattr(known, "shape", None) or () for n, known in law.inputs.items()}
    declared = [(d, name, axis) for name, shape in shapes.items() for axis, d in enumerate(shape) if d.terms]
    named = {d.name for d, _, _ in declared}
    first = {d: (name, axis) for d, name, axis in reversed(declared) if d.name is None}
    for said, (name, axis) in first.items():
        if not said.free <= named or not any(c.free & said.free for c in law.accepted.conds):
            continue
        free = law.again(opaque=frozenset((said,)))
        opposed = Opposed(name, axis, said, free, {})
        size = opposed.size.name or ""
        ties = [] if free.stuck else [c for c in free.accepted.conds if _is_tie(c, size)]
        at_said = all_of(ties).subs({size: said})
        near = [bound for d in free.symbols.values() for bound in (ge(d, 2), le(d, LARGEST))]
        if not ties or at_said.is_true:
            continue
        found = free.prover.engine.satisfiable([~at_said, *free.accepted.conds, *near])
        if found.sat and found.model is not None:
            sizes = {n: found.model.get(n, 2) for n in free.symbols}
            if not free.violations_at(sizes):
                yield opposed._replace(sizes=sizes)


def _is_tie(cond: Cond, name: str) -> bool:
    """True if the condition or one of its alternatives equates the size with an expression of others."""
    parts = cond.args if cond.kind == "or" else (cond,)
    equal = [p.args[0] for p in parts if isinstance(p, Cond) and p.kind == "=="]
    solved = [solve_for_symbol(d, lambda atom: atom.args[0] == name) for d in equal]
    return any(s is not None and s[0].args[0] == name and s[1].terms for s in solved)


def title(analysis: Solved, stale: StaleShape) -> str:
    """The first dim that is declared so, and what it is."""
    row = stale.rows[0]
    site = row.origin.sites[0]
    shape = analysis.simple_shapes.get(site.tensor)  # none of a graph whose trips are not followed one by one
    return row.origin.rule if shape is None else f"{row.origin.rule}, it is {shape[site.axis or 0]}"


def contradictions(analysis: Solved) -> list[str]:
    """In words, every declared element type or shape that is not that of the tensor at any sizes."""
    return [note.message for note in analysis.walk.state.notes if note.kind in ("declared", "type")]


def disagreements(analysis: Solved) -> list[str]:
    """Text of each declared type or shape that disagrees with the tensor, always or at some sizes."""
    return contradictions(analysis) + [title(analysis, d) for d in analysis.stale_shapes]


def stale_dims(analysis: Solved) -> frozenset[tuple[str, int | None]]:
    """Tensors and axes that are declared so that it holds at some sizes only."""
    return frozenset((site.tensor, site.axis) for d in analysis.stale_shapes for site in d.sites)
