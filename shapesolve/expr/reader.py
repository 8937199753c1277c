"""`Reader`: parses dims and conditions by operator precedence, with explicit stacks, so that no input exhausts Python's
stack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import NamedTuple, TypeAlias

from .canonical import absolute, broadcast, ceil_div, floor_div, maximum, minimum
from .cond import FALSE, TRUE, Cond, all_of, any_of, divides, eq, ge, gt, ite, le, lt, ne, sign, trunc_div
from .core import ONE, Dim, constant, from_terms, symbol
from .grammar import (
    BINARY,
    CHOICE,
    COMPARISONS,
    FUNCTIONS,
    PREFIX,
    ROUNDING,
    DimSyntaxError,
    Token,
    tokens_of,
    unquoted_name,
)
from .limits import (
    INT64_MAX,
    MAX_COEFFICIENT,
    MAX_DEGREE,
    MAX_EXPONENT,
    MAX_NESTING,
    MAX_READ_SIZE,
    DimTooLarge,
)
from .quotient import Quotient
from .structure import Monomial

_COMPARE = {"==": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt}


class _Junction:
    """Members of a chain of ``and`` or ``or``, joined at the end."""

    __slots__ = ("last", "op", "parts")

    def __init__(self, op: str, parts: list[Cond], last: Dim | None = None) -> None:
        self.op, self.parts = op, parts
        self.last = last  # right end of a chain of comparisons


class _Sum:
    """Terms of a sum, collected before they are sorted: a long sum takes linear time."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Monomial, int], const: int) -> None:
        self.terms, self.const = terms, const

    def add(self, dim: Dim, factor: int) -> None:
        for mono, c in dim.terms:
            self.terms[mono] = self.terms.get(mono, 0) + c * factor
        self.const += dim.const * factor


_Operand: TypeAlias = Dim | _Sum | Quotient | Cond | _Junction


class _Value(NamedTuple):
    operand: _Operand
    depth: int  # how deep the expression is nested, sums and products not counted


class _Pending(NamedTuple):
    """An operator that waits for its right operand, or an open parenthesis or call, on the stack."""

    op: str
    kind: str  # binary, prefix, if, else, open or call
    precedence: int
    at: int
    base: int = 0  # height of the value stack when the parenthesis opened
    exact: bool = False  # does it stand inside floor or ceiling?


class Reader:
    """Parser of one text; names are looked up in `symbols`, others become sizes."""

    def __init__(self, text: str, symbols: Mapping[str, Dim] | None = None, dotted: bool = False) -> None:
        self._text = text
        self._symbols = symbols or {}
        self._tokens = tokens_of(text, dotted)
        self._next = 0
        self._values: list[_Value] = []
        self._pending: list[_Pending] = []
        self._open = 0  # parentheses and calls
        self._rounding = 0  # calls of floor and ceiling among them

    def read(self) -> Dim | Cond:
        """The dim or condition of the whole text; raises `DimSyntaxError`."""
        expect_operand = True
        while True:
            token = self._tokens[self._next]
            self._next += 1
            if expect_operand:
                expect_operand = self._operand(token)
            elif token.kind != "end":
                expect_operand = self._operator(token)
            else:
                break
        self._close_operators(token)
        if self._pending:
            raise self._error("expected ')'", token.at)
        whole = self._values.pop().operand
        return self._cond(whole, 0) if isinstance(whole, (Cond, _Junction)) else self._dim(whole, 0)

    def _error(self, problem: str, at: int) -> DimSyntaxError:
        return DimSyntaxError(problem, self._text, at)

    # ------------------------------------------------------------------ where an operand is expected

    def _operand(self, token: Token) -> bool:
        """Reads an operand or a prefix operator. True if an operand is still expected."""
        kind, text, at = token
        if kind in ("op", "word") and text in PREFIX:
            self._pending.append(_Pending(text, "prefix", PREFIX[text], at))
            return True
        if kind == "op" and text == "(":
            self._enter(_Pending(text, "open", 0, at, len(self._values)))
            return True
        called = kind == "name" and self._tokens[self._next].text == "("
        if called and text in FUNCTIONS:
            self._next += 1
            self._enter(_Pending(text, "call", 0, at, len(self._values)))
            return True
        if called:
            raise self._error(
                f"unknown function {text!r}; expected one of {', '.join(sorted(FUNCTIONS))}", at
            )
        self._values.append(_Value(self._literal(token), 0))
        return False

    def _literal(self, token: Token) -> Dim | Cond | Quotient:
        kind, text, at = token
        if kind == "number":
            whole, _, part = text.partition(".")
            if len(text) > 19 or int(whole) > INT64_MAX + 1:
                raise self._error("an integer above 2**63", at)
            number, left = divmod(int(whole + part), 5 ** len(part))
            if left:
                raise self._error("a decimal number that is not a binary fraction", at)
            return Quotient(constant(number), constant(2 ** len(part))) if part else constant(number)
        if kind in ("name", "quoted"):
            name = text if kind == "name" else unquoted_name(text)
            found = self._symbols.get(name)
            return symbol(name) if found is None else found
        if kind == "word" and text.lower() in ("true", "false"):
            return TRUE if text.lower() == "true" else FALSE
        raise self._error("expected a number, a name or '('", at)

    def _enter(self, opened: _Pending) -> None:
        self._open += 1
        if self._open > MAX_NESTING:
            raise self._error(f"nested deeper than {MAX_NESTING}", opened.at)
        self._rounding += opened.op in ROUNDING
        self._pending.append(opened)

    # ------------------------------------------------------------------ where an operator is expected

    def _operator(self, token: Token) -> bool:
        """Reads an operator or a closing parenthesis. True if an operand is expected after it."""
        op, at = token.text, token.at
        if token.kind in ("op", "word") and op in BINARY:
            self._reduce(BINARY[op] + (op == "**"))
            self._pending.append(_Pending(op, "binary", BINARY[op], at, exact=self._rounding > 0))
            return True
        if token.kind == "word" and op == "if":
            self._reduce(CHOICE + 1)
            self._pending.append(_Pending(op, "if", CHOICE, at))
            return True
        if token.kind == "word" and op == "else":
            self._close_choices()
            if not self._pending or self._pending[-1].kind != "if":
                raise self._error("'else' without 'if'", at)
            self._pending[-1] = _Pending(op, "else", CHOICE, self._pending[-1].at)
            return True
        if token.kind == "op" and op in (")", ","):
            self._close_operators(token)
            top = self._pending[-1] if self._pending else None
            if top is None or (op == "," and top.kind != "call"):
                raise self._error(f"unexpected {op!r}", at)
            if op == ",":
                return True
            self._leave(self._pending.pop())
            return False
        raise self._error("expected an operator", at)

    def _close_choices(self) -> None:
        self._reduce(CHOICE + 1)
        while self._pending and self._pending[-1].kind == "else":
            self._apply(self._pending.pop())

    def _close_operators(self, token: Token) -> None:
        self._close_choices()
        if self._pending and self._pending[-1].kind == "if":
            raise self._error("expected 'else'", token.at)

    def _leave(self, opened: _Pending) -> None:
        self._open -= 1
        if opened.kind == "open":
            operand, depth = self._values.pop()
            if isinstance(operand, _Junction):
                operand = self._cond(operand, opened.at)
            elif isinstance(operand, _Sum):
                operand = self._number(operand, opened.at)
            self._values.append(_Value(operand, depth))
            return
        self._rounding -= opened.op in ROUNDING
        args = self._values[opened.base :]
        del self._values[opened.base :]
        wanted = FUNCTIONS[opened.op]
        if wanted is not None and len(args) != wanted:
            raise self._error(
                f"{opened.op} takes {wanted} argument{'s' * (wanted > 1)}, not {len(args)}", opened.at
            )
        depth = max(a.depth for a in args) + 1
        self._guarded(opened, lambda: self._call(opened.op, [a.operand for a in args], opened.at), depth)

    # ------------------------------------------------------------------ applying

    def _reduce(self, precedence: int) -> None:
        """Apply the operators that bind at least this tightly."""
        while self._pending and self._pending[-1].precedence >= precedence:
            self._apply(self._pending.pop())

    def _apply(self, p: _Pending) -> None:
        taken = {"prefix": 1, "binary": 2, "else": 3}[p.kind]
        args = self._values[-taken:]
        del self._values[-taken:]
        operands = [a.operand for a in args]
        depth = max(a.depth for a in args) + (p.op not in _SHALLOW)
        if p.kind == "prefix":
            self._guarded(p, lambda: self._prefix(p, operands[0]), depth)
        elif p.kind == "binary":
            self._guarded(p, lambda: self._binary(p, operands[0], operands[1]), depth)
        else:
            a, cond, b = operands
            self._guarded(
                p, lambda: ite(self._cond(cond, p.at), self._dim(a, p.at), self._dim(b, p.at)), depth
            )

    def _guarded(self, p: _Pending, compute: Callable[[], _Operand], depth: int) -> None:
        if depth > MAX_NESTING:
            raise self._error(f"nested deeper than {MAX_NESTING}", p.at)
        try:
            operand = compute()
        except ZeroDivisionError:
            raise self._error("division by zero", p.at) from None
        except DimTooLarge as e:
            raise self._error(f"too large ({e})", p.at) from None
        for dim in (operand.num, operand.den) if isinstance(operand, Quotient) else (operand,):
            if isinstance(dim, Dim):
                self._bounded(dim, p.at)
        self._values.append(_Value(operand, depth))

    def _bounded(self, dim: Dim, at: int) -> Dim:
        if not _within_bounds(dim):
            raise self._error("too large", at)
        return dim

    def _prefix(self, p: _Pending, operand: _Operand) -> _Operand:
        if p.op == "not":
            return ~self._cond(operand, p.at)
        number = self._number(operand, p.at)
        return -number if p.op == "-" else number

    def _binary(self, p: _Pending, left: _Operand, right: _Operand) -> _Operand:
        op, at = p.op, p.at
        if op in ("and", "or"):
            joined = left if isinstance(left, _Junction) and left.op == op and left.last is None else None
            if joined is None:
                joined = _Junction(op, [self._cond(left, at)])
            joined.parts.append(self._cond(right, at))
            return joined
        if op in COMPARISONS:
            return self._comparison(op, left, self._dim(right, at), at)
        if op in ("+", "-") and isinstance(left, _Sum) and isinstance(right, Dim):
            left.add(right, 1 if op == "+" else -1)
            return left
        x, y = self._number(left, at), self._number(right, at)
        if op == "/" and p.exact:
            return _ratio(x) / _ratio(y)
        if op in ("+", "-", "*", "//", "%") and (isinstance(x, Quotient) or isinstance(y, Quotient)):
            return _rational(op, _ratio(x), _ratio(y))
        a, b = self._dim(x, at), self._dim(y, at)
        if op in ("+", "-"):
            started = _Sum(dict(a.terms), a.const)
            started.add(b, 1 if op == "+" else -1)
            return started
        return self._power(a, b, at) if op == "**" else _ARITHMETIC[op](a, b)

    def _comparison(self, op: str, left: _Operand, right: Dim, at: int) -> _Junction:
        chain = left if isinstance(left, _Junction) and left.last is not None else _Junction("and", [])
        before = chain.last if chain.last is not None else self._dim(left, at)
        chain.parts.append(_COMPARE[op](before, right))
        chain.last = right
        return chain

    def _power(self, base: Dim, exponent: Dim, at: int) -> Dim:
        n = exponent.value
        if n is None or not 0 <= n <= MAX_EXPONENT:
            raise self._error(f"an exponent must be an integer from 0 to {MAX_EXPONENT}", at)
        result = ONE
        for _ in range(n):
            result = result * base
            self._bounded(result, at)
        return result

    def _call(self, function: str, args: list[_Operand], at: int) -> _Operand:
        if function == "ite":
            return ite(self._cond(args[0], at), self._dim(args[1], at), self._dim(args[2], at))
        numbers = [self._number(a, at) for a in args]
        if function in ROUNDING:
            ratio = _ratio(numbers[0])
            return ratio.floor() if function == "floor" else ratio.ceil()
        name = function.lower()
        if any(isinstance(n, Quotient) for n in numbers):
            found = _rational_call(name, [_ratio(n) for n in numbers])
            if found is not None:
                return found
        dims = [self._dim(n, at) for n in numbers]
        if name in ("max", "min"):
            return reduce(maximum if name == "max" else minimum, dims)
        return _CALLS[name](*dims)

    # ------------------------------------------------------------------ kinds of operands

    def _cond(self, operand: _Operand, at: int) -> Cond:
        if isinstance(operand, _Junction):
            return all_of(operand.parts) if operand.op == "and" else any_of(operand.parts)
        if isinstance(operand, Cond):
            return operand
        raise self._error("expected a condition, got a size", at)

    def _number(self, operand: _Operand, at: int) -> Dim | Quotient:
        if isinstance(operand, (Cond, _Junction)):
            raise self._error("expected a size, got a condition", at)
        if isinstance(operand, _Sum):
            try:
                return self._bounded(from_terms(operand.terms, operand.const), at)
            except DimTooLarge as e:
                raise self._error(f"too large ({e})", at) from None
        return operand

    def _dim(self, operand: _Operand, at: int) -> Dim:
        number = self._number(operand, at)
        if isinstance(number, Dim):
            return number
        exact = number.integer()
        if exact is None:
            raise self._error(f"({number.num})/({number.den}) is not an integer", at)
        return exact


#: sums and products do not nest: they make one polynomial
_SHALLOW = frozenset({"+", "-", "*", "and", "or", *COMPARISONS})
_ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": trunc_div,
    "^": maximum,
    "&": minimum,
}
_CALLS: dict[str, Callable[..., Dim | Cond]] = {
    "broadcast": broadcast,
    "abs": absolute,
    "sign": sign,
    "mod": operator.mod,
    "floordiv": floor_div,
    "ceildiv": ceil_div,
    "ceiltoint": ceil_div,
    "divides": divides,
}


def _within_bounds(dim: Dim) -> bool:
    if dim.size > MAX_READ_SIZE or abs(dim.const) > MAX_COEFFICIENT:
        return False
    return not dim.terms or (
        len(dim.terms[0][0]) <= MAX_DEGREE and all(abs(c) <= MAX_COEFFICIENT for _, c in dim.terms)
    )


def _ratio(number: Dim | Quotient) -> Quotient:
    return Quotient(number) if isinstance(number, Dim) else number


def _rational(op: str, x: Quotient, y: Quotient) -> Quotient | Dim:
    if op == "//":
        return (x / y).floor()
    if op == "%":
        return x % y
    return x + y if op == "+" else x - y if op == "-" else x * y


def _rational_call(name: str, args: list[Quotient]) -> Quotient | None:
    """Return the exact max, min, or mod of fractions; None for other functions, or if the order is unknown."""
    if name == "mod":
        return args[0] % args[1]
    if name not in ("max", "min"):
        return None
    result: Quotient | None = args[0]
    for a in args[1:]:
        if result is not None:
            result = result.maximum(a) if name == "max" else result.minimum(a)
    return result
