"""Matrix products and Einsum, against onnxruntime."""

from __future__ import annotations

import os
import random
from itertools import pairwise, product
from platform import machine

import numpy as np
import onnx
import pytest

import shapesolve

from ..building import EVERYTHING, share
from .conftest import agrees, broken, one, shapes, text
from .runs_apart import come_back

SIZES = (0, 1, 2, 3)
UINT8 = 2


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("B S 64", "64 32", "[B, S, 32]"),
        ("K", "K", "[]"),
        ("K", "K N", "[N]"),
        ("M K", "K", "[M]"),
        ("K", "B K N", "[B, N]"),
        ("A 1 M K", "B K N", "[A, B, M, N]"),
        ("A B M K", "A 1 K N", "[A, B, M, N]"),
    ],
)
def test_matmul(a: str, b: str, result: str) -> None:
    assert shapes(one("MatMul", [a, b])) == [result]


@pytest.mark.parametrize(
    ("a", "b"), [("B M K", "L N"), ("K", "L"), ("B 2 K", "B L 3"), ("2 K", "L"), ("1 K", "C L 2")]
)
def test_matmul_runs_where_predicted(a: str, b: str) -> None:
    names = sorted({t for t in f"{a} {b}".split() if t.isalpha()})
    agrees(one("MatMul", [a, b]), **{n: (1, 2, 3) if n in "BC" else SIZES for n in names})


def test_matmul_of_a_scalar_or_of_unfitting_sizes_is_a_conflict() -> None:
    for a, b in (("", "3"), ("2 3", "4 5")):
        assert shapesolve.analyze(one("MatMul", [a, b])).conflicts
    assert shapes(one("MatMul", ["?", "4 5"])) == [None]


@pytest.mark.parametrize("attrs", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}])
@pytest.mark.parametrize("c", [None, "", "C", "D C"])
def test_gemm(attrs: dict[str, int], c: str | None) -> None:
    model = one("Gemm", ["M K", "L N", *([] if c is None else [c])], attrs)
    names = {"M": (0, 2, 3), "K": (0, 3), "L": (0, 2, 3), "N": (1, 3)}
    agrees(model, **names, **dict.fromkeys((c or "").split(), (1, 3)))


def test_gemm_before_7_broadcasts_only_when_told() -> None:
    plain = shapesolve.analyze(one("Gemm", ["M K", "K N", "1 N"], opset=6))
    assert broken(plain, {"M": 2, "K": 3, "N": 4})
    assert not broken(plain, {"M": 1, "K": 3, "N": 4})
    told = shapesolve.analyze(one("Gemm", ["M K", "K N", "1 N"], {"broadcast": 1}, opset=6))
    assert not broken(told, {"M": 2, "K": 3, "N": 4})


def test_gemm_gives_its_inputs_rank_2() -> None:
    analysis = shapesolve.analyze(one("Gemm", ["8 16", "?"], opset=11))
    assert len(analysis.shapes["x1"]) == 2
    strict = shapesolve.analyze(one("Gemm", ["?", "16 32"], opset=11), semantics="onnx")
    assert len(strict.shapes["x0"]) == 2


@pytest.mark.parametrize(
    ("flags", "fits"),
    [("", "4, L"), ("<transA = 1>", "H, L"), ("<transB = 1>", "L, 4"), ("<transA = 1, transB = 1>", "L, H")],
)
def test_a_vector_of_which_only_the_run_knows_is_a_row(flags: str, fits: str) -> None:
    """onnxruntime runs it where the rank is not known when the model is loaded, and refuses to load it otherwise."""
    squeezed = f"s = Squeeze(x)  y = Gemm{flags}(s, w)"
    agrees(text(f"float[H, 4] x, float[{fits}] w", squeezed), H=(1, 2, 3), L=(1, 4))
    # onnx's own inference takes no axis to be squeezed by an empty list
    listed = text(f"float[H, 4] x, float[{fits}] w, int64[0] none", squeezed.replace("(x)", "(x, none)"))
    listed.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(0, np.int64), "none"))
    del listed.graph.input[2]
    agrees(listed, H=(1, 2, 3), L=(1, 4))
    reshaped = f"n = Size(x)  one = Constant<value_ints = [1]>()  t = Reshape(n, one)  s = Reshape(x, t)  y = Gemm{flags}(s, w)"
    agrees(text("float[A, B] x, float[K, L] w", reshaped), A=(0, 1, 2), B=(1, 2), K=(0, 1, 2, 4), L=(0, 1, 3))
    assert shapesolve.analyze(one("Gemm", ["4", "4 3"])).conflicts


def test_quantized_products() -> None:
    agrees(
        one("MatMulInteger", ["M K", "L N", "", "Z"], dtypes=UINT8),
        M=(0, 2),
        K=(1, 3),
        L=(1, 3),
        N=(1, 4),
        Z=(1, 4),
    )
    q = ["M K", "", "", "L N", "Z", "Z", "", ""]
    kinds = [UINT8, 1, UINT8, UINT8, 1, UINT8, 1, UINT8]
    agrees(one("QLinearMatMul", q, dtypes=kinds), M=(0, 2), K=(1, 3), L=(1, 3), N=(1, 4), Z=(1, 4))


def test_det() -> None:
    agrees(one("Det", ["B N M"]), B=SIZES, N=SIZES, M=SIZES)


@pytest.mark.parametrize(
    ("equation", "inputs"),
    [
        ("ij,jk->ik", ["A B", "C D"]),
        ("ij,jk", ["A B", "C D"]),
        ("ij,ij->ij", ["A B", "C D"]),
        ("ii->i", ["A B"]),
        ("ii", ["A B"]),
        ("ba", ["A B"]),
        ("ij->", ["A B"]),
        ("...ij,...jk->...ik", ["A 2 B", "C D 3"]),
        ("...ij,...jk", ["A 2 B", "C D 3"]),
        ("...i->i...", ["A B C"]),
        ("ij, ->ij", ["A B", ""]),
        ("bhid, bhjd -> bhij", ["A 2 B 4", "A 2 C D"]),
        ("aBc,cB->Ba", ["A B C", "C D"]),
    ],
)
def test_einsum(equation: str, inputs: list[str]) -> None:
    names = sorted({t for i in inputs for t in i.split() if t.isalpha()})
    agrees(one("Einsum", inputs, {"equation": equation}), **dict.fromkeys(names, (1, 2, 4)))


@pytest.mark.parametrize(
    ("equation", "inputs"),
    [
        ("ij->iij", ["A B"]),
        ("ij->k", ["A B"]),
        ("ijk->i", ["A B"]),
        ("i,j->ij", ["A"]),
        ("...ij->ij", ["A B C"]),
        ("i$->i", ["A B"]),
    ],
)
def test_einsum_that_cannot_run(equation: str, inputs: list[str]) -> None:
    assert shapesolve.analyze(one("Einsum", inputs, {"equation": equation})).conflicts


#: with the sizes at which onnxruntime divides by zero, and those at which it does not
EMPTY = [
    "nd,md->nm", "nd,dm->nm", "dn,md->mn", "j,ij->i", "bij,bkj->bik", "bij,bjk->bik", "ij->ji",
    "bhn,bmh->bnm", "ca,bac->b", "abc,cab->", "abc,bca->a", "cdab,abcd->a", "abcde,deabc->", "abcde,cdabe->b", "abcd,cbad->",
    "acb,bdca->d", "...nd,...md->...nm", "m...d,n...d->...mn",
]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork") or machine() not in ("x86_64", "AMD64"), reason="no trap to see")
@pytest.mark.parametrize("equation", share(EMPTY, 4))
def test_einsum_of_empty_operands(equation: str) -> None:
    terms = [t.replace("...", "X").upper() for t in equation.split("->")[0].split(",")]
    model = one("Einsum", [" ".join(t) for t in terms], {"equation": equation})
    names = sorted({d for t in terms for d in t})
    draw = random.Random(1)
    every = [dict(zip(names, chosen, strict=True)) for chosen in product((0, 1, 3), repeat=len(names))]
    sizes = every if len(every) < 28 else draw.sample(every, 40 if EVERYTHING else 12)
    analysis = shapesolve.analyze(model)
    real = come_back([(model, [[at[d] for d in t] for t in terms]) for at in sizes])
    assert [not broken(analysis, at) for at in sizes] == real
    assert not any(broken(shapesolve.analyze(model, semantics="onnx"), at) for at in sizes)


def test_a_long_product_keeps_its_sizes() -> None:
    widths = [8, 16, 4, 32]
    for a, b in pairwise(widths):
        assert shapes(one("MatMul", [f"N {a}", f"{a} {b}"])) == [f"[N, {b}]"]
