"""One cause is one finding, whatever it makes unknown or limits."""

from __future__ import annotations

import numpy as np
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


def test_dims_that_one_table_limits_are_one_finding() -> None:
    proto = model(
        """g (float[batch, 1, time, bands] x) => (y) {
        [patch] p = Conv<kernel_shape: ints = [16, 16], strides: ints = [10, 10]>(x, w)
        n = Shape<start: int = 0, end: int = 1>(p) t = Concat<axis: int = 0>(n, rest)
        [flat] f = Reshape(p, t) s = Transpose<perm: ints = [0, 2, 1]>(f) [positions] y = Add(s, pos) }""",
        w=[4, 1, 16, 16],
        rest=ints(4, -1),
        pos=[1, 60, 4],
    )
    analysis = ss.analyze(proto)
    (finding,) = analysis.findings
    assert (finding.code, finding.node, finding.dims) == ("SS404", "positions", ("time", "bands"))
    assert all(name in finding.help for name in finding.dims)


def test_two_multiples_are_told_apart() -> None:
    proto = model(
        """g (float[batch, 4, height, width] x) => (y) {
        [down] d = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
        [up] u = Resize<mode: string = "nearest">(d, , scales)
        [skip] y = Concat<axis: int = 1>(x, u) }""",
        scales=np.array([1, 1, 2, 2], np.float32),
    )
    assert found(proto) == ["SS403: height must be a multiple of 2", "SS403: width must be a multiple of 2"]
