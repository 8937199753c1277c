"""Command line interface, with one group of commands per file."""

from __future__ import annotations

import codecs
import io
import os
import sys

import click

from .app import app
from .loading import end_light, start_light

__all__ = ["app", "main"]

#: long-running commands that start threads or processes
_LONG = (["scan"], ["serve"])


#: non-ASCII characters of the output -> ASCII replacements
_PLAIN = {"·": "-", "…": "...", "—": "-", "≤": "<=", "≥": ">="}


def _shown(error: UnicodeError) -> tuple[str | bytes, int]:
    """Codec error handler: replace characters that the terminal's encoding lacks by ASCII."""
    if isinstance(error, UnicodeEncodeError):
        known = _PLAIN.get(error.object[error.start])
        if known is not None:
            return known, error.start + 1
    return codecs.backslashreplace_errors(error)


def main() -> None:
    """Run the command line."""
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
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as e:  # for example, because the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: cannot write the output: {e.strerror or e}", file=sys.stderr)
        raise SystemExit(2) from None
