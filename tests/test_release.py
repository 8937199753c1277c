"""What a release needs: workflows that can be read, one version everywhere, and an sdist that holds its own tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import shapesolve

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"

pytestmark = pytest.mark.skipif(not GITHUB.is_dir(), reason="a checkout has .github, an sdist does not")


def test_workflows_run_the_gate_and_build_what_cibuildwheel_is_told() -> None:
    ci, release = (yaml.safe_load((GITHUB / "workflows" / f"{n}.yml").read_text()) for n in ("ci", "release"))
    assert {"run": ".ci/run"} in ci["jobs"]["check"]["steps"]
    assert set(release["jobs"]["publish"]["needs"]) == release["jobs"].keys() - {"publish"}
    assert any("cibuildwheel" in step.get("uses", "") for step in release["jobs"]["wheels"]["steps"])
    wheels = " ".join(release["jobs"]["wheels"]["strategy"]["matrix"]["os"])
    assert all(system in wheels for system in ("ubuntu", "macos", "windows"))


def test_issue_forms_ask_for_the_version_of_wrong_answers() -> None:
    forms = {f.stem: yaml.safe_load(f.read_text()) for f in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")}
    assert {"wrong-answer", "hard-to-read", "request", "config"} == forms.keys()
    assert "version" in {part.get("id") for part in forms["wrong-answer"]["body"]}


def test_one_version_stands_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == cited["version"] == shapesolve.__version__
    assert re.search(rf"^## {re.escape(project['version'])}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_the_security_policy_names_what_runs_a_model() -> None:
    text = (GITHUB / "SECURITY.md").read_text()
    assert all(
        f"`{name}`" in text for name in ("verify", "diff --run", "free --verify", "check --torch", "serve")
    )
