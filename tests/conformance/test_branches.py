"""Sizes that only data decides: accepted is what runs with some data, whatever the truth of a condition must be for that.

What one branch gives, what the other gives, and a node that does not take every size, all against all, run in onnxruntime.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import shapesolve

from .. import building

_THEN = {
    "as it is": "p = Identity(x)",
    "at most three": "o = Constant<value_ints=[0]>() e = Constant<value_ints=[3]>() p = Slice(x, o, e, o)",
    "twice": "p = Concat<axis=0>(x, x)",
}
_ELSE = {
    "at most one": "o = Constant<value_ints=[0]>() e = Constant<value_ints=[1]>() q = Slice(x, o, e, o)",
    "the other": "q = Identity(z)",
    "both": "q = Concat<axis=0>(x, z)",
    "behind two": """f = Constant<value_ints=[2]>() e = Constant<value_ints=[9]>() o = Constant<value_ints=[0]>()
                     q = Slice(x, f, e, o)""",
}
_NODES = {
    "MatMul": "t2 = Transpose<perm=[1, 0]>(t) y = MatMul(t2, w)",
    "Conv": """s = Constant<value_ints=[1, 1, -1]>() r = Reshape(t, s)
               k = Constant<value = float[1, 1, 3] {1, 1, 1}>() y = Conv(r, k)""",
    "Reshape": "s = Constant<value_ints=[2, -1]>() y = Reshape(t, s)",
    "Add": "y = Add(t, z)",
    "Gather": "k = Constant<value_ints=[2]>() y = Gather<axis=0>(t, k)",
    "Concat": "y = Concat<axis=1>(t, z)",
    "TopK": "k = Constant<value_ints=[2]>() y, i = TopK<axis=0>(t, k)",
    "Split": "s = Constant<value_ints=[2, 1]>() y, r = Split<axis=0>(t, s)",
}
_SIZES = tuple(product((0, 1, 2, 3, 4, 7), (0, 1, 2, 3, 5)))


def _model(then: str, other: str, node: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1] x, float[M, 1] z, bool c) => (float y) <float[2, 3] w = {{1, 2, 3, 4, 5, 6}}> {{
            t = If(c) <then_branch = a () => (float[P, Q] p) {{ {then} }},
                       else_branch = b () => (float[R, S] q) {{ {other} }}>
            {node}
        }}""")
    model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    return model


@pytest.mark.parametrize("node", _NODES)
@pytest.mark.parametrize("other", _ELSE)
@pytest.mark.parametrize("then", _THEN)
def test_sizes_are_accepted_where_one_branch_runs(then: str, other: str, node: str) -> None:
    model = _model(_THEN[then], _ELSE[other], _NODES[node])
    session = building.session(model)
    a = shapesolve.analyze(model)
    for n, m in _SIZES:
        ran = []
        for truth in (False, True):
            feeds = {"x": np.ones((n, 1), np.float32), "z": np.ones((m, 1), np.float32), "c": np.array(truth)}
            try:
                ran.append(session.run(["y"], feeds)[0].shape)
            except ort.capi.onnxruntime_pybind11_state.Fail:
                continue
            except ort.capi.onnxruntime_pybind11_state.InvalidArgument:
                continue
        shapes = {"x": (n, 1), "z": (m, 1), "c": ()}
        assert (not a.check_inputs(shapes)) == bool(ran) == a.contract.holds({"N": n, "M": m}), (n, m, ran)
        if ran:
            sizes = a.evaluate({"N": n, "M": m})
            assert "y" not in sizes or sizes["y"] in ran
