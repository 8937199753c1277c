"""Prints dims and conditions, in Python syntax or as the `dim_param` of a model file.

Strings are composed bottom-up on an explicit stack (each composer is a generator that yields the parts it needs), so
deep nesting
never reaches Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias

from .atom import Atom
from .canonical import absolute, floor_div, minimum, pos
from .cond import Cond
from .core import Dim, symbol
from .grammar import KEYWORDS, quoted_name
from .limits import MAX_LENGTH, MAX_PARAM_LENGTH
from .presentation import Piece, pieces_of
from .rewrite import Rewriter
from .traverse import atoms_of
from .visit import visit

# precedence levels of a printed text, tightest first
PRIMARY, _PRODUCT, _QUOTIENT, _SUM, _JUNCTION = range(5)


class Text(NamedTuple):
    """A piece of text and the precedence of its operator."""

    text: str
    level: int
    extremum: str = ""  # the whole text is one call of this function (max or min)


Summands: TypeAlias = list[tuple[Piece, Text]]
Composer: TypeAlias = Generator[Dim | Cond, Text, Text]


def python_text(dim: Dim) -> str:
    """Return `dim` in Python syntax, e.g. `2*(H//2) + min(N, 5)`; `parse_dim` reads it back as the same object.

    A string beyond the reader's limits is shortened to `<n characters>` and cannot be read back.
    """
    return Writer().write(dim).text


def cond_text(cond: Cond) -> str:
    """`cond` in Python's syntax, e.g. ``H % 32 == 0``; `parse_cond` reads it back as the same object."""
    return Writer().write(cond).text


def dim_param_text(dim: Dim) -> str | None:
    """Return `dim` as a `dim_param` that onnx_ir's expression parser evaluates to the same size, or None.

    A plain symbol keeps its exact name. That grammar has no `broadcast` and no choices; they are written with max and
    min, exactly for sizes
    that broadcast. None means that the caller should write a fresh name. This includes dims whose value differs at
    size 0: onnx_ir
    assumes that symbols are positive, and simplifies before it evaluates.
    """
    if dim.name is not None:
        return dim.name
    dim = _exact_at_zero(dim)
    if _is_simpler_when_positive(dim):
        return None
    try:
        return _ParamWriter().write(dim).text
    except _NotExpressible:
        return None


def _is_simpler_when_positive(dim: Dim) -> bool:
    """Return True if the dim has a choice or maximum that matters only at size 0, so a reader that assumes positive
    symbols may drop it.
    """
    more = {name: symbol(name) + 1 for name in dim.free}
    for atom in atoms_of(dim):
        if atom.kind == "broadcast":
            if any(a.lo is None or a.lo < 1 for a in atom.args):
                return True
        elif atom.kind in ("pos", "ite"):
            compared = [atom.args[0]] if atom.kind == "pos" else _compared(atom.args[0])
            for x in (d + k for d in compared for k in ((0,) if atom.kind == "pos" else (-1, 0, 1))):
                if any(_is_size(d.subs(more)) and not _is_size(d) for d in (x, -x)):
                    return True
    return False


def _exact_at_zero(dim: Dim) -> Dim:
    """Rewrites ``max(y - 1, 0)`` as ``y*y//(y + 1)``, which is equal for sizes y, 0 included."""
    found = any(a.kind == "pos" and a.args[0].lo == -1 for a in atoms_of(dim))
    return _ExactAtZero().dim(dim) if found else dim


class _ExactAtZero(Rewriter):
    def cond(self, cond: Cond) -> Cond:
        return cond

    def _positive(self, x: Dim) -> Dim:
        if x.lo != -1:
            return super()._positive(x)
        y = self.dim(x + 1)
        return floor_div(y * y, y + 1)


def _is_size(d: Dim) -> bool:
    return d.lo is not None and d.lo >= 0


def _compared(cond: Cond) -> list[Dim]:
    if cond.kind in ("and", "or"):
        return [d for c in cond.args for d in _compared(c)]
    return list(cond.args)


class _NotExpressible(Exception):
    """Raised if the `dim_param` grammar has no exact form."""


class Writer:
    """Prints dims and conditions, common subterms once; subclasses print other languages."""

    def __init__(self) -> None:
        self._done: dict[Dim | Cond, Text] = {}

    def write(self, root: Dim | Cond) -> Text:
        """Text of a dim or condition."""
        stack: list[tuple[Dim | Cond, Composer]] = [(root, self._compose(root))]
        answer: Any = None  # the input of the composer on top; None starts it
        while True:
            node, composer = stack[-1]
            try:
                needed = composer.send(answer)
            except StopIteration as finished:
                self._done[node] = answer = self._bounded(node, finished.value)
                stack.pop()
                if not stack:
                    return self._done[root]
                continue
            answer = self._done.get(needed)
            if answer is None:
                stack.append((needed, self._compose(needed)))

    def _compose(self, node: Dim | Cond) -> Composer:
        if isinstance(node, Dim):
            return self._dim(node)
        return self._relation(node) if node.kind in _SWAPPED else self._junction(node)

    # ------------------------------------------------------------------ dims

    def _dim(self, dim: Dim) -> Composer:
        pieces, const = pieces_of(dim)
        texts = []
        for piece in pieces:
            texts.append((piece, (yield from self._piece(piece))))
        return self._sum(texts, const)

    def _sum(self, pieces: Summands, const: int) -> Text:
        """Text of a sum: positive terms first, then by degree and name, the constant last."""
        if not pieces:
            return Text(self._number(const), PRIMARY if const >= 0 else _SUM)
        if len(pieces) == 1 and not const and pieces[0][0].coefficient > 0:
            return pieces[0][1]
        terms = sorted((p.coefficient < 0, -p.degree, t.text, t) for p, t in pieces)
        if const:
            first = const > 0 and terms[0][0]  # 5 - N
            terms.insert(
                0 if first else len(terms), (const < 0, 0, "", Text(self._number(abs(const)), PRIMARY))
            )
        out: list[str] = []
        for negative, _, _, t in terms:
            if out:
                out.append(f" - {t.text}" if negative else f" + {t.text}")
            else:
                out.append(f"-{t.text if t.level <= _PRODUCT else _factor(t)}" if negative else t.text)
        return Text("".join(out), _SUM)

    def _piece(self, piece: Piece) -> Composer:
        parts: list[Text] = []
        for i, atom in enumerate(piece.factors):
            if atom in piece.factors[:i]:
                continue
            part = yield from visit(atom, self)
            parts.extend(self._power(part, piece.factors.count(atom)))
        if piece.head == "*":  # symbols first: batch*min(seq, 5), batch*(h + 1)*(w + 1)
            parts.append((yield piece.args[0]))
            parts.append((yield piece.args[1]))
        elif piece.head:
            parts.append((yield from self._head(piece)))
        return self._product(abs(piece.coefficient), parts)

    def _head(self, piece: Piece) -> Composer:
        a = yield piece.args[0]
        if piece.head == "abs":
            return self._absolute(a.text, (yield -piece.args[0]).text)
        b = yield piece.args[1]
        if piece.head == "%":
            return self._divided("%", a, b, piece.args[1])
        first, second = sorted(
            ((a, piece.args[0]), (b, piece.args[1])),
            key=lambda t: (t[0].extremum != piece.head, not t[1].terms, t[0].text),
        )
        return self._extremum(piece.head, first[0], second[0])

    def _symbol(self, atom: Atom) -> Composer:
        yield from ()
        return Text(self._name(atom.args[0]), PRIMARY)

    def _quotient(self, n: Dim, d: Dim) -> Composer:
        numerator = yield n
        divisor = yield d
        return self._divided("//", numerator, divisor, d)

    def _positive(self, x: Dim) -> Composer:
        part = yield x
        zero = Text(self._number(0), PRIMARY)
        return self._extremum("max", part._replace(extremum=""), zero)._replace(extremum="")

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Composer:
        parts = []
        for size in sizes:
            parts.append((yield size).text)
        return self._first_not_one(sizes, parts)

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Composer:
        test = yield cond
        first = yield a
        second = yield b
        return self._chosen(test.text, first, second)

    # ------------------------------------------------------------------ what a dialect may change

    def _bounded(self, node: Dim | Cond, part: Text) -> Text:
        if len(part.text) <= MAX_LENGTH:
            return part
        return Text(f"<{len(part.text)} characters>", PRIMARY)

    def _name(self, name: str) -> str:
        return quoted_name(name)

    def _product(self, coefficient: int, parts: list[Text]) -> Text:
        if len(parts) == 1 and coefficient == 1:
            return parts[0]
        texts = [_factor(p) for p in parts]
        return Text("*".join([self._number(coefficient), *texts] if coefficient != 1 else texts), _PRODUCT)

    def _number(self, value: int) -> str:
        return str(value)

    def _divided(self, sign: str, n: Text, d: Text, divisor: Dim) -> Text:
        space = " " if sign == "%" else ""
        return Text(f"{_numerator(n)}{space}{sign}{space}{_factor(d)}", _QUOTIENT)

    def _extremum(self, name: str, a: Text, b: Text) -> Text:
        """A call of max or min; nested calls are merged: ``max(max(a, b), c)`` is ``max(a, b, c)``."""
        inner = a.text[len(name) + 1 : -1] if a.extremum == name else a.text
        return Text(f"{name}({inner}, {b.text})", PRIMARY, name)

    def _power(self, base: Text, exponent: int) -> list[Text]:
        return [base if exponent == 1 else Text(f"{_factor(base)}**{exponent}", PRIMARY)]

    def _first_not_one(self, sizes: tuple[Dim, ...], parts: list[str]) -> Text:
        """A call of broadcast on sizes that are written as `parts`."""
        return Text(f"broadcast({', '.join(parts)})", PRIMARY)

    def _absolute(self, x: str, negated: str) -> Text:
        return Text(f"abs({x})", PRIMARY)

    def _chosen(self, test: str, a: Text, b: Text) -> Text:
        return Text(f"({a.text} if {test} else {b.text})", PRIMARY)

    def _compared(self, left: Text, relation: str, right: Text) -> str:
        return f"{left.text} {relation} {right.text}"

    def _joined(self, kind: str, parts: list[Text]) -> str:
        return f" {kind} ".join(f"({p.text})" if p.level == _JUNCTION else p.text for p in parts)

    def _truth(self, kind: str) -> str:
        return kind

    #: are two bounds written as one chain?
    chains = True

    # ------------------------------------------------------------------ conditions

    def _relation(self, cond: Cond) -> Composer:
        left, relation, right, const = yield from self._sides(cond)
        return Text(self._compared(self._sum(left, 0), relation, self._sum(right, const)), _SUM)

    def _sides(self, cond: Cond) -> Generator[Dim | Cond, Text, tuple[Summands, str, Summands, int]]:
        """Text of a relation: positive terms left, negative ones right, the simpler side first."""
        pieces, const = pieces_of(cond.args[0])
        left: Summands = []
        right: Summands = []
        for piece in pieces:
            text = yield from self._piece(piece)
            if piece.coefficient > 0:
                left.append((piece, text))
            else:
                right.append((piece._replace(coefficient=-piece.coefficient), text))
        fewer = len(right) < len(left) or (len(right) == len(left) and const > 0)
        if not left or (right and fewer):
            return right, _SWAPPED[cond.kind], left, const
        return left, cond.kind, right, -const

    def _junction(self, cond: Cond) -> Composer:
        if not cond.args:
            return Text(self._truth(cond.kind), PRIMARY)
        parts = sorted(cond.args, key=lambda c: not _equates_symbols(c))
        texts: dict[Any, Text] = {}
        for part in parts:
            texts[part] = yield part
        if cond.kind == "and" and self.chains:
            yield from self._join_ranges(texts)
        return Text(self._joined(cond.kind, list(texts.values())), _JUNCTION)

    def _join_ranges(self, texts: dict[Any, Text]) -> Generator[Dim | Cond, Text, None]:
        """Text of a conjunction, with ``193 <= H <= 224`` in place of two bounds."""
        halves: dict[tuple[str, str], tuple[Cond, int]] = {}
        for part in [p for p in texts if p.kind == ">="]:
            left, relation, right, const = yield from self._sides(part)
            if right:
                continue
            middle = self._sum(left, 0).text
            other = halves.pop((middle, _SWAPPED_ORDER[relation]), None)
            if other is None:
                halves[middle, relation] = part, const
                continue
            low, high = (const, other[1]) if relation == ">=" else (other[1], const)
            texts[other[0]] = Text(f"{low} <= {middle} <= {high}", _SUM)
            del texts[part]


_SWAPPED = {"==": "==", "!=": "!=", ">=": "<="}
_SWAPPED_ORDER = {">=": "<=", "<=": ">="}


def _equates_symbols(cond: Cond) -> bool:
    return cond.kind == "==" and cond.args[0].const == 0 and len(cond.args[0].terms) == 2


def _factor(part: Text) -> str:
    return part.text if part.level == PRIMARY else f"({part.text})"


def _numerator(part: Text) -> str:
    plain = part.level == PRIMARY or (part.level == _PRODUCT and "(" not in part.text)
    return part.text if plain else f"({part.text})"


class _ParamWriter(Writer):
    """Prints the `dim_param` subset: ``+ - * // %``, max, min, names of letters, digits, ``_`` and ``.``."""

    def _bounded(self, node: Dim | Cond, part: Text) -> Text:
        if len(part.text) > MAX_PARAM_LENGTH:
            raise _NotExpressible
        return part

    def _name(self, name: str) -> str:
        if not _PARAM_NAME.fullmatch(name) or name in KEYWORDS:
            raise _NotExpressible
        return name

    def _power(self, base: Text, exponent: int) -> list[Text]:
        return [base] * exponent

    def _first_not_one(self, sizes: tuple[Dim, ...], parts: list[str]) -> Text:
        """Broadcast without an operator for it: 0 if a size is 0, else the largest."""
        joined = ", ".join(parts)
        if all(size.lo is not None and size.lo >= 1 for size in sizes):
            return Text(f"max({joined})", PRIMARY)
        return Text(f"max({joined})*min({joined}, 1)", _PRODUCT)

    def _absolute(self, x: str, negated: str) -> Text:
        return Text(f"max({x}, {negated})", PRIMARY)

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Composer:
        """A choice as ``b + (a - b)*c``, with c the indicator of the condition."""
        if not (_always_defined(cond) and _always_defined(a) and _always_defined(b)):
            raise _NotExpressible  # the branch that is not taken may divide by zero
        difference = yield a - b
        otherwise = yield b
        chosen = yield from self._indicator(cond)
        product = chosen.text if (a - b).value == 1 else f"{_factor(difference)}*{chosen.text}"
        if b.value == 0:
            return Text(product, _PRODUCT)
        return Text(f"({otherwise.text} + {product})", PRIMARY)

    def _indicator(self, cond: Cond) -> Composer:
        if cond.kind in ("and", "or"):
            texts = []
            for part in cond.args:
                texts.append((yield from self._indicator(part)).text)
            return Text(f"{'min' if cond.kind == 'and' else 'max'}({', '.join(texts)})", PRIMARY)
        x = cond.args[0]
        if cond.kind == ">=":
            indicator = minimum(pos(x + 1), 1)
        elif cond.kind == "==":
            indicator = pos(1 - absolute(x))
        else:
            indicator = minimum(absolute(x), 1)
        return Text(_factor((yield indicator)), PRIMARY)


_PARAM_NAME = re.compile(r"[^\W\d][\w.]*")


def _always_defined(node: Dim | Cond) -> bool:
    """True if no divisor in it can be 0."""
    divisors = [a.args[1] for a in atoms_of(node) if a.kind == "//"]
    return all(d.value is not None or (d.lo is not None and d.lo >= 1) for d in divisors)
