# compiled: see CONTRIBUTING.md
"""`ModelError`, the error for unusable input, and helpers for its message."""

from __future__ import annotations

from collections.abc import Collection

from ..expr.limits import MAX_NAME

_TEXT = frozenset((str,))


class ModelError(ValueError):
    """The input cannot be used as an ONNX model; the message is one sentence, naming node or file."""


def quoted(name: object) -> str:
    """A name from an untrusted model, fit for one line of a message: escaped and not too long."""
    text = str(name)
    if len(text) > MAX_NAME:
        text = text[:MAX_NAME] + "…"
    return repr(text)


def check_text(texts: Collection[object], owner: str) -> None:
    """Raise `ModelError` unless all are `str`: protobuf hands out `bytes` for text that is not UTF-8."""
    if not _TEXT.issuperset(map(type, texts)):
        wrong = [text for text in texts if type(text) is not str]
        culprit = min(wrong, key=repr)  # deterministic, even for a set
        raise ModelError(f"{owner} has a name that is not UTF-8: {quoted(culprit)}")
