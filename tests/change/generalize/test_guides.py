"""The guides say what the program does."""

import doctest
import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).resolve().parents[3] / "docs/guides"


@pytest.mark.parametrize(("name", "count"), [("free.md", 2), ("generalize.md", 2)])
def test_the_examples_of_the_guide_run(name: str, count: int) -> None:
    text = (GUIDES / name).read_text("utf-8")
    sessions = re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL)
    assert len(sessions) == count
    parser = doctest.DocTestParser()
    test = parser.get_doctest("\n".join(sessions), {}, "guide", name, 0)
    report: list[str] = []
    failed, tried = doctest.DocTestRunner().run(test, out=report.append)
    assert tried > 4
    assert not failed, "".join(report)
