"""`explain` and conflicts name the number that a size follows where equal ones meet; `why` names the node that fails."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve import Dim
from shapesolve.answers.solved import Solved
from shapesolve.cli import app
from shapesolve.lower.request import OtherShape
from shapesolve.lower.values import Elem

from ..building import parsed
from .broken import CASES as BROKEN

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("SHAPESOLVE_CORPUS") or ROOT / "nowhere")
EXPORTS = sorted(CORPUS.glob("broken/*/model.onnx"))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


#: model, weights, and where the size of ``y[1]`` comes from: never from x, which holds the same number
CASES = {
    "square product": ("g (float[n, 8] x) => (y) { y = MatMul(x, w) }", {"w": [8, 8]}, "initializer w"),
    "channels": ("g (float[n, 16, h, k] x) => (y) { y = Conv(x, w) }", {"w": [16, 16, 3, 3]}, "initializer w"),
    "Gemm": ("g (float[n, 8] x) => (y) { y = Gemm<transB = 1>(x, w, b) }", {"w": [8, 8], "b": [8]}, "initializer w"),
    "table": ("g (float[n, 4] x, int64[4, m] at) => (y) { y = Gather<axis = 1>(x, at) }", {}, "input at"),
    "Einsum": ("g (float[n, 8] x) => (y) { y = Einsum<equation = \"ab,bc->ac\">(x, w) }", {"w": [8, 8]}, "initializer w"),
    "part": ("g (float[n, 4, 4] x) => (y) { y, i = TopK<axis = 1>(x, k) }", {"k": ints(4)}, "initializer k"),
    "target": ("g (float[n, 6] x) => (y) { y = Reshape(x, t) }", {"t": ints(-1, 6)}, "initializer t"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_place_that_a_size_follows_is_named(name: str) -> None:
    text, weights, cause = CASES[name]
    told = str(ss.analyze(parsed(text, **weights)).explain("y", 1))
    assert cause in told
    assert "input x" not in told


@pytest.mark.parametrize(("w", "bad"), [((8, 8), (9, 5)), ((16, 16), (12, 16)), ((8, 8), (7, 8))])
def test_a_conflict_names_the_weight_and_not_the_input(w: tuple[int, int], bad: tuple[int, int]) -> None:
    text = f"g (float[n, {w[0]}] x) => (y) {{ a = MatMul(x, w1)  b = MatMul(a, w2)  y = MatMul(b, w3) }}"
    (finding,) = ss.analyze(parsed(text, w1=w, w2=w, w3=bad)).diagnostics
    assert f"b[1] is {w[1]}: it comes from initializer w2" in finding.steps[0].text


@pytest.mark.parametrize("seq", [65, 200])
def test_why_names_the_node_that_a_size_breaks_whatever_the_others_are(seq: int, tmp_path: Path) -> None:
    text = """g (int64[2, seq] ids, float[past] cache) => (y) {
        p = Size(cache)  n = Shape<start = 1, end = 2>(ids)  k = Squeeze(n)  end = Add(p, k)
        one = Constant<value_int = 1>()  at = Range(p, end, one)  shape = Shape(ids)
        places = Expand(at, shape)
        [read] y = Gather(table, places)
    }"""
    onnx.save(parsed(text, table=[64, 4]), tmp_path / "m.onnx")
    done = CliRunner().invoke(app, ["why", str(tmp_path / "m.onnx"), f"seq={seq}"])
    assert done.exit_code == 1
    assert "past + seq must be at most 64" in done.output
    assert "--> read" in done.output
    assert "help: use seq = 63" in done.output


#: a stored operand of a square chain: text of its node, its shape for the width k, and the axis that the width before it meets
CHAINED = {
    "product": ("{v} = MatMul({x}, {w})", "kk", 0),
    "Gemm": ("{v} = Gemm({x}, {w})", "kk", 0),
    "Gemm of a transposed weight": ("{v} = Gemm<transB = 1>({x}, {w})", "kk", 1),
    "turned": ("{v}a = Transpose({x})  {v}b = MatMul({w}, {v}a)  {v} = Transpose({v}b)", "kk", 1),
    "rows below": ("{v} = Concat<axis = 0>({x}, {w})", "kk", 1),
    "sum": ("{v} = Add({x}, {w})", "k", 0),
    "target": ("{v} = Reshape({x}, {w})", "target", 1),
}


def chain_with_a_bad_weight(random: Random) -> tuple[str, dict[str, Any], str]:
    """A chain of square weights, of which one has a size that no other has. The last node is a product."""
    width, kinds = random.choice((4, 8, 16)), [*random.choices(list(CHAINED), k=4), "product"]
    lines, weights, x = [], {}, "x"
    bad = random.randrange(5)
    for i, kind in enumerate(kinds):
        text, shape, axis = CHAINED[kind]
        v, w = f"v{i}", f"w{i}"
        lines.append(text.format(x=x, v=v, w=w))
        dims, x = [-1, width] if shape == "target" else [width] * len(shape), v
        if i == bad:
            dims[axis] += random.choice((-1, 1, 3))
            if kind in ("product", "Gemm") and random.random() < 0.5:
                dims = [dims[0], width - 3]
        weights[w] = ints(*dims) if shape == "target" else tuple(dims)
    return f"g (float[n, {width}] x) => ({x}) {{ {'  '.join(lines)} }}", weights, f"w{bad}"


@pytest.mark.parametrize("seed", range(60))
def test_the_weight_that_is_not_square_is_named_and_no_other_is_to_change(seed: int) -> None:
    text, weights, bad = chain_with_a_bad_weight(Random(seed))
    finding = next(iter(ss.analyze(parsed(text, **weights)).diagnostics))
    assert finding.severity == "error"
    assert any(re.search(rf"\b{bad}\b", s) for s in (*[step.text for step in finding.steps], finding.help))
    first, _, _ = finding.help.partition(". Or: ")  # a model with two square weights may have an equal repair
    assert set(re.findall(r"\bw\d\b", first)) <= {bad}


def _changed(solved: Solved, tensor: str) -> Iterator[tuple[Elem, ...] | OtherShape]:
    """The stored tensor with each of its sizes, or each of its numbers, larger by one."""
    shape, value = solved.shapes[tensor], solved.values.get(tensor)
    for axis in range(len(shape)):
        yield OtherShape(tuple(k.const + (i == axis) for i, k in enumerate(shape)))
    elems = () if value is None or value.elems is None else value.elems
    for at, e in enumerate(elems):
        if isinstance(e, Dim) and not e.terms and e.const > 1:
            yield (*elems[:at], e + 1, *elems[at + 1 :])


def decided(source: Any) -> list[str]:
    """The stored tensors that findings name, each of which must decide the contract."""
    a = ss.analyze(source)
    named = [tensor for finding in a.findings for tensor in finding.constants]
    for tensor in named:
        others = [a._solved.again(instead={tensor: now}) for now in _changed(a._solved, tensor)]
        assert any(o.stuck or str(o.contract.terms) != str(a.contract.terms) for o in others), tensor
    return named


def test_a_constant_that_a_finding_names_decides_the_contract() -> None:
    found = {name: decided(proto) for name, (proto, _) in BROKEN.items()}
    assert sum(map(bool, found.values())) > 2, found


@pytest.mark.parametrize("path", EXPORTS, ids=lambda p: p.parent.name)
def test_a_constant_that_an_export_is_blamed_for_decides_the_contract(path: Path) -> None:
    decided(path)
