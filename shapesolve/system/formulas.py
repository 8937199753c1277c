"""A constraint system as Z3 formulas and as SMT-LIB text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..expr import Cond
from ..lower.local import Definition

if TYPE_CHECKING:
    from .content import Content

_NUMBER = re.compile(r"#(\d+)\Z")


def stated(content: Content, numbers: Sequence[int], *, tensors: bool) -> Iterator[tuple[int, Cond]]:
    """Pairs (row number, condition) that together are equivalent to these rows.

    Without `tensors`, definitions are put into the other conditions, and stated only where that cannot be done.
    """
    for number in numbers:
        if tensors:
            yield number, content.local(number)
            continue
        row = content.rows[number]
        if isinstance(row, Definition) and row.variable.name in content.composition.sizes:
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
    from ..expr.z3_terms import Z3Terms

    terms = Z3Terms(ctx)
    found = [terms.formula(cond) for _, cond in stated(content, numbers, tensors=tensors)]
    return [*(size >= 0 for size in terms.sizes), *found]


def tracking_solver(content: Content, numbers: Sequence[int], ctx: Any, *, tensors: bool) -> Any:
    """See `ConstraintSystem.solver`."""
    import z3

    from ..expr.z3_terms import Z3Terms

    terms = Z3Terms(ctx)
    solver = z3.Solver(ctx=terms.ctx)
    for number, cond in stated(content, numbers, tensors=tensors):
        solver.assert_and_track(terms.formula(cond), z3.Bool(literal(content, number), terms.ctx))
    solver.add([size >= 0 for size in terms.sizes])
    return solver


def smtlib(content: Content, numbers: Sequence[int], *, tensors: bool) -> str:
    """See `ConstraintSystem.to_smtlib`."""
    from ..solve.smtlib import smtlib_text

    rows = content.rows
    return smtlib_text(
        (literal(content, number), rows[number].why, cond)
        for number, cond in stated(content, numbers, tensors=tensors)
    )
