"""Real `transformers` modules, from tiny configurations."""

from __future__ import annotations

import os

import pytest
from torch_needed import need

need("torch", "onnxscript", "transformers")

from torch_bench import Case
from torch_models import bench

from shapesolve.torch import check

#: what a cache makes true of its sizes: no error where the sizes are left to torch.export
CONDITIONS = {
    "Gpt2WithCache": "mask_dim1 >= ids_dim1 + past_0_dim2",
    "LlamaWithCache": "mask_dim1 >= ids_dim1 + past_0_dim2",
}


#: one of each kind that exports in seconds; ``SHAPESOLVE_ALL`` takes the others too
FEW = ("Segformer", "Clip", "Mamba")
CHOSEN = [c for c in bench if c.name in FEW or os.environ.get("SHAPESOLVE_ALL")]


@pytest.mark.parametrize("case", CHOSEN, ids=lambda c: c.name)
def test_no_error_on_a_real_model(case: Case) -> None:
    report = check(case.make(), case.args(), dynamic_shapes=case.dynamic_shapes)
    assert report.ok, str(report)
    terms = {f.term: f for f in report.findings if f.term}
    if case.name in CONDITIONS:
        finding = terms[CONDITIONS[case.name]]
        assert finding.place is not None
        assert finding.place.file.endswith("masking_utils.py"), str(report)
    else:
        assert not terms, str(report)
