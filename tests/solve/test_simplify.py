"""Simple forms are equal to what they simplify, at every size that the conditions allow: brute force says so."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve.expr import Dim, Shape, eq, parse_cond, parse_dim, symbol
from shapesolve.expr.cond import symbols_in
from shapesolve.solve.simplify import Domain, Simplifier, cost
from shapesolve.solve.simplify.rules import RULES

from ..expr.trees import build, small_trees, trees

CONDITIONS = (
    "H >= 1", "H >= 7", "H <= 12", "H % 4 == 0", "H % 8 == 3", "M >= 2", "M == H", "M >= H + N", "N <= 9",
    "N == 1 or N == H", "H == 2*N", "M*N == 12", "N % 3 <= 1", "v >= 0", "w <= 3",
)  # fmt: skip
conditions = st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True)


def same_where(under, before, after, names, tops):
    """Compare at all sizes up to `tops` at which the conditions hold; sizes at which `before` has no value do not count."""
    if before is after:
        return
    known = symbols_in(before, after, *under)
    least = {n: -4 if n in known and known[n].lo is None else 0 for n in names}
    for sizes in product(*(range(least[n], top) for n, top in zip(names, tops, strict=True))):
        at = dict(zip(names, sizes, strict=True))
        if all(c.evaluate(at) for c in under):
            expected = before.evaluate(at)
            if expected is not None:
                assert after.evaluate(at) == expected, f"{before} became {after}, under {under}, at {at}"


@given(trees, conditions)
def test_a_simple_form_is_equal_in_its_domain(tree, texts):
    dim = build(tree).subs({"v": symbol("_v0", None), "w": symbol("_v1", None)})
    under = [parse_cond(t) for t in texts if parse_cond(t).free <= {"H", "M", "N"}]
    simple = Simplifier(under).dim(dim)
    names = sorted(dim.free.union(*(c.free for c in under)))
    assert simple.free <= set(names)
    if "broadcast" not in str(dim):
        top = {0: 1, 1: 60, 2: 24, 3: 14}.get(len(names), 7)
        same_where(under, dim, simple, names, [top] * len(names))


univariate = st.sampled_from(("//", "max", "min", "%", "+", "ite"))


@st.composite
def windows(draw):
    """Stacks of windows over H, as convolutions and pools make them."""
    text = "H"
    for _ in range(draw(st.integers(1, 4))):
        k, c = draw(st.sampled_from((1, 2, 2, 3, 4))), draw(st.integers(-4, 8))
        shape = draw(
            st.sampled_from(
                (
                    "({0} + {1})//{2}",
                    "max(({0} + {1})//{2}, 1)",
                    "min({0}, {2} + {1})",
                    "{0} - ({0} + {1})//{2}",
                )
            )
        )
        text = shape.format(text, c, k)
    return text


@given(windows(), st.sampled_from(("H >= 0", "H >= 9", "H % 8 == 0", "H % 4 <= 2", "H <= 30")))
def test_windows_of_windows_are_equal_in_their_domain(text, condition):
    dim, under = parse_dim(text), parse_cond(condition)
    simple = Simplifier([under]).dim(dim)
    same_where([under], dim, simple, ["H"], [400])
    assert cost(simple) <= cost(dim)


@pytest.mark.parametrize(
    ("text", "under", "simple"),
    [
        ("max(height//2, 1)", ["height % 8 == 0", "height >= 1"], "height//2"),
        ("4*(height//8)", ["height % 8 == 0"], "height//2"),
        ("x - x//2", [], "(x + 1)//2"),
        ("h + (-h) % 8", [], "8*((h + 7)//8)"),
        ("max(min(n, 5) - 1, 0)", ["n >= 1"], "min(n - 1, 4)"),
        ("H + max((H + 1)//2 - 2, 0) - (H + max(H, 3) - 2)//2", ["H >= 3"], "(H - 1)//2"),
        ("H + max((H + 1)//2 - 2, 0) - (H + max(H, 3) - 2)//2", ["H >= 2"], "max((H - 1)//2, 1)"),
        ("max(b, 0)*(W - W//2) + H//2", ["H % 2 == 0"], "b*((W + 1)//2) + H//2"),
        ("broadcast(s, t - p)", ["t >= p + s", "s >= 1", "s == t - p or s == 1 or t - p == 1"], "t - p"),
        ("(height//8)*(width//8) + 1", ["(height//8)*(width//8) == 16"], "17"),
        ("2*((h + 1)//2)*((w + 3)//4)", ["h % 2 == 0", "w % 4 == 0"], "h*(w//4)"),
        ("max(a, b)", ["a >= b"], "a"),
        ("(8*n + k)//8", ["k <= 7"], "n"),
        ("3 if n >= 5 else n", ["n <= 3"], "n"),
    ],
)  # fmt: skip
def test_forms_that_people_expect(text, under, simple):
    dim = Dim(text)
    found = dim.simplify(under=under)
    assert str(found) == str(Dim(simple)), found
    names = sorted(dim.free)
    same_where([parse_cond(c) for c in under], dim, found, names, [30 if len(names) < 3 else 12] * len(names))


def test_a_broadcast_that_may_be_illegal_is_not_taken_for_legal():
    dim = Dim("broadcast(a, b)")
    assert str(dim.simplify(under="a >= 2")) == "broadcast(a, b)" or dim.simplify(under="a >= 2") == Dim("a")
    domain = Domain([parse_cond("b >= 2")])
    assert not domain.follows(eq(dim, Dim("b")))  # first size that is not 1: a
    assert Domain([parse_cond("a == b or a == 1")]).follows(eq(dim, Dim("b")))


def test_conditions_that_contradict_each_other_change_nothing():
    dim = Dim("max(n//2, 1)")
    assert dim.simplify(under=["n >= 3", "n <= 2"]) is dim


def test_a_shape_that_is_simple_stays_itself():
    shape = Shape(["batch", Dim("seq") // 2, 256])
    assert shape.simplify() is shape
    assert str(Shape(["n", "max(n, 1)"]).simplify(under="n >= 1")) == "[n, n]"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.says)
@given(data=st.data())
def test_every_rule_holds_wherever_its_side_condition_does(rule, data):
    count = {"pos": 1, "ite": 2, "broadcast": 2, "//": 2}[rule.kind]
    args = [build(data.draw(small_trees)) for _ in range(count)]
    if rule.kind == "ite":
        args.insert(0, parse_cond(data.draw(st.sampled_from(CONDITIONS))))
    if rule.kind == "//" and data.draw(st.booleans()):
        args[1] = Dim(data.draw(st.integers(1, 8)))
    names = sorted(set().union(*(a.free for a in args)))
    for at in data.draw(
        st.lists(st.fixed_dictionaries({n: st.integers(0, 12) for n in names}), min_size=20, max_size=20)
    ):
        values = [a.evaluate(at) for a in args]
        if None in values or (rule.kind == "//" and values[1] == 0):
            continue
        expected = {
            "pos": lambda x: max(x, 0),
            "ite": lambda c, a, b: a if c else b,
            "broadcast": lambda a, b: a if a != 1 else b,
            "//": lambda n, d: n // d,
        }[rule.kind](*values)
        for needed, to in rule.cases(*args):
            if needed.evaluate(at):
                assert to.evaluate(at) == expected, f"{rule.says}: {args} at {at}"


def test_of_a_long_sum_only_what_is_rounded_is_looked_at() -> None:
    """The names of a sum of sizes are not taken one by one: a Concat of thousands of inputs makes such a sum."""
    tried: list[str] = []

    class Watched(Simplifier):
        @staticmethod
        def _symbol(d: Dim, name: str) -> Dim:
            tried.append(name)
            return Simplifier._symbol(d, name)

    names = [f"n{i}" for i in range(300)]
    long = parse_dim(" + ".join(names))
    assert Watched().dim(long) is long
    Watched().dim(parse_dim(f"{long} + max(min(h, 7) + h//2 - 3, 0)"))
    assert set(tried) <= {"h"}
