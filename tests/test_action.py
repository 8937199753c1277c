"""The GitHub Action: its steps, run as GitHub runs them, on models of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
_BASH = shutil.which("bash") or "/bin/bash"


def steps(
    folder: Path, given: dict[str, str], *, install: bool = False, summary: str = ""
) -> subprocess.CompletedProcess[str]:
    """The last of the shell steps, after those before it; what pip installs is there already."""
    inputs = {name: str(i["default"]) for name, i in ACTION["inputs"].items()} | given
    assert inputs.keys() == ACTION["inputs"].keys()
    (folder / "bin").mkdir(exist_ok=True)
    python = folder / "bin/python"
    if not python.exists():
        python.write_text(f'#!{_BASH}\nexec "{sys.executable}" "$@"\n', "utf-8")
        python.chmod(0o755)
    shared = {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": summary,
    }
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or (step["name"] == "Install" and not install):
            continue
        env = {k: _INPUT.sub(lambda m: inputs[m[1]], v) for k, v in step.get("env", {}).items()}
        assert "${{" not in step["run"], "what is given reaches a script by its environment only"
        script = folder / "step.sh"
        script.write_text(step["run"], "utf-8")
        command = [_BASH, "--noprofile", "--norc", "-eo", "pipefail", str(script)]  # as GitHub does
        done = subprocess.run(
            command, cwd=folder, env={**shared, **env}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            break
    return done


def models(folder: Path, *names: str) -> None:
    (folder / "some models").mkdir(parents=True)
    for name in names:
        shutil.copy(ROOT / f"examples/{name}.onnx", folder / "some models")


def test_findings_are_annotations_a_summary_and_sarif(tmp_path: Path) -> None:
    models(tmp_path, "unet", "broken_residual")
    done = steps(tmp_path, {"models": "some models\n", "sarif": "found.sarif"}, summary="summary.md")
    assert done.returncode == 1, done.stderr
    assert "::error file=some models/broken_residual.onnx" in done.stdout
    assert "error[SS201]" in (tmp_path / "summary.md").read_text("utf-8")
    sarif = json.loads((tmp_path / "found.sarif").read_text("utf-8"))
    assert {r["ruleId"] for r in sarif["runs"][0]["results"]} >= {"SS201"}


def test_what_is_asked_for_decides(tmp_path: Path) -> None:
    models(tmp_path, "unet")
    assert steps(tmp_path, {"models": "some models", "fail-on": "info"}).returncode == 1
    given = {"models": "some models/unet.onnx\nsome models", "fail-on": "info", "ignore": "SS403"}
    assert steps(tmp_path, given).returncode == 0


def test_what_is_given_is_data_and_pip_installs_what_it_says(tmp_path: Path) -> None:
    done = steps(
        tmp_path, {"models": "$(touch evil); nowhere", "package": "pip"}, install=True
    )  # there already
    assert done.returncode == 2
    assert "evil" in done.stderr
    assert not (tmp_path / "evil").exists()
