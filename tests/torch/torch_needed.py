"""Optional packages of these tests. Without one they are skipped, or fail under SHAPESOLVE_TORCH=1."""

from __future__ import annotations

import importlib
import os

import pytest


def need(*names: str) -> None:
    """Import these modules, or leave the test module out and say why."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            reason = f"left out: {name} is not installed (pip install torch==2.13.0 transformers onnxscript)"
            if os.environ.get("SHAPESOLVE_TORCH") == "1":
                pytest.fail(f"SHAPESOLVE_TORCH=1, but {error}", pytrace=False)
            pytest.skip(reason, allow_module_level=True)
