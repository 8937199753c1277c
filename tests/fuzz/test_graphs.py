"""A short campaign with fixed seeds, and that the campaign itself sees and writes down what is wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from tests.building import EVERYTHING, parsed, seeds

from .graphs import Campaign, judged
from .isolate import Worker
from .judge import Claim, Fault, Judge, Verdict
from .kinds import KINDS
from .model import Drawn, drawn_model
from .runtime import Failed, Session

COUNT = len(seeds(0, 200, share=10))


def test_what_is_said_is_so() -> None:
    totals = Campaign().run(range(COUNT))
    assert totals.counts["ran"] > 2 * COUNT
    wrong = [f"seed {s}: {f.category} at {f.sizes}: {f.text}" for s, f in totals.faults]
    assert wrong == []


def test_most_graphs_run_and_many_kinds_are_drawn() -> None:
    loaded, seen, opsets = 0, set[str](), set[int]()
    for seed in range(count := 250 if EVERYTHING else 50):
        drawn = drawn_model(seed)
        seen |= {n.op_type for n in drawn.model.graph.node}
        opsets.add(drawn.model.opset_import[0].version)
        try:
            loaded += bool(Session(drawn.model))
        except Failed:
            continue
    assert loaded > 0.95 * count
    assert len(seen) > 110
    assert opsets == set(range(11, 25))
    assert len({k.name for k in KINDS}) > 150


def test_the_same_seed_draws_the_same_model() -> None:
    assert drawn_model(7) == drawn_model(7)
    assert drawn_model(7).model.SerializeToString() != drawn_model(8).model.SerializeToString()


#: what a judge asks of an analysis
_ASKED = (
    "contract", "conflicts", "inputs", "symbols", "shapes", "dtypes", "values", "equalities", "bindings", "check_inputs",
    "bind_inputs", "evaluate", "prove", "_solved",
)  # fmt: skip


class _Liar(Judge):
    """Judges an analysis that is changed behind its back."""

    def __init__(self, drawn: Drawn, **lies: Any) -> None:
        super().__init__(
            drawn, 0, claims=[Claim(("x0", 1), "==", None, 1, 3), Claim(("x0", 1), "==", None, 1, 4)]
        )
        self.lies = lies

    def analyze(self) -> None:
        super().analyze()
        real = self.analysis
        self.analysis = SimpleNamespace(**{n: getattr(real, n) for n in _ASKED} | self.lies)

    def faults(self) -> set[str]:
        """Categories of what is wrong."""
        list(self.run([self.drawn.sizes]))
        return {f.category for f in self.verdict.faults}


def _raises(*_: Any) -> Any:
    raise RuntimeError


@pytest.mark.parametrize(
    ("category", "lies"),
    [
        ("wrong dim", {"evaluate": lambda bound: {"t1": (99,)}}),
        ("wrong dtype", {"dtypes": {"t1": TensorProto.STRING}}),
        ("false alarm", {"check_inputs": lambda shapes: [SimpleNamespace(message="no", constraint=None)]}),
        ("false alarm", {"conflicts": [SimpleNamespace(message="no", core=(), stated=())]}),
        ("views", {"contract": SimpleNamespace(holds=lambda bound: False)}),
        ("traceback", {"evaluate": _raises}),
        ("traceback", {"prove": _raises}),
        ("false proof", {"prove": lambda claim: type("Proved", (), {"assumptions": ()})()}),
        ("false refutation", {"prove": lambda claim: type("Refuted", (), {"counterexample": {"N": 3}})()}),
    ],
)
def test_a_lie_is_seen(category: str, lies: dict[str, Any]) -> None:
    model = parsed("g (float[1, N] x0) => (t1) { t1 = Relu(x0) }")
    drawn = Drawn(model, {"N": 3}, {"x0": (1, "N")})
    assert _Liar(drawn).faults() == set()
    assert category in _Liar(drawn, **lies).faults()


def test_sizes_that_data_decides_may_break_what_a_mode_takes_as_equal() -> None:
    """The axis to reduce is a size: reduced, the sum has 1 where the other addend has 2, which is no wrong dim."""
    model = parsed(
        "g (float[2, 3] x0, float[K] x1) => (sum, t1) { axis = Shape(x1) sum = ReduceSum(x0, axis) t1 = Add(sum, x0) }"
    )
    judge = Judge(Drawn(model, {"K": 0}, _SUMMED), 0, "equal", claims=())
    list(judge.run([{"K": 0}, {"K": 1}]))
    assert judge.verdict.faults == []
    assert (judge.verdict.ran, judge.verdict.refused) == (2, 2)


_SUMMED = {"x0": (2, 3), "x1": ("K",)}


def test_a_size_that_is_taken_as_equal_may_be_known_to_the_strict_mode() -> None:
    """Squeeze needs the one row of `other`; that `sum` has it too is taken, and two rows break that."""
    declared = {"x0": (2, 1), "x1": ("K",), "x2": ("L",)}
    model = parsed(
        "g (float[2, 1] x0, float[K] x1, float[L] x2) => (sum, other, t1, t2) <int64[1] rows = {0}> {"
        " first = Shape(x1) sum = ReduceSum(x0, first) second = Shape(x2) other = ReduceSum(x0, second)"
        " t1 = Add(sum, other) t2 = Squeeze(other, rows) }"
    )
    judge = Judge(Drawn(model, {"K": 1, "L": 0}, declared), 0, "equal", claims=())
    list(judge.run([{"K": 1, "L": 0}]))
    assert judge.verdict.faults == []
    assert (judge.verdict.ran, judge.verdict.refused) == (1, 1)


def test_what_follows_from_a_term_that_refuses_by_intent_is_no_false_alarm() -> None:
    """Concat leaves an empty tensor aside, so that its rows need not be those of the other: A == B is refused all the
    same, and with it what other nodes need of B, which is known of A then.
    """
    declared = {"x0": ("A", "K"), "x1": ("B", 4)}
    model = parsed(
        "g (float[A, K] x0, float[B, 4] x1) => (joined, t1) <int64[2] target = {-1, 12}>"
        " { joined = Concat<axis = 1>(x0, x1) t1 = Reshape(x1, target) }"
    )
    judge = Judge(Drawn(model, {}, declared), 0, claims=())
    list(judge.run([{"A": 1, "B": 3, "K": 0}]))
    assert len(judge.analysis.check_inputs({"x0": (1, 0), "x1": (3, 4)})) == 2
    assert (judge.verdict.faults, judge.verdict.refused) == ([], 1)


def test_a_failure_is_written_down(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign._take(3, Verdict([Fault("wrong dim", "t1 has 4 rows, not 5", {"N": 4}, "rows")]))
    assert (
        (tmp_path / "wrong_dim_3.txt").read_text().startswith("wrong dim at {'N': 4}: t1 has 4 rows, not 5")
    )
    assert onnx.load(tmp_path / "wrong_dim_3.onnx") == drawn_model(3).model


def test_a_seed_is_judged_in_named_phases() -> None:
    assert {"draw", "runtime", "analysis"} == set(judged(3))


def _crashing(*arguments: object) -> Iterator[str]:
    yield "analysis"
    if arguments:  # the first work of a process has none
        os.kill(os.getpid(), signal.SIGSEGV)
    return Verdict()


@pytest.mark.parametrize("harmless", [True, False])
def test_a_crash_counts_where_onnxruntime_ran_nothing(harmless: bool) -> None:
    campaign = Campaign()
    campaign._worker = Worker(_crashing, ())
    if not harmless:
        campaign._unharmed = Worker(_crashing, ())
    totals = campaign.run(range(2))
    assert totals.counts["lost"] == 2 * harmless
    assert [(s, f.text) for s, f in totals.faults] == [
        (s, "crash -11 during the analysis") for s in range(2) if not harmless
    ]
