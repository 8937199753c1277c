"""Documentation pages of findings, from the package or a checkout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..explain.diagnose import CODES
from ..lines import Line, line

_FOLDERS = (Path(__file__).parent / "findings", Path(__file__).parents[2] / "docs/findings")


def rule_lines(code: str) -> Iterator[Line]:
    """Lines of a finding's page, headings styled."""
    for text in rule_page(code).splitlines():
        yield line(("bold" if text.startswith("#") else "prose", text))


@lru_cache(maxsize=len(CODES))
def rule_page(code: str) -> str:
    """The Markdown page of a finding's code. Only its title if the pages are not installed.

    Raises `KeyError` for a code that does not exist.
    """
    _, line = CODES[code]
    for folder in _FOLDERS:
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text("utf-8")
    return f"# {code}: {line}\n"
