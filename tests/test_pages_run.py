"""The README and the pages show what the product prints. `SHAPESOLVE_UPDATE_GOLDEN=1` writes the output into them again.

Blocks of a page run in order, in one folder, in which `examples` is that of the checkout:

- `console`: commands after `$ `, and what they print. A line `...` stands for any number of lines.
- `python`: run, as a doctest if it has prompts; from a file if it has a title. From the first on that needs a package that is
  not installed, they are left out.
- `text title="NAME"`: a file that a later block reads.
- `sh`: commands that are not run here; their options must exist.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shapesolve.cli import app
from shapesolve.lower.registry import DEFAULT

ROOT = Path(__file__).resolve().parents[1]
#: pages that a test or a command writes
GENERATED = ("cli/", "findings/", "reference/json.md", "reference/operators.md", "reference/contracts.md")
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    if not str(page.relative_to(ROOT)).removeprefix("docs/").startswith(GENERATED)
]
UPDATE = os.environ.get("SHAPESOLVE_UPDATE_GOLDEN") == "1"
_BLOCK = re.compile(r'^```(\w*)(?: title="([\w.-]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_SECONDS = re.compile(r"\d+\.\d+ s\b")
_FINDING = re.compile(r"^(?:error|warning|info)\[|^  --> ", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("examples", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for key in [key for key in DEFAULT._rules if key[0] == "acme.ops"]:  # that a page registered
        del DEFAULT._rules[key]


def printed(words: str) -> str:
    """What a command prints, with times replaced."""
    env = {"COLUMNS": "88", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, shlex.split(words), prog_name="shapesolve", env=env)
    assert done.exit_code < 2, f"{words}: {done.output}"
    return _SECONDS.sub("0.10 s", done.output)


def shortened(output: str, shown: str) -> str:
    """What is to be shown of an output: all of it, or what stands there if only lines marked by `...` are left out."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in parts)
    return shown if len(parts) > 1 and re.fullmatch(pattern, output) else output


def run_console(block: str) -> str:
    """The block as it should be."""
    commands = re.findall(r"^\$ shapesolve (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert commands, f"no command: {block}"
    assert block.startswith("$ shapesolve "), f"not a command: {block}"
    return "".join(f"$ shapesolve {words}\n{shortened(printed(words), shown)}" for words, shown in commands)


def run_python(page: str, block: str, names: dict[str, object]) -> None:
    if ">>>" in block:
        test = doctest.DocTestParser().get_doctest(block, names, page, page, 0)
        said: list[str] = []
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        doctest.DocTestRunner(optionflags=flags).run(test, out=said.append, clear_globs=False)
        assert not said, "".join(said)
        names.update(test.globs)
    else:
        exec(compile(block, page, "exec"), names)  # noqa: S102 -- text of this repository


def unknown_options(block: str) -> Iterator[str]:
    """Options of shell commands that do not exist."""
    for line in re.findall(r"^shapesolve (.+)$", block.replace("\\\n", " "), re.MULTILINE):
        name, *words = shlex.split(line, comments=True)
        command = app.get_command(click.Context(app), name)
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} if command else set()
        yield from (f"{name} {w}" for w in words if w.startswith("-") and w != "-" and w not in options)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_says(page: Path, folder: Path) -> None:
    text = page.read_text("utf-8")
    names: dict[str, object] = {"__name__": "page"}
    missing: list[str] = []

    def run(found: re.Match[str]) -> str:
        language, title, block = found.groups()
        if title:
            (folder / title).write_text(block, "utf-8")
        if language == "console":
            return f"```console\n{run_console(block)}```"
        if language == "python":
            missing.extend(name for name in imported(block) if importlib.util.find_spec(name) is None)
            if not missing:
                run_python(title or page.name, block, names)
        elif language == "sh":
            assert not list(unknown_options(block))
        return found[0]

    made = _BLOCK.sub(run, text)
    assert not missing or os.environ.get("SHAPESOLVE_TORCH") != "1", missing
    if UPDATE and made != text:
        page.write_text(made, encoding="utf-8")
        text = made
    assert made == text


def imported(source: str) -> list[str]:
    """Top-level modules that a snippet imports."""
    lines = [line.removeprefix(">>> ").removeprefix("... ") for line in source.splitlines()]
    found = re.findall(r"^\s*(?:import|from) (\w+)", "\n".join(lines), re.MULTILINE)
    if "shapesolve.torch" in source or "assert_exports" in source:
        found.append("torch")
    return [name for name in dict.fromkeys(found) if name != "shapesolve"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_output_stands_in_blocks_that_are_run(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not re.findall(r"^(?:    )+\$ .*", _BLOCK.sub("", text), re.MULTILINE)
    for language, _, block in _BLOCK.findall(text):
        assert language, f"a block without a language: {block[:60]}"
        if language != "console":
            assert not re.search(r"^\s*\$ ", block, re.MULTILINE), block
            assert language == "python" or not _FINDING.search(block), block
        if language == "python" and ">>>" not in block:
            ast.parse(block)
