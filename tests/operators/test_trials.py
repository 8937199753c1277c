"""A trial of a loop's body leaves nothing behind: not in the walk, nor in the scopes around it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx.parser
import pytest

import shapesolve
from shapesolve.lower import scopes
from shapesolve.lower.state import SHARED, LoweringState
from shapesolve.lower.walk import Walk
from shapesolve.operators import control

#: the body makes names of its own: elements of `starts`, sizes that depend on data, the truth of `flag`
LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, m] x, int64[2] starts, bool flag, int64 count, bool go) => (float[a, b] y) {
    y = Loop(count, go, x) <body = body (int64 i, bool c, float[p, q] carried) => (bool d, float[r, s] out) {
        ends = Add(starts, starts)
        cut = Slice(carried, starts, ends)
        none = NonZero(cut)
        picked = If(flag) <
            then_branch = then () => (t) { t = Relu(cut) }, else_branch = other () => (e) { e = Neg(carried) }>
        d = Identity(c)
        out = Concat<axis = 0>(carried, picked)
    }>
}
"""


def attributes(state: LoweringState) -> dict[str, Any]:
    """The attributes of a state, whether its class is compiled or not."""
    names = getattr(LoweringState, "__mypyc_attrs__", None) or vars(state)
    return {n: getattr(state, n) for n in names if n != "__dict__"}


def snapshot(walk: Walk) -> dict[str, Any]:
    """What a walk holds and what its scopes say, in copies; without what trials share."""
    own = {n: v for n, v in attributes(walk.state).items() if n not in SHARED}
    found: dict[str, Any] = {n: v.copy() for n, v in own.items() if not isinstance(v, int)}
    found["rank"] = dict(walk.facts.rank) if hasattr(walk.facts, "rank") else None
    scope: Any = walk.scope
    while scope is not None:
        found[f"scope {scope.prefix}"] = dict(scope.env)
        scope = scope.parent
    return found


def test_a_trial_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = []

    @contextmanager
    def watched(walk: Walk) -> Iterator[None]:
        before = snapshot(walk)
        with scopes.rehearsal(walk):
            yield
            during = snapshot(walk)
        assert snapshot(walk) == before
        trials.append({name for name in during if during[name] != before.get(name)})

    monkeypatch.setattr(control, "rehearsal", watched)
    analysis = shapesolve.analyze(onnx.parser.parse_model(LOOP))
    assert "y" in analysis.dtypes
    assert len(trials) > 1
    assert {"log", "tensors", "producers", "reasons", "scope "} <= set().union(*trials)


def test_a_forked_state_shares_what_it_says_and_nothing_else() -> None:
    state = shapesolve.analyze(onnx.parser.parse_model(LOOP))._solved.walk.state
    ours, theirs = attributes(state), attributes(state.fork())
    assert ours.keys() == theirs.keys()
    assert ours["reasons"]
    assert {n for n in ours if ours[n] is theirs[n] and not isinstance(ours[n], int)} == {*SHARED}
