"""Contracts: what they say, who needs it, that they are exact, that they are the same in every process."""

import json
import tracemalloc
from itertools import product

import pytest

from shapesolve.expr import parse_cond, symbol
from shapesolve.solve import engine
from shapesolve.solve.contract.build import find_contract
from shapesolve.solve.contract.usual import Recorded
from tests.building import seeds

from .building import random_system, system


def exact(inputs, *texts, usual=()):
    s = system(*texts, inputs=inputs)
    recorded = Recorded(tuple(map(parse_cond, usual)))
    return find_contract(s.constraints, s.facts, map(symbol, inputs.split()), recorded=recorded)


def contract(inputs, *texts, usual=()):
    """As a person reads it first."""
    return exact(inputs, *texts, usual=usual).usual


# (input symbols, what nodes state, the contract)
CASES = [
    ("H", ["(H + 31)//32 == 7"], ["193 <= H <= 224"]),
    (
        "N H W",
        ["(H + 31)//32 >= 7", "(W + 31)//32 >= 7", "N*2048*((H + 31)//32 - 6)*((W + 31)//32 - 6) == 2048*N"],
        ["193 <= H <= 224", "193 <= W <= 224"],
    ),
    ("N H W", ["N*(H//32)*(W//32)*512 == N*25088"], ["(H//32)*(W//32) == 49"]),
    ("H", ["2*(H//8) == H//4", "2*(H//4) == H//2", "2*(H//2) == H"], ["H % 8 == 0"]),
    ("H", ["H % 4 == 0", "H % 6 == 0"], ["H % 12 == 0"]),
    ("H", ["H//2 - 3 >= 0", "(H - 7)//2 + 1 >= 0"], ["H >= 6"]),
    ("H", ["H % 32 == 0", "193 <= H", "H <= 230"], ["H == 224"]),
    ("past seq total", ["total == past + seq"], ["total == past + seq"]),
    ("past seq", ["past + seq <= 512", "past + seq <= 600", "past <= 700"], ["past + seq <= 512"]),
    ("batch seq", ["seq <= 512", "batch >= 1"], ["seq <= 512"]),
    ("batch seq", ["seq <= 512 or batch*seq == 0"], ["seq <= 512"]),
    ("M N", ["M == N or M == 1 or N == 1"], ["M == N or M == 1 or N == 1"]),
    ("N", ["N == 64 or N == 1"], ["N == 1 or N == 64"]),
    ("N", ["N == 64 or N == 1", "N == 32 or N == 1"], ["N == 1"]),
    ("N K", ["N*K == 6*N", "K >= 2"], ["K == 6"]),
    ("heads hidden", ["64*heads == hidden"], ["hidden == 64*heads"]),
    ("s b", ["s % 2 == 0 if b == 3"], ["s % 2 == 0 or b != 3"]),
    ("H", ["H//4 == 4*((H + 12)//16)", "H >= 4"], ["H % 16 <= 3", "H >= 16"]),
    (
        "H W",
        ["(H//4)*(W//4) == 16*((H + 12)//16)*((W + 12)//16)", "H >= 4", "W >= 4"],
        ["H % 16 <= 3", "H >= 16", "W % 16 <= 3", "W >= 16"],
    ),
    ("batch boxes", ["batch*min(boxes, 10) >= 0"], []),
    ("N", [], []),
]


@pytest.mark.parametrize(("inputs", "stated", "expected"), CASES, ids=[" & ".join(s) for _, s, _ in CASES])
def test_contracts_read_as_a_person_would_write_them(inputs, stated, expected):
    found = [str(t) for t in contract(inputs, *stated)]
    assert sorted(map(_normal, found)) == sorted(map(_normal, expected))


def _normal(text):
    return " or ".join(sorted(text.replace("64*heads == hidden", "hidden == 64*heads").split(" or ")))


def test_terms_know_their_nodes():
    c = exact(
        "H W", "2*(H//8) == H//4", "2*(H//4) == H//2", "2*(H//2) == H", "2*(H//2) == H", "2*(W//2) == W"
    )
    assert c["H"].nodes == ("/n0", "/n1", "/n2", "/n3")
    assert c["W"].nodes == ("/n4",)
    assert repr(c) == "Contract(H % 8 == 0, W % 2 == 0)"
    assert c[0].symbols == ("H",)


def test_nodes_that_also_speak_of_other_symbols_are_named():
    c = exact("N H", "H >= 161", "N == 0 or max(N, 1)*((H + 31)//32) == 7*max(N, 1)")
    assert [t.text for t in c.usual] == ["193 <= H <= 224"]
    assert c.usual.terms[0].nodes == ("/n1",)  # what needs less is not what to look at


def test_hard_terms_are_stated_for_inputs_of_usual_sizes():
    stated = "max(H//32, 1)*max(W//32, 1) == 49"
    c = exact("H W", stated, usual=("H >= 32", "W >= 32"))
    assert str(c) == "(H//32)*(W//32) == 49 for H >= 32, W >= 32"
    assert [t.text for t in c.usual] == ["(H//32)*(W//32) == 49"]
    assert [str(t) for t in c.usual] == ["(H//32)*(W//32) == 49 for H >= 32, W >= 32"]
    for h, w in product(range(32, 2000, 97), repeat=2):
        assert c.holds({"H": h, "W": w}) is parse_cond(stated).evaluate({"H": h, "W": w})


def test_what_reads_well_needs_no_usual_sizes():
    c = contract("H", "max(H//32, 1) == 7", usual=("H >= 32",))
    assert [str(t) for t in c] == ["224 <= H <= 255"]
    assert not c.scope
    assert not contract("H W", "H >= 1", usual=("H >= 9",)).scope


def test_order_is_equalities_ranges_divisibility_alternatives():
    c = exact(
        "batch past seq total H M N",
        "M == N or M == 1 or N == 1",
        "H % 32 == 0",
        "seq <= 512",
        "total == past + seq",
        "batch >= 1",
    )
    assert [t.kind for t in c] == ["equality", "range", "divisibility", "alternative", "nonempty"]


def test_sizes_of_at_least_1_go_without_saying():
    c = exact("N H", "N*((H + 31)//32) == 7*N", "H >= 2")
    assert str(c) == "193 <= H <= 224"
    assert [(str(t), t.scope) for t in c.usual] == [("193 <= H <= 224", ())]
    assert str(exact("N", "N >= 1")) == "any input size of at least 1 runs"
    assert str(exact("N")) == "any input size runs"
    assert str(exact("")) == "all input sizes are fixed"


def test_conditions_on_data_and_of_the_user_are_kept_apart():
    c = exact("N H", "definition: _d0 <= N", "_d0 >= 7", "user: H % 2 == 0", "H % 4 == 0")
    assert [str(t) for t in c] == ["N >= 7", "H % 4 == 0"]
    assert [str(t) for t in c.internal] == ["_d0 >= 7"]
    assert not exact("N", "definition: _d0 <= N").internal
    given = exact("H", "user: H % 2 == 0", "H >= 5")
    assert [str(t) for t in given.assumed] == ["H % 2 == 0"]
    assert [str(t) for t in given] == ["H >= 5"]
    declared = exact("H W", "declared: H == W", "H >= 5")
    assert [str(t) for t in declared.declared] == ["H == W"]
    assert [str(t) for t in declared] == ["H >= 5"]


def test_what_the_user_says_of_inputs_is_not_asked_of_them_again():
    c = exact("seq past total", "user: total == past + seq", "total == 1 or total == past + seq")
    assert list(c.usual) == []
    assert str(c) == "no conditions beyond what is assumed: total == past + seq"
    assert c.holds({"seq": 3, "past": 0, "total": 3})


def test_a_contradiction_accepts_nothing():
    c = exact("H", "H >= 5", "H <= 3")
    assert c.impossible
    assert c.holds({"H": 4}) is False


def test_a_model_for_empty_inputs_only():
    c = exact("x y", "x*y == 6*y or y == 0", "x <= 5 or y == 0")
    assert c.usual.whole.dropped
    assert not c.impossible
    assert c.holds({"x": 3, "y": 0}) is True
    assert c.holds({"x": 6, "y": 1}) is False


@pytest.mark.parametrize("seed", seeds(300, 420))
def test_contracts_are_exact_at_every_size(seed):
    s = random_system(seed, "ab")
    c = find_contract(s.constraints, s.facts, map(symbol, "ab"))
    scope = c.usual.whole.conds
    for sizes in product(range(12), repeat=2):
        point = dict(zip("ab", sizes, strict=True))
        truths = [n.evaluate(point) for n in s.needs]
        if None not in truths:
            assert c.holds(point) is all(truths), (s.needs, c, point)
            if all(t.evaluate(point) for t in scope):
                usual = all(t.cond.evaluate(point) for t in c.usual)
                assert (usual and not c.impossible) is all(truths), (s.needs, c.usual, point)


@pytest.mark.parametrize(
    ("inputs", "stated", "terms"),
    [
        ("N H", ["N*((H + 31)//32) == 7*N", "H >= 2"], ["H >= 2", "N == 0 or (193 <= H <= 224)"]),
        ("N M", ["N*M != 0"], ["N >= 1", "M >= 1"]),
        ("H M", ["H + M >= 5", "M % 4 == 0"], ["H + M >= 5", "M % 4 == 0"]),
        ("H", ["H != 0", "H*H + H//3 >= 1"], ["H >= 1"]),
        ("a", ["a == 0 or a == 1"], ["a == 1 or a == 0"]),
        ("b s", ["9 <= s", "s <= 12", "b != 0 or s == 0"], ["9 <= s <= 12", "b >= 1"]),
        ("b s", ["s >= 1", "b*s == 3*b or s == 0"], ["s >= 1", "b == 0 or s == 3"]),
    ],
)
def test_empty_inputs_are_stated_exactly(inputs, stated, terms):
    assert sorted(map(str, exact(inputs, *stated))) == sorted(terms)


@pytest.mark.parametrize(
    ("inputs", "stated"),
    [
        ("H M", ["H + M >= 5"]),
        ("H M", ["H + M >= 5", "M % 4 == 0"]),
        ("H M", ["H + M >= 5", "1 > M % 4", "4*H != 2"]),
        ("N H", ["N - H + 3 > 1 - 2*H", "H != 0", "N >= 0 and N <= N + 1"]),
        ("H N", ["min(H, H) != 2", "H*H > ceildiv(H, -3)"]),
    ],
)
def test_terms_that_say_nothing_of_usual_sizes_are_kept_where_they_do(inputs, stated):
    c, needs = exact(inputs, *stated), [parse_cond(t) for t in stated]
    for sizes in product(range(12), repeat=2):
        point = dict(zip(inputs.split(), sizes, strict=True))
        assert c.holds(point) is all(n.evaluate(point) for n in needs), point


@pytest.mark.parametrize("stated", [[">=", "<="], ["==", ">=", "<="], ["<=", ">=", "=="]])
def test_two_bounds_at_one_size_are_one_equality(stated):
    c = exact("a b", *(f"(a*b)//(a + 1) {relation} 7" for relation in stated))
    assert [t.text for t in c] == ["a*b//(a + 1) == 7"]
    for a, b in product(range(12), repeat=2):
        assert c.holds({"a": a, "b": b}) is (a * b // (a + 1) == 7)


@pytest.mark.parametrize("seed", seeds(420, 480))
def test_usual_terms_are_exact_in_their_own_scope(seed):
    s = random_system(seed, "ab")
    fits = (parse_cond("a >= 3"), parse_cond("b//2 >= a"), parse_cond("a + b <= 9"))
    c = find_contract(
        s.constraints, s.facts, map(symbol, "ab"), recorded=Recorded(fits, ((symbol("a"), symbol("b")),))
    )
    scope = (*c.usual.whole.sizes, *c.usual.scope)
    for sizes in product(range(12), repeat=2):
        point = dict(zip("ab", sizes, strict=True))
        truths = [n.evaluate(point) for n in s.needs]
        if None not in truths and all(t.evaluate(point) for t in scope):
            usual = all(t.cond.evaluate(point) for t in c.usual)
            assert (usual and not c.impossible) is all(truths), (s.needs, c.usual, point)


@pytest.mark.parametrize("seed", range(480, 510))
def test_no_term_follows_from_the_others(seed):
    s = random_system(seed, "ab")
    c = find_contract(s.constraints, s.facts, map(symbol, "ab"))
    points = [dict(zip("ab", sizes, strict=True)) for sizes in product(range(40), repeat=2)]
    for term in c:
        others = [t.cond for t in c if t is not term]
        if term.kind in ("equality", "range", "divisibility") and all(t.kind != "other" for t in c):
            held = [p for p in points if all(o.evaluate(p) is True for o in others)]
            alone = any(term.cond.evaluate(p) is not True for p in held)
            assert alone or not held, (s.needs, c, term)


# ---------------------------------------------------------------------- exports


def _function(source, name="check_sizes"):
    namespace: dict[str, object] = {}
    exec(source, namespace)  # noqa: S102  (the point of the test: the text is a working function)
    return namespace[name]


@pytest.mark.parametrize("seed", range(510, 540))
def test_the_python_function_agrees_with_the_contract(seed):
    s = random_system(seed, "ab")
    c = find_contract(s.constraints, s.facts, map(symbol, "ab"))
    check = _function(c.to_python())
    for sizes in product(range(9), repeat=2):
        point = dict(zip("ab", sizes, strict=True))
        if c.holds(point) is not None:
            needed = {n: point[n] for n in c.symbols}
            assert (check(**needed) == []) == c.holds(point)


def test_the_python_function_renames_what_is_no_identifier():
    from shapesolve.expr import divides, ge, le

    s = system(divides(2, symbol("my dim")), le(symbol("class"), 5), ge(symbol("n"), 3))
    c = find_contract(s.constraints, s.facts, map(symbol, ["my dim", "class", "n"]))
    check = _function(c.to_python("accepts"), "accepts")
    assert check(my_dim=4, size_class=5, n=3) == []
    assert len(check(my_dim=3, size_class=9, n=3)) == 2
    with pytest.raises(ValueError, match="not a name"):
        c.to_python("no name")


def test_json_and_smtlib():
    import z3

    c = exact("past seq total", "total == past + seq", "past + seq <= 512")
    data = json.loads(json.dumps(c.to_json()))
    assert [t["condition"] for t in data["terms"]] == [str(t) for t in c]
    assert data["terms"][0]["nodes"]
    text = c.to_smtlib()
    assert ":named c0" in text
    ctx = z3.Context()
    solver = z3.Solver(ctx=ctx)
    solver.from_string(text)
    assert solver.check() == z3.sat


def test_a_thousand_requirements_are_read_without_z3(monkeypatch):
    from shapesolve.expr import any_of, eq, ge, le

    height, width, past, seq, total = map(symbol, ["height", "width", "past", "seq", "total"])
    stated = []
    for i in range(250):
        k = 2 ** (i % 5 + 1)
        stated += [eq(height // k * 2, height // (k // 2)), ge((width + i) // 32, 1), le(past + seq, 512 + i)]
        stated.append(any_of((eq(total, past + seq), eq(total, 1))))
    s = system(*stated, inputs="height width past seq total")
    monkeypatch.delattr(engine, "_ask")
    c = find_contract(s.constraints, s.facts, map(symbol, ["height", "width", "past", "seq", "total"]))
    assert str(c) == "width >= 32, past + seq <= 512, height % 32 == 0, total == 1 or total == past + seq"


def test_many_terms_on_one_symbol_end_in_bounded_work():
    names = [f"s{i}" for i in range(150)]
    found = exact(" ".join(names), *(f"{name} == s0" for name in names[1:]))
    assert len(found) == 149
    assert found.holds(dict.fromkeys(names, 5))
    assert found.holds({**dict.fromkeys(names, 5), "s149": 6}) is False


def test_a_condition_that_many_nodes_state_takes_memory_by_their_number():
    peaks = []
    for count in (500, 4000):
        s = system(*["a == b or a == 1 or b == 1"] * count, inputs="a b")
        tracemalloc.start()
        found = find_contract(s.constraints, s.facts, map(symbol, "ab"))
        assert len(found[0].constraints) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 20 * peaks[0]  # eight times as many


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("n % 64 == 0", "n <= 63"), "n == 0"),
        (("n % 64 == 0", "n <= 64"), "n == 64 or n == 0"),
        (("n % 4 == 2", "n <= 5"), "n == 2"),
        (("n % 64 == 0", "n <= 63", "n >= 1"), "no input sizes"),
    ],
)
def test_a_range_without_multiples_but_nothing(texts, told):
    found = exact("n", *texts)
    assert found.impossible or ", ".join(map(str, found)) == told
    assert not found.impossible or str(found) == told
    conds = [parse_cond(t) for t in texts]
    for n in range(300):
        assert found.holds({"n": n}) is all(c.evaluate({"n": n}) for c in conds)
