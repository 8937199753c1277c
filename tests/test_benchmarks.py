"""Benchmarks measure the package that is installed, and only if it is the one of the checkout."""

from __future__ import annotations

from pathlib import Path

import onnx

import shapesolve
from benchmarks.from_file import write_inline
from benchmarks.package import ROOT, differences, installed


def install(home: Path, *, editable: bool = False) -> str:
    """A folder in which metadata says that shapesolve is installed."""
    record = home / "shapesolve-0.1.0.dist-info" / "METADATA"
    record.parent.mkdir(parents=True)
    record.write_text("Metadata-Version: 2.1\nName: shapesolve\nVersion: 0.1.0\n", "utf-8")
    if not editable:
        (home / "shapesolve").mkdir()
        (home / "shapesolve" / "__init__.py").touch()
    return str(home)


def test_an_installed_package_is_found(tmp_path: Path) -> None:
    assert installed([str(ROOT), str(tmp_path), install(tmp_path / "a")]) == tmp_path / "a"


def test_neither_a_checkout_nor_an_editable_install_is_one(tmp_path: Path) -> None:
    assert installed([str(ROOT), str(tmp_path), install(tmp_path / "a", editable=True)]) is None


def test_an_old_install_is_told_by_its_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / "dims").mkdir(parents=True)
        (folder / "dims" / "same.py").write_text("1", "utf-8")
        (folder / "dims" / "changed.py").write_text(folder.name, "utf-8")
    (one / "dims" / "walk.so").touch()
    (other / "new.py").touch()
    assert differences(one, other) == ["dims/changed.py", "new.py"]
    assert differences(one, one) == []


def test_a_large_file_is_a_model_with_inline_weights(tmp_path: Path) -> None:
    write_inline(tmp_path / "model.onnx", 2, 256)
    model = onnx.load_model(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [len(w.raw_data) for w in model.graph.initializer] == [1 << 18] * 2
    assert list(map(str, shapesolve.analyze(tmp_path / "model.onnx").shapes["x2"])) == ["batch", "256"]
