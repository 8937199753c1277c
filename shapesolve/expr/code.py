"""Writes dims and conditions as expressions of programming languages.

A `Syntax` holds the differences between languages. Long subexpressions get names (`CodeWriter.lets`), so that shared
parts are
written once and nesting stays shallow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .atom import Atom
from .cond import Cond, all_of, any_of, eq, has_value
from .core import Dim
from .limits import MAX_SUMMANDS, MAX_UNNAMED
from .presentation import Piece
from .printing import PRIMARY, Summands, Text, Writer


@dataclass(frozen=True, slots=True)
class Syntax:
    """Format strings of one language for operators, with operands `{0}`, `{1}`.

    Attributes:
        number: An integer literal.
        divided: Floor quotient (`//`) and remainder (`%`). If the divisor is 0, they are 0 and the numerator.
        called: `max`, `min`, `abs`, and `broadcast` of any number of sizes (the first that is not 1, otherwise 1).
        choice: The second operand if the first (a condition) holds, otherwise the third.
        compared: Comparisons, by relation.
        joined: Separators for conjunctions and disjunctions.
        truth: The conditions that always and never hold.
        plain: True for Python, which has quotients, powers, and chained comparisons.
        widest: The largest integer literal.
    """

    number: str
    divided: Mapping[str, str]
    called: Mapping[str, str]
    choice: str
    compared: Mapping[str, str]
    truth: Mapping[str, str]
    joined: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    widest: int | None = None


class Let(NamedTuple):
    """A temporary in generated code: the name of a subexpression."""

    name: str
    text: str
    is_condition: bool


class CodeWriter(Writer):
    """Writes expressions in one language; `lets` are the temporaries to define before each.

    Args:
        syntax: Syntax of the language.
        identifier: Function that maps a symbol to its name in that language.
        fresh: Function that makes an unused name.

    Raises:
        ValueError: If the language cannot write a number.
    """

    def __init__(self, syntax: Syntax, identifier: Callable[[str], str], fresh: Callable[[], str]) -> None:
        super().__init__()
        self.syntax, self.identifier, self.fresh = syntax, identifier, fresh
        self.chains = syntax.plain
        self.lets: list[Let] = []

    def text(self, expression: Dim | Cond) -> str:
        """The source of an expression; temporaries that it needs are appended to `lets`."""
        before = len(self.lets)
        found = self.write(expression).text
        if len(self.lets) > before and self.lets[-1].name == found:  # the whole needs no name
            del self._done[expression]
            return self.lets.pop().text
        return found

    def _bounded(self, node: Dim | Cond, part: Text) -> Text:
        return part if len(part.text) <= MAX_UNNAMED else self._named(part.text, isinstance(node, Cond))

    def _named(self, text: str, is_condition: bool = False) -> Text:
        self.lets.append(Let(self.fresh(), text, is_condition))
        return Text(self.lets[-1].name, PRIMARY)

    def _sum(self, pieces: Summands, const: int) -> Text:
        while len(pieces) > MAX_SUMMANDS:
            first = super()._sum(pieces[:MAX_SUMMANDS], 0)
            pieces = [(Piece(1, ()), self._named(first.text)), *pieces[MAX_SUMMANDS:]]
        return super()._sum(pieces, const)

    def _name(self, name: str) -> str:
        return self.identifier(name)

    def _number(self, value: int) -> str:
        if self.syntax.widest is not None and abs(value) > self.syntax.widest:
            raise ValueError(f"the contract has a number of over 64 bits: {str(value)[:40]}")
        return self.syntax.number.format(value)

    def _divided(self, sign: str, n: Text, d: Text, divisor: Dim) -> Text:
        if self.syntax.plain and is_never_zero(divisor):
            return super()._divided(sign, n, d, divisor)
        return Text(self.syntax.divided[sign].format(n.text, d.text), PRIMARY)

    def _extremum(self, name: str, a: Text, b: Text) -> Text:
        return Text(self.syntax.called[name].format(f"{a.text}, {b.text}"), PRIMARY)

    def _absolute(self, x: str, negated: str) -> Text:
        return Text(self.syntax.called["abs"].format(x), PRIMARY)

    def _first_not_one(self, sizes: tuple[Dim, ...], parts: list[str]) -> Text:
        return Text(self.syntax.called["broadcast"].format(", ".join(parts)), PRIMARY)

    def _power(self, base: Text, exponent: int) -> list[Text]:
        return super()._power(base, exponent) if self.syntax.plain else [base] * exponent

    def _chosen(self, test: str, a: Text, b: Text) -> Text:
        return Text(self.syntax.choice.format(test, a.text, b.text), PRIMARY)

    def _compared(self, left: Text, relation: str, right: Text) -> str:
        return self.syntax.compared[relation].format(left.text, right.text)

    def _joined(self, kind: str, parts: list[Text]) -> str:
        if self.syntax.plain:
            return super()._joined(kind, parts)
        return f"({self.syntax.joined[kind].join(p.text for p in parts)})"

    def _truth(self, kind: str) -> str:
        return self.syntax.truth[kind]


def is_never_zero(d: Dim) -> bool:
    """True if a divisor is at least 1, or a number other than 0."""
    return d.value != 0 if not d.terms else (d.lo or 0) > 0


def unless_undefined(cond: Cond, without: Mapping[str, Cond] | None = None) -> Cond:
    """Return the condition, or true if a divisor in it is 0.

    The result never divides by 0 if a quotient by 0 is defined as 0. `without` gives, by symbol, the condition under
    which it has no size.
    """
    names = without or {}
    if has_value(cond) and cond.free.isdisjoint(names):
        return cond
    if cond.kind in ("and", "or"):
        return (all_of if cond.kind == "and" else any_of)([unless_undefined(c, names) for c in cond.args])
    return any_of([_undefined(cond.args[0], names), cond])


def _undefined(d: Dim, names: Mapping[str, Cond]) -> Cond:
    return any_of([_undefined_atom(a, names) for a in dict.fromkeys(a for mono, _ in d.terms for a in mono)])


def _undefined_atom(atom: Atom, names: Mapping[str, Cond]) -> Cond:
    kind, args = atom.kind, atom.args
    if kind == "sym":
        return names.get(args[0], any_of([]))
    if kind == "//":
        parts = [_undefined(a, names) for a in args]
        return any_of([*parts, any_of([]) if is_never_zero(args[1]) else eq(args[1], 0)])
    if kind == "ite":
        cond, a, b = args
        settled = any_of([_holds(cond, names), ~unless_undefined(cond, names)])
        chosen = [all_of([cond, _undefined(a, names)]), all_of([~cond, _undefined(b, names)])]
        return any_of([~settled, *chosen])
    return any_of([_undefined(a, names) for a in args])


def _holds(cond: Cond, names: Mapping[str, Cond]) -> Cond:
    if cond.kind in ("and", "or"):
        return (all_of if cond.kind == "and" else any_of)([_holds(c, names) for c in cond.args])
    return all_of([~_undefined(cond.args[0], names), cond]) if cond.args else cond
