"""The English of messages, docstrings, comments, and pages: places to rewrite, with a ceiling that only falls."""

from __future__ import annotations

from pathlib import Path

from .english import Text, hits, read

ROOT = Path(__file__).resolve().parents[1]
#: places with unidiomatic English; lower it after a rewrite
MAX_HITS = 101


def test_unidiomatic_english_becomes_rarer() -> None:
    found = [f"{t.path}:{t.line}: [{name}] {match[0]}" for name, t, match, _ in hits(read(ROOT))]
    assert len(found) <= MAX_HITS, "\n".join(found[:40])


def test_tics_are_found() -> None:
    tics = {
        "got": ("message", "the rank must be 4, it is 3"),
        "none-where": ("docstring", "The size; None where it is unknown."),
        "where-if": ("doc", "The runtime is used where it is installed."),
        "not-known": ("message", "the rank of x is not known"),
    }
    for name, (kind, text) in tics.items():
        assert name in {found for found, *_ in hits([Text(kind, "x", 1, text)])}, text
    natural = Text("docstring", "x", 1, "Return the rank of a tensor, or None if it is unknown.")
    assert not list(hits([natural]))
