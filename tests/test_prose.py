"""First lines of docstrings are statements in plain words; the ceiling only falls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import shapesolve

PACKAGE = Path(shapesolve.__file__).parent
#: first lines that are questions or clauses, use a word in place of a term, or have a long first sentence
MAX_PLACES = 0
MAX_SENTENCE = 100
CLAUSES = re.compile(
    r"(what|how|why|whose|whether|where|when|which|who|is|are|does|do|may|can|has|have)\b", re.IGNORECASE
)
VAGUE = re.compile(
    r"\b(ours|told|tells? of|said|says of|so many|so much|such|beside|of which|of whom|that one|nobody|somebody"
    r"|gone through|stands? for)\b",
    re.IGNORECASE,
)


def first_paragraphs(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), " ".join(text.split("\n\n")[0].split())


def reads_badly(text: str) -> bool:
    return (
        bool(CLAUSES.match(text))
        or text.endswith("?")
        or bool(VAGUE.search(text))
        or len(text.split(". ")[0]) > MAX_SENTENCE
    )


def test_first_lines_are_statements_in_plain_words() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {text}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for line, text in first_paragraphs(ast.parse(file.read_text("utf-8")))
        if reads_badly(text)
    ]
    assert len(found) <= MAX_PLACES, "\n".join(found)


def test_what_counts_as_badly_written() -> None:
    bad = (
        "What a node reads.",
        "Is it known?",
        "Symbols of ours.",
        "A size, of which nobody reads a word.",
        "x" * 101,
    )
    assert all(map(reads_badly, bad))
    assert not any(
        map(reads_badly, ("Unsat core of a conflict.", "True if the rank is known.", "Returns the shape."))
    )
