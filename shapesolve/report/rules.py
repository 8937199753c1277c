"""The pages of the findings, as they are in the documentation: a wheel carries them, a checkout has them in ``docs``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..explain.diagnose import CODES
from .lines import Line, line

_FOLDERS = (Path(__file__).parent / "findings", Path(__file__).parents[2] / "docs/findings")


def rule_lines(code: str) -> Iterator[Line]:
    """The page line by line, headings marked."""
    for text in rule_page(code).splitlines():
        yield line(("bold" if text.startswith("#") else "prose", text))


@lru_cache(maxsize=len(CODES))
def rule_page(code: str) -> str:
    """The page of a finding's code, in Markdown; its one line where the installation came without the pages.

    Raises `KeyError` for a code that does not exist.
    """
    _, line = CODES[code]
    for folder in _FOLDERS:
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text("utf-8")
    return f"# {code}: {line}\n"
