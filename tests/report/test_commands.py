"""Commands are loaded when they are asked for, and a shell completes them."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import click
import pytest
from click.testing import CliRunner

from shapesolve.cli import app
from shapesolve.cli.parameters import Argument, Command, Option

ROOT = Path(__file__).resolve().parents[2]
UNET = ROOT / "examples/unet.onnx"


class Colour(StrEnum):
    dark_red = "dark-red"
    blue = "blue"


def test_parameters_are_what_their_annotations_say() -> None:
    got: list[object] = []

    def paint(
        files: Annotated[list[Path], Argument(metavar="FILE...", help="What to paint.")],
        colour: Annotated[Colour, Option("--colour", help="In it.")] = Colour.blue,
        by: Annotated[Literal["hand", "brush"], Option("--by", help="With it.")] = "hand",
        coats: Annotated[int, Option("-n", "--coats", metavar="N", min=1, max=3, help="So often.")] = 1,
        name: Annotated[str | None, Option("--name", help="Sign it.")] = None,
        also: Annotated[list[str] | None, Option("--also", help="More.")] = None,
        dry: Annotated[bool, Option("--dry/--wet", help="Wait.")] = True,
    ) -> None:
        got[:] = files, colour, by, coats, name, also, dry

    def run(*args: str) -> int:
        return CliRunner().invoke(Command("paint", paint), args).exit_code

    assert run("a", "b") == 0
    assert got == [[Path("a"), Path("b")], Colour.blue, "hand", 1, None, None, True]
    assert (
        run("a", "--colour", "dark-red", "--by", "brush", "-n", "3", "--also", "x", "--also", "y", "--wet")
        == 0
    )
    assert got == [[Path("a")], Colour.dark_red, "brush", 3, None, ["x", "y"], False]
    assert isinstance(got[1], Colour)
    for wrong in (
        [],
        ["a", "--coats", "4"],
        ["a", "--coats", "x"],
        ["a", "--by", "foot"],
        ["a", "--colour", "dark_red"],
    ):
        assert run(*wrong) == 2


def test_only_the_command_that_is_asked_for_is_loaded() -> None:
    code = (
        "import sys\nfrom shapesolve.cli import app\n"
        "app(['rule', 'SS403'], standalone_mode=False)\n"
        "print(*(m for m in sys.modules if m.startswith('shapesolve.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    loaded = {name.rpartition(".")[2] for name in done.stderr.split()}
    assert "scanning" in loaded
    assert loaded.isdisjoint({"deploying", "reading", "writing", "changing"})


def test_a_command_that_there_is_not_is_told_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["chekc"])
    assert done.exit_code == 2
    assert done.stderr == "error: no such command 'chekc'; did you mean 'check'? (see shapesolve --help)\n"


def test_every_command_is_where_the_list_says() -> None:
    for name in app.list_commands():
        assert isinstance(app.get_command(None, name), click.Command), name
    assert sorted(app.list_commands()) == sorted(app.commands)


@pytest.mark.parametrize(
    ("words", "expected"), [("shapesolve ex", "explain"), ("shapesolve check --base", "--baseline")]
)
def test_a_shell_completes_commands_and_options(words: str, expected: str) -> None:
    asked = {
        "_SHAPESOLVE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = CliRunner().invoke(app, [], prog_name="shapesolve", env=asked)
    assert done.stdout.split() == [f"plain,{expected}"]


@pytest.mark.parametrize(
    ("shell", "script", "start"),
    [
        ("bash", ".bash_completions/shapesolve.sh", ".bashrc"),
        ("zsh", ".zfunc/_shapesolve", ".zshrc"),
        ("fish", ".config/fish/completions/shapesolve.fish", None),
    ],
)
def test_completion_is_installed_where_the_shell_looks(
    shell: str, script: str, start: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    if start:
        (tmp_path / start).write_bytes(b"alias x=y\xff")
    for _ in range(2):
        done = CliRunner().invoke(app, ["--install-completion"])
        assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["--show-completion"]).stdout
    assert "_SHAPESOLVE_COMPLETE" in shown
    assert (tmp_path / script).read_text() == shown
    if start:
        said = (tmp_path / start).read_bytes()
        assert said.startswith(b"alias x=y\xff\n")
        assert len(said.splitlines()) == 2


def test_completion_of_another_shell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/tcsh")
    done = CliRunner().invoke(app, ["--show-completion"])
    assert done.exit_code == 2
    assert "SHELL is tcsh" in done.stderr


@pytest.mark.parametrize(
    ("file", "code", "most"),
    [
        ("tests/models/bert_eager__dynamo/model.onnx", "0", 440),
        ("examples/attention.onnx", "0", 440),  # has a limit, for which edits are tried
        ("examples/broken_matmul.onnx", "1", 485),
    ],
)
def test_a_command_starts_light_and_leaves_numpy_alone_where_no_array_is_needed(
    file: str, code: str, most: int
) -> None:
    """`most` modules are loaded, Python's and those of other packages included."""
    program = (
        f"import sys; sys.argv = ['shapesolve', 'check', {file!r}]\n"
        "from shapesolve.cli import main\n"
        "try: main()\nexcept SystemExit as e: print(e.code)\n"
        "print(len(sys.modules))\n"
        "print('numpy._core' in sys.modules, 'ml_dtypes._ml_dtypes_ext' in sys.modules, 'onnx.helper' in sys.modules)\n"
        "import numpy, onnx\n"
        "print(numpy.arange(3).sum(), onnx.helper.make_tensor('x', 7, [1], [5]).int64_data, numpy.__version__ > '1')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    *_, left, modules, loaded, used = done.stdout.splitlines()
    assert (left, loaded, used) == (code, "False False True", "3 [5] True"), done.stderr
    assert int(modules) <= most


def test_modules_that_are_executed_later_are_what_they_would_be(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").write_text(
        "import sys\nfrom .part import VALUE\nsys.executed = True\nseen = sys.modules[__name__]\n"
        "def __getattr__(name):\n    if name != 'made': raise AttributeError(name)\n    return 8\n"
    )
    (tmp_path / "numpy/part.py").write_text("import sys\nassert not hasattr(sys, 'executed')\nVALUE = 7\n")
    code = (
        "import sys\nfrom threading import Thread\nfrom shapesolve.cli.loading import start_light\nstart_light()\n"
        "import numpy\nimport numpy\nassert not hasattr(sys, 'executed')\nseen = []\n"
        "threads = [Thread(target=lambda: seen.append(numpy.VALUE)) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "import numpy.part\n"
        "print(seen == [7] * 8, numpy.seen is numpy, numpy.made, type(numpy) is type(sys),"
        " hasattr(numpy, 'nothing'), numpy.__file__)"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [
        "True",
        "True",
        "8",
        "True",
        "False",
        str(tmp_path / "numpy/__init__.py"),
    ], done.stderr


@pytest.mark.parametrize("words", [["evaluate", "MODEL"], ["check", "MODEL"], ["diff", "MODEL", "MODEL"]])
def test_the_output_does_not_replace_the_model(words: list[str], tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes((ROOT / "examples/unet.onnx").read_bytes())
    args = [str(model) if word == "MODEL" else word for word in words]
    done = CliRunner().invoke(app, [*args, "-o", str(tmp_path / "." / "model.onnx")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot overwrite the model itself: ")
    assert model.read_bytes() == (ROOT / "examples/unet.onnx").read_bytes()


@pytest.mark.parametrize(
    "words",
    ["check", "annotate", "simplify", "fix height=64 width=64", "profile"],
)
def test_an_existing_file_is_overwritten_only_if_asked_for(words: str, tmp_path: Path) -> None:
    command, *sizes = words.split()
    args = [command, str(ROOT / "examples/unet.onnx"), *sizes, "-o", str(tmp_path / "out.npz")]
    (tmp_path / "out.npz").write_bytes(b"kept")
    done = CliRunner().invoke(app, args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "out.npz already exists; pass --force to overwrite it" in " ".join(done.stderr.split())
    assert (tmp_path / "out.npz").read_bytes() == b"kept"
    done = CliRunner().invoke(app, [*args, "--force"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.npz").read_bytes() != b"kept"


def test_a_folder_with_files_is_written_into_only_if_asked_for(tmp_path: Path) -> None:
    args = [
        "inputs",
        str(ROOT / "examples/unet.onnx"),
        "height=64",
        "width=64",
        "-o",
        str(tmp_path / "sample"),
    ]
    assert CliRunner().invoke(app, args).exit_code == 0
    assert "already exists; pass --force" in " ".join(CliRunner().invoke(app, args).stderr.split())
    assert CliRunner().invoke(app, [*args, "--force"]).exit_code == 0


def test_the_output_does_not_replace_a_folder(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(ROOT / "examples/unet.onnx"), "-o", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: {tmp_path} is a directory: it is not replaced, name a file\n",
    )


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("sizes --k 3", "--count requires --buckets"),
        ("sizes --least 0", "--least requires --near or --enumerate or --at"),
        ("sizes --for trtexec", "--for requires --buckets"),
        ("cost --reuse", "--reuse requires --max-memory"),
        ("cost --of batch", "--of requires --max-memory or --plot"),
        ("cost --depth 2", "--depth requires --by scope"),
        ("cost --by node --depth 2", "--depth requires --by scope"),
        ("inputs --form pb", "--form requires --output"),
    ],
)
def test_an_option_without_effect_is_refused(words: str, needed: str) -> None:
    name, *options = words.split()
    done = CliRunner().invoke(app, [name, str(UNET), *options])
    assert (done.exit_code, done.output.strip()) == (2, f"error: {needed}")


def test_sizes_that_are_given_in_any_way_have_a_minimum() -> None:
    for words in (["height=8"], ["--at", "height=8"], ["--near", "height=8"]):
        assert CliRunner().invoke(app, ["sizes", str(UNET), *words, "--least", "0"]).exit_code == 0
