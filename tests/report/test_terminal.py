"""What a terminal shows: in its width, wrapped by words, in colours; and what a pipe gets."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.change.compare.diff import diff
from shapesolve.change.compare.differences import diff_lines
from shapesolve.cli import app, console, layout
from shapesolve.findings.diagnose import CODES
from shapesolve.lines import Printed, line, plain, row
from shapesolve.report.derivation import derivation_lines
from shapesolve.report.evaluation import evaluation_lines
from shapesolve.report.rule import rule_lines, rule_page
from shapesolve.report.text import report_lines

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests/models"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(printed: list[Printed], width: int, monkeypatch: pytest.MonkeyPatch, *, tty: bool = True) -> str:
    stream = Terminal() if tty else io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    console.show(printed)
    return stream.getvalue()


def reports() -> dict[str, list[Printed]]:
    """Every kind of text that is more than a line, of real models."""
    unet, attention = ss.analyze(ROOT / "examples/unet.onnx"), ss.analyze(ROOT / "examples/attention.onnx")
    baked = ss.analyze(MODELS / "broken/wheel_light_vgg19/model.onnx")
    wrong = ss.analyze(ROOT / "examples/broken_residual.onnx")
    return {
        "analyze": [*report_lines(baked), *report_lines(attention)],
        "conflict": [*report_lines(wrong)],
        "explain": [*derivation_lines(attention.explain("present_key"), attention)],
        "evaluate": [*evaluation_lines(unet, {"height": 20, "width": 24, "batch": 1}, ["image", "mask"])],
        "diff": [*diff_lines(diff(unet, attention))],
    }


REPORTS = reports()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", REPORTS)
def test_lines_keep_to_the_terminal_and_break_between_words(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _STYLE.sub("", shown(REPORTS[name], width, monkeypatch))
    assert max(map(len, text.splitlines())) <= width
    words = plain(REPORTS[name]).split()
    assert sorted(w for w in text.split() if w not in words) == []  # none was cut in two
    assert sorted(text.split()) == sorted(words)


@pytest.mark.parametrize("sep", "/._")
def test_a_long_name_is_shortened_in_the_middle(sep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/model" + sep.join(["/encoder", "layers", "attention"] * 6) + sep + "Add_1"
    for printed in ([line(("dim", "  --> "), ("name", name))], [row(("dim", "from"), ("name", name), "[8]")]):
        text = _STYLE.sub("", shown(list(printed), 60, monkeypatch))
        assert max(map(len, text.splitlines())) <= 60
        (word,) = (w for w in text.split() if "…" in w)
        before, _, after = word.partition("…")
        assert name.startswith(before)
        assert name.endswith(after)
        assert after.startswith(sep)
        assert after.endswith(f"{sep}Add_1")
        assert len(word) > 20


def test_a_name_without_parts_is_shortened_too(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Printed] = [row(("dim", "from"), "x" * 150, "[8]"), line(("good", "help: "), "y" * 150)]
    text = _STYLE.sub("", shown(printed, 60, monkeypatch))
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("…") == 2


def test_what_is_wrapped_goes_on_behind_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown([line(("good", "help: "), "one two " * 12)], 60, monkeypatch)
    first, *rest = _STYLE.sub("", text).splitlines()
    assert first.startswith("help: one")
    assert rest
    assert all(r.startswith("      ") and r.strip() for r in rest)


def test_an_expression_goes_on_outside_of_its_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    term = "16*batch*((height + 3)//4)*((width + 3)//4)"
    text = shown([line(" + ".join([term] * 5))], 60, monkeypatch)
    assert text.splitlines() == [f"{term} +"] * 4 + [term]
    text = shown(
        [line("`height` is dynamic, but the model runs only with 193 <= height <= 224")], 56, monkeypatch
    )
    assert text.splitlines()[1] == "193 <= height <= 224"
    peak = row("peak  ", ("shape", f"max({', '.join([term] * 40)})"))
    *_, last, mark = _STYLE.sub("", shown([peak], 80, monkeypatch)).split()
    assert mark == "…"
    assert last in plain([peak]).split()  # it ends behind a word


def test_the_page_of_a_rule_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in CODES:
        text = _STYLE.sub("", shown([*rule_lines(code)], 60, monkeypatch))
        assert max(map(len, text.splitlines())) <= 60
        assert "".join(text.split()) == "".join(rule_page(code).split())


def test_an_error_is_wrapped_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "40")
    console.print_error("no finding has the code 'SS40'; did you mean SS405 or SS404?")
    lines = _STYLE.sub("", stream.getvalue()).splitlines()
    assert [text.rstrip() for text in lines] == [
        "error: no finding has the code 'SS40';",
        "       did you mean SS405 or SS404?",
    ]


def test_a_pipe_gets_whole_lines_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for printed in REPORTS.values():
        assert shown(printed, 0, monkeypatch, tty=False) == plain(printed) + "\n"


@pytest.mark.parametrize("name", REPORTS)
def test_a_pipe_is_wrapped_at_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = shown(REPORTS[name], 80, monkeypatch, tty=False).splitlines()
    terminal = _STYLE.sub("", shown(REPORTS[name], 80, monkeypatch)).splitlines()
    assert max(map(len, piped)) <= 80
    assert [text.rstrip() for text in terminal] == piped


def test_colours_can_be_forced_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Printed] = [line(("error", "error"), " here " * 40)]
    assert "\x1b[1;31m" in shown(printed, 60, monkeypatch)
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = shown(printed, 0, monkeypatch, tty=False)
    assert "\x1b[1;31m" in forced
    assert forced.count("\n") == 1  # a log wraps by itself
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(printed, 60, monkeypatch)  # neither colours nor bold


def test_a_long_way_is_folded() -> None:
    path = MODELS / "resnet50__ts/model.onnx"
    a = ss.analyze(path)
    derivation = a.explain(next(n for n, _ in a.model.graph.outputs))
    assert len(derivation.steps) > 100
    lines = plain(derivation_lines(derivation, a)).splitlines()
    assert len(lines) <= 10
    assert f"through {len(derivation.steps)} nodes" in lines[3]


def test_one_axis_and_the_last_nodes_of_a_way() -> None:
    a = ss.analyze(ROOT / "examples/attention.onnx")
    (axis,) = a.explain("present_key", axis=-2).axes
    assert (axis.axis, str(axis.dim), axis.cut) == (2, "past_seq + seq", False)
    (last,) = a.explain("present_key", axis=2, depth=2).axes
    assert [s.node for s in last.steps] == [s.node for s in axis.steps][-2:]
    assert last.cut
    with pytest.raises(ValueError, match="has no axis 4"):
        a.explain("present_key", axis=4)
    result = CliRunner().invoke(
        app, ["explain", str(ROOT / "examples/attention.onnx"), "present_key", "--axis", "9"]
    )
    assert result.exit_code == 2


def test_layout_leaves_long_expressions_to_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "a + " * 1000
    assert len(shown([line(("shape", long))], 80, monkeypatch)) < layout.MAX_EXPRESSION * 2
    assert shown([line(("shape", long))], 0, monkeypatch, tty=False).strip() == long.strip()
