"""Titles of findings are true: whatever the model accepts, in the scope of the title, satisfies its condition; helps work."""

from __future__ import annotations

import re
from itertools import product
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import shapesolve as ss
from shapesolve.causes.finding import Finding
from shapesolve.expr import Cond, parse_cond

from .. import building
from ..building import EVERYTHING
from ..nodes import z
from .broken import ints, model

_SENTENCES = [
    (r"(.+) must be a multiple of (\d+)", "{0} % {1} == 0"),
    (r"(.+) must be at most (.+)", "{0} <= {1}"),
    (r"(.+) must be at least (.+)", "{0} >= {1}"),
    (r"(.+) must be from (\d+) to (\d+)", "{1} <= {0} and {0} <= {2}"),
    (r"(.+) must be (\d+)", "{0} == {1}"),
    (r"(.+) must equal (.+)", "{0} == {1}"),
    (r"(?:the model runs only if )(.+)", "{0}"),
    (r"\w+ is declared dynamic, but only (\w+) = (\d+) runs", "{0} == {1}"),
    (r"(\w+) is declared as an independent dim, but must equal (.+)", "{0} == {1}"),
]


def stated(text: str) -> tuple[Cond, list[Cond]] | None:
    """The condition and the scope that a title or a condition states."""
    claim, _, scope = text.partition(" for ")
    for pattern, form in _SENTENCES:
        found = re.fullmatch(pattern, claim)
        if found:
            claim = form.format(*found.groups())
            break
    try:
        return parse_cond(claim), [parse_cond(t) for t in scope.split(", ") if t]
    except ValueError:
        return None


def drawn(random: Random) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """A model of one input, with stored sizes of an example."""
    k, stride, n = random.choice([1, 2, 3]), random.choice([1, 2, 3]), random.choice([2, 3, 4, 6])
    pad = random.choice([0, 1])
    kind = random.choice(["flatten", "table", "target", "skip", "slice", "tie", "merge"])
    conv = f"Conv<kernel_shape: ints = [{k}], strides: ints = [{stride}], pads: ints = [{pad}, {pad}]>(x, w)"
    head = f"g (float[batch, 2, length] x) => (y) {{ c = {conv} "
    stored: dict[str, Any] = {"w": [3, 2, k]}
    body = {
        "flatten": "f = Flatten(c) y = MatMul(f, fc) }",
        "table": "y = Add(c, table) }",
        "target": "y = Reshape(c, target) }",
        "skip": f"p = MaxPool<kernel_shape: ints = [{n}], strides: ints = [{n}]>(c) u = Resize(p, , scales) y = Add(u, c) }}",
        "slice": "s = Slice(c, zero, end, axes) y = Add(s, c) }",
        "tie": "t = Transpose<perm: ints = [1, 2, 0]>(c) y = MatMul(c, t) }",
        "merge": "f = Reshape(c, target) y = MatMul(f, fc) }",
    }[kind]
    stored |= {
        "flatten": {"fc": [3 * n, 5]},
        "table": {"table": [3, n]},
        "target": {"target": ints(*random.choice([(-1, 3, n), (1, -1), (n, -1), (0, -1, n)]))},
        "skip": {"scales": np.array([1, 1, n], "f4")},
        "slice": {"zero": ints(0), "end": ints(n), "axes": ints(2)},
        "tie": {},
        "merge": {"target": ints(1, -1), "fc": [3 * n, 5]},
    }[kind]
    return model(head + body, **stored), ("batch", "length")


def _refusal(session: ort.InferenceSession, sizes: dict[str, int]) -> str:
    try:
        session.run(None, {"x": z(sizes["batch"], 2, sizes["length"])})
    except Exception as e:  # onnxruntime raises a dozen classes of its own
        return str(e)
    return ""


def _runs(session: ort.InferenceSession, sizes: dict[str, int]) -> bool:
    return not _refusal(session, sizes)


@pytest.mark.parametrize("seed", range(120 if EVERYTHING else 12))
def test_titles_hold_for_whatever_runs_and_helps_name_sizes_that_run(seed: int) -> None:
    m, names = drawn(Random(seed))
    a, session = ss.analyze(m), building.session(m, optimized=False)
    grid = [dict(zip(names, at)) for at in product(range(1, 7), range(1, 26))]
    runs = [at for at in grid if _runs(session, at)]
    assert runs == [at for at in grid if not a._solved.violations_at(at)]
    for finding in a.findings:
        for text in filter(None, (finding.title, finding.condition)):
            claim = stated(text)
            if claim is not None:
                cond, scope = claim
                inside = [at for at in runs if all(c.evaluate(at) is not False for c in scope)]
                assert all(cond.evaluate(at) is not False for at in inside), text
        _holds(finding, a, session)


def _holds(finding: Finding, a: ss.Analysis, session: ort.InferenceSession) -> None:
    if finding.runs and all(dict(finding.runs).values()):
        assert _runs(session, dict(finding.runs)), finding
        assert not _runs(session, dict(finding.fails)), finding
    declared = finding.help.rpartition("declare ")[2] if "declare " in finding.help else ""
    if finding.code in ("SS401", "SS404") and declared and all((a._solved.example or {"": 0}).values()):
        sizes = {
            name: int(size)
            for names, size in re.findall(r"([\w, ]+?) as (\d+)", declared)
            for name in re.split(r", | and ", names)
            if name
        }
        full = a._solved.finder(floor=1).completed(sizes)
        assert full is not None, finding.help
        assert _runs(session, full), finding.help


@pytest.mark.parametrize("seed", range(60 if EVERYTHING else 8))
def test_why_names_where_onnxruntime_stops_and_sizes_that_run(seed: int) -> None:
    random = Random(1000 + seed)
    m, _ = drawn(random)
    for i, node in enumerate(m.graph.node):
        node.name = node.name or f"node_{i}_{node.op_type}"
    a = ss.analyze(m)
    session = building.session(m, optimized=False)
    for sizes in ({"batch": random.randint(1, 5), "length": random.randint(1, 30)} for _ in range(4)):
        if _runs(session, sizes) or not a.ok:
            continue
        (finding,) = ss.analyze(m, bind=sizes).findings
        stops = re.search(r"Name:'([^']*)'", _refusal(session, sizes))
        assert stops is None or stops[1] == finding.node, finding
        name = re.match(r"use (\w+ = )", finding.help + "use x = ")
        for choice in filter(None, finding.help.removeprefix("use ").split(" or ")):
            choice = choice if "=" in choice else f"{name and name[1]}{choice}"  # "or 480320 (round)"
            near = {name: int(size) for name, size in re.findall(r"(\w+) = (\d+)", choice)}
            assert _runs(session, {**sizes, **near}), (sizes, finding.help)
