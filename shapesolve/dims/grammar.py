"""Names and operators of the textual grammar: the one place that reader and printer share."""

from __future__ import annotations

import re

#: words with a meaning of their own; a symbol of that name is written in backticks
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

_PLAIN = re.compile(r"[^\W\d]\w*")


def is_plain_name(name: str) -> bool:
    """Can a symbol of this name be written without backticks?"""
    return _PLAIN.fullmatch(name) is not None and name not in KEYWORDS and name not in FUNCTIONS


def quoted_name(name: str) -> str:
    """The name as it is written: in backticks (doubled inside) unless it is plain."""
    return name if is_plain_name(name) else f"`{name.replace('`', '``')}`"
