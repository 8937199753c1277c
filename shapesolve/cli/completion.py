"""Shell completion: Click's script, and its installation."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.saving import write_atomically
from .console import fail

if TYPE_CHECKING:
    import click

_PROGRAM, _VARIABLE = "shapesolve", "_SHAPESOLVE_COMPLETE"

#: shell -> the script below the home folder; the file that the shell reads at its start, and the line that it needs there
_PLACES: dict[str, tuple[str, str, Callable[[Path], str]]] = {
    "bash": (f".bash_completions/{_PROGRAM}.sh", ".bashrc", lambda script: f"source '{script}'"),
    "zsh": (f".zfunc/_{_PROGRAM}", ".zshrc", lambda _: "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (f".config/fish/completions/{_PROGRAM}.fish", "", lambda _: ""),
}


def completion_script(command: click.Command) -> str:
    """The completion script for the current shell."""
    return _script(command, _shell())


def install_completion(command: click.Command) -> str:
    """Installs the completion script for the current shell; returns a message."""
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
    return (
        f"{shell} completion installed in {file}\nCompletion will take effect once you restart the terminal"
    )


def _shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _PLACES:
        fail(f"completion is for {', '.join(_PLACES)}, and SHELL says {name or 'nothing'}")
    return name


def _script(command: click.Command, shell: str) -> str:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(command, {}, _PROGRAM, _VARIABLE).source().strip()


def _add_line(file: Path, line: str) -> None:
    """Appends a line to the user's own file. It can be a link, and its content is only searched for the line."""
    if file.is_file() and line.encode() in file.read_bytes().splitlines():
        return
    with file.open("ab") as out:
        out.write(f"\n{line}\n".encode())
