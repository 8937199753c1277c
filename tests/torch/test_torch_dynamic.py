"""A module whose export bakes sizes, as one dynamic model."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import onnxruntime as ort

import shapesolve as ss
import shapesolve.torch


class Places(torch.nn.Module):
    """Places along an axis, which exporters fold into a constant."""

    def forward(self, x):
        return x + torch.arange(x.shape[1]).view(1, -1, 1)


class Part(torch.nn.Module):
    def __init__(self, divisor: int) -> None:
        super().__init__()
        self.divisor = divisor

    def forward(self, x):
        return x[:, : x.shape[1] // self.divisor]


def examples(*sizes: int):
    return [(torch.randn(2, n, 3),) for n in sizes]


def test_two_exports_make_one_dynamic_model() -> None:
    made = shapesolve.torch.dynamic(Places(), examples(7, 20), {"x[1]": "seq"}, input_names=["x"])
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for n in (7, 13, 31):
        x = torch.randn(2, n, 3)
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], Places()(x).numpy(), rtol=1e-6)


def test_a_rounded_size_keeps_to_the_progression_of_the_examples() -> None:
    made = shapesolve.torch.dynamic(Part(2), examples(8, 20), {"x[1]": "seq"}, input_names=["x"])
    assert [str(term) for term in ss.analyze(made).contract] == ["seq % 12 == 8"]


def test_what_two_exports_leave_open_is_refused() -> None:
    with pytest.raises(ss.Refused, match="an export with"):
        shapesolve.torch.dynamic(Part(3), examples(9, 13), {"x[1]": "seq"}, input_names=["x"])
