"""The public surface is what the documentation shows, and its objects can be pickled and copied."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shapesolve as ss

ROOT = Path(__file__).resolve().parents[1]
ATTENTION = ROOT / "examples/attention.onnx"


def test_the_page_of_the_api_lists_the_members_of_an_analysis() -> None:
    page = (ROOT / "docs/reference/api.md").read_text("utf-8").partition("::: shapesolve.Analysis\n")[2]
    listed = re.findall(r"^        - (\w+)$", page.partition("\n## ")[0], re.MULTILINE)
    assert sorted(listed) == [name for name in dir(ss.Analysis) if not name.startswith("_")]


@pytest.mark.parametrize("name", ss.__all__)
def test_every_name_of_the_root_is_there(name: str) -> None:
    assert getattr(ss, name) is not None


def test_a_misspelt_name_is_an_error_for_type_checkers(tmp_path: Path) -> None:
    file = tmp_path / "use.py"
    file.write_text("import shapesolve as ss\nss.anallyze\nss.analyze\nss.Proved\nss.diff\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "No module named mypy" in done.stderr:
        pytest.skip("mypy is not installed")
    assert [line for line in done.stdout.splitlines() if "use.py" in line] == [
        f'{file}:2: error: Module has no attribute "anallyze"; maybe "analyze"?  [attr-defined]'
    ]


def copies(value: object) -> list[object]:
    return [pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)]  # noqa: S301


def test_an_analysis_and_its_parts_can_be_pickled_and_copied() -> None:
    a = ss.analyze(ATTENTION, bind={"batch": 2})
    for b in copies(a):
        assert isinstance(b, ss.Analysis)
        assert b.shapes == a.shapes
        assert str(b.contract) == str(a.contract)
        assert [str(f) for f in b.diagnostics] == [str(f) for f in a.diagnostics]
    for term in a.contract:
        for other in copies(term):
            assert isinstance(other, ss.Term)
            assert (str(other), other.nodes, other.passes, other.fails) == (
                str(term), term.nodes, term.passes, term.fails,
            )  # fmt: skip
            assert [str(c) for c in other.core] == [str(c) for c in term.core]
    for contract in copies(a.contract):
        assert isinstance(contract, ss.Contract)
        assert contract.to_json() == a.contract.to_json()
    for bindings in copies(a.bindings):
        assert bindings == a.bindings
    for constraints in copies(a.constraints):
        assert [str(c) for c in constraints] == [str(c) for c in a.constraints]  # type: ignore[attr-defined]
    for constraint in copies(next(iter(a.constraints))):
        assert constraint == next(iter(a.constraints))
    for cost in copies(ss.cost(a)):
        assert str(cost) == str(ss.cost(a))


def test_a_dim_cannot_be_changed() -> None:
    for dim in (ss.Dim("seq"), ss.Dim("seq") + 1, ss.Dim(5)):
        for name in ("const", "terms", "free", "size", "anything"):
            with pytest.raises(AttributeError):
                setattr(dim, name, 5)
    assert str(ss.Dim("seq")) == "seq"
