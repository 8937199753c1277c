"""Rules of custom operators that a command loads: by option, from settings, from installed packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.cli import app

from ..building import EVERYTHING

ROOT = Path(__file__).resolve().parents[2]
RULE = "import shapesolve\nshapesolve.signature('Halve', 'N C H W -> N C H//2 W//2', domain='{}')\n"


def model(folder: Path, domain: str = "acme") -> Path:
    """Halve, upsample by 2, and join with the input: runs at even sizes."""
    info = helper.make_tensor_value_info
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3, 3, 2, 2], [0.0] * 36)
    nodes = [
        helper.make_node("Halve", ["x"], ["h"], domain=domain),
        helper.make_node("ConvTranspose", ["h", "w"], ["u"], strides=[2, 2]),
        helper.make_node("Add", ["u", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, ["n", 3, "height", "width"])],
        [info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


def command(folder: Path, *args: str) -> Result:
    with chdir(folder):
        return CliRunner().invoke(app, args)


_HOW = ("--plugin acme_ops", "--plugin acme_ops.py", "settings", "installed")
_ASKED = ("contract m.onnx", "check m.onnx --format sarif", "scan m.onnx -j 1 --json")
#: each way and each command; every pair at night
_PAIRS = [
    (how, asked)
    for i, how in enumerate(_HOW)
    for k, asked in enumerate(_ASKED)
    if EVERYTHING or (i + 1) % 3 == k
]


@pytest.mark.parametrize(("how", "asked"), _PAIRS)
def test_a_plugin_is_loaded_for_every_command(how: str, asked: str, tmp_path: Path) -> None:
    model(tmp_path)
    (tmp_path / "acme_ops.py").write_text(RULE.format("acme"))
    given = how.split() if how.startswith("--") else []
    if how == "settings":
        (tmp_path / "pyproject.toml").write_text('[tool.shapesolve]\nplugins = ["acme_ops"]\n')
    if how == "installed":
        (tmp_path / "acme-1.0.dist-info").mkdir()
        (tmp_path / "acme-1.0.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
        )
        (tmp_path / "acme-1.0.dist-info/entry_points.txt").write_text(
            "[shapesolve.operators]\nx = acme_ops\n"
        )
    done = subprocess.run(
        [sys.executable, "-m", "shapesolve", *asked.split(), *given],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    if asked.startswith("check"):
        assert "SS101" not in [r["ruleId"] for r in json.loads(done.stdout)["runs"][0]["results"]]
    else:
        assert "height % 2 == 0" in done.stdout, done.stderr
        assert "height % 2 == 0 or" not in done.stdout  # as it is where the sizes of Halve are not known


def test_without_a_plugin_the_operator_is_unknown_and_a_broken_one_is_an_error(tmp_path: Path) -> None:
    model(tmp_path)
    assert "SS101" in command(tmp_path, "check", "m.onnx").stdout
    (tmp_path / "bad.py").write_text("1/0")
    done = command(tmp_path, "check", "m.onnx", "--plugin", "bad")
    assert done.exit_code == 2
    assert "cannot load plugin 'bad': ZeroDivisionError" in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.shapesolve]\nplugins = 3\n")
    done = command(tmp_path, "evaluate", "m.onnx")
    assert done.exit_code == 2
    assert "plugins must be a list of strings" in done.stderr


def test_sizes_behind_an_unknown_operator_are_shown_as_unknown(tmp_path: Path) -> None:
    told = command(tmp_path, "analyze", str(model(tmp_path, "unheard.of"))).stdout
    assert "? depends on unheard.of.Halve, which has no rule" in " ".join(told.split())
    assert not re.search(r"\b_d\d", told)
    assert "SS302" not in told


def test_the_line_that_ss101_suggests_works_as_it_stands(tmp_path: Path) -> None:
    file = model(tmp_path, "unheard.of")
    (finding,) = [f for f in ss.analyze(file).diagnostics if f.code == "SS101"]
    (call,) = re.findall(r"shapesolve\.signature\([^)]*\)", finding.help)
    assert "N C H W ->" in call  # it fits the rank of the input
    registry = ss.Registry()
    exec(call.replace("shapesolve", "registry"))  # noqa: S102
    a = ss.analyze(file, registry=registry)
    assert a.ok
    assert not a.contract.impossible
    assert "y" in a.shapes
    assert "SS101" not in [f.code for f in a.diagnostics]
