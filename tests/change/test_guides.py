"""The guides show what the commands print, and the rules as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import render_rules

from shapesolve.cli import app

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [ROOT / "docs/guides" / name for name in ("simplify.md", "fix.md")]
EXAMPLES = [
    (guide.stem, command, shown)
    for guide in GUIDES
    for command, shown in re.findall(
        r"^    \$ shapesolve (.+)\n((?:    (?!\$).+\n)*)", guide.read_text("utf-8"), flags=re.MULTILINE
    )
]


@pytest.mark.parametrize(("guide", "command", "shown"), EXAMPLES)
def test_commands_print_what_the_guide_shows(
    guide: str, command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if "simple.onnx" in command and "-o" not in command:
        CliRunner().invoke(app, ["simplify", "examples/attention.onnx", "-o", "simple.onnx"])
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code in (0, 1), result.output
    lines = [line[4:] for line in shown.splitlines()]
    assert lines, guide
    printed = result.output.splitlines()
    assert [line for line in printed if line in lines] == lines
    written = list(tmp_path.glob("*.onnx"))
    assert not written or result.exit_code == 0


def test_the_guide_has_every_rule() -> None:
    """`python .ci/pages.py docs` writes them again."""
    assert render_rules(ROOT / "docs") == GUIDES[0].read_text("utf-8")
