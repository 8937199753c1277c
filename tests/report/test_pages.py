"""The documentation is complete and says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from pages import render_findings, render_nav, render_pages, render_rules

from shapesolve.cli import app
from shapesolve.findings.diagnose import CODES
from shapesolve.findings.pytorch import printed_example

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_pages_of_findings_and_the_navigation_are_current() -> None:
    """`python .ci/pages.py docs` writes them again."""
    for name, text in render_findings(DOCS).items():
        assert (DOCS / "findings" / name).read_text("utf-8") == text, name
    assert (DOCS / "mkdocs.yml").read_text("utf-8") == render_nav(DOCS)


def test_a_page_of_a_finding_has_text_under_each_heading() -> None:
    for page in sorted((DOCS / "findings").glob("SS*.md")):
        parts = re.split(r"^## (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
        sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        assert {"What it means", "What to do"} <= sections.keys(), page.name
        empty = [heading for heading, text in sections.items() if len(text.strip()) < 20]
        assert not empty, page.name


def test_an_example_of_a_page_has_its_finding() -> None:
    for code, kind in CODES.items():
        shown = re.findall(
            r"```text\n(.*?)\n```", (DOCS / f"findings/{code}.md").read_text("utf-8"), re.DOTALL
        )
        assert len(shown) == bool(kind.example or printed_example(code))
        assert all(f"{code}]" in text for text in shown)


def test_pages_of_commands_are_current() -> None:
    """`python .ci/pages.py docs` writes them again: with what their examples print."""
    pages = render_pages(DOCS.parent)
    assert {f.name for f in (DOCS / "cli").glob("*.md")} == set(pages)
    for name, text in pages.items():
        assert (DOCS / "cli" / name).read_text("utf-8") == text, name


def test_the_page_of_rules_has_every_rule() -> None:
    """`python .ci/pages.py docs` writes them again."""
    assert render_rules(DOCS) == (DOCS / "reference/simplify-rules.md").read_text("utf-8")


def test_every_command_has_a_page() -> None:
    assert {f"{n}.md" for n in app.list_commands()} < {f.name for f in (DOCS / "cli").glob("*.md")}


def test_every_command_has_an_example_that_is_run() -> None:
    for name in app.list_commands():
        text, *lines = app.get_command(None, name).example
        assert text, f"{name} needs an `example` in its `@app.command`"
        assert name in {words.split()[0] for words in lines} or name in ("serve", "view")


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#]+?\.md)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} -> {target}"
