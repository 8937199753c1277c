"""The documentation is complete and says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shapesolve.cli import app
from shapesolve.cli.pages import render_findings, render_nav, render_pages
from shapesolve.findings.diagnose import CODES

DOCS = Path(__file__).resolve().parents[2] / "docs"
GOLDEN = DOCS.parent / "tests/golden"


@pytest.mark.parametrize("code", CODES)
def test_every_finding_has_a_page(code: str) -> None:
    severity, line = CODES[code]
    text = (DOCS / f"findings/{code}.md").read_text("utf-8")
    assert text.startswith(f"# {code}: {line}\n")
    assert f"Severity: {severity}\n" in text
    assert "## What it means" in text
    assert "## What to do" in text


def test_pages_of_findings_and_the_navigation_are_current() -> None:
    """`python -m shapesolve.cli.pages docs` writes them again."""
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


def test_examples_on_the_pages_are_real_output() -> None:
    real = "\n".join(f.read_text("utf-8") for f in GOLDEN.glob("*.txt"))
    for page in sorted((DOCS / "findings").glob("SS*.md")):
        for example in re.findall(r"```text\n(.*?)\n```", page.read_text("utf-8"), flags=re.DOTALL):
            assert f"[{page.stem}]" in example
            assert example in real, page.name


def test_pages_of_commands_are_current() -> None:
    """`python -m shapesolve.cli.pages docs` writes them again: with what their examples print."""
    pages = render_pages(DOCS.parent)
    assert {f.name for f in (DOCS / "cli").glob("*.md")} == set(pages)
    for name, text in pages.items():
        assert (DOCS / "cli" / name).read_text("utf-8") == text, name


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
