"""Each snippet of the page runs by itself and prints what the page shows; so do the examples of the findings."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from torch_needed import need

need("torch", "onnxscript")
pytest.importorskip("onnxruntime")

import torch
from torch_pages import EXAMPLES, printed

from shapesolve.findings.pytorch import printed_example
from shapesolve.torch import SUPPORTED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "torch.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs_as_printed(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, shown = SNIPPETS[number]
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "tagger.py"
    file.write_text(source, encoding="utf-8")
    names = runpy.run_path(str(file))
    if "test_export" in names:
        names["test_export"]()
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.parametrize("code", EXAMPLES)
@pytest.mark.skipif(not torch.__version__.startswith(SUPPORTED[0]), reason="messages of another PyTorch")
def test_the_example_of_a_finding_is_what_a_check_prints(code: str) -> None:
    assert printed_example(code) == printed(code).strip()
