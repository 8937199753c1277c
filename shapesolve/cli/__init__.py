"""The command line; each file has one group of commands."""

from __future__ import annotations

import codecs
import io
import os
import sys

import click

from .app import app
from .loading import end_light, start_light

__all__ = ["app", "main"]

#: commands with threads or processes of their own, which run for long
_LONG = (["scan"], ["serve"])


#: characters of our own texts -> what a terminal without them shows
_PLAIN = {"·": "-", "…": "...", "—": "-", "≤": "<=", "≥": ">="}


def _shown(error: UnicodeError) -> tuple[str | bytes, int]:
    """Codec error handler: show what the terminal's encoding lacks in ASCII."""
    if isinstance(error, UnicodeEncodeError):
        known = _PLAIN.get(error.object[error.start])
        if known is not None:
            return known, error.start + 1
    return codecs.backslashreplace_errors(error)


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            codecs.register_error("shapesolve", _shown)
            stream.reconfigure(errors="shapesolve")
    if sys.argv[1:2] not in _LONG:
        start_light()
    try:
        try:
            code = app(standalone_mode=False)
        finally:
            sys.stdout.flush()
            end_light()
        if isinstance(code, int):
            raise SystemExit(code)
    except click.ClickException as e:
        e.show()
        raise SystemExit(e.exit_code) from None
    except (click.Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as e:  # stdout is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: cannot write the output: {e.strerror or e}", file=sys.stderr)
        raise SystemExit(2) from None
