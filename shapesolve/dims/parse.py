"""Reading dims and conditions from text. Texts come from model files: nothing is evaluated, everything is bounded.

One grammar takes what people and tools write:

- Python: ``+ - * // % **``, ``max(..)``, ``min(..)``, ``a if c else b``, chained comparisons, ``and or not``
- yobx: ``a ^ b`` is the maximum, ``a & b`` the minimum (they bind weaker than ``+``), ``CeilToInt(a, b)``
- C: ``a / b`` divides integers and rounds toward zero
- SymPy: ``floor(H/2 - 1/2)``, ``ceiling(..)``, ``Mod``, ``Max``, ``Min``, ``Abs``; inside floor and ceiling ``/`` is exact

A name that is not a plain word is written in backticks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from .cond import FALSE, TRUE, Cond, all_of, any_of, divides, eq, ge, gt, le, lt, ne
from .core import ONE, Dim, DimTooLarge, constant, symbol
from .division import ceil_div, floor_div, trunc_div
from .grammar import FUNCTIONS, KEYWORDS, ROUNDING
from .lattice import absolute, broadcast, ite, maximum, minimum, sign
from .ratio import Ratio

MAX_LENGTH = 10_000  # characters
MAX_NESTING = 200  # parentheses, and operators other than + - * inside one another
MAX_LITERAL = 2**63
MAX_EXPONENT = 16
MAX_DEGREE = 64
MAX_COEFFICIENT = 2**1024
MAX_SIZE = 20_000  # atoms of a result, counted as a tree

Symbols: TypeAlias = Mapping[str, Dim]
_Operand: TypeAlias = Dim | Cond | Ratio


class DimSyntaxError(ValueError):
    """A text that is not a dim or condition; tells what was read, what is left and where."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        super().__init__(problem, text, position)
        self.problem, self.text, self.position = problem, text, position

    def __str__(self) -> str:
        read, left = self.text[: self.position], self.text[self.position :]
        read = read if len(read) <= 60 else "..." + read[-57:]
        left = left if len(left) <= 60 else left[:57] + "..."
        return f"{self.problem} at position {self.position}: read {read!r}, remaining {left!r}"


def parse_dim(text: str, symbols: Symbols | None = None) -> Dim:
    """The dim that `text` says; names are looked up in `symbols`, others become sizes (integers >= 0).

    >>> parse_dim("floor(H/2 - 1/2) + 1")
    Dim('(H + 1)//2')

    Raises `DimSyntaxError`.
    """
    if _NAME.fullmatch(text) and text not in KEYWORDS:
        return _symbol(text, symbols)
    value = _Reader(text, symbols).read()
    if isinstance(value, Cond):
        raise DimSyntaxError("this is a condition, not a size,", text, 0)
    return value


def parse_cond(text: str, symbols: Symbols | None = None) -> Cond:
    """The condition that `text` says, e.g. ``"193 <= H <= 224 and W % 32 == 0"``; raises `DimSyntaxError`."""
    value = _Reader(text, symbols).read()
    if isinstance(value, Dim):
        raise DimSyntaxError("this is a size, not a condition,", text, 0)
    return value


def dim_from_param(text: str, known: Collection[str] | None = None) -> Dim:
    """The dim that a `dim_param` of a model stands for: an expression if it reads as one, else a symbol of that name.

    A text without symbols (``"-1"``, ``"5"``) is a name too: runtimes accept any size for it. With `known` (the names of
    the model), a text that uses none of them is a name, like ``"batch-size"``.
    """
    if _NAME.fullmatch(text):
        return symbol(text)
    try:
        value = _Reader(text, None, _PARAM_TOKEN).read()
    except DimSyntaxError:
        return symbol(text)
    if isinstance(value, Cond) or not value.free or (known is not None and value.free.isdisjoint(known)):
        return symbol(text)
    return value


_NAME = re.compile(r"[^\W\d]\w*")
_REST = r"|(?P<number>[0-9]+)|(?P<quoted>`(?:[^`]|``)*`)|(?P<op>\*\*|//|[=!<>]=|[-+*/%^&(),<>])"
_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)" + _REST + ")")
_PARAM_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d][\w.]*)" + _REST + ")")  # exporters put dots into names

_BINARY = {
    "or": 2,
    "and": 3,
    "==": 5,
    "!=": 5,
    "<=": 5,
    ">=": 5,
    "<": 5,
    ">": 5,
    "^": 6,
    "&": 7,
    "+": 8,
    "-": 8,
    "*": 9,
    "/": 9,
    "//": 9,
    "%": 9,
    "**": 11,
}
_PREFIX = {"not": 4, "-": 10, "+": 10}
_CHOICE = 1
_COMPARE = {"==": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt}
_WORDS = {"true": TRUE, "True": TRUE, "false": FALSE, "False": FALSE}


class _Token(NamedTuple):
    kind: str  # name, quoted, number, op or end
    text: str
    at: int


class _Value(NamedTuple):
    value: _Operand
    depth: int = 0
    last: Dim | None = None  # of an open chain of comparisons: its right end


class _Pending(NamedTuple):
    """An operator that waits for its right operand, or an open parenthesis (precedence 0)."""

    op: str
    kind: str  # binary, prefix, if, else, open, call
    precedence: int
    at: int
    values: int = 0  # length of the value stack when the parenthesis opened
    exact: bool = False  # stands inside floor or ceiling


def _symbol(name: str, symbols: Symbols | None) -> Dim:
    found = symbols.get(name) if symbols else None
    return symbol(name) if found is None else found


class _Reader:
    """Operator precedence parsing with explicit stacks."""

    def __init__(self, text: str, symbols: Symbols | None, token: re.Pattern[str] = _TOKEN) -> None:
        self.text, self.symbols = text, symbols
        self.values: list[_Value] = []
        self.pending: list[_Pending] = []
        self.nesting = 0
        self.rounding = 0  # how many open calls are floor or ceiling
        self.at = 0
        self._token_pattern = token

    def read(self) -> Dim | Cond:
        if len(self.text) > MAX_LENGTH:
            raise self._error(f"longer than {MAX_LENGTH} characters", 0)
        tokens = self._tokens()
        i, operand = 0, True
        while True:
            token = tokens[i]
            self.at = token.at
            if operand:
                following = tokens[i + 1] if token.kind == "name" else token
                i, operand = self._operand(i, token, following)
            elif token.kind == "end":
                break
            else:
                operand = self._operator(token)
                i += 1
        self._reduce(0, self.at)
        if self.pending:
            raise self._error("expected ')'" if self.pending[-1].kind != "if" else "expected 'else'", self.at)
        return self._whole(self.values.pop(), 0)

    def _error(self, problem: str, at: int) -> DimSyntaxError:
        return DimSyntaxError(problem, self.text, at)

    def _tokens(self) -> list[_Token]:
        out, at, end = [], 0, len(self.text.rstrip())
        while at < end:
            m = self._token_pattern.match(self.text, at)
            if m is None or m.lastgroup is None:
                at = re.compile(r"\s*").match(self.text, at).end()  # type: ignore[union-attr]
                raise self._error(f"unexpected {self.text[at]!r}", at)
            out.append(_Token(m.lastgroup, m[m.lastgroup], m.start(m.lastgroup)))
            at = m.end()
        out.append(_Token("end", "", len(self.text)))
        return out
