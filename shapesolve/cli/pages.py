"""Generator of the command documentation: ``python -m shapesolve.cli.pages docs``.

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

from ..change.rules import BEYOND_NODES, RULES
from ..explain.diagnose import CODES
from .app import app
from .schema import page, schema

#: command -> introduction of the example, and its command lines; files are written to an empty folder
EXAMPLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "analyze": (
        "A mask whose length is 1 or the length of the cache including the new tokens.",
        ("analyze examples/attention.onnx --tensors 'present_*'",),
    ),
    "check": (
        "Attention heads that were not merged before the projection; the exit code is 1.",
        ("check examples/broken_matmul.onnx",),
    ),
    "constraints": (
        "The constraints of one node: its requirements, and the dims of its output.",
        ("constraints examples/attention.onnx --node /attn/Concat_3",),
    ),
    "contract": (
        "Three poolings with skip connections require multiples of 8.",
        ("contract examples/unet.onnx", "contract examples/unet.onnx --format python -o check_inputs.py"),
    ),
    "explain": (
        "The cache grows by the number of new tokens.",
        ("explain examples/attention.onnx present_key --axis 2",),
    ),
    "evaluate": (
        "A height of 20 breaks the contract; the exit code is 1.",
        ("evaluate examples/unet.onnx --bind batch=1 --bind height=20 --bind width=24",),
    ),
    "prove": (
        "One claim is proved for all sizes that the model accepts; the other is refuted by an example.",
        (
            'prove examples/attention.onnx "present_key[2] == past_seq + seq"',
            'prove examples/unet.onnx "height >= 9"',
        ),
    ),
    "verify": (
        "Every tensor's predicted shape is compared with a run.",
        ("verify examples/unet.onnx --bind batch=1 --bind height=8 --bind width=16",),
    ),
    "inputs": ("The first input sets have typical sizes.", ("inputs examples/unet.onnx -n 6 -o feeds",)),
    "why": (
        "A height that does not survive three poolings and three joins, and one that does.",
        ("why examples/unet.onnx height=1082", "why examples/unet.onnx height=1080"),
    ),
    "sizes": (
        "The accepted sizes nearest to the given ones, and the smallest accepted sizes.",
        (
            "sizes examples/unet.onnx --near height=1085,width=1920,batch=1",
            "sizes examples/unet.onnx --enumerate 3",
        ),
    ),
    "profile": (
        "Ranges for TensorRT; a corner that the model does not accept is rejected. The last command lists the supported tools.",
        (
            "profile examples/unet.onnx --opt batch=1,height=64,width=64 --max batch=8,height=512,width=512 --for trtexec",
            "profile examples/unet.onnx --opt height=64 --max height=130",
            "profile examples/unet.onnx --for list",
        ),
    ),
    "cost": (
        "Formulas of the input sizes, and values at some sizes.",
        ("cost examples/unet.onnx --at batch=8,width=64 --max-memory 1GB --of height",),
    ),
    "diff": (
        "A simplified copy is proved equivalent.",
        (
            "simplify examples/attention.onnx -o simple.onnx",
            "diff examples/attention.onnx simple.onnx --prove --run 2",
        ),
    ),
    "scan": ("One row per model.", ("scan examples -j 1",)),
    "ops": ("One operator.", ("ops HardSwish",)),
    "rule": ("One code.", ("rule SS502",)),
    "annotate": (
        "The copy has every shape in it; an existing file is not overwritten.",
        (
            "annotate examples/attention.onnx -o annotated.onnx",
            "annotate examples/attention.onnx -o annotated.onnx",
        ),
    ),
    "report": ("A single file to open in a browser.", ("report examples/unet.onnx -o report.html",)),
    "simplify": (
        "Shape arithmetic is removed; `--explain` lists the reasons.",
        ("simplify examples/attention.onnx -o simple.onnx",),
    ),
    "free": (
        "A model for a single 64 x 64 image becomes one for batches.",
        (
            "fix examples/unet.onnx -o fixed.onnx --bind batch=1 --bind height=64 --bind width=64",
            "free fixed.onnx -o dynamic.onnx --dim image[0]=batch --verify",
            "analyze dynamic.onnx --tensors mask",
        ),
    ),
    "generalize": (
        "Two exports for images of fixed sizes become one model for other sizes.",
        (
            "fix examples/unet.onnx -o small.onnx --bind height=64 --bind width=64 --bind batch=1",
            "fix examples/unet.onnx -o wide.onnx --bind height=96 --bind width=160 --bind batch=1",
            "generalize small.onnx wide.onnx -o dynamic.onnx --dim image[2]=height --dim image[3]=width",
            "analyze dynamic.onnx --tensors mask",
        ),
    ),
    "fix": (
        "Unsupported sizes are rejected.",
        (
            "fix examples/unet.onnx -o fixed.onnx --bind height=64 --bind width=48",
            "fix examples/unet.onnx -o fixed.onnx --bind height=63",
        ),
    ),
}
#: commands that open a browser and wait
SHOWN = {
    "view": "`shapesolve view examples/unet.onnx` opens the page that [report](report.md) writes.",
    "serve": "`shapesolve serve` prints and opens the address of a page that accepts models; only this machine can open it.",
}
_SEVERITY = re.compile(r"^Severity: \w+\n+", re.MULTILINE)
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
    if name in SHOWN:
        return f"{SHOWN[name]}\n"
    text, lines = EXAMPLES[name]
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
    """Return the finding pages by file name, with title and severity as in `CODES`, and their index."""
    index = (docs / "findings/index.md").read_text("utf-8")
    head = index[: index.index("| code |")]
    rows = "".join(
        f"| [{code}]({code}.md) | {severity} | {line} |\n" for code, (severity, line) in CODES.items()
    )
    pages = {"index.md": f"{head}| code | severity | meaning |\n|---|---|---|\n{rows}"}
    for code, (severity, line) in CODES.items():
        page = docs / f"findings/{code}.md"
        text = page.read_text("utf-8") if page.exists() else "\n\n## What it means\n\n## What to do\n"
        body = _SEVERITY.sub("", text.partition("\n")[2], count=1).lstrip("\n")
        pages[f"{code}.md"] = f"# {code}: {line}\n\nSeverity: {severity}\n\n{body}"
    return pages


def render_nav(docs: Path) -> str:
    """Return ``mkdocs.yml`` with an entry for each command and each finding."""
    text = (docs / "mkdocs.yml").read_text("utf-8")
    commands = "".join(f"      - {name}: cli/{name}.md\n" for name in app.list_commands())
    findings = "".join(f"      - findings/{code}.md\n" for code in CODES)
    text = re.sub(r"(?:      - [\w-]+: cli/[\w-]+\.md\n)+", commands, text)
    return re.sub(r"(?:      - findings/SS\d+\.md\n)+", findings, text)


def render_rules(docs: Path) -> str:
    """Return ``guides/simplify.md`` with a row for each rule of `simplify`."""
    text = (docs / "guides/simplify.md").read_text("utf-8")
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
    (docs / "json.md").write_text(page(), "utf-8")
    (docs / "mkdocs.yml").write_text(render_nav(docs), "utf-8")
    (docs / "guides/simplify.md").write_text(render_rules(docs), "utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
