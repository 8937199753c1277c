"""Pytest plugin that collects ONNX files as tests. ``pytest --shapesolve`` fails on contradictory shapes in ``*.onnx``
files.

With ``--shapesolve-strict``, warnings also fail. Settings of ``[tool.shapesolve]`` in the project's pyproject.toml
apply (see `shapesolve.report.gate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options of the plugin."""
    group = parser.getgroup("shapesolve")
    group.addoption("--shapesolve", action="store_true", help="collect *.onnx files and check their shapes")
    group.addoption(
        "--shapesolve-strict", action="store_true", help="like --shapesolve, but warnings also fail"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect an ONNX file if the option is given."""
    wanted = parent.config.getoption("--shapesolve") or parent.config.getoption("--shapesolve-strict")
    return OnnxFile.from_parent(parent, path=file_path) if wanted and file_path.suffix == ".onnx" else None


class OnnxFile(pytest.File):
    """Test collector for an ONNX file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one test for the file."""
        yield ShapesItem.from_parent(self, name="shapes")


class ShapesFailure(Exception):
    """Raised by a test for findings that fail it; the message has the findings."""


class ShapesItem(pytest.Item):
    """Test that analyzes one model."""

    def runtest(self) -> None:
        """Analyze the model; raise `ShapesFailure` for findings that fail the test."""
        from dataclasses import replace

        from .analysis import analyze
        from .model import ModelError
        from .operators.plugins import load_plugin
        from .report.gate import read_settings
        from .report.text import findings_text
        from .settings import project_plugins

        try:
            root = self.config.rootpath
            names, folder = project_plugins(root)
            for name in names:
                load_plugin(name, folder)
            gate = read_settings(root)
            path = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
            found = list(analyze(self.path, assume=gate.expected(str(path))).findings)
        except (ModelError, ValueError) as e:
            raise ShapesFailure(f"{self.path.name}: {e}") from None
        if self.config.getoption("--shapesolve-strict") and gate.fail_on == "error":
            gate = replace(gate, fail_on="warning")
        wrong = [f for f in gate.sifted(str(self.path), found).shown if gate.fails([f])]
        if wrong:
            raise ShapesFailure(findings_text(wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """Return the findings, without a traceback."""
        if isinstance(excinfo.value, ShapesFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location of the item, for reports."""
        return self.path, None, f"shapes of {self.path.name}"
