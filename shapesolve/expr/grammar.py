"""Grammar of dims and conditions as text: tokens, names and operators."""

from __future__ import annotations

import re
from typing import NamedTuple

from .limits import MAX_LENGTH

#: reserved words; a symbol of that name is written in backticks
KEYWORDS = frozenset({"if", "else", "and", "or", "not", "true", "false", "True", "False"})

#: functions and how many arguments they take (None: any number, at least one)
FUNCTIONS: dict[str, int | None] = {
    "max": None,
    "Max": None,
    "min": None,
    "Min": None,
    "broadcast": None,
    "floor": 1,
    "ceil": 1,
    "ceiling": 1,
    "abs": 1,
    "Abs": 1,
    "sign": 1,
    "mod": 2,
    "Mod": 2,
    "floordiv": 2,
    "ceildiv": 2,
    "CeilToInt": 2,
    "divides": 2,
    "ite": 3,
}

#: functions whose argument is divided exactly before it is rounded
ROUNDING = frozenset({"floor", "ceil", "ceiling"})

CHOICE = 1  # precedence of ``a if c else b``, the weakest
COMPARISONS = frozenset({"==", "!=", "<=", ">=", "<", ">"})
BINARY = {"or": 2, "and": 3, **dict.fromkeys(COMPARISONS, 5), "^": 6, "&": 7, "+": 8, "-": 8}
BINARY |= {"*": 9, "/": 9, "//": 9, "%": 9, "**": 11}
PREFIX = {"not": 4, "-": 10, "+": 10}

_PLAIN = re.compile(r"[^\W\d]\w*")
_OTHERS = (
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<quoted>`(?:[^`]|``)*`)|(?P<op>\*\*|//|[=!<>]=|[-+*/%^&(),<>])"
)
_TOKEN = re.compile(r"(?P<name>[^\W\d]\w*)" + _OTHERS)
_DOTTED = re.compile(r"(?P<name>[^\W\d][\w.]*)" + _OTHERS)  # exporters put dots into names
_SPACE = re.compile(r"\s*")


class DimSyntaxError(ValueError):
    """A string that is not a dim or condition. The message gives the position."""

    def __init__(self, problem: str, text: str = "", position: int = -1) -> None:
        super().__init__(problem, text, position)
        self.problem, self.text, self.position = problem, text, position

    def __str__(self) -> str:
        if self.position < 0:
            return self.problem
        read, left = self.text[: self.position], self.text[self.position :]
        read = read if len(read) <= 60 else "..." + read[-57:]
        left = left if len(left) <= 60 else left[:57] + "..."
        return f"{self.problem} at position {self.position}: read {read!r}, remaining {left!r}"


class Token(NamedTuple):
    """A piece of the text; `kind` is name, word (a keyword), quoted, number, op or end."""

    kind: str
    text: str
    at: int


def tokens_of(text: str, dotted: bool = False) -> list[Token]:
    """The tokens and an end mark; `dotted`: names may contain dots. Raises `DimSyntaxError`."""
    if len(text) > MAX_LENGTH:
        raise DimSyntaxError(f"longer than {MAX_LENGTH} characters", text, 0)
    pattern = _DOTTED if dotted else _TOKEN
    out: list[Token] = []
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at == len(text):
            out.append(Token("end", "", at))
            return out
        m = pattern.match(text, at)
        if m is None or m.lastgroup is None:
            hint = " (write unusual names in backticks)" if text[at] in ".:" else ""
            raise DimSyntaxError(f"unexpected {text[at]!r}{hint}", text, at)
        kind = "word" if m.lastgroup == "name" and m[0] in KEYWORDS else m.lastgroup
        out.append(Token(kind, m[0], at))
        at = m.end()


def is_plain_name(name: str) -> bool:
    """True if a symbol of this name can be written without backticks."""
    return is_word(name) and name not in KEYWORDS and name not in FUNCTIONS


def is_word(text: str) -> bool:
    """True if the text is one name or keyword."""
    return _PLAIN.fullmatch(text) is not None


def quoted_name(name: str) -> str:
    """The name as it is written: in backticks (doubled inside) unless it is plain."""
    return name if is_plain_name(name) else f"`{name.replace('`', '``')}`"


def unquoted_name(quoted: str) -> str:
    """The name inside a text in backticks."""
    return quoted[1:-1].replace("``", "`")
