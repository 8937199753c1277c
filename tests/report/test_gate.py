"""Which findings count: severities, codes, a baseline, settings of the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, parser, save

from shapesolve.cli import app
from shapesolve.findings.diagnose import CODES
from shapesolve.report.gate import read_settings
from shapesolve.settings import SettingsError

ROOT = Path(__file__).resolve().parents[2]


BAKED = """<ir_version: 8, opset_import: ["": 17]> g (float[seq, batch] x) => (float[a, b] y)
{ t = Constant<value_ints = [9, -1]>() y = Reshape(x, t) }"""


def run(*args: object, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args], input=given)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in conflict, one with a warning, one without findings."""
    shutil.copy(ROOT / "examples/broken_matmul.onnx", tmp_path / "broken_matmul.onnx")
    save(parser.parse_model(BAKED), tmp_path / "baked.onnx")
    clean = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "clean",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    save(
        helper.make_model(clean, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "clean.onnx",
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["clean.onnx"], 0),
        (["baked.onnx"], 0),
        (["baked.onnx", "--fail-on", "warning"], 1),
        (["baked.onnx", "--fail-on", "warning", "--ignore", "SS404"], 0),
        (["baked.onnx", "--fail-on", "warning", "--ignore", "SS4"], 0),
        (["baked.onnx", "--fail-on", "warning", "--select", "SS3"], 0),
        (["baked.onnx", "--fail-on", "warning", "--select", "SS3,SS404"], 1),
        (["baked.onnx", "--fail-on", "warning", "--assume", "seq == 9"], 0),
        (["broken_matmul.onnx"], 1),
        (["broken_matmul.onnx", "--ignore", "SS201"], 0),
        ([".", "--fail-on", "error"], 1),
        (["clean.onnx", "none.onnx"], 2),
        (["clean.onnx", "--fail-on", "never"], 2),
        (["clean.onnx", "--select", "SS999"], 2),
    ],
)
@pytest.mark.parametrize("command", ["check", "scan"])
def test_exit_codes(project: Path, command: str, args: list[str], code: int) -> None:
    done = run(command, *args, *(["--jobs", "1"] if command == "scan" else []))
    assert done.exit_code == code, done.output


def test_standard_input(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shapesolve", "check", "-", "--json"],
        input=(project / "broken_matmul.onnx").read_bytes(),
        capture_output=True,
        check=False,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)} if (ROOT / "shapesolve").exists() else None,
    )
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert [m["model"] for m in data["models"]] == ["<stdin>"]
    assert data["models"][0]["findings"][0]["code"] == "SS201"


def test_json_holds_findings_only(project: Path) -> None:
    data = json.loads(run("check", "broken_matmul.onnx", "clean.onnx", "none.onnx", "--json").stdout)
    assert data.keys() == {"version", "command", "models", "unusable"}
    assert [(m["model"], m["ok"], len(m["findings"])) for m in data["models"]] == [
        ("broken_matmul.onnx", False, 1),
        ("clean.onnx", True, 0),
    ]
    assert data["unusable"][0]["model"] == "none.onnx"


def test_a_baseline_hides_what_is_known_and_nothing_else(project: Path) -> None:
    written = run("check", ".", "--write-baseline", "known.json")
    assert written.exit_code == 0, written.output
    assert run("check", ".", "--baseline", "known.json", "--fail-on", "info").exit_code == 0
    shutil.copy("broken_matmul.onnx", "new.onnx")
    done = run("check", ".", "--baseline", "known.json", "--json")
    assert done.exit_code == 1
    assert [m["model"] for m in json.loads(done.stdout)["models"] if m["findings"]] == ["new.onnx"]
    Path("known.json").write_text("{}")
    assert "is not a baseline" in run("check", ".", "--baseline", "known.json").stderr


#: as version 1 wrote it, of both models in `project` that have findings
OLD = """{
 "version": 1,
 "findings": [
  {
   "fingerprint": "c3f4d6740ccb6acb98ab",
   "model": "baked.onnx",
   "code": "SS404",
   "node": "Reshape(y)",
   "title": "seq and batch are dynamic, but Reshape(y)'s target [9, -1] limits them"
  },
  {
   "fingerprint": "605904d6c623f8c8ef0d",
   "model": "broken_matmul.onnx",
   "code": "SS201",
   "node": "/encoder/out_proj/MatMul",
   "title": "MatMul cannot multiply these shapes"
  }
 ]
}"""


def test_a_baseline_of_an_earlier_version_is_read_with_a_line_that_renews_it(project: Path) -> None:
    Path("known.json").write_text(OLD)
    done = run("check", ".", "--baseline", "known.json", "--fail-on", "info")
    assert done.exit_code == 0
    assert "an earlier version wrote known.json: renew it with --write-baseline known.json" in done.stderr
    shutil.copy("broken_matmul.onnx", "new.onnx")
    assert run("check", ".", "--baseline", "known.json").exit_code == 1
    run("check", ".", "--write-baseline", "known.json")
    assert not run("check", ".", "--baseline", "known.json", "--fail-on", "info").stderr


def test_a_baseline_knows_files_wherever_the_command_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b/a"):
        (project / folder).mkdir(parents=True)
        shutil.copy("broken_matmul.onnx", f"{folder}/model.onnx")
    assert run("check", "a/model.onnx", "--write-baseline", "known.json").exit_code == 0
    monkeypatch.chdir(project / "a")
    assert run("check", "model.onnx", "--baseline", "../known.json").exit_code == 0
    monkeypatch.chdir(project / "b")
    assert run("check", "a/model.onnx", "--baseline", "../known.json").exit_code == 1


def test_natural_limits_are_shown_on_request(project: Path) -> None:
    shutil.copy(ROOT / "examples/unet.onnx", "unet.onnx")
    hidden = run("check", "unet.onnx")
    assert "SS403" not in hidden.stdout
    assert hidden.stdout.endswith("no findings; 2 limits hidden (--limits shows them)\n")
    for option in (["--limits"], ["--fail-on", "info"], ["--select", "SS403"]):
        shown = run("check", "unet.onnx", *option)
        assert shown.stdout.count("SS403") == 2
        assert "hidden" not in shown.stdout
    Path("pyproject.toml").write_text("[tool.shapesolve]\nlimits = true\n")
    assert run("check", "unet.onnx").stdout.count("SS403") == 2


def test_the_last_line_sums_up(project: Path) -> None:
    run("check", "baked.onnx", "--write-baseline", "known.json")
    done = run("check", ".", "none.onnx", "--baseline", "known.json")
    assert done.stdout.splitlines()[-1].startswith("4 models: 1 error, 1 unusable; ")
    assert "1 known hidden" in done.stdout.splitlines()[-1]


def test_settings_of_the_project(project: Path) -> None:
    Path("pyproject.toml").write_text(
        '[tool.shapesolve]\nfail-on = "warning"\nignore = ["SS2"]\n'
        '[tool.shapesolve.models."bak*.onnx"]\nexpect = ["seq == 9"]\n'
    )
    assert run("check", ".").exit_code == 0
    assert run("check", ".", "--ignore", "SS5").exit_code == 1
    Path("baked.onnx").rename("other.onnx")
    assert run("check", ".").exit_code == 1
    (project / "inner").mkdir()
    assert read_settings(project / "inner").fail_on == "warning"


def test_an_expectation_that_the_model_contradicts_is_an_error(project: Path) -> None:
    shutil.copy(ROOT / "examples/unet.onnx", "unet.onnx")
    Path("pyproject.toml").write_text('[tool.shapesolve.models."unet.onnx"]\nexpect = ["height == 12"]\n')
    assert run("check", "unet.onnx").exit_code == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("failon = 1", "did you mean 'fail-on'"),
        ('fail-on = "loud"', "must be error, warning, or info"),
        ("select = 3", "must be a list of strings"),
        ('select = ["XY"]', "unknown code or prefix 'XY'"),
        ("baseline = 1", "baseline must be a file name"),
        ('models = {"a" = {expects = []}}', "must contain only expect"),
        ("= 1", "cannot read"),
    ],
)
def test_settings_that_make_no_sense(project: Path, text: str, told: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.shapesolve]\n{text}\n")
    with pytest.raises(SettingsError, match=told):
        read_settings()
    done = run("check", "clean.onnx")
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_the_pytest_plugin_keeps_to_the_settings(project: Path) -> None:
    plugin = ["-p", "shapesolve.pytest_plugin", "--shapesolve", "baked.onnx"]
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}

    def passes() -> bool:
        return subprocess.run(line, cwd=project, env=alone, capture_output=True, check=False).returncode == 0

    assert passes()
    Path("pyproject.toml").write_text('[tool.shapesolve]\nfail-on = "warning"\n')
    assert not passes()


@pytest.mark.parametrize("code", CODES)
def test_every_rule_prints_its_page(code: str) -> None:
    done = run("rule", code.lower())
    assert done.exit_code == 0
    assert done.output.startswith(f"# {code}: {CODES[code].page()[0]}\n")
    assert "## What to do" in done.output


def test_a_rule_that_does_not_exist() -> None:
    done = run("rule", "SS40")
    assert done.exit_code == 2
    assert "did you mean SS40" in done.stderr
