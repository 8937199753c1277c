"""Random graphs against onnxruntime: what is predicted of every tensor, at sizes that fit and sizes that do not."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve
from shapesolve.expr import eq, ge
from shapesolve.solve.proof import Proved, Refuted

from ..operators.conftest import check_value
from .guided import guided_model, session, size_of

#: operators of which onnxruntime checks or computes less than their text says when a tensor is empty
_LAX_WHEN_EMPTY = {"Concat", "MatMul", "MaxPool", "ReduceSum"}


def bindings(sizes: Mapping[str, int], random: Random) -> list[dict[str, int]]:
    """Sizes to try: those that the model was made at, all alike, one changed, random ones."""
    tried = [dict(sizes), *(dict.fromkeys(sizes, v) for v in (0, 1, 2))]
    tried += [{**sizes, n: v} for n in sizes for v in (0, 1, 5)]
    tried += [{n: random.randint(0, 9) for n in sizes} for _ in range(5)]
    return list({tuple(b.items()): b for b in tried}.values())


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_predictions_hold(first: int) -> None:
    for seed in range(first, first + 20):
        model, made = guided_model(seed)
        mode: Any = ("named", "named", "strict")[seed % 3]
        Judge(model, shapesolve.analyze(model, broadcast=mode), f"seed {seed}").judge(made, Random(seed))


class Judge:
    """Holds one analysis against runs of its model."""

    def __init__(self, model: onnx.ModelProto, analysis: Any, label: str) -> None:
        self.model, self.analysis, self.label = model, analysis, label
        self.session: Any = None
        try:
            self.session = session(model)
        except Exception:  # onnxruntime raises a dozen classes of its own
            assert analysis.conflicts, f"{label} cannot be loaded"

    def judge(self, made: Any, random: Random) -> None:
        """At every binding: does it run exactly when it is accepted, and are the sizes and data as predicted?"""
        lax = any(node.op_type in _LAX_WHEN_EMPTY for node in self.model.graph.node)
        claims = self.claims(random)
        for at in bindings(made.sizes, random):
            shapes = {n: tuple(size_of(d, at) for d in dims) for n, dims in made.declared.items()}
            empty = 0 in at.values()
            if self.session is None or (empty and lax):
                continue
            try:
                feeds = {n: np.ones(s, np.float32) for n, s in shapes.items()}
                results = self.session.run(None, feeds)
            except Exception:  # as above
                self.fails(shapes, at)
            else:
                self.runs(dict(zip(self.names, results, strict=True)), shapes, at, empty, claims)

    @property
    def names(self) -> list[str]:
        """The outputs, in order."""
        return [o.name for o in self.model.graph.output]

    def claims(self, random: Random) -> list[tuple[Any, Any]]:
        """Some conditions on predicted dims, and what `prove` says of each."""
        dims = list(dict.fromkeys(d for shape in self.analysis.shapes.values() for d in shape if d.terms))
        made = []
        for _ in range(2 if dims else 0):
            d, other, least = random.choice(dims), random.choice(dims), random.choice((1, 2))
            cond = random.choice((eq(d, other), ge(d, least)))
            made.append((cond, self.analysis.prove(cond)))
        for cond, proof in made:
            if isinstance(proof, Refuted):
                assert cond.evaluate(proof.counterexample) is not True, f"{self.label}: {cond} {proof}"
        return made

    def fails(self, shapes: Mapping[str, tuple[int, ...]], at: Mapping[str, int]) -> None:
        """A run that fails: some requirement is broken, or not decided by sizes."""
        a = self.analysis
        known = a.bind_inputs(shapes)
        open_ones = (e for e in a.walk.log if e.role == "requirement" and e.cond.evaluate(known) is None)
        said = a.conflicts or a.check_inputs(shapes) or next(open_ones, None)
        assert said, f"{self.label} at {dict(at)}: the run fails, no requirement does"

    def runs(
        self,
        results: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
        at: Mapping[str, int],
        empty: bool,
        claims: list[tuple[Any, Any]],
    ) -> None:
        """A run that succeeds: everything that is known is true of it."""
        a, where = self.analysis, f"{self.label} at {dict(at)}: "
        assert not a.conflicts, f"{where}it runs, but {a.conflicts[0].message}"
        broken = a.check_inputs(shapes)
        assert not broken, f"{where}it runs, but {broken[0].message}"
        assert a.contract.holds(at) is not False, f"{where}{a.contract}"
        for name, size in a.bindings.items():
            assumed = a.bindings.why(name).assumption is not None
            assert assumed or at.get(name, size) == size, f"{where}{name} is bound to {size}"
        for equality in a.equalities:
            assert len({d.evaluate(at) for d in equality.members} - {None}) < 2, f"{where}{equality}"
        for cond, proof in claims:
            if isinstance(proof, Proved) and not proof.assumptions:
                assert cond.evaluate(at) is not False, f"{where}{cond} is proved"
        for name, result in results.items():
            self.one_tensor(name, result, at, where)

    def one_tensor(self, name: str, result: Any, at: Mapping[str, int], where: str) -> None:
        """Shape and data of one tensor."""
        shape, known = self.analysis.shapes.get(name), self.analysis.values.get(name)
        if shape is not None:
            sizes = [d.evaluate(at) for d in shape]
            same = len(sizes) == result.ndim and all(
                s is None or s == real for s, real in zip(sizes, result.shape, strict=True)
            )
            assert same, f"{where}{name} is {shape} = {sizes}, really {result.shape}"
        if known is not None:
            check_value(known, result, at, f"{where}{name}: ")
