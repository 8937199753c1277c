"""The guide says what the program does."""

import doctest
import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/free.md"


def test_the_examples_of_the_guide_run() -> None:
    text = GUIDE.read_text("utf-8")
    sessions = re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL)
    assert len(sessions) == 2
    parser = doctest.DocTestParser()
    test = parser.get_doctest("\n".join(sessions), {}, "guide", str(GUIDE), 0)
    report: list[str] = []
    failed, tried = doctest.DocTestRunner().run(test, out=report.append)
    assert tried > 5
    assert not failed, "".join(report)
