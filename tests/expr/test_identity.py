"""Hash-consing: equal forms are one object, in threads, through pickles, until the last reference goes."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading

import pytest
from hypothesis import given

from shapesolve.expr import (
    FALSE,
    TRUE,
    Cond,
    Dim,
    all_of,
    any_of,
    atom,
    broadcast,
    canonical,
    constant,
    core,
    eq,
    ge,
    ite,
    maximum,
    minimum,
    ne,
    parse_dim,
    symbol,
)
from shapesolve.expr import cond as cond_module
from shapesolve.expr.limits import MIN_DROPPED
from shapesolve.expr.pool import drop_unused

from .trees import build, condition_trees, trees

a, b = Dim("a"), Dim("b")


def pickled(x):
    return pickle.loads(pickle.dumps(x))  # noqa: S301


def forms():
    return [
        a,
        a + b,
        (a + 1) // 2,
        maximum(a, b),
        broadcast(a, b),
        ite(eq(a, 1), b, a),
        a % 32,
        Dim(5),
        Dim(10**30),
        symbol("v", None) - 3,
    ]


def test_equal_forms_are_one_object():
    for x, y in zip(forms(), forms()):
        assert x is y
        assert hash(x) == hash(y)


def test_numbers_compare_and_hash_as_integers():
    for k in (-3, 0, 1, 5, 4096, 5000, 10**30):
        assert Dim(k) is Dim(k)
        assert Dim(k) == k
        assert hash(Dim(k)) == hash(k)
        assert {k: "x"}[Dim(k)] == "x"
        assert int(Dim(k)) == k
    assert Dim(True) is Dim(1)
    assert a != 1
    assert a != "a"
    assert Dim(Dim(3)) is constant(3)
    with pytest.raises(TypeError, match="symbolic"):
        int(a)


def test_symbols_of_different_ranges_are_different():
    assert symbol("a") is a
    assert symbol("a", None) is not a
    assert symbol("a", 1) is not a


@given(trees)
def test_pickles_and_copies_of_dims_are_the_same_object(tree):
    dim = build(tree)
    assert pickled(dim) is dim
    assert copy.deepcopy(dim) is dim
    assert copy.copy(dim) is dim


@given(condition_trees)
def test_pickles_of_conditions_are_the_same_object(tree):
    cond = build(tree)
    assert pickled(cond) is cond
    assert copy.deepcopy([cond])[0] is cond


def test_pickles_are_read_in_another_process():
    data = pickle.dumps([*forms(), eq(a, b), TRUE])
    code = (
        "import pickle, sys; from shapesolve.expr import Dim\n"
        "x = pickle.loads(sys.stdin.buffer.read())\n"
        "assert x[1] is Dim('a + b') and x[2] is Dim('(a + 1)//2')\n"
        "print('|'.join(map(str, x)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "|".join(map(str, [*forms(), eq(a, b), TRUE]))


def test_the_interpreter_exits_quietly():
    code = "from shapesolve.expr import Dim, eq\nx = Dim('a')//3 + Dim('b'); c = eq(x, 3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b""


def test_threads_share_objects():
    results: list[list[Dim | Cond]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def work(out):
        barrier.wait()
        if out is results[0]:
            for _ in range(50):
                drop_unused()
        for i in range(300):
            x = (symbol(f"t{i}") + i) // 7 + maximum(symbol(f"t{i}"), i % 5)
            out.append(x)
            out.append(ge(x, i))

    threads = [threading.Thread(target=work, args=(out,)) for out in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for other in results[1:]:
        assert all(x is y for x, y in zip(results[0], other))


def test_what_is_left_of_a_quotient_is_decided_by_its_bounds():
    b, c = symbol("b"), symbol("c")
    assert (4 * b + minimum(c, 1)) // 4 is b
    assert (6 * b + minimum(c, 2) + 3) // 6 is b
    assert parse_dim("(4*b + min(c, 1))//4") is b


def test_unreachable_forms_are_forgotten():
    pools = atom._ATOMS, core._DIMS, cond_module._CONDS

    def sizes():
        canonical._MEMO.clear()
        gc.collect()  # what other tests left in cycles holds forms too
        drop_unused()
        assert not any(p.recent for p in pools)
        return [len(p.settled) for p in pools]

    def made():
        return [ge((symbol(f"g{i}") + 1) // 3 + maximum(symbol(f"g{i}"), 5), 900) for i in range(100)]

    made()  # small numbers are kept once they were met
    before = sizes()
    while (now := sizes()) != before:  # what others left is freed in steps
        before = now
    kept = made()
    assert all(now >= then + 100 for now, then in zip(sizes(), before))
    assert all(x is y for x, y in zip(kept, made()))  # what somebody holds stays the only one
    kept.clear()
    assert sizes() == before


def test_pools_do_not_grow_with_what_was_used_once():
    drop_unused()
    before = len(core._DIMS.settled)  # what other tests hold, or left to the collector
    for i in range(5 * MIN_DROPPED):
        symbol(f"once{i}")
    assert len(core._DIMS.recent) <= core._DIMS.limit
    assert len(core._DIMS.settled) <= before + 3 * MIN_DROPPED


def test_the_order_of_terms_is_the_same_in_every_process():
    code = "from shapesolve.expr import Dim\nprint(Dim('z*y + (b + a)//2 + max(q, p) + broadcast(n, m)'))"
    texts = set()
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        texts.add(
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env).stdout
        )
    assert len(texts) == 1


def test_conditions_are_canonical():
    assert eq(a, b) is eq(b, a)
    assert eq(2 * a, 2 * b) is eq(a, b)
    assert ge(2 * a, 3) is ge(a, 2)
    assert ~eq(a, b) is ne(a, b)
    assert ~~ge(a, b) is ge(a, b)
    assert eq(2 * a, 3) is FALSE
    assert ge(a, 0) is TRUE
    assert ge(-a, 0) is eq(a, 0)
    assert all_of((eq(a, 1), ne(a, 1))) is FALSE
    assert any_of((eq(a, 1), ne(a, 1))) is TRUE
    assert all_of(()) is TRUE
    assert any_of(()) is FALSE
    assert all_of((eq(a, 1), all_of((eq(b, 1), eq(a, 1))))) is all_of((eq(b, 1), eq(a, 1)))
    assert parse_dim("ite(a == b, a, b)") is b
