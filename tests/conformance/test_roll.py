"""Rolling along an unknown size, as PyTorch's exporter writes it: split at ``-shift % size``, joined the other way."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest

import shapesolve as ss
from tests.fuzz.runtime import Failed, Session

_TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[batch, height, 8] x) => (float[b, a, 4, c] y)
  <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] four = {{4}}, int64[1] three = {{3}}, int64[1] shift = {{{shift}}},
   int64[1] none = {{0}}, int64[1] eight = {{8}}> {{
    h = Shape <start = 1, end = 2> (x)
    above = Add(h, three) count = Div(above, four) whole = Mul(count, four) more = Sub(whole, h)
    pads = Concat <axis = 0> (zero, zero, zero, zero, more, zero)
    wide = Pad(x, pads)
    size = Shape <start = 1, end = 2> (wide)
    at = Mod(shift, size)
    first = Slice(wide, none, at, one) last = Slice(wide, at, size, one)
    rolled = Concat <axis = 1> (last, first)
    batch = Shape <end = 1> (x)
    target = Concat <axis = 0> (batch, count, four, eight)
    y = Reshape(rolled, target)
}}"""


@pytest.mark.parametrize("shift", [1, 2, 3, -1, -2])
def test_the_contract_of_a_roll_is_that_there_is_something_to_roll(shift: int) -> None:
    model = onnx.parser.parse_model(_TEXT.format(shift=shift))
    a = ss.analyze(model)
    assert [str(t) for t in a.contract] == ["height >= 1"]
    assert str(a.shapes["rolled"]) == "[batch, 4*((height + 3)//4), 8]"
    session = Session(model)
    for batch, height in product((0, 1, 3), (0, 1, 3, 4, 5, 8)):
        try:
            shape = session.run({"x": np.zeros((batch, height, 8), "f4")})["y"].shape
        except Failed:
            shape = None
        assert (shape is not None) == (not a.check_inputs({"x": (batch, height, 8)}))
        if shape is not None:
            sizes = {"batch": batch, "height": height}
            assert shape == tuple(d.evaluate(sizes) for d in a.shapes["y"])
