"""The command line: one file per group of commands."""

from __future__ import annotations

import os
import sys

from . import changing, checking, comparing, deploying, freeing, reading, running, scanning, writing
from .app import app, in_order

__all__ = [
    "app",
    "changing",
    "checking",
    "comparing",
    "deploying",
    "freeing",
    "main",
    "reading",
    "running",
    "scanning",
    "writing",
]

in_order()


def main() -> None:
    """Entry point."""
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
