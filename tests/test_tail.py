"""Everything that is asked of a model at once ends soon, also where its names are many and meet each other everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import onnx
import pytest

import shapesolve
from examples.graph_writer import GraphWriter
from shapesolve.expr import Cond
from shapesolve.findings.baked import Baked

from .building import EVERYTHING


def sums(pairs: Sequence[tuple[int, int]], inputs: int, rank: int = 1) -> onnx.ModelProto:
    """Sums of two of the inputs each; an index beyond these is that of an earlier sum."""
    g = GraphWriter("sums")
    tensors = [g.input(f"x{i}", [f"{axis}{i}" for axis in "dehw"[:rank]]) for i in range(inputs)]
    for i, (a, b) in enumerate(pairs):
        tensors.append(g.op("Add", tensors[a], tensors[b]))
        g.output(tensors[-1], f"y{i}", rank=rank)
    return g.model()


def chain(count: int, rank: int = 1) -> onnx.ModelProto:
    """Each input is added to the sum of those before it."""
    return sums([(0 if i == 0 else count + i, i + 1) for i in range(count)], count + 1, rank)


def neighbours(count: int) -> onnx.ModelProto:
    """Each input is added to the next."""
    return sums([(i, i + 1) for i in range(count)], count + 1)


def products(count: int) -> onnx.ModelProto:
    """Matrix products of one input with many."""
    g = GraphWriter("products")
    x = g.input("x", ["a", "b"])
    for i in range(count):
        g.output(g.op("MatMul", x, g.input(f"w{i}", [f"k{i}", f"n{i}"])), f"y{i}", rank=2)
    return g.model()


def one_sum(count: int) -> onnx.ModelProto:
    """One sum of inputs with names of their own."""
    g = GraphWriter("sum")
    g.output(g.op("Sum", *(g.input(f"x{i}", [f"d{i}"]) for i in range(count))), "y", rank=1)
    return g.model()


def joined(count: int, *steps: str) -> onnx.ModelProto:
    """What was made so far is joined with an input, and the result takes these steps: sizes that stand in each other."""
    g = GraphWriter("joined")
    held = g.input("x", ["d"])
    ends = [g.vector(n) for n in (0, 2**40, 0, 2)]
    for i in range(count):
        other = g.input(f"x{i}", [f"d{i}"])
        held = g.op("Concat", held, other, axis=0)
        for step in steps:
            if step == "halve":
                held = g.op("Slice", held, *ends)
            elif step == "add":
                held = g.op("Add", held, g.input(f"b{i}", [f"e{i}"]))
            else:
                held = g.op("ReduceSum", g.reshape(held, -1, 2), g.vector(1), keepdims=0)
    g.output(held, "y", rank=1)
    return g.model()


def unpooled() -> onnx.ModelProto:
    """Products of five sizes on both sides of what is required."""
    g = GraphWriter("unpooled")
    x = g.input("x", ["past_len", "batch", "N", "batch - 1", "batch"])
    window = {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}
    pooled, places = g.ops("MaxPool", x, outputs=2, **window)
    g.output(g.op("MaxUnpool", pooled, places, g.op("Shape", x), **window), "y", rank=5)
    return g.model()


@contextmanager
def calls(most: int) -> Iterator[None]:
    """Ends what calls more Python functions: counted, as no load of the machine changes that, and never waited for."""
    made = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event == "call"
        if made == most:
            raise AssertionError(f"more than {most:,} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


#: name: the model, and how many million calls all questions may make: about twice what they do
_CASES: dict[str, tuple[Callable[[], onnx.ModelProto], float]] = {
    "an unpooling": (unpooled, 0.6),
    "200 halves": (lambda: joined(200, "halve"), 1),
    "12 sums in a row": (lambda: chain(12), 4),
    "8 sums of 2 axes in a row": (lambda: chain(8, 2), 38),
    "120 sums of neighbours": (lambda: neighbours(120), 16),
    "40 sums in a row": (lambda: chain(40), 5),
    "200 products": (lambda: products(200), 40),
    "a sum of 500": (lambda: one_sum(500), 9),
    "80 halves that are added to": (lambda: joined(80, "halve", "add"), 60),
    "12 joined sums": (lambda: joined(12, "add"), 13),
    "24 sums of pairs": (lambda: joined(24, "pair"), 9),
}


@pytest.mark.parametrize("name", _CASES if EVERYTHING else list(_CASES)[:2])
def test_all_questions_end_soon(name: str) -> None:
    make, millions = _CASES[name]
    model = make()
    with calls(int(millions * 1e6)):
        analysis = shapesolve.analyze(model)
        said = [str(f) for f in analysis.diagnostics], str(analysis.contract), str(analysis.equalities)
        assert said
        assert analysis.ambiguities is not None


def test_work_without_end_is_ended() -> None:
    with pytest.raises(AssertionError, match="more than 50 calls"), calls(50):
        shapesolve.parse_dim(" + ".join(f"n{i}" for i in range(99)))


def test_what_is_said_of_sums_in_a_row_is_all_of_it() -> None:
    """Budgets end proofs that would make terms shorter; they leave none out."""
    contract = shapesolve.analyze(chain(8)).contract
    assert len(contract) == 8
    for sizes in (
        dict.fromkeys(range(9), 1),
        {i: 5 if i % 2 else 1 for i in range(9)},
        dict.fromkeys(range(9), 0),
    ):
        assert contract.holds({f"d{i}": n for i, n in sizes.items()})
    assert not contract.holds({f"d{i}": 1 + i // 7 + i // 8 for i in range(9)})  # 2 meets 3


def test_sizes_that_stand_deep_in_each_other_have_names() -> None:
    """No route recurses as deep as a model is long; the names that ours have are told apart by their meaning."""
    count = 180 if EVERYTHING else 120
    analysis = shapesolve.analyze(joined(count, "add"))
    ones = dict.fromkeys(analysis.symbols, 1)
    fits = {**ones, **{f"e{i}": i + 2 for i in range(count)}}
    assert analysis.contract.holds(ones)
    assert analysis.contract.holds(fits)
    assert not analysis.contract.holds({**fits, f"e{count // 2}": 7})
    assert analysis.evaluate(fits)["y"] == (count + 1,)


def test_whether_a_condition_leaves_few_sizes_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Cond] = []
    leaves_few = Baked._leaves_few
    monkeypatch.setattr(Baked, "_leaves_few", lambda self, c: asked.append(c) or leaves_few(self, c))
    pairs = [(a, b) for a in range(6) for b in range(a)]
    assert shapesolve.analyze(sums(pairs, 6)).diagnostics
    assert len(asked) == len(set(asked))
