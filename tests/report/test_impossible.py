"""A model that runs at no size: every command says so, names the node, and ends with a non-zero exit code."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy import NoSizes

from .broken import ints, model

#: a node that no size lets run, and nodes that contradict each other only together
NEVER = {
    "one node": model(
        "g (float[n, 2] x) => (y) { [first] a = MatMul(x, w) [sum] y = Add(a, b) }", w=[2, 3], b=[4]
    ),
    "together": model(
        """g (float[n, 1] x) => (y, g) { [fours] r = Reshape(x, four) [mean] q = ReduceMean<axes=[1], keepdims=0>(r)
        [column] a = Unsqueeze(q, one) [join] y = Concat<axis=1>(x, a) [first] g = Gather(x, zero) }""",
        four=ints(-1, 4),
        one=ints(1),
        zero=ints(0),
    ),
}


@pytest.fixture(params=NEVER)
def impossible(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "never.onnx"
    onnx.save(NEVER[request.param], path)
    return path


def test_no_size_is_looked_for(impossible: Path) -> None:
    a = ss.analyze(impossible)
    (error,) = (f for f in a.diagnostics if f.severity == "error")
    assert error.node
    assert error.node in a._solved.nothing_runs
    for ask in (ss.enumerate_sizes, ss.generate_inputs):
        with pytest.raises(NoSizes, match=f"^no input sizes run: .* at {error.node}$"):
            ask(a, 2)


@pytest.mark.parametrize("option", [["--enumerate", "9"], ["--near", "n=3"]])
def test_sizes_says_that_there_are_none(impossible: Path, option: list[str]) -> None:
    done = CliRunner().invoke(app, ["sizes", str(impossible), *option])
    assert done.exit_code == 1
    assert f"no input sizes run: {ss.analyze(impossible).diagnostics[0].title}" in done.output


#: what is asked for beside the model, other than nothing
ASKED = {
    "constraints": [[], ["--format", "smtlib"]],
    "contract": [[], ["--format", "python"], ["-o", "out"]],
    "explain": [["x"]],
    "evaluate": [[], ["--bind", "n=2"]],
    "prove": [["y[0] == n"]],
    "inputs": [[], ["-o", "out"]],
    "why": [["n=3"]],
    "sizes": [["--enumerate", "2"], ["--near", "n=3"]],
    "profile": [["--opt", "n=4"]],
    "cost": [[], ["--json"], ["--at", "n=4"], ["--max-memory", "1GB", "--of", "n"]],
    "annotate": [["-o", "out"]],
    "report": [["-o", "out"]],
    "simplify": [["-o", "out"]],
    "free": [["--dim", "x[1]=m", "-o", "out"]],
    "fix": [["--bind", "n=4", "-o", "out"]],
}


@pytest.mark.parametrize("command", app.list_commands())
def test_every_command_ends_with_an_exit_code_that_says_so(
    impossible: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command in ("diff", "generalize", "ops", "rule", "serve"):
        return  # about no model, or about two
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    for options in ASKED.get(command, [[]]):
        done = CliRunner().invoke(app, [command, str(impossible), *options])
        assert isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code != 0, (options, done.output)
        wrote = "wrote " in done.output
        assert not wrote or "\nerror: no input sizes run: " in f"\n{done.stderr}", (options, done.output)


def test_what_is_simplified_is_written_and_said_to_run_at_no_size(impossible: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["simplify", str(impossible), "-o", str(tmp_path / "simple.onnx")])
    assert done.exit_code == 1
    assert done.stderr == f"error: {ss.analyze(impossible)._solved.nothing_runs}\n"
    assert len(onnx.load(tmp_path / "simple.onnx").graph.node) == len(onnx.load(impossible).graph.node)


def test_a_model_that_runs_has_nothing_to_say() -> None:
    assert (
        ss.analyze(model("g (float[n, 2] x) => (y) { y = MatMul(x, w) }", w=[2, 3]))._solved.nothing_runs
        == ""
    )


def test_a_model_of_empty_inputs_only_is_verified_at_those(tmp_path: Path) -> None:
    proto = model(
        "g (float[b, n] x) => (y) { [twice] t = Concat<axis=0>(x, x) [beside] y = Concat<axis=1>(t, x) }"
    )
    onnx.save(proto, tmp_path / "empty.onnx")
    assert str(ss.analyze(proto).contract) == "b == 0"
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "empty.onnx"), "--runs", "2"])
    assert done.exit_code == 0, done.output
    assert done.output.count("agrees") == done.output.count("b = 0") == 2
    refused = CliRunner().invoke(app, ["verify", str(tmp_path / "empty.onnx"), "--bind", "b=3"])
    assert (refused.exit_code, "b must be 0, got 3" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", ["inputs", "sizes", "profile", "cost", "fix"])
def test_what_is_refused_is_an_error_on_stderr(impossible: Path, command: str, tmp_path: Path) -> None:
    options = [part.replace("out", str(tmp_path / "out")) for part in ASKED[command][-1]]
    done = CliRunner().invoke(app, [command, str(impossible), *options])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_the_node_that_takes_empty_inputs_only_is_told_and_not_what_then_fails() -> None:
    """Heads of a wrong width: reshaped they fit if there is nothing to reshape, and the first row is read all the same."""
    proto = model(
        """g (float[batch, seq, 32] x) => (y) { [rows] b = Shape<start=0, end=2>(x) [heads] t = Concat<axis=0>(b, h)
        [split] r = Reshape(x, t) [row] z = Gather(x, zero) [step] s = Gather<axis=1>(z, zero) [join] y = MatMul(s, w) }""",
        h=ints(2, 8),
        zero=ints(0),
        w=[32, 4],
    )
    a = ss.analyze(proto)
    assert a.contract.impossible
    conflict = a.conflicts[0]
    assert conflict.finding.node == "split"
    assert [name for name, shape, _ in conflict.finding.operands] == ["x", "t"]
    assert conflict.finding.operands[0][1] == "[batch, seq, 32]"
    assert conflict.finding.notes[-1] == (
        "no input size makes this model run: empty inputs pass here, and fail at another node"
    )
    assert not any("assumed" in step.text for step in conflict.finding.steps)
    assert "false" not in [str(c.cond) for c in conflict.core]
    for shape in ([0, 3, 32], [2, 0, 32], [2, 3, 32]):
        assert a.check_inputs({"x": shape})
