"""Dims and conditions as text: Python's operators for people, the `dim_param` subset for model files.

Texts are composed bottom-up on an explicit stack (each composer is a generator that yields the parts it
needs), so that deep nesting never meets Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias

from .atom import Atom
from .cond import Cond
from .core import Dim, of_atom, symbol
from .division import floor_div
from .grammar import KEYWORDS, MAX_LENGTH, quoted_name
from .minmax import absolute, minimum, pos
from .presentation import Piece, pieces_of
from .substitution import apply, rebuild
from .traverse import atoms_of

# how tightly a text holds together
_PRIMARY, _PRODUCT, _QUOTIENT, _SUM = range(4)


class _Text(NamedTuple):
    text: str
    level: int
    extremum: str = ""  # the whole text is one call of this function (max or min)


_Terms: TypeAlias = list[tuple[Piece, _Text]]
_Composer: TypeAlias = Generator[Dim | Cond, _Text, _Text]


def python_text(dim: Dim) -> str:
    """`dim` in Python's syntax, e.g. ``2*(H//2) + min(N, 5)``; `parse_dim` reads it back as the same object.

    Only a text beyond the reader's bounds is not read back (it is shortened to ``<n characters>``).
    """
    return _Writer().write(dim).text


def cond_text(cond: Cond) -> str:
    """`cond` in Python's syntax, e.g. ``H % 32 == 0``; `parse_cond` reads it back as the same object."""
    return _Writer().write(cond).text


#: longest text that is put into a model file in place of a name
MAX_PARAM_LENGTH = 512


def dim_param_text(dim: Dim) -> str | None:
    """`dim` as a `dim_param` that onnx_ir's expression parser evaluates to the same size, or None.

    A plain symbol keeps its exact name. ``broadcast`` and choices, which that grammar lacks, are written by
    max and min, exactly for sizes that broadcast. None: the caller should write a fresh name. That is so for what has
    another value at size 0 than elsewhere, too: onnx_ir takes symbols to be positive, and simplifies before it evaluates.
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
    """May a reader that takes symbols to be positive drop a choice from it that size 0 needs?"""
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
    """With ``max(y - 1, 0)`` written as ``y*y//(y + 1)``, which is the same for sizes y, 0 included."""
    if not any(a.kind == "pos" and a.args[0].lo == -1 for a in atoms_of(dim)):
        return dim

    def replace(atom: Atom) -> Dim:
        if atom.kind == "sym":
            return of_atom(atom)
        if atom.kind == "pos" and atom.args[0].lo == -1:
            y = _exact_at_zero(atom.args[0] + 1)
            return floor_div(y * y, y + 1)
        return apply(atom.kind, tuple(_exact_at_zero(a) if isinstance(a, Dim) else a for a in atom.args))

    return rebuild(dim, replace)


def _is_size(d: Dim) -> bool:
    return d.lo is not None and d.lo >= 0


def _compared(cond: Cond) -> list[Dim]:
    """The dims that a condition compares with 0."""
    if cond.kind in ("and", "or"):
        return [d for c in cond.args for d in _compared(c)]
    return list(cond.args)


class _NotExpressible(Exception):
    """The `dim_param` grammar has no exact form of this."""


class _Writer:
    """Composes texts, each part once."""

    def __init__(self) -> None:
        self._done: dict[Dim | Cond, _Text] = {}

    def write(self, root: Dim | Cond) -> _Text:
        """The text of `root`."""
        stack: list[tuple[Dim | Cond, _Composer]] = [(root, self._compose(root))]
        answer: Any = None  # what the composer on top waits for; None starts it
        while True:
            node, composer = stack[-1]
            try:
                needed = composer.send(answer)
            except StopIteration as finished:
                self._done[node] = answer = self._bounded(finished.value)
                stack.pop()
                if not stack:
                    return self._done[root]
                continue
            answer = self._done.get(needed)
            if answer is None:
                stack.append((needed, self._compose(needed)))

    def _compose(self, node: Dim | Cond) -> _Composer:
        if isinstance(node, Dim):
            return self._dim(node)
        return self._relation(node) if node.kind in _SWAPPED else self._junction(node)

    # ------------------------------------------------------------------ dims

    def _dim(self, dim: Dim) -> _Composer:
        pieces, const = pieces_of(dim)
        texts = []
        for piece in pieces:
            texts.append((piece, (yield from self._piece(piece))))
        return _sum_of(texts, const)

    def _piece(self, piece: Piece) -> _Composer:
        """The piece without its sign."""
        parts: list[_Text] = []
        if piece.head:
            parts.append((yield from self._head(piece)))
        for i, atom in enumerate(piece.factors):
            if atom in piece.factors[:i]:
                continue
            part = yield from self._atom(atom)
            parts.extend(self._power(part, piece.factors.count(atom)))
        c = abs(piece.coefficient)
        if len(parts) == 1 and c == 1:
            return parts[0]
        if piece.head and len(parts) > 1:  # symbols first: batch*min(seq, 5)
            parts.append(parts.pop(0))
        texts = [_factor(p) for p in parts]
        return _Text("*".join([str(c), *texts] if c != 1 else texts), _PRODUCT)

    def _head(self, piece: Piece) -> _Composer:
        a = yield piece.args[0]
        if piece.head == "abs":
            return self._absolute(a.text, (yield -piece.args[0]).text)
        b = yield piece.args[1]
        if piece.head == "*":
            return _Text(f"{_factor(a)}*{_factor(b)}", _PRODUCT)
        if piece.head == "%":
            return _Text(f"{_numerator(a)} % {_factor(b)}", _QUOTIENT)
        first, second = sorted(
            ((a, piece.args[0]), (b, piece.args[1])),
            key=lambda t: (t[0].extremum != piece.head, not t[1].terms, t[0].text),
        )
        inner = first[0].text
        if first[0].extremum == piece.head:  # max(max(a, b), c)
            inner = inner[len(piece.head) + 1 : -1]
        return _Text(f"{piece.head}({inner}, {second[0].text})", _PRIMARY, piece.head)

    def _atom(self, atom: Atom) -> _Composer:
        kind, args = atom.kind, atom.args
        if kind == "sym":
            return _Text(self._name(args[0]), _PRIMARY)
        if kind == "ite":
            return (yield from self._choice(atom))
        if kind == "//":
            n = yield args[0]
            d = yield args[1]
            return _Text(f"{_numerator(n)}//{_factor(d)}", _QUOTIENT)
        texts = []
        for a in args:
            texts.append((yield a).text)
        if kind == "pos":
            return _Text(f"max({texts[0]}, 0)", _PRIMARY)
        return self._broadcast(atom, texts)

    # ------------------------------------------------------------------ what a dialect may change

    def _bounded(self, part: _Text) -> _Text:
        """An overlong part is not written out: shared parts can make texts exponentially long."""
        if len(part.text) <= MAX_LENGTH:
            return part
        return _Text(f"<{len(part.text)} characters>", _PRIMARY)

    def _name(self, name: str) -> str:
        return quoted_name(name)

    def _power(self, base: _Text, exponent: int) -> list[_Text]:
        return [base if exponent == 1 else _Text(f"{_factor(base)}**{exponent}", _PRIMARY)]

    def _broadcast(self, atom: Atom, args: list[str]) -> _Text:
        return _Text(f"broadcast({', '.join(args)})", _PRIMARY)

    def _absolute(self, x: str, negated: str) -> _Text:
        return _Text(f"abs({x})", _PRIMARY)

    def _choice(self, atom: Atom) -> _Composer:
        cond = yield atom.args[0]
        a = yield atom.args[1]
        b = yield atom.args[2]
        return _Text(f"({a.text} if {cond.text} else {b.text})", _PRIMARY)

    # ------------------------------------------------------------------ conditions

    def _relation(self, cond: Cond) -> _Composer:
        left, relation, right, const = yield from self._sides(cond)
        return _Text(f"{_sum_of(left, 0).text} {relation} {_sum_of(right, const).text}", _SUM)

    def _sides(self, cond: Cond) -> Generator[Dim | Cond, _Text, tuple[_Terms, str, _Terms, int]]:
        """Positive terms on the left, negative ones and the constant on the right, the simpler side first."""
        pieces, const = pieces_of(cond.args[0])
        left: _Terms = []
        right: _Terms = []
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

    def _junction(self, cond: Cond) -> _Composer:
        if not cond.args:
            return _Text(cond.kind, _PRIMARY)
        parts = sorted(cond.args, key=lambda c: not _equates_symbols(c))
        texts: dict[Any, str] = {}
        for part in parts:
            text = (yield part).text
            texts[part] = f"({text})" if part.kind in ("and", "or") else text
        if cond.kind == "and":
            yield from self._join_ranges(texts)
        return _Text(f" {cond.kind} ".join(texts.values()), _SUM)

    def _join_ranges(self, texts: dict[Any, str]) -> Generator[Dim | Cond, _Text, None]:
        """``193 <= H <= 224`` in place of its two halves."""
        halves: dict[tuple[str, str], tuple[Cond, int]] = {}
        for part in [p for p in texts if p.kind == ">="]:
            left, relation, right, const = yield from self._sides(part)
            if right:
                continue
            middle = _sum_of(left, 0).text
            other = halves.pop((middle, _SWAPPED_ORDER[relation]), None)
            if other is None:
                halves[middle, relation] = part, const
                continue
            low, high = (const, other[1]) if relation == ">=" else (other[1], const)
            texts[other[0]] = f"{low} <= {middle} <= {high}"
            del texts[part]


_SWAPPED = {"==": "==", "!=": "!=", ">=": "<="}
_SWAPPED_ORDER = {">=": "<=", "<=": ">="}


def _equates_symbols(cond: Cond) -> bool:
    return cond.kind == "==" and cond.args[0].const == 0 and len(cond.args[0].terms) == 2


def _factor(part: _Text) -> str:
    return part.text if part.level == _PRIMARY else f"({part.text})"


def _numerator(part: _Text) -> str:
    plain = part.level == _PRIMARY or (part.level == _PRODUCT and "(" not in part.text)
    return part.text if plain else f"({part.text})"


def _sum_of(pieces: _Terms, const: int) -> _Text:
    """Positive terms before negative ones, higher degree first, then alphabetical, the constant last."""
    if not pieces:
        return _Text(str(const), _PRIMARY if const >= 0 else _SUM)
    if len(pieces) == 1 and not const and pieces[0][0].coefficient > 0:
        return pieces[0][1]
    terms = sorted((p.coefficient < 0, -p.degree, t.text, t) for p, t in pieces)
    if const:
        first = const > 0 and terms[0][0]  # 5 - N
        terms.insert(0 if first else len(terms), (const < 0, 0, "", _Text(str(abs(const)), _PRIMARY)))
    out: list[str] = []
    for negative, _, _, t in terms:
        if out:
            out.append(f" - {t.text}" if negative else f" + {t.text}")
        else:
            out.append(f"-{t.text if t.level <= _PRODUCT else _factor(t)}" if negative else t.text)
    return _Text("".join(out), _SUM)


class _ParamWriter(_Writer):
    """The subset of onnx_ir: ``+ - * // %``, max, min, names of letters, digits, ``_`` and ``.``."""

    def _bounded(self, part: _Text) -> _Text:
        if len(part.text) > MAX_PARAM_LENGTH:
            raise _NotExpressible
        return part

    def _name(self, name: str) -> str:
        if not _PARAM_NAME.fullmatch(name) or name in KEYWORDS:
            raise _NotExpressible
        return name

    def _power(self, base: _Text, exponent: int) -> list[_Text]:
        return [base] * exponent

    def _broadcast(self, atom: Atom, args: list[str]) -> _Text:
        """0 when a size is 0, else the largest: sizes that broadcast are equal or 1."""
        joined = ", ".join(args)
        if all(a.lo is not None and a.lo >= 1 for a in atom.args):
            return _Text(f"max({joined})", _PRIMARY)
        return _Text(f"max({joined})*min({joined}, 1)", _PRODUCT)

    def _absolute(self, x: str, negated: str) -> _Text:
        return _Text(f"max({x}, {negated})", _PRIMARY)

    def _choice(self, atom: Atom) -> _Composer:
        """``b + (a - b)*c`` where c is 1 or 0."""
        cond, a, b = atom.args
        if not (_always_defined(cond) and _always_defined(a) and _always_defined(b)):
            raise _NotExpressible  # the branch that is not taken may divide by zero
        difference = yield a - b
        otherwise = yield b
        chosen = yield from self._indicator(cond)
        product = chosen.text if (a - b).value == 1 else f"{_factor(difference)}*{chosen.text}"
        if b.value == 0:
            return _Text(product, _PRODUCT)
        return _Text(f"({otherwise.text} + {product})", _PRIMARY)

    def _indicator(self, cond: Cond) -> _Composer:
        """1 where `cond` holds, else 0."""
        if cond.kind in ("and", "or"):
            texts = []
            for part in cond.args:
                texts.append((yield from self._indicator(part)).text)
            return _Text(f"{'min' if cond.kind == 'and' else 'max'}({', '.join(texts)})", _PRIMARY)
        x = cond.args[0]
        if cond.kind == ">=":
            indicator = minimum(pos(x + 1), 1)
        elif cond.kind == "==":
            indicator = pos(1 - absolute(x))
        else:
            indicator = minimum(absolute(x), 1)
        return _Text(_factor((yield indicator)), _PRIMARY)


_PARAM_NAME = re.compile(r"[^\W\d][\w.]*")


def _always_defined(node: Dim | Cond) -> bool:
    """Is there no division that could be by zero?"""
    divisors = [a.args[1] for a in atoms_of(node) if a.kind == "//"]
    return all(d.value is not None or (d.lo is not None and d.lo >= 1) for d in divisors)
