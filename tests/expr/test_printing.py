"""Texts of dims and conditions: golden forms, round trips, and the `dim_param` subset."""

from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shapesolve.expr import (
    Cond,
    Dim,
    broadcast,
    eq,
    ge,
    ite,
    maximum,
    minimum,
    parse_cond,
    parse_dim,
    symbol,
    total,
)
from shapesolve.expr.parse import dim_from_param
from shapesolve.expr.printing import cond_text, dim_param_text, python_text

from .trees import SIZES, SYMBOLS, bindings, build, condition_trees, leaf_names, small_trees, trees

DIMS = [
    ("seq + batch", "batch + seq"),
    ("2*seq", "2*seq"),
    ("(H+31)//32", "(H + 31)//32"),
    ("H - 32*(H//32)", "H % 32"),
    ("3*H*W - 96*W*(H//32) + 1", "3*W*(H % 32) + 1"),
    ("H - k*(H//k)", "H % k"),
    ("H + 1 - 2*k*((H + 1)//(2*k))", "(H + 1) % (2*k)"),
    ("32*(H//32) - H", "-(H % 32)"),
    ("32*((H + 31)//32) - H", "32*((H + 31)//32) - H"),
    ("i//4 % 8", "(i//4) % 8"),
    ("i//w % h", "(i//w) % h"),
    ("a % b % c", "(a % b) % c"),
    ("min(5, N)", "min(N, 5)"),
    ("max(0, N - 3)", "max(N - 3, 0)"),
    ("max(b, a)", "max(a, b)"),
    ("max(N, 3)*2", "2*max(N, 3)"),
    ("M + min(N, 5)", "M + min(N, 5)"),
    ("batch*min(seq, 512)", "batch*min(seq, 512)"),
    ("N - min(N, 5)", "max(N - 5, 0)"),
    ("H + W + max(N - 3, 0)", "H + W + max(N - 3, 0)"),
    ("max(a, b, c)", "max(a, b, c)"),
    ("min(max(a, b), c)", "min(c, max(a, b))"),
    ("abs(a - b)", "abs(a - b)"),
    ("b*max(h, 1)*max(w, 1)", "b*max(h, 1)*max(w, 1)"),
    ("-2*b*(h + 1)*(w - 1)", "-2*b*(h + 1)*(w - 1)"),
    ("4 - (h + 1)*(w + 1)", "4 - (h + 1)*(w + 1)"),
    ("max(a, b)**2", "b*max(2*a - b, b) + max(a - b, 0)**2"),
    ("broadcast(N, M)", "broadcast(M, N)"),
    ("2*broadcast(N, M)", "2*broadcast(M, N)"),
    ("a if H % 32 == 0 else b", "(a if H % 32 == 0 else b)"),
    ("N - 2*M", "N - 2*M"),
    ("5 - N", "5 - N"),
    ("-N", "-N"),
    ("-(a//2) - N", "-N - a//2"),
    ("-(a//2)", "-(a//2)"),
    ("2*(H//2)", "2*(H//2)"),
    ("a*(b//c)*c", "a*c*(b//c)"),
    ("c + a*b + b + 1", "a*b + b + c + 1"),
    ("N*N*M", "M*N**2"),
    ("x//y//z", "x//(y*z)"),
    ("(H//2)*W//W2", "(W*(H//2))//W2"),
    ("-5//N", "(-5)//N"),
    ("2*H//3", "2*H//3"),
    ("`my dim` + 1", "`my dim` + 1"),
    ("`a``b`", "`a``b`"),
    ("`max` + max(`if`, `2`)", "`max` + max(`2`, `if`)"),
    ("`x.1` + `a::b`", "`a::b` + `x.1`"),
    ("``", "``"),
]


@pytest.mark.parametrize(("source", "text"), DIMS)
def test_dims_read_well(source, text):
    dim = parse_dim(source)
    assert str(dim) == text
    assert parse_dim(text) is dim


CONDITIONS = [
    ("past + seq == total", "total == past + seq"),
    ("H % 32 == 0", "H % 32 == 0"),
    ("H % 32 == 5", "H % 32 == 5"),
    ("divides(k, a)", "a % k == 0"),
    ("512 >= past + seq", "past + seq <= 512"),
    ("193 <= H", "H >= 193"),
    ("193 <= H <= 224", "193 <= H <= 224"),
    ("N >= 1 and 3 <= H <= 4 and N <= M", "3 <= H <= 4 and N >= 1 and M >= N"),
    ("1 != N", "N != 1"),
    ("M == 1 or N == 1 or M == N", "M == N or M == 1 or N == 1"),
    ("H >= W - 3", "W <= H + 3"),
    ("W - 3 == H", "W == H + 3"),
    ("min(N, 5) == M", "M == min(N, 5)"),
    ("2*a <= 3*b + 4", "2*a <= 3*b + 4"),
    ("4*a == 6*b", "2*a == 3*b"),
    ("not (a == 1 and b >= 2)", "a != 1 or b <= 1"),
    ("(a == 1 or b == 1) and c == 2", "c == 2 and (a == 1 or b == 1)"),
    ("true", "true"),
    ("N < 0", "false"),
    ("H//2 == 0", "H//2 == 0"),
]


@pytest.mark.parametrize(("source", "text"), CONDITIONS)
def test_conditions_read_well(source, text):
    cond = parse_cond(source)
    assert str(cond) == text
    assert parse_cond(text) is cond


@given(trees)
def test_a_dim_is_read_back_as_the_same_object(tree):
    dim = build(tree)
    assert parse_dim(python_text(dim), SYMBOLS) is dim


@given(condition_trees)
def test_a_condition_is_read_back_as_the_same_object(tree):
    cond = build(tree)
    assert parse_cond(cond_text(cond), SYMBOLS) is cond


@given(st.text(max_size=8), st.text(max_size=8))
def test_any_name_can_be_written(a, b):
    dim = symbol(a) + 2 * symbol(b) + 1
    assert parse_dim(str(dim)) is dim
    assert parse_dim(str(symbol(a))) is symbol(a)


@given(condition_trees)
def test_texts_tell_no_internal_forms(tree):
    text = str(build(tree))
    assert "pos(" not in text
    assert "+ -" not in text
    assert "--" not in text


def tower(kind, levels):
    dim = Dim("N")
    for i in range(levels):
        s = symbol(f"s{i:03}")
        if kind == "max over //":
            dim = maximum(dim // Dim("d"), s)
        elif kind == "max":
            dim = maximum(s, dim)
        elif kind == "ite":
            dim = ite(ge(s, i + 2), dim, s)
        elif kind == "%":
            dim = dim % Dim(f"d{i:03}")
        else:
            dim = broadcast(dim + 1, s) // Dim("d")
    return dim


@pytest.mark.parametrize("levels", [30, 150])
@pytest.mark.parametrize("kind", ["max over //", "max", "ite", "%", "broadcast"])
def test_deep_nesting_prints(kind, levels):
    dim = tower(kind, levels)
    assert len(python_text(dim)) < 6_000
    assert str(eq(dim, 3)).endswith(" == 3")


@pytest.mark.parametrize(
    ("kind", "levels"), [("max over //", 9), ("max", 100), ("ite", 100), ("%", 9), ("broadcast", 90)]
)
def test_deep_nesting_is_read_back(kind, levels):
    dim = tower(kind, levels)
    assert parse_dim(python_text(dim)) is dim


def test_long_sums_print_and_read():
    dim = total(i * symbol(f"s{i:03}") for i in range(1, 400))
    assert parse_dim(str(dim)) is dim


# ---------------------------------------------------------------------- dim_param

PARAMS = [
    ("N", "N"),
    ("`my dim`", "my dim"),
    ("`if`", "if"),
    ("N + 1", "N + 1"),
    ("`x.1` + 1", "x.1 + 1"),
    ("(H + 31)//32", "(H + 31)//32"),
    ("H % 32", "H % 32"),
    ("-N**2", "-N*N"),
    ("abs(a - b)", "max(a - b, b - a)"),
    ("broadcast(M, N)", None),
    ("max(N - 1, 0)", "N*N//(N + 1)"),
    ("max(5*N - 5, 0)", "5*(N*N//(N + 1))"),
    ("max(N - 2, 0)", "max(N - 2, 0)"),
    ("broadcast(M + 1, N + 1)", "max(M + 1, N + 1)"),
    ("(a if N >= 2 else 0)", None),
    ("(a if N >= 3 else 0)", "a*min(max(N - 2, 0), 1)"),
    ("`my dim` + 1", None),
    ("`if` + 1", None),
    ("(a//b if b != 0 else 0)", None),
]


@pytest.mark.parametrize(("source", "text"), PARAMS)
def test_dim_params(source, text):
    assert dim_param_text(parse_dim(source)) == text


def test_overlong_dim_params_are_refused():
    assert dim_param_text(total(symbol(f"name_{i}") for i in range(100))) is None


@given(trees, st.lists(bindings, min_size=3, max_size=3))
def test_dim_params_have_the_same_value_when_read_back(tree, cases):
    dim = build(tree)
    assume(not any(n in dim.free for n in ("v", "w")))
    text = dim_param_text(dim)
    assume(text is not None)
    read = dim_from_param(text) if dim.terms else Dim(int(text))
    for case in cases:
        expected = dim.evaluate(case)
        if expected is not None and _sizes_broadcast(dim, case):
            assert read.evaluate(case) == expected


@given(small_trees, bindings)
def test_dim_params_have_the_same_value_in_onnx_ir(tree, case):
    onnx_ir = pytest.importorskip("onnx_ir")
    dim = build(tree)
    assume(not any(n in dim.free for n in ("v", "w")))
    text = dim_param_text(dim)
    assume(text is not None)
    case = {n: case[n] for n in SIZES}
    expected = dim.evaluate(case)
    if expected is not None and _sizes_broadcast(dim, case):
        assert onnx_ir.SymbolicDim(text).evaluate(case) == expected


def _sizes_broadcast(dim, case):
    """Are all sizes that are broadcast in it equal or 1?"""
    from shapesolve.expr.traverse import atoms_of

    for atom in atoms_of(dim):
        if atom.kind == "broadcast":
            sizes = {a.evaluate(case) for a in atom.args} - {1}
            if len(sizes) > 1 or None in sizes or any(s < 0 for s in sizes):
                return False
    return True


@given(leaf_names, st.integers(-3, 3))
def test_formatting(name, k):
    dim = SYMBOLS[name] + k
    assert f"{dim}" == str(dim)
    assert f"{dim:>12}" == str(dim).rjust(12)
    assert repr(dim) == f"Dim({str(dim)!r})"
    assert isinstance(eq(dim, 3), Cond)
    assert repr(minimum(Dim(3), 4)) == "Dim(3)"


def test_overlong_texts_are_shortened():
    dim = Dim("N")
    for i in range(40):
        dim = (
            (dim + Dim(f"d{i}")) * (dim // Dim("k"))
            if i < 3
            else dim // Dim(f"k{i}") + minimum(dim, Dim(f"d{i}"))
        )
    text = python_text(dim)
    assert len(text) < 10_000
    assert "characters>" in text
    assert dim_param_text(dim) is None


def test_remainders_of_sums_with_quotients_are_read_back_as_the_same() -> None:
    random = Random(5)
    for _ in range(400):
        a, b, k, m = (random.randint(2, 9) for _ in range(4))
        for text in (
            f"(a + a//{k}) % {m}",
            f"({a}*a - {b}*((a + b)//{k})) % {m}",
            f"(b + (a + {b})//{k}) // {m} % {a}",
        ):
            dim = parse_dim(text)
            assert parse_dim(str(dim)) is dim


def test_a_difference_is_not_written_as_a_quotient_that_is_a_number_where_it_is_read():
    """``x - x//3`` for an x of 2 or 3 is ``(2*x + 2)//3`` as well, which is 2 for both."""
    either = ite(ge(1 - symbol("c"), 0), Dim(3), Dim(2))
    cond = eq(either % 3 % 2, 0)
    assert parse_cond(str(cond)) is cond, str(cond)
