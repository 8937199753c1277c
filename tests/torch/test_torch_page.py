"""The examples of the findings are what a check prints; `test_pages_run` runs the snippets of the pages."""

from __future__ import annotations

import pytest
from torch_needed import need

need("torch", "onnxscript")
pytest.importorskip("onnxruntime")

import torch
from torch_pages import EXAMPLES, printed

from shapesolve.findings.pytorch import printed_example
from shapesolve.torch import SUPPORTED


@pytest.mark.parametrize("code", EXAMPLES)
@pytest.mark.skipif(not torch.__version__.startswith(SUPPORTED[0]), reason="messages of another PyTorch")
def test_the_example_of_a_finding_is_what_a_check_prints(code: str) -> None:
    assert printed_example(code) == printed(code).strip()
