"""The page of a kind of finding: what it means, an example, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..findings.diagnose import CODES
from ..findings.pytorch import printed_example
from ..lines import Line, line


def rule_lines(code: str) -> Iterator[Line]:
    """Return the lines of a finding's page, with styled headings."""
    for text in rule_page(code).splitlines():
        yield line(("bold" if text.startswith("#") else "prose", text))


def rule_page(code: str, *, example: bool = True) -> str:
    """Return the Markdown page of a finding's code; with `example`, a model that has it is analyzed.

    Raises:
        KeyError: If the code does not exist.
    """
    kind = CODES[code]
    summary, rest = kind.page()
    meaning, heading, to_do = rest.partition("## What to do")
    printed = _printed(code) if example else ""
    shown = f"## Example\n\n```text\n{printed}\n```\n\n" if printed else ""
    head = f"# {code}: {summary}\n\nSeverity: {kind.severity}\n\n## What it means\n\n"
    return f"{head}{meaning}{shown}{heading}{to_do}\n"


@cache
def _printed(code: str) -> str:
    from ..analysis import analyze
    from .text import findings_text

    example = CODES[code].example
    if example is None:
        return printed_example(code)
    found = analyze(example.model(), assume=example.assume).findings
    return findings_text([f for f in found if f.code == code])
