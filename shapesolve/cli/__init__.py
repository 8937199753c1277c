"""The command line; each file has one group of commands."""

from __future__ import annotations

import io
import os
import sys

from .app import app
from .loading import end_light, start_light

__all__ = ["app", "main"]

#: commands with threads or processes of their own, which run for long
_LONG = (["scan"], ["serve"])


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
    if sys.argv[1:2] not in _LONG:
        start_light()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
            end_light()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as e:  # stdout is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: cannot write the output: {e.strerror or e}", file=sys.stderr)
        raise SystemExit(2) from None
