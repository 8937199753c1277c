"""Writes the generated pages of the documentation: ``python .ci/pages.py docs``.

Examples are run in the checkout, and their output becomes part of the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner
from json_schema import page, schema

from shapesolve.change.simplify.rules import BEYOND_NODES, RULES
from shapesolve.cli.app import app
from shapesolve.cli.parameters import Command
from shapesolve.findings.diagnose import CODES
from shapesolve.report.rule import rule_page

#: durations in the output, which differ between machines
_TIME = re.compile(r"(?<=  )( *)\d+\.\d\d(?=  )")


def render_pages(root: Path) -> dict[str, str]:
    """Return the pages by file name: one page per command, and an index. `root` is the checkout with the examples."""
    pages = {
        f"{name}.md": f"# shapesolve {name}\n\n```text\n{_help(name)}\n```\n\n## Example\n\n{_example(name, root)}"
        for name in app.list_commands()
    }
    rows = "".join(f"| [{name}]({name}.md) | {_summary(name)} |\n" for name in app.list_commands())
    codes = (
        "Exit codes: 0 success, 1 something was found or refuted, 2 the input is unusable,"
        " 3 neither proved nor refuted (`prove`, `diff`).\n"
    )
    pages["index.md"] = f"# Command line\n\n{codes}\n| command | |\n|---|---|\n{rows}"
    return pages


def _help(name: str) -> str:
    result = CliRunner().invoke(
        app,
        [name, "--help"],
        prog_name="shapesolve",
        terminal_width=100,
        env={"COLUMNS": "100", "NO_COLOR": "1"},
    )
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def _example(name: str, root: Path) -> str:
    """Return a command's output, run in a temporary folder with the examples."""
    command = app.get_command(None, name)
    assert isinstance(command, Command)
    text, *lines = command.example
    if not lines:
        return f"{text}\n"
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(root.resolve() / "examples", Path(folder, "examples"))
        with chdir(folder):
            printed = "\n".join(piece for words in lines for piece in _printed(words))
    return f"{text}\n\n```console\n{printed}\n```\n"


def _printed(words: str) -> Iterator[str]:
    yield f"$ shapesolve {words}"
    done = CliRunner().invoke(app, shlex.split(words), prog_name="shapesolve", env={"NO_COLOR": "1"})
    yield _TIME.sub(r"\1   ", done.output.rstrip())


def _summary(name: str) -> str:
    command = app.get_command(None, name)
    return ((command and command.help) or "").partition("\n\n")[0].replace("\n", " ").strip()


def render_findings(docs: Path) -> dict[str, str]:
    """Return the finding pages by file name, and their index."""
    index = (docs / "findings/index.md").read_text("utf-8")
    head = index[: index.index("| code |")]
    rows = "".join(f"| [{c}]({c}.md) | {kind.severity} | {kind.page()[0]} |\n" for c, kind in CODES.items())
    pages = {f"{code}.md": rule_page(code) for code in CODES}
    return {"index.md": f"{head}| code | severity | meaning |\n|---|---|---|\n{rows}", **pages}


def render_nav(docs: Path) -> str:
    """Return ``mkdocs.yml`` with an entry for each command and each finding."""
    text = (docs / "mkdocs.yml").read_text("utf-8")
    commands = "".join(f"      - {name}: cli/{name}.md\n" for name in app.list_commands())
    findings = "".join(f"      - findings/{code}.md\n" for code in CODES)
    text = re.sub(r"(?:      - [\w-]+: cli/[\w-]+\.md\n)+", commands, text)
    return re.sub(r"(?:      - findings/SS\d+\.md\n)+", findings, text)


def render_rules(docs: Path) -> str:
    """Return ``reference/simplify-rules.md`` with a row for each rule of `simplify`."""
    text = (docs / "reference/simplify-rules.md").read_text("utf-8")
    rows = [(r.pattern, r.obligation, r.replacement) for r in RULES]
    table = "".join(f"| {' | '.join(row)} |\n" for row in (*rows, *BEYOND_NODES))
    head, line, rest = text.partition("| pattern | proved condition | replacement |\n|---|---|---|\n")
    return head + line + table + re.sub(r"\A(?:\|.*\n)*", "", rest)


def write_pages(docs: Path) -> None:
    """Write the command and finding pages, the schema, the navigation, and the rules of `simplify`."""
    for folder, pages in (("cli", render_pages(Path())), ("findings", render_findings(docs))):
        (docs / folder).mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (docs / folder / name).write_text(text, "utf-8")
    (docs / "schema.json").write_text(json.dumps(schema(), indent=1) + "\n", "utf-8")
    (docs / "reference/json.md").write_text(page(), "utf-8")
    (docs / "mkdocs.yml").write_text(render_nav(docs), "utf-8")
    (docs / "reference/simplify-rules.md").write_text(render_rules(docs), "utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
