"""Table of dims and conditions that the explorer evaluates.

Every row refers only to earlier rows, so that one pass over the table computes all values. A row is a list that
starts with its kind:

    ["s", i]                 symbol number i
    ["+", c, [k, row, ...]]  c plus terms: the integer k times the product of rows (any number of terms)
    ["/", row, row]          floor division; no value if the divisor is 0
    ["p", row]               max(row, 0)
    ["b", row, ...]          broadcast: the first that is not 1, or 1
    ["?", cond, row, row]    choice
    ["==", row] ["!=", row] [">=", row]   relation with 0
    ["and", cond, ...] ["or", cond, ...]  Kleene logic for operands without a value

Integers that JavaScript numbers cannot represent exactly are written as decimal strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from ..expr import Atom, Cond, Dim

Part: TypeAlias = "Dim | Cond | Atom"
Row: TypeAlias = list[Any]

_KINDS = {"//": "/", "pos": "p", "broadcast": "b", "ite": "?"}


class Expressions:
    """Builder of the expression table; equal expressions share a row.

    ``rows`` is the table, ``texts`` the displayed string of a row (only of requested rows), ``forms`` the rows
    displayed in place of others, ``symbols`` the names by number.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.texts: dict[int, str] = {}
        self.forms: dict[int, int] = {}
        self.symbols: dict[str, int] = {}
        self._numbers: dict[Part, int] = {}

    def shown(self, part: Dim | Cond, form: Dim | None = None) -> int:
        """Return the row number of a displayed expression, and store its string. `form` is an alternative form to
        display.
        """
        number = self.number(part)
        if number not in self.texts:
            self.texts[number] = str(part if form is None else form)
            if form is not None and form is not part:
                self.forms[number] = self.number(form)
        return number

    def number(self, part: Part) -> int:
        """Return the row number of an expression; operands precede it."""
        found = self._numbers.get(part)
        if found is not None:
            return found
        stack: list[tuple[Part, Iterator[Part]]] = [(part, iter(_parts(part)))]
        while stack:
            whole, rest = stack[-1]
            missing = next((p for p in rest if p not in self._numbers), None)
            if missing is not None:
                stack.append((missing, iter(_parts(missing))))
                continue
            stack.pop()
            self._numbers[whole] = len(self.rows)
            self.rows.append(self._row(whole))
        return self._numbers[part]

    def _row(self, part: Part) -> Row:
        numbers = self._numbers
        if isinstance(part, Dim):
            terms = [[_exact(c), *(numbers[a] for a in mono)] for mono, c in part.terms]
            return ["+", _exact(part.const), *terms]
        if isinstance(part, Cond):
            return [part.kind, *(numbers[a] for a in part.args)]
        if part.kind == "sym":
            return ["s", self.symbols.setdefault(part.args[0], len(self.symbols))]
        return [_KINDS[part.kind], *(numbers[a] for a in part.args)]


def _parts(part: Part) -> list[Part]:
    if isinstance(part, Dim):
        return [a for mono, _ in part.terms for a in mono]
    if isinstance(part, Atom) and part.kind == "sym":
        return []
    return list(part.args)


def _exact(value: int) -> int | str:
    # bound below which JavaScript numbers are exact
    return value if -(2**53) < value < 2**53 else str(value)
