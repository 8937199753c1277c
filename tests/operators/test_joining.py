"""What is learned of joined tensors holds in every accepted run, also where data decides and where nothing is in them."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

import shapesolve

from ..building import session
from .conftest import text

#: the rows that `z` gets are as many as `x` has elements other than 0; `e` has another rank when `x` is long
_FOUND = "f = NonZero(x)  z = Transpose<perm=[1, 0]>(f)"
_CHOICE = """
    n = Size(x)  two = Constant<value_int=2>()  long = Greater(n, two)
    e = If(long) <then_branch = g () => (int64[A, B, C] a) { i = Constant<value_ints=[0]>() a = Unsqueeze(w, i) },
                  else_branch = h () => (int64[A, B] b) { b = Identity(w) }>
"""
#: an empty tensor in front, whose sizes are the result's when all others are empty as well
_EMPTY = "e = Constant<value = int64[3, 0] {}>()  i = Identity(e)"
#: two of them, of sizes that nobody knows when the model is loaded
_EMPTIES = f"""
    {_EMPTY}  s = Shape(w)  o = Sub(s, s)  k = Constant<value_ints=[0, 3]>()  t = Add(o, k)
    f = ConstantOfShape<value = int64[1] {{1}}>(t)
"""
_JOINED = [
    (_FOUND, "y = Concat<axis=1>(z, w)"),
    (_FOUND, "y = Concat<axis=1>(w, z)"),
    (_FOUND, "y = Concat<axis=0>(z, w)"),
    (_FOUND, "y = Concat<axis=1>(z, w, z)"),
    (_FOUND, "y = Concat<axis=1>(z, w, c)"),
    (_FOUND, "r = Concat<axis=1>(z, z)  y = Concat<axis=1>(z, r, c, w)"),
    (_FOUND, "q = SequenceConstruct(w, z)  y = ConcatFromSequence<axis=1>(q)"),
    (_FOUND, "q = SequenceConstruct(w, z)  y = ConcatFromSequence<axis=1, new_axis=1>(q)"),
    (_CHOICE, "y = Concat<axis=1>(e, v)"),
    (_CHOICE, "y = Concat<axis=1>(v, e)"),
    (_CHOICE, "y = Concat<axis=1>(e, c)"),
    (_EMPTY, "y = Concat<axis=1>(i, w)"),
    (_EMPTY, "y = Concat<axis=0>(i, w)"),
    (_EMPTY, "y = Concat<axis=1>(i, w, v)"),
    (_EMPTY, "q = SequenceConstruct(i, w)  y = ConcatFromSequence<axis=1>(q)"),
    (_EMPTY, "q = SequenceConstruct(i, w)  y = ConcatFromSequence<axis=1, new_axis=1>(q)"),
    (_EMPTIES, "y = Concat<axis=1>(i, f)"),
    (_EMPTIES, "y = Concat<axis=0>(f, i)"),
    (_EMPTIES, "y = Concat<axis=0>(f, i, w)"),
    (f"{_EMPTY}  f = Transpose(i)", "q = SequenceConstruct(i, f)  y = ConcatFromSequence<axis=0>(q)"),
    (
        f"{_EMPTY}  f = Transpose(i)",
        "q = SequenceConstruct(f, i)  y = ConcatFromSequence<axis=0, new_axis=1>(q)",
    ),
    (_EMPTY, "q = SequenceConstruct(i, w, i)  y = ConcatFromSequence<axis=0>(q)"),
]


@pytest.mark.parametrize(("before", "joined"), _JOINED, ids=[j for _, j in _JOINED])
def test_what_is_learned_of_joined_tensors_holds_in_every_run(before: str, joined: str) -> None:
    constant = "c = Constant<value = int64[2, 1] {1, 2}>()"
    model = text("int64[N] x, int64[P, Q] w, int64[R, S] v", f"{constant} {before} {joined}", opset=17)
    inner = [name for node in model.graph.node for name in node.output if name not in ("y", "q")]
    a = shapesolve.analyze(model)
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inner)
    loaded = session(model)
    ran = 0
    for x, w, v in product(
        ([], [0, 0, 0], [1, 0], [1, 1], [2, 1, 3]), ((0, 0), (0, 1), (2, 1), (3, 0)), ((0, 6), (2, 2))
    ):
        feeds = {"x": np.array(x, np.int64), "w": np.ones(w, np.int64), "v": np.ones(v, np.int64)}
        shapes = {name: array.shape for name, array in feeds.items()}
        if a.check_inputs(shapes):
            continue
        try:
            results = loaded.run(None, feeds)
        except ort.capi.onnxruntime_pybind11_state.Fail:
            continue
        ran += 1
        shapes.update((o.name, r.shape) for o, r in zip(loaded.get_outputs(), results, strict=True))
        _assert_all_true(a, shapes)
    assert ran > 3


def _assert_all_true(a: shapesolve.Analysis, shapes: dict[str, tuple[int, ...]]) -> None:
    """Every predicted size, and everything that was stated, is true of a run's shapes."""
    predicted = [(n, a.shapes[n], s) for n, s in shapes.items() if n in a.shapes]
    assert all(len(shape) == len(real) for _, shape, real in predicted), shapes
    sizes = {
        d.name: size for _, shape, real in predicted for d, size in zip(shape, real, strict=True) if d.name
    }
    for name, shape, real in predicted:
        assert [d.evaluate(sizes) for d in shape if d.free <= sizes.keys()] == [
            size for d, size in zip(shape, real, strict=True) if d.free <= sizes.keys()
        ], (name, str(shape), shapes)
    for c in a.constraints:
        assert (
            not c.cond.free <= sizes.keys() or c.cond.evaluate(sizes) or c.guard.evaluate(sizes) is False
        ), (c, shapes)


def test_a_rank_that_data_decides_is_not_learned() -> None:
    """The other tensor may be empty, or this one."""
    a = shapesolve.analyze(text("float[A, B] x, float[N, 3] w", "r = Squeeze(x)  y = Concat<axis=0>(r, w)"))
    assert a.shapes.keys().isdisjoint(("r", "y"))
    constant = "c = Constant<value = float[1, 3] {1, 2, 3}>()"
    a = shapesolve.analyze(text("float[A, B] x", f"{constant} r = Squeeze(x)  y = Concat<axis=0>(r, c)"))
    assert str(a.shapes["r"]) == "[A, 3]"  # the constant has elements, so the other tensor needs its rank
    assert str(a.contract.terms) == "B == 3, A == 0 or A >= 2"
