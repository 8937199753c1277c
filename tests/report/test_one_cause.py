"""One cause is one finding, whatever it makes unknown or limits."""

from __future__ import annotations

import onnx

import shapesolve as ss

from .broken import ints, model


def found(proto: onnx.ModelProto) -> list[str]:
    return [f"{f.code}: {f.title}" for f in ss.analyze(proto).findings]


def test_tensors_behind_one_of_unknown_rank_are_counted() -> None:
    proto = model(
        """g (bool flag, float[n, 8] x) => (y, z) {
        [choice] a = If (flag) <
            then_branch = t () => (float[p, q] b) { b = Relu(x) },
            else_branch = e () => (float[r, s, u] c) { c = Unsqueeze(x, axis) }
        >
        [first] h = MatMul(a, w) [second] g = Add(h, bias) [act] y = Relu(g) [gate] z = Sigmoid(h) }""",
        axis=ints(0),
        w=[8, 4],
        bias=[4],
    )
    (finding,) = ss.analyze(proto).findings
    assert (finding.code, finding.node) == ("SS103", "choice")
    assert finding.notes == ("4 more tensors behind it have unknown rank",)
