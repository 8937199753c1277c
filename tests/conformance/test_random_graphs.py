"""Random graphs whose sizes decide everything, against onnxruntime: they run exactly where they are accepted.

Graphs of all kinds of operators, of which data decides too, are judged in `tests.fuzz`.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.building import seeds

from ..fuzz.judge import Judge
from ..fuzz.model import drawn_model

#: kinds of operators that run or fail by the sizes of their inputs alone
DECIDED = frozenset(
    {
        "Add", "Mul", "Max", "Sum", "MatMul", "Concat", "Slice", "Reshape", "Expand", "Transpose", "Unsqueeze", "Tile",
        "Split", "Conv", "MaxPool", "Softmax", "Relu", "Where", "Shape", "Gemm", "ConstantOfShape", "Flatten", "Pad",
        "size_arithmetic", "halves", "heads", "like_another", "residual", "scores", "constant",
    }
)  # fmt: skip


@pytest.mark.parametrize("first", seeds(0, 400, 20, share=10))
def test_predictions_hold(first: int) -> None:
    wrong, ran = [], 0
    for seed in range(first, first + 20):
        drawn = drawn_model(seed, DECIDED)
        judge = Judge(drawn, seed, ("named", "named", "strict")[seed % 3])
        list(judge.run(drawn.bindings(Random(seed), 10)))
        ran += judge.verdict.ran
        wrong += [f"seed {seed}: {f.category} at {f.sizes}: {f.text}" for f in judge.verdict.faults]
        wrong += [f"seed {seed}: accepted at {f.sizes}, but {f.text}" for f in judge.verdict.misses]
    assert wrong == []
    assert ran > 40
