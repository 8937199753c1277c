"""The reader: a table per dialect, errors, bounds on untrusted texts."""

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve.expr import (
    FALSE,
    TRUE,
    Cond,
    Dim,
    DimSyntaxError,
    absolute,
    all_of,
    any_of,
    broadcast,
    ceil_div,
    divides,
    eq,
    floor_div,
    ge,
    ite,
    le,
    lt,
    maximum,
    minimum,
    ne,
    parse_cond,
    parse_dim,
    sign,
    symbol,
    trunc_div,
)
from shapesolve.expr.parse import dim_from_param

from .trees import bindings

H, M, N, a, b, c, d, f, k = map(symbol, ("H", "M", "N", "a", "b", "c", "d", "f", "k"))
seq = symbol("seq")
v = symbol("v", None)

PYTHON = [
    ("d + f - f", d),
    ("2*seq//2", seq),
    ("1024*a//2", 512 * a),
    ("b + a", a + b),
    ("(seq1+seq2)", symbol("seq1") + symbol("seq2")),
    (" \ta\n+ 1 ", a + 1),
    ("a - b - c", (a - b) - c),
    ("a - (b - c)", a - b + c),
    ("a + b*c", a + (b * c)),
    ("a//b*c", floor_div(a, b) * c),
    ("a//b//c", a // (b * c)),
    ("a*b//c", (a * b) // c),
    ("a % b * c", (a % b) * c),
    ("-a//2", (-a) // 2),
    ("-(a//2)", -(a // 2)),
    ("-a % 3", (-a) % 3),
    ("a - -b", a + b),
    ("+a", a),
    ("- - a", a),
    ("2**3", Dim(8)),
    ("-a**2", -(a * a)),
    ("2**2**3", Dim(256)),
    ("a**0", Dim(1)),
    ("2*a**2*b", 2 * a * a * b),
    ("max(a, b)", maximum(a, b)),
    ("min(a, b, 3)", minimum(minimum(a, b), 3)),
    ("max(a)", a),
    ("a if b == 1 else c", ite(eq(b, 1), a, c)),
    ("a if b == 1 else c if b == 2 else d", ite(eq(b, 1), a, ite(eq(b, 2), c, d))),
    ("1 + (a if b >= 2 else c)", 1 + ite(ge(b, 2), a, c)),
    ("1 + a if b >= 2 else c", ite(ge(b, 2), 1 + a, c)),
    (
        "a if b == 1 or c == 1 and not d == 2 else 0",
        ite(any_of((eq(b, 1), all_of((eq(c, 1), ne(d, 2))))), a, Dim(0)),
    ),
    ("abs(a - b)", absolute(a - b)),
    ("`my dim` + 1", symbol("my dim") + 1),
    ("`a``b`", symbol("a`b")),
    ("`past.0` + `x::y` + `2d`", symbol("past.0") + symbol("x::y") + symbol("2d")),
    ("`if` + `max`", symbol("if") + symbol("max")),
    ("max", symbol("max")),
    ("max + 1", symbol("max") + 1),
    ("größe + 1", symbol("größe") + 1),
    ("((((((((((a))))))))))", a),
    ("9223372036854775808", Dim(2**63)),
]
#: sympy writes floats for the numbers that it has lost as fractions
FLOATS = [
    ("1.0*a", a),
    ("floor(1.0*a + 1/2)", a),
    ("floor(0.75*a)", 3 * a // 4),
    ("0.5*a*2.0", a),
]
YOBX = [
    ("a^b", maximum(a, b)),
    ("a&b", minimum(a, b)),
    ("a + 1^b", maximum(a + 1, b)),
    ("a^b&c", maximum(a, minimum(b, c))),
    ("a&b^c", maximum(minimum(a, b), c)),
    ("a & b + 1", minimum(a, b + 1)),
    ("CeilToInt(a, 4)", ceil_div(a, Dim(4))),
    ("2*(a^b)", 2 * maximum(a, b)),
    ("(a^b) == c", None),
]
C_STYLE = [
    ("a/2", a // 2),
    ("(a - 5)/2", trunc_div(a - 5, Dim(2))),
    ("a/b", trunc_div(a, b)),
    ("7/2*2", Dim(6)),
    ("-7/2", Dim(-3)),
    ("a/2/3", a // 6),
    ("((_d0 + 2) - 1) / 2", (symbol("_d0") + 1) // 2),
    ("2*a/2", a),
]
SYMPY = [
    ("floor(H/2 - 1/2) + 1", (H + 1) // 2),
    ("floor(H/2)", H // 2),
    ("floor((H + 1)/2)", (H + 1) // 2),
    ("floor(a/b + c/d)", (a * d + c * b) // (b * d)),
    ("floor(a/b*c)", (a * c) // b),
    ("floor(a/(b/c))", (a * c) // b),
    ("floor(-a/2)", (-a) // 2),
    ("-floor(-a/2)", (a + 1) // 2),
    ("ceiling(H/2)", (H + 1) // 2),
    ("ceil(a/b)", ceil_div(a, b)),
    ("floor(floor(H/2 - 1/2)/2)", (H - 1) // 4),
    ("floor(2*a/2)", a),
    ("floor(a)", a),
    ("floor(Max(a/2, b/3))", maximum(3 * a, 2 * b) // 6),
    ("floor(Min(a/2, 1))", minimum(a, 2) // 2),
    ("floor(Mod(a, 3)/2)", (a % 3) // 2),
    ("floor(Mod(a/2, 3))", (a // 2) % 3),
    ("floor(a/2 // 3)", a // 6),
    ("floor(max(2*a/2, b))", maximum(a, b)),
    ("floor(a/2) + b/3", a // 2 + b // 3),
    ("Mod(a, b)", a % b),
    ("mod(a, 3)", a % 3),
    ("Max(0, a - 3)", maximum(a - 3, 0)),
    ("Min(a, b)", minimum(a, b)),
    ("Abs(a - b)", absolute(a - b)),
    ("sign(a - b)", sign(a - b)),
]
FUNCTIONS = [
    ("floordiv(a, b)", a // b),
    ("ceildiv(a, 32)", (a + 31) // 32),
    ("broadcast(M, N)", broadcast(M, N)),
    ("broadcast(M, 1, N)", broadcast(M, N)),
    ("ite(a == 1, b, a)", ite(eq(a, 1), b, a)),
    ("ite(1 <= a <= 3, b, c)", ite(all_of((ge(a, 1), le(a, 3))), b, c)),
]


@pytest.mark.parametrize(("text", "expected"), [*PYTHON, *YOBX[:-1], *C_STYLE, *SYMPY, *FLOATS, *FUNCTIONS])
def test_dims(text, expected):
    assert parse_dim(text) is expected
    assert Dim(text) is expected


CONDITIONS = [
    ("a == b", eq(a, b)),
    ("a != b", ne(a, b)),
    ("a <= b", le(a, b)),
    ("a >= b", ge(a, b)),
    ("a < b", lt(a, b)),
    ("a > b", lt(b, a)),
    ("193 <= H <= 224", all_of((ge(H, 193), le(H, 224)))),
    ("a < b < c == d", all_of((lt(a, b), lt(b, c), eq(c, d)))),
    ("a == 1 and b == 1 and c == 1", all_of((eq(a, 1), eq(b, 1), eq(c, 1)))),
    ("a == 1 or b == 1 and c == 1", any_of((eq(a, 1), all_of((eq(b, 1), eq(c, 1)))))),
    ("(a == 1 or b == 1) and c == 1", all_of((any_of((eq(a, 1), eq(b, 1))), eq(c, 1)))),
    ("not a == 1", ne(a, 1)),
    ("not a == 1 and b == 1", all_of((ne(a, 1), eq(b, 1)))),
    ("not (1 <= a <= 3)", any_of((lt(a, 1), lt(Dim(3), a)))),
    ("H % 32 == 0", divides(32, H)),
    ("divides(k, a)", divides(k, a)),
    ("divides(2, a) and true", divides(2, a)),
    ("true", TRUE),
    ("False", FALSE),
    ("a^b == c", eq(maximum(a, b), c)),
    ("a + 1 == b - 1", eq(a + 2, b)),
    ("total == past + seq", eq(symbol("total"), symbol("past") + seq)),
    ("a/2 == 3", eq(a // 2, 3)),
]


@pytest.mark.parametrize(("text", "expected"), CONDITIONS)
def test_conditions(text, expected):
    assert parse_cond(text) is expected


@given(bindings)
def test_comparisons_chain_as_in_python(case):
    cond = parse_cond("H < M <= N != 3")
    assert cond.evaluate(case) == (case["H"] < case["M"] <= case["N"] != 3)


ERRORS = [
    ("", r"expected a number, a name or '\('", 0),
    ("a + * b", "expected a number", 4),
    ("a b", "expected an operator", 2),
    ("2x", "expected an operator", 1),
    ("(a", r"expected '\)'", 2),
    ("max(a", r"expected '\)'", 5),
    ("a)", r"unexpected '\)'", 1),
    ("a, b", "unexpected ','", 1),
    ("(a, b)", "unexpected ','", 2),
    ("()", "expected a number", 1),
    ("max()", "expected a number", 4),
    ("max(a,)", "expected a number", 6),
    ("foo(a)", "unknown function 'foo'", 0),
    ("Mod(a)", "Mod takes 2 arguments, not 1", 0),
    ("floor(a, b)", "floor takes 1 argument, not 2", 0),
    ("a if b == 1", "expected 'else'", 11),
    ("(a if b == 1) + 1", "expected 'else'", 12),
    ("a else b", "'else' without 'if'", 2),
    ("a if b else c", "expected a condition, got a size", 2),
    ("if a", "expected a number", 0),
    ("true", "expected a size, got a condition", 0),
    ("x.1", r"unexpected '\.' \(write unusual names in backticks\)", 1),
    ("0.1*H", "a decimal number that is not a binary fraction", 0),
    ("a::b", "unexpected ':'", 1),
    ("`a", "unexpected '`'", 0),
    ("a = 1", "unexpected '='", 2),
    ("a ? b", r"unexpected '\?'", 2),
    ("a[0]", r"unexpected '\['", 1),
    ("__import__('os')", 'unexpected "\'"', 11),
    ("a ** b", "an exponent must be an integer from 0 to 16", 2),
    ("a ** 17", "an exponent must be", 2),
    ("a ** -1", "an exponent must be", 2),
    ("9223372036854775809", "an integer above", 0),
    ("a//0", "division by zero", 1),
    ("a % 0", "division by zero", 2),
    ("a/0", "division by zero", 1),
    ("floor(a/0)", "division by zero", 7),
    ("floor(a/2 == 1)", r"\(a\)/\(2\) is not an integer", 10),
    ("floor(max(a/b, c))", r"\(a\)/\(b\) is not an integer", 6),
    ("a == b", "expected a size, got a condition", 0),
    ("1 + (a == b)", "expected a size, got a condition", 2),
    ("a + not b", "expected a condition, got a size", 4),
    ("max(a, true)", "expected a size, got a condition", 0),
]


@pytest.mark.parametrize(("text", "problem", "position"), ERRORS)
def test_errors_say_what_and_where(text, problem, position):
    with pytest.raises(DimSyntaxError, match=f"^{problem}") as raised:
        parse_dim(text)
    assert raised.value.position == position
    assert f"read {text[:position]!r}, remaining {text[position:]!r}" in str(raised.value)


def test_errors_of_conditions():
    with pytest.raises(DimSyntaxError, match="expected a condition, got a size"):
        parse_cond("a + b")
    with pytest.raises(DimSyntaxError, match="expected a condition, got a size"):
        parse_cond("a and b == 1")


def test_errors_can_be_pickled():
    error = DimSyntaxError("expected something", "a b", 2)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
    assert str(DimSyntaxError("no such tensor")) == "no such tensor"


HOSTILE = [
    "(" * 100_000,
    "(" * 9_000,
    "(" * 5_000 + "a" + ")" * 5_000,
    "-" * 9_999 + "a",
    "not " * 2_000 + "a == 1",
    "max(" * 2_000,
    "a**" * 3_000 + "2",
    "(((a + b)**16)**16)**16",
    "((2**16)**16)**16",
    "*".join(["9223372036854775808"] * 400),
    "*".join(["a"] * 5_000),
    "+".join(f"x{i}" for i in range(1_700)),
    "*".join(f"(x{i} + 1)" for i in range(800)),
    "%".join(f"x{i}" for i in range(1_700)),
    "//".join(f"x{i}" for i in range(1_700)),
    "//".join(["(v - w)"] * 1_000),
    "^".join(f"x{i}" for i in range(1_700)),
    "&".join(f"x{i}" for i in range(1_700)),
    "a if a == 1 else " * 550 + "b",
    "a==1 and " * 1_100 + "b==1",
    " and ".join(f"x{i}==1" for i in range(800)),
    " or ".join(f"x{i}<={i}" for i in range(700)),
    "<".join(f"x{i}" for i in range(1_700)),
    "floor(" * 150 + "a" + "/2 - 1/3)" * 150,
    "floor(" + "+".join(f"a/{i}" for i in range(1, 1_000)) + ")",
    "floor(" + "+".join(f"a/x{i}" for i in range(1, 1_000)) + ")",
    "max(" * 190 + "a" + "//d, b)" * 190,
    "broadcast(" + ",".join(f"x{i}" for i in range(1_600)) + ")",
    "abs(" * 190 + "a-b" + "-b)" * 190,
    "sign(" * 190 + "a-b" + ")" * 190,
    "`" * 9_999,
    "\0\x01",
    "1" * 9_999,
    "\u0661\u0662",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: f"{t[:12]!r}_{len(t)}")
def test_hostile_texts_end_quickly(text):
    start = time.process_time()
    for read in (parse_dim, parse_cond, dim_from_param):
        try:
            found = read(text)
        except DimSyntaxError as e:
            said = str(e)
        else:
            said = ""
            str(found)
            found.evaluate({})
            found.evaluate(dict.fromkeys(found.free, 3))
        assert len(said) < 400
    assert time.process_time() - start < 10


@given(st.text(st.sampled_from("ab12 +-*/%^&()<>=!,`.if else not and or max floor"), max_size=30))
def test_any_text_is_a_dim_or_an_error(text):
    for read in (parse_dim, parse_cond):
        try:
            found = read(text)
        except DimSyntaxError:
            continue
        assert isinstance(found, Dim if read is parse_dim else Cond)


def test_names_are_looked_up():
    symbols = {"v": v, "my dim": H + 1}
    assert parse_dim("v//2 + `my dim` + w", symbols) is v // 2 + H + 1 + symbol("w")
    assert parse_dim("v", symbols) is v
    assert parse_cond("v >= -3", symbols) is ge(v, -3)
    assert parse_cond("v >= -3") is TRUE


PARAMS = [
    ("N", symbol("N")),
    ("if", symbol("if")),
    ("max", symbol("max")),
    ("past_sequence_length + sequence_length", symbol("past_sequence_length") + symbol("sequence_length")),
    ("floor(H/2 - 1/2) + 1", (H + 1) // 2),
    ("decoder_input_ids.45_dim_1 + 1", symbol("decoder_input_ids.45_dim_1") + 1),
    ("x.1", symbol("x.1")),
    ("-1", symbol("-1")),
    ("5", symbol("5")),
    ("", symbol("")),
    ("?", symbol("?")),
    ("a::b", symbol("a::b")),
    ("0.5*H", symbol("0.5*H")),
    ("N // 0", symbol("N // 0")),
    ("a == b", symbol("a == b")),
    (" N ", symbol("N")),
    ("(" * 300, symbol("(" * 300)),
]


@pytest.mark.parametrize(("text", "expected"), PARAMS)
def test_dim_params_of_models(text, expected):
    assert dim_from_param(text) is expected


def test_a_dim_param_without_known_names_is_a_name():
    assert dim_from_param("batch-size") is symbol("batch") - symbol("size")
    assert dim_from_param("batch-size", {"batch", "size"}) is symbol("batch") - symbol("size")
    assert dim_from_param("batch-size", {"batch", "seq"}) is symbol("batch-size")
    assert dim_from_param("heads/2", {"heads"}) is symbol("heads") // 2
    assert dim_from_param("heads/2", {"batch"}) is symbol("heads/2")
    assert dim_from_param("batch-size", {"seq"}) is symbol("batch-size")


def test_reading_takes_linear_time():
    def seconds(n):
        text = " + ".join(f"(x{i} + 3)//4*{i}" for i in range(n))
        start = time.process_time()
        parse_dim(text)
        return time.process_time() - start

    seconds(50)
    assert seconds(400) < 1
