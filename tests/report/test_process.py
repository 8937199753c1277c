"""The command line as a process: progress on a terminal, help, pipes."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from shapesolve.cli import app, console

from .test_cli import ROOT, run

# ---------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, wait: float) -> str:
    monkeypatch.setattr(console, "PATIENCE", wait)
    monkeypatch.setattr(console, "REDRAWN", 0.02)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    with console.Progress("models") as progress:
        time.sleep(0.4)
        progress(1, 4)
        time.sleep(0.2)
    return stream.getvalue()


def test_progress_of_long_work_is_shown_on_a_terminal_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, Terminal(), wait=0)
    frames = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame) for frame in re.split(r"[\r\n]", text)]
    assert [f for f in frames if re.fullmatch(r"[━╸╺ ]+ models 0:00:00 +", f)]
    assert [f for f in frames if re.fullmatch(r"━{6}[━╸╺ ]* 1 of 4 models 0:00:0\d .*", f)]
    assert "\x1b[38" in text or "\x1b[3" in text  # in colours
    assert text.endswith("\x1b[2K")  # the line is gone


def test_progress_has_no_colours_where_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = drawn(monkeypatch, Terminal(), wait=0)
    assert "1 of 4 models" in text
    assert not re.search(r"\x1b\[[0-9;]*m", text)


def test_progress_is_silent_for_short_work_and_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, Terminal(), wait=60) == ""
    assert drawn(monkeypatch, io.StringIO(), wait=0) == ""


# ---------------------------------------------------------------------- the process


def process(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shapesolve", *args], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_help_of_every_command_has_an_example() -> None:
    names = app.list_commands()
    assert {
        "analyze",
        "check",
        "contract",
        "diff",
        "evaluate",
        "explain",
        "ops",
        "prove",
        "scan",
        "verify",
    } <= set(names)
    for name in names:
        text = run(name, "--help").stdout
        assert "Example" in text
        assert f"shapesolve {name} " in text


def test_help_lists_every_command_whole_and_in_a_group() -> None:
    listed = process("--help").stdout.partition("Inspect:")[2].splitlines()
    commands = [row.split()[0] for row in listed if row.startswith("  ")]
    assert commands == app.list_commands()
    assert commands[0] == "analyze"
    assert not [row for row in listed if row.endswith("...")]
    groups = [row for row in listed if row.endswith(":")]
    assert groups == ["Check:", "Generate inputs and profiles:", "Transform:", "Other:"]


def test_a_terminal_without_our_characters_gets_others() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii:surrogateescape"}
    done = subprocess.run(
        [sys.executable, "-m", "shapesolve", "analyze", "examples/unet.onnx"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "nodes - opset 17" in done.stdout


def test_the_output_goes_to_a_file_or_nowhere(tmp_path: pathlib.Path) -> None:
    broken, file = "examples/broken_matmul.onnx", tmp_path / "out.json"
    done = process("check", broken, "--json", "-o", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert json.loads(file.read_text("utf-8"))["command"] == "check"
    done = process("check", broken, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    unet = str(ROOT / "examples/unet.onnx")
    assert run("prove", unet, "height >= 9", "--quiet", code=1).stdout == ""
    told = run("check", "examples/none.onnx", "-q", code=2)
    assert (told.stdout, "file not found" in told.stderr) == ("", True)
    assert (
        "cannot write" in run("prove", unet, "1 == 1", "-o", str(tmp_path / "no/such/folder"), code=2).stderr
    )


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_a_command_with_130(tmp_path: pathlib.Path) -> None:
    module = tmp_path / "slow.py"
    module.write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "shapesolve", "check", "--plugin", "slow", "x.onnx"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['shapesolve', '--help']\n"
        "from shapesolve.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*(m for m in ('z3', 'sympy', 'onnxruntime', 'rich', 'IPython') if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_help_has_colours_where_they_are_taken(env: dict[str, str], coloured: bool) -> None:
    base = {"COLUMNS": "80", "FORCE_COLOR": "", "NO_COLOR": ""}
    plain = CliRunner().invoke(app, ["explain", "--help"], env=base).stdout
    text = CliRunner().invoke(app, ["explain", "--help"], env=base | env).stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == plain
    for styled in (
        "\x1b[1mOptions:\x1b[0m",
        "\x1b[36m--axis N\x1b[0m",
        "\x1b[36mshapesolve explain model.onnx logits\x1b[0m",
    ):
        assert (styled in text) == coloured


def test_a_pipe_that_closes_early_is_no_error() -> None:
    command = f"'{sys.executable}' -m shapesolve ops | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
