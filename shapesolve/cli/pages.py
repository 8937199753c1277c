"""The documentation of the commands, written from the commands: ``python -m shapesolve.cli.pages docs/cli``."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner

from .app import app

_WIDTH = 100


def render_pages() -> dict[str, str]:
    """File name -> Markdown: a page for each command, and an index."""
    pages = {
        f"{name}.md": f"# shapesolve {name}\n\n```text\n{_help(name)}\n```\n" for name in app.list_commands()
    }
    rows = "".join(f"| [{name}]({name}.md) | {_summary(name)} |\n" for name in app.list_commands())
    codes = (
        "Exit codes: 0 nothing wrong, 1 something was found or refuted, 2 the input cannot be used,"
        " 3 neither proved nor refuted (`prove`, `diff`).\n"
    )
    pages["index.md"] = f"# Command line\n\n{codes}\n| command | |\n|---|---|\n{rows}"
    return pages


def _help(name: str) -> str:
    result = CliRunner().invoke(
        app,
        [name, "--help"],
        prog_name="shapesolve",
        terminal_width=_WIDTH,
        env={"COLUMNS": "100", "NO_COLOR": "1"},
    )
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def _summary(name: str) -> str:
    command = app.get_command(None, name)
    return ((command and command.help) or "").partition("\n\n")[0].replace("\n", " ").strip()


def write_pages(folder: str) -> None:
    """Write all pages into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in render_pages().items():
        (target / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write_pages(sys.argv[1] if len(sys.argv) > 1 else "docs/cli")
