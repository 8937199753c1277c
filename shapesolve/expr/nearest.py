""" "Did you mean" suffixes of messages about unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from .limits import MAX_COMPARED, MAX_LISTED, MAX_MEANT, MAX_NAME

#: names that are compared, and characters of one
_JOINTS = re.compile(r"([/.*?])")


def like(name: str, names: Iterable[str]) -> str:
    """ "Did you mean" suffix with the similar names; empty if none is similar."""
    return did_you_mean(near(name, names))


def did_you_mean(names: list[str]) -> str:
    """ "Did you mean" suffix with these names; empty for no names."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def unknown_name(what: str, name: str, names: Iterable[str], among: str = "expected one of") -> str:
    """Message: there is no such dim, tensor, or input, with similar names or a list of the known ones."""
    known = sorted(set(names))
    hint = like(name, known)
    if not hint and known:
        hint = f"; {among}: {', '.join(known[:MAX_LISTED])}" + (" …" if len(known) > MAX_LISTED else "")
    return f"unknown {what} {name!r}{hint}"


def like_pattern(pattern: str, names: Iterable[str]) -> str:
    """Return a "did you mean" suffix for a pattern without matches: similar names or a similar pattern; empty if there
    is neither.
    """
    known = list(names)[:MAX_COMPARED]
    close = like(pattern.strip("*?"), known)
    if close:
        return close
    parts = _JOINTS.split(pattern[:MAX_NAME])
    words = {part for name in known for part in _JOINTS.split(name)}
    for i, part in enumerate(parts):
        for word in () if part in words else near(part, words)[:1]:
            tried = "".join((*parts[:i], word, *parts[i + 1 :]))
            if any(fnmatchcase(name, tried) for name in known):
                return did_you_mean([repr(tried)])
    return ""


def near(name: str, names: Iterable[str]) -> list[str]:
    """The names similar to `name`, the closest first."""
    from difflib import get_close_matches

    return get_close_matches(name[:MAX_NAME], sorted(set(names))[:MAX_COMPARED], MAX_MEANT, 0.75)
