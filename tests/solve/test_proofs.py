"""Proofs, bindings, ambiguities and equalities of whole systems."""

import pytest

from shapesolve.expr import Dim, Shape, parse_cond, parse_dim, symbol
from shapesolve.solve.ambiguity import find_ambiguities
from shapesolve.solve.bindings import find_bindings
from shapesolve.solve.engine import Engine
from shapesolve.solve.equality import find_equalities
from shapesolve.solve.facts.residual import Residue
from shapesolve.solve.proof import Proved, Prover, Refuted, Unknown
from tests.building import seeds

from .building import OURS, random_cond, random_system, system

NAMES = ["total", "past", "seq", "d_model", "M", "N", "H"]


@pytest.fixture(scope="module")
def prover():
    s = system(
        "total == past + seq",
        "past + seq <= 512",
        "d_model == 64 or d_model == 1",
        "M == N or M == 1 or N == 1",
        "H % 32 == 0",
    )
    return Prover(s.constraints, s.facts, map(symbol, NAMES))


@pytest.mark.parametrize(
    ("claim", "assuming", "nodes"),
    [
        ("total == past + seq", (), ["/n0"]),
        ("past <= 512", (), ["/n1"]),
        ("total <= 512", (), ["/n0", "/n1"]),
        ("H//2*2 == H", (), ["/n4"]),
        ("(H//4)//8*32 == H", (), ["/n4"]),
        ("d_model == 64", ("d_model != 1",), ["/n2"]),
        ("M == N", ("M != 1", "N != 1"), ["/n3"]),
        ("past*seq >= 1", ("past >= 1", "seq >= 1"), []),
        ("H >= 32", ("H >= 1",), ["/n4"]),
        ("max(seq, 0) == seq", (), []),
    ],
)
def test_proofs_name_assumptions_and_constraints(prover, claim, assuming, nodes):
    proof = prover.prove(parse_cond(claim))
    assert isinstance(proof, Proved)
    assert bool(proof) == (not assuming) == prover.follows(parse_cond(claim))
    assert proof.assumptions == proof.assuming == assuming
    assert set(nodes) <= {c.origin.node for c in proof.core}
    if nodes:
        assert [c.origin.node for c in proof.core] == nodes
    assert repr(proof) == f"Proved(assuming={assuming!r})"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("H//64*64 == H", "Refuted(H = 32: 32 != 0)"),
        ("seq <= 500", "Refuted(seq = 503: 503 > 500)"),
        ("past == seq", None),
        ("total == past", None),
        ("H == 32 or H == 64", None),
    ],
)
def test_refutations_satisfy_all_constraints(prover, claim, text):
    cond = parse_cond(claim)
    proof = prover.prove(cond)
    assert isinstance(proof, Refuted)
    assert not proof
    assert cond.evaluate(proof.counterexample) is False
    assert not any(c.evaluate(proof.counterexample) is False for c in prover.residue.stated)
    if text:
        assert repr(proof) == text


def test_a_refutation_shows_the_sides_that_were_compared():
    s = system()
    proof = Prover(s.constraints, s.facts, [symbol("height")]).equal(parse_dim("height//2*2"), Dim("height"))
    assert repr(proof) == "Refuted(height = 3: 2 != 3)"


def test_a_claim_that_fails_everywhere_has_a_counterexample_too():
    s = system("H >= 29", inputs="H")
    proof = Prover(s.constraints, s.facts, [symbol("H")]).prove(parse_cond("H <= 20"))
    assert isinstance(proof, Refuted)
    assert proof.counterexample["H"] >= 29


def test_every_answer_has_assumptions_and_a_core(prover):
    for claim in ("total == past + seq", "past == seq", "x*x*x + y*y*y != z*z*z"):
        proof = prover.prove(parse_cond(claim))
        assert isinstance(proof.assumptions, tuple)
        assert isinstance(proof.core, tuple)


def test_equal_dims(prover):
    assert prover.equal(Dim("total"), parse_dim("seq + past")).core[0].origin.node == "/n0"
    assert prover.equal(Dim("H"), Dim("H"))


def test_what_is_not_decided_is_unknown():
    s = system("x >= 1", "y >= 1", "z >= 1")
    proof = Prover(s.constraints, s.facts, map(symbol, "xyz"), 50_000).prove(
        parse_cond("x*x*x + y*y*y != z*z*z")
    )
    assert isinstance(proof, Unknown)
    assert "budget" in proof.reason


def test_nothing_is_proved_from_a_contradiction():
    s = system("x*x == 2*x + 1", "x >= 1")  # the facts do not see that no integer satisfies this
    assert s.clash is None
    proof = Prover(s.constraints, s.facts, [symbol("x")]).prove(parse_cond("x == 7"))
    assert isinstance(proof, Unknown)
    assert "no input size" in proof.reason


def test_quantities(prover):
    assert prover.bounds(Dim("total")) == (0, 512)
    assert prover.bounds(parse_dim("past + seq - total")) == (0, 0)
    assert prover.divisor(parse_dim("H + 64")) == 32
    assert prover.divisor(parse_dim("6*seq + 4")) == 2
    assert prover.divisor(Dim("past")) == 1
    assert prover.divisor(parse_dim("past + seq - total")) == 0


@pytest.mark.parametrize("seed", seeds(600, 640))
def test_proofs_agree_with_evaluation(seed):
    from itertools import product
    from random import Random

    s = random_system(seed, "ab", 3)
    if s.clash is not None:
        return
    prover = Prover(s.constraints, s.facts, map(symbol, "ab"), 200_000)
    cond = random_cond(Random(seed + 1), "ab")
    proof = prover.prove(cond)
    assert prover.follows(cond) == bool(proof)
    if isinstance(proof, Refuted):
        assert cond.evaluate(proof.counterexample) is not True
        assert not any(n.evaluate(proof.counterexample) is False for n in s.needs)
    if isinstance(proof, Proved):
        assumed = [parse_cond(a) for a in proof.assumptions]
        for sizes in product(range(12), repeat=2):
            point = dict(zip("ab", sizes, strict=True))
            if all(c.evaluate(point) is True for c in (*s.needs, *assumed)):
                assert cond.evaluate(point) is not False, (s.needs, cond, point)


# ---------------------------------------------------------------------- bindings


def test_forced_sizes_are_bound():
    s = system("d == 64", "e == d//2", "k <= 3", "k >= 3", "M == N", "f + 2 == e")
    bindings = find_bindings(s.constraints, s.facts, map(symbol, "defkMN"))
    assert dict(bindings) == {"d": 64, "e": 32, "f": 30, "k": 3}
    assert bindings.why("k").assumption is None
    assert {c.origin.node for c in bindings.why("e").constraints} == {"/n0", "/n1"}
    with pytest.raises(KeyError):
        bindings.why("M")


def test_a_name_that_meets_a_number_is_bound_by_assumption():
    texts = (
        "d_model == 64 or d_model == 1",
        "e == d_model or e == 1 or d_model == 1",
        "_d0 == 8 or _d0 == 1",
    )
    s = system(*texts)
    bindings = find_bindings(s.constraints, s.facts, [Dim("d_model"), Dim("e"), OURS["_d0"]])
    assert dict(bindings) == {"d_model": 64, "e": 64}
    assert bindings.why("d_model").assumption == "d_model != 1"
    assert bindings.why("e").assumption == "d_model != 1 and e != 1"
    assert not find_bindings(s.constraints, s.facts, [Dim("d_model"), Dim("e")], "strict")


def test_a_condition_that_a_binding_makes_divide_by_0_binds_nothing():
    s = system("x == 0", "n//x == 3 or n == 2")
    assert dict(find_bindings(s.constraints, s.facts, map(symbol, "xn"))) == {"x": 0}


def test_cases_are_combined():
    s = system("N == 64 or N == 1", "N == 32 or N == 1", "K == 5 or K == 7 or K == 1")
    bindings = find_bindings(s.constraints, s.facts, map(symbol, "NK"))
    assert dict(bindings) == {"N": 1}
    assert bindings.why("N").assumption is None
    assert {c.origin.node for c in bindings.why("N").constraints} == {"/n0", "/n1"}


# ---------------------------------------------------------------------- ambiguities


def test_one_ambiguity_per_pair():
    s = system("M == N or M == 1 or N == 1", "total == past + seq")
    opens = [(Dim("M"), Dim("N"), f"/add{i}", "Add") for i in range(5)]
    opens.append((Dim("total"), parse_dim("past + seq"), "/mask", "Add"))
    opens.append((Dim("d"), Dim(64), "/bias", "Add"))
    (found,) = find_ambiguities(opens, s.constraints, s.facts)
    assert found.pair == (Dim("M"), Dim("N"))
    assert found.sites == tuple(f"/add{i}" for i in range(5))
    assert found.suggestion == "M == N"
    assert [str(c) for c in found.cases] == ["M == N", "M == 1", "N == 1"]
    for case in found.cases:
        assert case.cond.evaluate(case.example) is True
        assert not any(n.evaluate(case.example) is False for n in s.needs)
    assert "open at 5 nodes (first /add0): equal, or M is 1, or N is 1" in str(found)
    assert len(find_ambiguities(opens, s.constraints, s.facts, strict=True)) == 2


@pytest.mark.parametrize(
    ("stated", "open_cases"),
    [
        (["M == N"], None),
        (["M == 1"], None),
        (["M >= 2"], ["M == N", "N == 1"]),
        (["M >= 2", "N >= 2"], None),
        (["M % 4 == 0", "N % 6 == 0"], None),
        (["M == N + 1"], ["M == 1", "N == 1"]),
        (["M*M == N*N"], None),
    ],
)
def test_constraints_settle_pairs(stated, open_cases):
    s = system("M == N or M == 1 or N == 1", *stated)
    found = find_ambiguities([(Dim("M"), Dim("N"), "/add", "Add")], s.constraints, s.facts)
    cases = [str(c.cond) for a in found for c in a.cases]
    expected = [str(s.facts.cond(parse_cond(c))) for c in open_cases or ()]
    assert [str(s.facts.cond(parse_cond(c))) for c in cases] == expected


# ---------------------------------------------------------------------- equalities


def test_equalities_across_tensors():
    s = system("total == past + seq", "H % 2 == 0", "a*a == b*b")
    shapes = {
        "x": Shape(["batch", "seq", "a"]),
        "y": Shape(["batch", Dim("H") // 2 * 2, "b"]),
        "z": Shape(["batch", "H"]),
        "w": Shape(["seq", "batch", "b"]),
        "small": Shape([4]),
    }
    sizes = {"x": 4, "y": 4, "z": 4, "w": 4, "small": 4, "absent": 2}
    found = find_equalities(shapes, sizes, s.facts)
    assert {str(e) for e in found} == {"total == past + seq", "a == b"}
    assert found.same_bytes == (("x", "w"),)


@pytest.mark.parametrize("seed", range(700, 730))
def test_equalities_are_proved_by_z3_alone(seed):
    s = random_system(seed)
    if s.clash is not None:
        return
    shapes = {"t": Shape([Dim("a"), Dim("b"), Dim("c"), parse_dim("a//2*2"), parse_dim("max(b, c)")])}
    alone = Engine(400_000, shortcuts=False)
    for equality in find_equalities(shapes, {}, s.facts):
        first = equality.members[0]
        for other in equality.members[1:]:
            assert not alone.entails(first.eq(other), s.needs).refuted


def test_the_residue_completes_models():
    s = system("total == past + seq", "H % 4 == 0")
    residue = Residue(s.facts, s.constraints)
    full = residue.complete({"past": 3, "seq": 5, "total": 8, "H": 4})
    assert not residue.violates(full)
    assert residue.violates({**full, "H": 6})


def test_sizes_that_refute_a_claim_and_break_no_assumption_are_not_looked_for_again(prover, monkeypatch):
    asked = []
    entails = Engine.entails
    monkeypatch.setattr(Engine, "entails", lambda self, *args: asked.append(args) or entails(self, *args))
    refuted = prover.prove(parse_cond("seq + past <= 300"))
    assert isinstance(refuted, Refuted)
    assert refuted.counterexample["seq"] + refuted.counterexample["past"] > 300
    assert all(refuted.counterexample[n] >= 2 for n in ("total", "seq", "past"))
    assert len(asked) == 1
