"""Application: the command names, each loaded from its file on demand."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from .. import __version__
from .console import fail
from .parameters import Command, OneLine, refuse

#: --help group -> its commands, each with its file
_GROUPS = {
    "Inspect": {
        "analyze": "reading",
        "contract": "reading",
        "constraints": "reading",
        "why": "explaining",
        "explain": "reading",
        "evaluate": "reading",
        "prove": "reading",
        "cost": "costing",
        "view": "writing",
        "report": "writing",
    },
    "Check": {"check": "checking", "verify": "comparing", "diff": "comparing", "scan": "scanning"},
    "Generate inputs and profiles": {"inputs": "deploying", "sizes": "deploying", "profile": "profiling"},
    "Transform": {
        "free": "changing",
        "generalize": "changing",
        "fix": "changing",
        "simplify": "changing",
        "annotate": "writing",
    },
    "Other": {"ops": "scanning", "rule": "scanning", "serve": "writing"},
}
_FILES = {name: file for commands in _GROUPS.values() for name, file in commands.items()}


class Commands(OneLine, click.Group):
    """Group of all commands, imported on demand."""

    command_class = Command

    def list_commands(self, ctx: click.Context | None = None) -> list[str]:
        """Return the command names, by group."""
        return [*_FILES]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        """Import and return a command by name."""
        for name in (
            [cmd_name] if cmd_name in _FILES else _FILES
        ):  # all commands, so that the closest name can be suggested
            import_module(f".{_FILES[name]}", __package__)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group."""
        found = {name: self.get_command(ctx, name) for name in _FILES}
        width = max(map(len, found))
        for title, names in _GROUPS.items():
            with formatter.section(title):
                rows = [(n, c) for n in names if (c := found[n]) is not None]
                formatter.write_dl([(f"{n:{width}}", c.get_short_help_str(limit=70)) for n, c in rows])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command for the first word; an unknown word ends the program."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            if ctx.resilient_parsing:
                raise
            refuse(e)


def _say_version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked:
        kind = "pure Python; the compiled build is 1.9 times as fast"
        if find_spec("shapesolve.compiled__mypyc"):
            kind = "compiled; 1.9 times as fast as pure Python"
        click.echo(f"shapesolve {__version__} ({kind})")
        ctx.exit()


_PROGRAM, _VARIABLE = "shapesolve", "_SHAPESOLVE_COMPLETE"

#: shell -> completion script below the home folder; startup file of the shell; line to add to that file
_PLACES: dict[str, tuple[str, str, Callable[[Path], str]]] = {
    "bash": (f".bash_completions/{_PROGRAM}.sh", ".bashrc", lambda script: f"source '{script}'"),
    "zsh": (f".zfunc/_{_PROGRAM}", ".zshrc", lambda _: "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (f".config/fish/completions/{_PROGRAM}.fish", "", lambda _: ""),
}


def _install(command: click.Command) -> str:
    """Install the completion script for the current shell, and return a message."""
    from ..model.saving import write_atomically

    shell = _shell()
    script = _script(command, shell)
    place, start, line = _PLACES[shell]
    file = Path.home() / place
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, f"{script}\n".encode())
        if start:
            _add_line(Path.home() / start, line(file))
    except OSError as e:
        fail(f"cannot write {e.filename or file}: {e.strerror or e}")
    return f"{shell} completion installed in {file}\nRestart the terminal to use it"


def _shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _PLACES:
        fail(f"completion supports {', '.join(_PLACES)}, but SHELL is {name or 'not set'}")
    return name


def _script(command: click.Command, shell: str) -> str:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(command, {}, _PROGRAM, _VARIABLE).source().strip()


def _add_line(file: Path, line: str) -> None:
    """Append a line to the user's startup file, which may be a link, unless the file contains it."""
    if file.is_file() and line.encode() in file.read_bytes().splitlines():
        return
    with file.open("ab") as out:
        out.write(f"\n{line}\n".encode())


def _install_completion(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_install(ctx.find_root().command))
        ctx.exit()


def _show_completion(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_script(ctx.find_root().command, _shell()))
        ctx.exit()


app = Commands(
    name="shapesolve",
    help="Symbolic shapes of ONNX models: proved shapes, input constraints, and explained errors.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    params=[
        click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text)
        for name, callback, text in (
            ("--version", _say_version, "Show the version, and whether this is the compiled build."),
            ("--install-completion", _install_completion, "Install shell completion for the current shell."),
            (
                "--show-completion",
                _show_completion,
                "Show the completion script for the current shell.",
            ),
        )
    ],
)
