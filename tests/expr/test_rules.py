"""Every simplification is exact: built forms against brute force on raw trees."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shapesolve.expr import (
    Dim,
    broadcast,
    ceil_div,
    eq,
    exact_quotient,
    floor_div,
    ge,
    implies,
    ite,
    maximum,
    minimum,
    ne,
    parse_cond,
    pos,
    rebuild,
    solve_for_symbol,
    symbol,
)
from shapesolve.expr.core import apply, of_atom

from .trees import (
    Undefined,
    agrees,
    bindings,
    build,
    condition_trees,
    leaf_names,
    leaves,
    linear,
    nonzero,
    numbers,
    small_trees,
    trees,
    value,
)


@given(trees, st.lists(bindings, min_size=8, max_size=8))
def test_any_expression(tree, cases):
    for case in cases:
        agrees(tree, case)


@given(condition_trees, st.lists(bindings, min_size=6, max_size=6))
def test_any_condition(tree, cases):
    for case in cases:
        agrees(tree, case)


@given(linear, nonzero, bindings)
def test_division_of_a_sum_by_a_constant(n, k, case):
    agrees(("//", n, k), case)
    agrees(("%", n, k), case)
    agrees(("ceil", n, k), case)
    agrees(("trunc", n, k), case)


@given(linear, nonzero, linear, nonzero, nonzero, bindings)
def test_nested_divisions_merge_exactly(x, a, c, b, f, case):
    agrees(("//", ("+", ("//", x, a), c), b), case)
    agrees(("//", ("+", ("*", f, ("//", x, a)), c), b), case)
    agrees(("//", ("//", x, a), b), case)
    agrees(("%", ("//", x, a), b), case)


@given(linear, leaf_names, leaf_names, nonzero, bindings)
def test_division_by_symbols(x, d, e, k, case):
    agrees(("//", ("//", x, d), e), case)
    agrees(("//", ("*", x, d), ("*", k, d)), case)
    agrees(("//", ("+", ("*", ("*", k, d), e), x), d), case)
    agrees(("//", ("*", x, e), ("*", d, e)), case)
    agrees(("%", ("+", ("*", d, e), x), d), case)
    agrees(("//", x, ("-", k, d)), case)


@given(linear, linear, linear, linear, bindings)
def test_division_by_sums(p, q, r, d, case):
    agrees(("//", ("*", p, q), q), case)
    agrees(("//", ("+", ("*", p, q), r), q), case)
    agrees(("%", ("*", p, d), d), case)


@given(linear, linear, linear, numbers, bindings)
def test_extrema(a, b, c, k, case):
    for op in ("max", "min"):
        agrees((op, a, b), case)
        agrees((op, a, b, c), case)
        agrees((op, (op, a, b), k), case)
        agrees(("*", k, (op, ("*", k, a), ("*", k, b))), case)
    agrees(("min", ("max", a, b), k), case)
    agrees(("max", ("min", a, k), b), case)
    agrees(("-", a, ("min", a, b)), case)


@given(
    st.lists(st.one_of(leaf_names, st.just(1), numbers), min_size=1, max_size=4), st.integers(0, 9), bindings
)
def test_broadcast_where_it_is_legal(sizes, size, case):
    for chosen in range(2 ** len(sizes)):
        legal = {n: 1 if chosen >> i & 1 else size for i, n in enumerate(sizes) if isinstance(n, str)}
        agrees(("broadcast", *sizes), {**case, **legal})


@given(leaf_names, numbers, bindings)
def test_broadcast_with_the_same_size_clipped_to_one(name, size, case):
    agrees(("broadcast", name, ("min", name, 1)), {**case, name: abs(size)})
    assert broadcast(symbol(name), minimum(symbol(name), 1)) is symbol(name)
    other = minimum(symbol("another"), 1)
    assert not broadcast(symbol(name), other).name


@given(condition_trees, small_trees, small_trees, bindings)
def test_choices(cond, a, b, case):
    agrees(("ite", cond, a, b), case)
    agrees(("ite", ("not", cond), a, b), case)


@given(leaf_names, linear, linear, linear, bindings)
def test_choices_that_an_equality_makes_equal(name, p, a, b, case):
    for relation in ("==", "!="):
        agrees(("ite", (relation, name, p), ("+", a, name), ("+", a, p)), case)
        agrees(("ite", (relation, name, p), a, b), case)


@given(small_trees, small_trees, small_trees)
def test_ring_laws_hold_by_identity(a, b, c):
    a, b, c = build(a), build(b), build(c)
    assert a + b is b + a
    assert a * b is b * a
    assert (a + b) + c is a + (b + c)
    assert a - a is Dim(0)
    assert a + b - b is a
    assume(a.size * b.size * c.size < 10_000)
    assert (a * b) * c is a * (b * c)
    assert a * (b + c) is a * b + a * c


@given(small_trees, small_trees, nonzero)
def test_identities_of_the_representation(a, b, k):
    a, b = build(a), build(b)
    assert (a // k) * k + a % k is a
    assert maximum(a, b) + minimum(a, b) is a + b
    assert maximum(a, b) is maximum(b, a)
    assert pos(-a) is pos(a) - a


@given(trees)
def test_canonical_forms_are_fixed_points(tree):
    """Building an expression from its own atoms again gives the same object."""
    dim = build(tree)
    if isinstance(dim, Dim):

        def again(atom):
            return of_atom(atom) if atom.kind == "sym" else apply(atom.kind, atom.args)

        assert rebuild(dim, again) is dim


@given(trees, leaf_names, small_trees, bindings)
def test_substitution_is_evaluation_with_the_replaced_value(tree, name, replacement, case):
    new = build(replacement)
    dim = build(tree)
    try:
        inner = value(replacement, case)
        expected = value(tree, {**case, name: inner})
    except Undefined:
        return
    assume(name not in ("H", "M", "N") or inner >= 0)  # a size stays a size
    try:
        replaced = dim.subs({name: new})
    except ZeroDivisionError:
        return
    assert replaced.evaluate(case) == expected


@given(trees, bindings)
def test_substitution_of_numbers_evaluates(tree, case):
    dim = build(tree)
    expected = dim.evaluate(case)
    assume(expected is not None)
    assert dim.subs(case).value == expected


@given(linear, linear)
def test_exact_quotient_inverts_multiplication(a, b):
    a, b = build(a), build(b)
    assume(b != 0)
    q = exact_quotient(a * b, b)
    assert q is not None
    assert q is a


@given(trees, bindings)
def test_exact_quotient_is_exact(tree, case):
    n, d = build(tree), build(("+", "H", 2))
    q = exact_quotient(n, d)
    if q is not None:
        assert q * d is n


@given(trees, bindings)
def test_solved_symbols_satisfy_the_equation(tree, case):
    dim = build(tree)
    solved = solve_for_symbol(dim)
    if solved is not None:
        name, expression = solved[0].args[0], solved[1]
        found = expression.evaluate(case)
        if found is not None:
            assert name not in expression.free
            assert dim.evaluate({**case, name: found}) == 0


@given(leaves, leaves, bindings)
def test_known_sizes_are_integers(a, b, case):
    dim = build(("+", a, b))
    assert (dim.value is None) == bool(dim.free)


H, W, a, b, c, v = Dim("H"), Dim("W"), Dim("a"), Dim("b"), Dim("c"), symbol("v", None)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda: 2 * (H // 2), lambda: H),
        (lambda: a * (b // c) * c, lambda: a * b),
        (lambda: -(a // 2), lambda: (-a) // 2),
        (lambda: maximum(H, 1), lambda: H),
        (lambda: (a + b) // 2, lambda: a // 2 + b // 2),
        (lambda: v // 2, lambda: ceil_div(v, Dim(2))),
    ],
)
def test_tempting_identities_that_are_false(left, right):
    assert left() is not right()
    assert left() != right()


def test_dims_of_the_field():
    x = H
    for _ in range(5):
        x = (x - 1) // 2 + 1  # a convolution of stride 2, padded by 1
    assert x is (H + 31) // 32
    assert (H - 1) // 2 + 1 is (H + 1) // 2
    assert ceil_div(H, Dim(2)) is (H + 1) // 2
    assert (a * b * c) // (b * c) is a
    assert (a * b * c * 768) // (12 * 64 * b * c) is a
    assert floor_div(H * W, W) is H
    assert (64 * H) % 8 is Dim(0)
    assert (H // 4) // 8 is H // 32
    assert minimum(maximum(H, 0), 5) is minimum(H, 5)
    assert ite(eq(a, b), b, a) is a
    assert ite(ne(a, b), a, b) is a
    with pytest.raises(ZeroDivisionError):
        H // 0


def test_a_choice_guards_its_divisor():
    guarded = ite(ne(b, 0), a // b, c)
    assert guarded.subs({"b": 0}) is c
    assert guarded.subs({"b": 2}) is a // 2
    assert guarded.evaluate({"a": 5, "b": 0, "c": 7}) == 7
    assert ite(eq(b, 0), c, a // b).subs({"b": 0}) is c


@pytest.mark.parametrize(
    "text", ["x % a == 0 or x == 0", "x % a != 0 or x % a == 0", "(x//a)*y == 0 or y == 0"]
)
def test_a_member_without_a_value_absorbs_nothing(text):
    a_is_zero = {"x": 0, "a": 0, "y": 0}
    written = parse_cond(text)
    first, second = (parse_cond(t) for t in text.split(" or "))
    assert first.evaluate(a_is_zero) is None
    assert written.evaluate(a_is_zero) is second.evaluate(a_is_zero)
    assert implies(ge(symbol("a"), 1), first | second).evaluate({"x": 0, "a": 1, "y": 0}) is True


def test_a_member_with_a_value_absorbs_what_implies_it():
    assert str(parse_cond("x % 4 == 0 or x == 8")) == "x % 4 == 0"
