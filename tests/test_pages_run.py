"""The README and the pages show what the product prints. `SHAPESOLVE_UPDATE_GOLDEN=1` writes the output into them again.

A ```console block holds commands after `$ ` and what they print. A ```python block is run, as a doctest if it has prompts.
All blocks of a page share one folder, in which `examples` is that of the checkout.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from shapesolve.cli import app

ROOT = Path(__file__).resolve().parents[1]
#: pages that a test or a command writes
GENERATED = ("cli/", "findings/", "json.md", "operators.md", "contracts.md")
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    if not str(page.relative_to(ROOT)).removeprefix("docs/").startswith(GENERATED)
]
UPDATE = os.environ.get("SHAPESOLVE_UPDATE_GOLDEN") == "1"
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECONDS = re.compile(r"\d+\.\d+ s\b")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("examples", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(words: str) -> str:
    """What a command prints, with times replaced."""
    done = CliRunner().invoke(
        app, shlex.split(words), prog_name="shapesolve", env={"COLUMNS": "88", "NO_COLOR": "1"}
    )
    assert done.exit_code < 2, f"{words}: {done.output}"
    return _SECONDS.sub("0.10 s", done.output)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_print_what_the_page_shows(page: Path, folder: Path) -> None:
    text = page.read_text("utf-8")

    def run(block: re.Match[str]) -> str:
        parts = re.findall(r"^\$ shapesolve (.*)$", block[1], re.MULTILINE)
        assert parts, f"{page.name}: a console block without a command"
        return "```console\n" + "".join(f"$ shapesolve {words}\n{printed(words)}" for words in parts) + "```"

    made = _CONSOLE.sub(run, text)
    if UPDATE and made != text:
        page.write_text(made, encoding="utf-8")
        text = made
    assert made == text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_on_the_page_runs(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in _PYTHON.findall(page.read_text("utf-8")):
        missing = [name for name in imported(block) if importlib.util.find_spec(name) is None]
        if missing:  # what an extra brings
            assert os.environ.get("SHAPESOLVE_TORCH") != "1", missing
            continue
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
            said: list[str] = []
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            doctest.DocTestRunner(optionflags=flags).run(test, out=said.append, clear_globs=False)
            assert not said, "".join(said)
            names.update(test.globs)
        else:
            exec(compile(block, f"{page.name}", "exec"), names)  # noqa: S102 -- text of this repository


def imported(source: str) -> list[str]:
    """Top-level modules that a snippet imports."""
    lines = [line.removeprefix(">>> ").removeprefix("... ") for line in source.splitlines()]
    found = re.findall(r"^\s*(?:import|from) (\w+)", "\n".join(lines), re.MULTILINE)
    if "shapesolve.torch" in source or "assert_exports" in source:
        found.append("torch")
    return [name for name in dict.fromkeys(found) if name != "shapesolve"]


def test_every_page_has_code_that_can_be_read() -> None:
    for page in PAGES:
        for block in _PYTHON.findall(page.read_text("utf-8")):
            if ">>>" not in block:
                ast.parse(block)
