"""`ConstraintSystem`: all constraints of a model on its sizes. They are rows to select, print and hand to Z3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, overload

from ..collection import CollectionPaused
from ..expr import Cond
from ..lines import clipped, visible
from ..lower.types import Known
from ..model import Model
from ..solve.facts.constraint import ROLES, Constraint, Role
from ..solve.facts.log import ConstraintSet
from .content import Content
from .limits import MAX_ROWS, MAX_TEXT
from .local import Analysed, Definition, LocalWalk

if TYPE_CHECKING:
    from .content import Content


_NUMBER = re.compile(r"#(\d+)\Z")


def stated(content: Content, numbers: Sequence[int], *, tensors: bool) -> Iterator[tuple[int, Cond]]:
    """Yield pairs (row number, condition) whose conjunction is equivalent to these rows.

    Without `tensors`, definitions are substituted into the other conditions. They are only yielded themselves if that
    is not possible, or
    if `numbers` is a selection, which may consist of definitions.
    """
    selected = len(numbers) < len(content.rows)
    for number in numbers:
        if tensors:
            yield number, content.local(number)
            continue
        row = content.rows[number]
        if isinstance(row, Definition) and row.variable.name in content.composition.sizes and not selected:
            continue
        cond = content.over_inputs(number)
        if not cond.is_true:
            yield number, cond


def literal(content: Content, number: int) -> str:
    """Name of a constraint's tracking literal: its node (or other source) and its number."""
    row = content.rows[number]
    where = content.label(number)
    if not where:
        where = f"{row.role} {row.tensor}" if isinstance(row, Definition) else row.role
    return f"{where} #{number}"


def number_of(name: Any) -> int:
    """The number of the constraint that a tracking literal names. Raises `ValueError` for a literal of another kind."""
    text = name if isinstance(name, str) else str(name.decl().name())
    found = _NUMBER.search(text)
    if found is None:
        raise ValueError(f"{text!r} is not the literal of a constraint")
    return int(found[1])


def formulas(content: Content, numbers: Sequence[int], ctx: Any, *, tensors: bool) -> list[Any]:
    """See `ConstraintSystem.z3`."""
    from ..expr.z3_bridge import Z3Terms

    terms = Z3Terms(ctx)
    found = [terms.formula(cond) for _, cond in stated(content, numbers, tensors=tensors)]
    return [*(size >= 0 for size in terms.sizes), *found]


def tracking_solver(content: Content, numbers: Sequence[int], ctx: Any, *, tensors: bool) -> Any:
    """See `ConstraintSystem.solver`."""
    import z3

    from ..expr.z3_bridge import Z3Terms

    terms = Z3Terms(ctx)
    solver = z3.Solver(ctx=terms.ctx)
    for number, cond in stated(content, numbers, tensors=tensors):
        solver.assert_and_track(terms.formula(cond), z3.Bool(literal(content, number), terms.ctx))
    solver.add([size >= 0 for size in terms.sizes])
    return solver


def smtlib(content: Content, numbers: Sequence[int], *, tensors: bool) -> str:
    """See `ConstraintSystem.to_smtlib`."""
    from ..solve.export import smtlib_text

    rows = content.rows
    return smtlib_text(
        (literal(content, number), rows[number].why, cond)
        for number, cond in stated(content, numbers, tensors=tensors)
    )


_PLURALS = {"input": "input sizes", "declared": "declared sizes", "user": "your conditions"}


class ConstraintSystem(Sequence[Constraint]):
    """All constraints of a model on its sizes, in graph order. A selection of them is a `ConstraintSystem` too.

    Every node contributes its requirements and the definition of each output dim, over dims of tensors (`Z[1]`) as
    variables.
    `Constraint.over_inputs` has the definitions substituted, so that it is over the dims of the model's inputs. The
    system is built on
    first use, node by node, from the same rules as the analysis.
    """

    def __init__(self, content: Content, numbers: Sequence[int] | None = None) -> None:
        self._content, self._numbers = content, numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return ConstraintSet, (
            tuple(self),
        )  # without the model, which `for_tensor` and the bridges to Z3 need

    @property
    def numbers(self) -> Sequence[int]:
        """The indices of these constraints in the whole system."""
        if self._numbers is None:
            self._numbers = range(len(self._content.rows))
        return self._numbers

    @property
    def content(self) -> Content:
        """The rows of the whole system, shared by all selections of it."""
        return self._content

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Constraint: ...
    @overload
    def __getitem__(self, index: slice) -> ConstraintSystem: ...
    def __getitem__(self, index: int | slice) -> Constraint | ConstraintSystem:
        if isinstance(index, slice):
            return self.numbered(self.numbers[index])
        return self._content.constraint(self.numbers[index])

    def __iter__(self) -> Iterator[Constraint]:
        return map(self._content.constraint, self.numbers)

    # ------------------------------------------------------------------ selections

    def numbered(self, numbers: Iterable[int]) -> ConstraintSystem:
        """The constraints with these indices in the whole system."""
        return ConstraintSystem(self._content, tuple(numbers))

    def for_node(self, label: str) -> ConstraintSystem:
        """The constraints that a node states, by its label (its name, with its scope)."""
        return self.for_nodes(label.__eq__)

    def for_nodes(self, wanted: Callable[[str], bool]) -> ConstraintSystem:
        """The constraints of all nodes for whose label `wanted` is true."""
        return self.numbered(n for n in self.numbers if wanted(self._content.label(n)))

    def for_tensor(self, name: str, axis: int | None = None) -> ConstraintSystem:
        """The constraints that mention dims of a tensor, or its dim `axis`."""
        walk = self._content.walk
        if axis is None:
            shape = walk.analysed.shapes.get(name)
            axes: Iterable[int] = range(len(shape)) if shape is not None else ()
        else:
            axes = (axis,)
        names = {walk.variable(name, k).name for k in axes}
        return self.numbered(
            n
            for n in self.numbers
            if not names.isdisjoint(self._content.local(n).free)
            or any(
                s.tensor == name and (axis is None or s.axis in (None, axis)) for s in self._content.sites(n)
            )
        )

    def for_symbol(self, name: str) -> ConstraintSystem:
        """The constraints that mention a dim of the model's inputs once definitions are substituted."""
        return self.numbered(n for n in self.numbers if name in self._content.over_inputs(n).free)

    def role(self, *roles: Role) -> ConstraintSystem:
        """The constraints of some roles. Roles are ``input``, ``definition``, ``requirement``, ``declared``, ``assumption``,
        ``user``.
        """
        return self.numbered(n for n in self.numbers if self._content.rows[n].role in roles)

    # ------------------------------------------------------------------ Z3

    def z3(self, ctx: Any = None, *, tensors: bool = False) -> list[Any]:
        """The system as Z3 formulas, over one ``z3.Int`` for each dim name of the model's inputs.

        With `tensors`, over one for each dim of each tensor as well (``z3.Int("Z[1]")``), which makes many more of them.
        That sizes are at least 0 is part of it. `ctx` is the context (default: Z3's main one).
        """

        return formulas(self._content, self.numbers, ctx, tensors=tensors)

    def solver(self, ctx: Any = None, *, tensors: bool = False) -> Any:
        """A `z3.Solver` with every constraint asserted under a literal that names its node.

        After ``check()`` gave ``unsat``, `core` turns ``unsat_core()`` into constraints. `ctx` and `tensors`: see `z3`.
        """

        return tracking_solver(self._content, self.numbers, ctx, tensors=tensors)

    def core(self, literals: Iterable[Any]) -> ConstraintSystem:
        """Return the constraints asserted under the literals of an `unsat_core()`."""

        known = set(self.numbers)
        return self.numbered(n for n in sorted(set(map(number_of, literals))) if n in known)

    def to_smtlib(self, *, tensors: bool = False) -> str:
        """SMT-LIB 2 text with an assertion per constraint, named as in `solver`, its rule as a comment."""

        return smtlib(self._content, self.numbers, tensors=tensors)

    # ------------------------------------------------------------------ display

    @property
    def counts(self) -> dict[Role, int]:
        """Number of constraints of each role."""
        found = Counter(self._content.rows[n].role for n in self.numbers)
        return {role: found[role] for role in ROLES if found[role]}

    def __repr__(self) -> str:
        listed = ", ".join(_counted(count, role) for role, count in self.counts.items())
        return f"<ConstraintSystem of {len(self)}{': ' + listed if listed else ''}>"

    def __str__(self) -> str:
        from .constraints import render_text

        return render_text(self)

    def __rich__(self) -> Any:
        from .constraints import rich_table

        return rich_table(self)

    def _repr_html_(self) -> str:
        from .constraints import render_html

        return render_html(self)


def _counted(count: int, role: Role) -> str:
    many = _PLURALS.get(role, f"{role}s")
    return f"{count} {many if count != 1 else many.removesuffix('s')}"


def constraint_system(model: Model, inputs: Mapping[str, Known], analysed: Analysed) -> ConstraintSystem:
    """The system of a model with these inputs, built when it is first looked at."""

    def build() -> LocalWalk:
        walk = LocalWalk(model, analysed)
        with CollectionPaused():
            walk.build(inputs)
        return walk

    return ConstraintSystem(Content(build))


#: most rows that a table shows, of a text and of a notebook
_HEADS = ("#", "role", "node", "constraint", "over the inputs")


def render_text(system: ConstraintSystem) -> str:
    """The constraints as a plain-text table."""
    from rich.console import Console

    page = StringIO()
    console = Console(
        file=page,
        width=140,
        highlight=False,
        force_terminal=False,
        force_jupyter=False,
        color_system=None,
    )
    console.print(rich_table(system))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def rich_table(system: ConstraintSystem) -> Any:
    """The constraints as a `rich` table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    left = len(system) - MAX_ROWS
    caption = f"and {left:,} more: select by role, for_node, for_tensor, for_symbol" if left > 0 else None
    table = Table(box=SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1))
    for head in _HEADS:
        table.add_column(head, justify="right" if head == "#" else "left", overflow="fold")
    for cells in _rows(system, MAX_ROWS):
        table.add_row(*map(Text, cells))
    return table


def render_html(system: ConstraintSystem) -> str:
    """The constraints as an HTML table, without scripts or styles."""
    import html

    heads = "".join(f"<th style='text-align:left'>{head}</th>" for head in _HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in _rows(system, MAX_ROWS)
    )
    left = len(system) - MAX_ROWS
    more = f"<p>and {left:,} more</p>" if left > 0 else ""
    title = html.escape(repr(system).strip("<>"))
    return f"<p>{title}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def _rows(system: ConstraintSystem, most: int) -> Iterator[tuple[str, ...]]:
    for number, c in zip(system.numbers[:most], system, strict=False):
        over = c.text_over_inputs
        where = c.node or (str(c.origin.sites[0].tensor) if c.origin.sites else "")
        yield tuple(map(_shown, (str(number), c.role, where, c.text, over if over != c.text else "")))


def _shown(text: str) -> str:
    return visible(clipped(text, MAX_TEXT))
