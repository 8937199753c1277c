"""Reasons have ids: what a title or an advice depends on is asked of the id, never of the words."""

import ast
import copy
from pathlib import Path

import pytest

import shapesolve
from shapesolve.lower import reason
from shapesolve.lower.reason import Reason, fault_of, reason_id

PACKAGE = Path(shapesolve.__file__).parent
#: attributes that hold words for readers
WORDS = {"why", "rule", "message", "title", "text"}


def comparisons_with_words(source: str) -> list[int]:
    """Lines on which an attribute with words is compared with a string of the program's own."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = any(isinstance(s, ast.Attribute) and s.attr in WORDS for s in sides)
            own = any(isinstance(s, ast.Constant) and isinstance(s.value, str) and s.value for s in sides)
            if words and own:
                found.append(node.lineno)
    return found


def test_no_code_reads_its_own_prose() -> None:
    rooms = [
        p
        for room in ("answers", "causes", "findings", "solve", "report", "lower")
        for p in (PACKAGE / room).rglob("*.py")
    ]
    assert len(rooms) > 60
    found = [f"{p}:{line}" for p in rooms for line in comparisons_with_words(p.read_text("utf-8"))]
    assert found == []


def test_the_search_finds_such_code() -> None:
    assert comparisons_with_words('if "broadcast" in entry.why:\n    pass') == [1]
    assert comparisons_with_words('x = c.origin.rule == "a size"') == [1]
    assert comparisons_with_words("x = c.origin.rule == other.rule") == []


CATALOG = [r for r in vars(reason).values() if isinstance(r, Reason)]


@pytest.mark.parametrize("made", CATALOG, ids=lambda r: r.id)
def test_reasons_are_their_words(made: Reason) -> None:
    assert str(made) == made
    assert reason_id(made) == made.id != ""
    again = copy.deepcopy(made)
    assert (again, again.id, again.fault) == (made, made.id, made.fault)
    assert reason_id(str(made)) == fault_of("plain") == ""


def test_ids_are_distinct() -> None:
    assert len({r.id for r in CATALOG}) == len(CATALOG) >= 6
