"""Holds what is said about a model against runs of it: sizes, acceptance, proofs.

Little but the public interface is used, and nothing is expected that does not come from a run.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx

import shapesolve

from ..operators.conftest import check_value
from .intent import by_intent, measured
from .model import Drawn, feeds_of
from .runtime import Data, Failed, Session, true_shapes

#: what may be wrong, worst first; a miss (accepted, and the run fails) is counted and is no failure
FAILURES = (
    "traceback", "hang", "memory", "wrong dim", "wrong dtype", "wrong value", "wrong equality", "false proof",
    "false refutation", "partial refutation", "false alarm", "views",
)  # fmt: skip
_KINDS = {np.dtype(object): 8}


@dataclass(frozen=True)
class Fault:
    """Something that is said and is not so, at one binding."""

    category: str
    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    #: what stays the same when the model is shrunk: the exception and its place, the requirement
    kind: str = ""
    claim: Claim | None = None


@dataclass
class Verdict:
    """What came of one model."""

    faults: list[Fault] = field(default_factory=list)
    ran: int = 0
    failed: int = 0
    refused: int = 0
    misses: list[Fault] = field(default_factory=list)
    dims: int = 0
    unknown: int = 0
    proofs: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement about sizes of tensors that a run can confirm: ``t[i] REL k * u[j] + c``."""

    left: tuple[str, int]
    relation: str
    right: tuple[str, int] | None
    factor: int
    offset: int

    def __str__(self) -> str:
        t, i = self.left
        right = (
            f"{self.factor}*{self.right[0]}[{self.right[1]}] + {self.offset}"
            if self.right
            else str(self.offset)
        )
        if self.relation == "divides":
            return f"{t}[{i}] % {self.factor} == 0"
        return f"{t}[{i}] {self.relation} {right}"

    def holds(self, shapes: Mapping[str, Sequence[int]]) -> bool | None:
        """Is it so for these shapes? None when the tensors have other ranks."""
        places = [self.left, *([self.right] if self.right else [])]
        if any(t not in shapes or i >= len(shapes[t]) for t, i in places):
            return None
        a = shapes[self.left[0]][self.left[1]]
        if self.relation == "divides":
            return a % self.factor == 0
        b = self.factor * shapes[self.right[0]][self.right[1]] + self.offset if self.right else self.offset
        return {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b}[self.relation]


def drawn_claims(shapes: Mapping[str, Sequence[Any]], random: Random, count: int) -> list[Claim]:
    """Claims about places of these shapes."""
    places = [(t, i) for t, s in shapes.items() for i in range(len(s)) if t.isidentifier()]
    claims = []
    for _ in range(count if places else 0):
        right = random.choice(places) if random.random() < 0.6 else None
        factor = random.choice((1, 1, 1, 2)) if right else random.choice((2, 3, 4))
        relation = (
            random.choice(("==", "==", "!=", ">=", "<=")) if right or random.random() < 0.7 else "divides"
        )
        offset = random.choice((0, 0, 0, 1, -1)) if right else random.choice((0, 1, 2, 4))
        claims.append(Claim(random.choice(places), relation, right, factor, offset))
    return claims


def place_of(error: BaseException) -> str:
    """Class and innermost place of our own in a traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "shapesolve/" in f.filename]
    last = frames[-1] if frames else None
    where = f"{last.filename.rsplit('shapesolve/', 1)[1]}:{last.name}" if last else "?"
    return f"{type(error).__name__} at {where}"


def reads_elsewhere(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Does a node run only because onnxruntime does not look? GatherND takes the batches of the indices from the data,
    which may have fewer: it reads what lies behind them, unless there is nothing to read. RoiAlign takes any tensor for one
    of four axes, which can end the process.
    """
    stored = {t.name: tuple(t.dims) for t in model.graph.initializer}
    known = {**stored, **shapes}
    for node in model.graph.node:
        batch = next((a.i for a in node.attribute if a.name == "batch_dims"), 0)
        if node.op_type == "GatherND" and batch and all(n in known for n in node.input):
            data, indices = (tuple(known[n][:batch]) for n in node.input)
            if data != indices and 0 not in known.get(node.output[0], ()):
                return True
        if node.op_type == "RoiAlign" and len(known.get(node.input[0], "NCHW")) != 4:
            return True
    return False


class Judge:
    """One model, analyzed once and run at several bindings."""

    def __init__(
        self, drawn: Drawn, seed: int, broadcast: Any = "named", claims: Sequence[Claim] | None = None
    ) -> None:
        self.drawn, self.random, self.verdict = drawn, Random(seed), Verdict()
        self.broadcast, self.claims = broadcast, claims
        self.analysis: Any = None
        self._refused: list[Mapping[str, int]] = []

    def fault(
        self,
        category: str,
        text: str,
        sizes: Mapping[str, int] | None = None,
        kind: str = "",
        claim: Claim | None = None,
    ) -> None:
        """Notes one, once of each kind."""
        found = Fault(category, text, dict(sizes or {}), kind or category, claim)
        if all((f.category, f.kind) != (found.category, found.kind) for f in self.verdict.faults):
            self.verdict.faults.append(found)

    def analyze(self) -> None:
        """Everything that is asked before a run: the analysis, its contract, some proofs."""
        try:
            a = self.analysis = shapesolve.analyze(self.drawn.model, broadcast=self.broadcast)
            _ = a.contract, a.ambiguities, a.shapes
            for finding in a.diagnostics:
                if finding.code == "SS105":  # a rule of ours raised: a finding for its users, a fault to us
                    self.fault(
                        "traceback", f"{finding.title}: {' '.join(finding.notes)}", kind=finding.op_type
                    )
        except Exception as error:
            self.fault("traceback", f"{type(error).__name__}: {error}", kind=place_of(error))
            self.analysis = None

    def ask(self, bindings: Sequence[Mapping[str, int]]) -> None:
        """Everything that is asked of an analysis, whatever the answers are."""
        if self.analysis is None:
            return
        a = self.analysis
        with contextlib.suppress(Exception):
            for sizes in bindings:
                a.check_inputs(self.drawn.shapes(sizes))
                a.evaluate({n: v for n, v in sizes.items() if n in a.symbols})
            for claim in self._claims():
                a.prove(str(claim))

    def _claims(self) -> Sequence[Claim]:
        shapes = {n: s for n, s in self.analysis.shapes.items() if s is not None and not n.startswith("c")}
        return drawn_claims(shapes, self.random, 2) if self.claims is None else self.claims

    def run(self, bindings: Sequence[Mapping[str, int]]) -> Iterator[str]:
        """Runs and compares; yields what it is about to do, so that the one who waits knows where it hangs."""
        yield "runtime"
        session, other = None, None
        try:
            session = Session(self.drawn.model)
        except Failed as error:
            results: list[tuple[Mapping[str, int], Any]] = [(sizes, error) for sizes in bindings]
        else:
            results = [(sizes, self._one_run(session, sizes)) for sizes in bindings]
            if self.drawn.defaults:
                other = self._one_run(session, bindings[0], self.drawn.defaults)
        yield "analysis"
        self.analyze()
        if self.analysis is None:
            return
        for sizes, result in results:
            self._compare(sizes, result)
        if isinstance(other, dict) and self._taken(bindings[0], other):
            results.append((bindings[0], other))  # a proof that names no default holds at other values, too
        if any(not isinstance(r, Failed) for _, r in results):
            yield from self._proofs(session, results)

    def _one_run(
        self, session: Session, sizes: Mapping[str, int], defaults: Mapping[str, Data] | None = None
    ) -> Any:
        shapes = self.drawn.shapes(sizes)
        try:
            results = session.run({**feeds_of(self.drawn.model, shapes), **(defaults or {})})
        except Failed as error:
            return error
        if reads_elsewhere(self.drawn.model, {**shapes, **true_shapes(results)}):
            return Failed("reads what lies behind a tensor")
        return results

    def _compare(self, sizes: Mapping[str, int], result: Any) -> None:
        a, shapes = self.analysis, self.drawn.shapes(sizes)
        try:
            broken = a.check_inputs(shapes)
            bound = {**{n: v for n, v in sizes.items() if n in a.symbols}, **a.bind_inputs(shapes)}
            held = a.contract.holds(bound)
            given = (
                {} if broken or a.conflicts else {n: s for n, s in a.evaluate(bound).items() if n in shapes}
            )
        except Exception as error:
            self.fault("traceback", f"{type(error).__name__}: {error}", sizes, place_of(error))
            return
        if held is not None and held != (not broken) and not a.conflicts:
            said = f"contract [{a.contract}] holds: {held}, but check_inputs says {[str(b.message) for b in broken]}"
            self.fault("views", said, sizes, f"holds {held}")
        changed = next((n for n, s in given.items() if tuple(s) != tuple(shapes[n])), None)
        if changed is not None:
            said = f"{changed} {shapes[changed]} is accepted, but evaluate gives {given[changed]}"
            self.fault("views", said, sizes, "evaluate")
        if isinstance(result, Failed):
            self.verdict.failed += 1
            if not broken and not a.conflicts and not result.own_limit:
                self.verdict.misses.append(Fault("miss", str(result), dict(sizes), _stem(str(result))))
            return
        self.verdict.ran += 1
        if any(
            c.role == "assumption" for conflict in a.conflicts for c in (*conflict.core, *conflict.stated)
        ):
            self.verdict.refused += 1
        elif a.conflicts:
            self.fault("false alarm", f"conflict: {a.conflicts[0].message}", sizes, "conflict")
        elif (broken and by_intent(a, broken, shapes, result, bound)) or self._assumed_of_data(result, bound):
            self.verdict.refused += 1
            self._refused.append(sizes)
        elif broken:
            self.fault("false alarm", f"check_inputs: {broken[0].message}", sizes, "check_inputs")
        else:
            self._sizes(result, bound, sizes)
            self._equal(bound, sizes)

    def _assumed_of_data(self, results: Mapping[str, Data], bound: Mapping[str, int]) -> bool:
        """Has the run a size or a number that only data decides, and another than broadcast="equal" takes it for?

        That breaks an assumption, which shapes no longer tell of, nor the terms that follow from it; those of the strict
        mode, which must be right, do.
        """
        if self.broadcast != "equal":
            return False
        stated = self.analysis._solved.stated.role("assumption")
        assumed = [c.cond for c in stated if c.cond.free_symbols - bound.keys()]
        if not assumed:
            return False
        known, strict = dict(bound), shapesolve.analyze(self.drawn.model, broadcast="strict")
        pairs = list(measured(strict, results))
        for d, real in pairs:
            known.setdefault(d.name or "", real)
        right = all(d.evaluate(known) in (None, real) for d, real in pairs)
        # it may know one of the sizes that are taken to be equal
        now = [strict._solved.facts.cond(cond) for cond in assumed]
        return right and any(cond.evaluate(known) is False for cond in now)

    def _taken(self, sizes: Mapping[str, int], result: Mapping[str, Data]) -> bool:
        """Are inputs that run accepted where those with defaults are given, too?"""
        shapes = {**self.drawn.shapes(sizes), **true_shapes(self.drawn.defaults)}
        try:
            broken = self.analysis.check_inputs(shapes)
        except Exception as error:
            self.fault("traceback", f"{type(error).__name__}: {error}", sizes, place_of(error))
            return False
        if broken and not by_intent(self.analysis, broken, shapes, result, self.analysis.bind_inputs(shapes)):
            self.fault("false alarm", f"check_inputs of other values: {broken[0].message}", sizes, "defaults")
        return not broken

    def _sizes(self, results: Mapping[str, Data], bound: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        a = self.analysis
        try:
            evaluated = a.evaluate(bound)
        except Exception as error:
            self.fault("traceback", f"{type(error).__name__}: {error}", sizes, place_of(error))
            return
        for name, result in results.items():
            if not isinstance(result, np.ndarray):
                continue
            real = tuple(result.shape)
            said = a.shapes.get(name)
            if name in evaluated and tuple(evaluated[name]) != real:
                self.fault("wrong dim", f"{name} is {said} = {evaluated[name]}, really {real}", sizes)
            elif said is not None:
                parts = [d.evaluate(bound) for d in said]
                if len(parts) != len(real) or any(
                    p not in (None, d) for p, d in zip(parts, real, strict=False)
                ):
                    self.fault("wrong dim", f"{name} is {said} = {parts}, really {real}", sizes)
                self.verdict.dims += len(real)
                self.verdict.unknown += parts.count(None)
            self._data(name, result, bound, sizes)
            kind = a.dtypes.get(name)
            if kind is not None and kind != _number_of(result):
                self.fault("wrong dtype", f"{name} has type {kind}, really {result.dtype}", sizes)

    def _data(self, name: str, result: Any, bound: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """What is known of a tensor's elements, against those that it has."""
        known = self.analysis.values.get(name)
        if known is not None:
            if any(type(e).__module__ == "numpy" for e in known.elems or ()):
                self.fault("wrong value", f"{name} has elements of numpy's types: {known}", sizes)
            try:
                check_value(known, result, bound, f"{name} ")
            except AssertionError as error:
                self.fault("wrong value", str(error).splitlines()[0], sizes)

    def _equal(self, bound: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Sizes that are said to be equal, or to have one possible value."""
        for equality in self.analysis.equalities:
            if len({d.evaluate(bound) for d in equality.members} - {None}) > 1:
                self.fault("wrong equality", f"{equality}", sizes)
        for name, size in self.analysis.bindings.items():
            assumed = self.analysis.bindings.why(name).assumption is not None
            if not assumed and bound.get(name, size) != size:
                self.fault("wrong equality", f"{name} is bound to {size}", sizes)

    def _proofs(
        self, session: Session | None, results: Sequence[tuple[Mapping[str, int], Any]]
    ) -> Iterator[str]:
        a = self.analysis
        for claim in self._claims():
            yield "analysis"
            try:
                proof = a.prove(str(claim))
            except Exception as error:
                self.fault(
                    "traceback",
                    f"prove {claim}: {type(error).__name__}: {error}",
                    kind=place_of(error),
                    claim=claim,
                )
                continue
            self.verdict.proofs += 1
            kind = type(proof).__name__
            if kind == "Proved" and not proof.assumptions:
                for sizes, result in results:
                    accepted = not isinstance(result, Failed) and sizes not in self._refused
                    if accepted and self._said(claim, sizes, result) is False:
                        self.fault("false proof", f"{claim} is {proof}, but it is not so", sizes, claim=claim)
            elif kind == "Refuted":
                yield from self._refuted(session, claim, proof)

    def _said(self, claim: Claim, sizes: Mapping[str, int], results: Mapping[str, Data]) -> bool | None:
        return claim.holds({**self.drawn.shapes(sizes), **true_shapes(results)})

    def _refuted(self, session: Session | None, claim: Claim, proof: Any) -> Iterator[str]:
        """The counterexample: are these sizes accepted, and is the claim false there?"""
        a = self.analysis
        shapes = {n: a.inputs[n].shape.evaluate(proof.counterexample) for n in self.drawn.declared}
        if any(s is None for s in shapes.values()):
            self.fault("partial refutation", f"{claim}: {proof} does not give every size", claim=claim)
            return
        broken = a.check_inputs(shapes)
        if broken:
            text = f"{claim}: {proof}, but these inputs are not accepted: {broken[0].message}"
            self.fault("false refutation", text, kind="not accepted", claim=claim)
            return
        if session is None or sum(int(np.prod(s)) for s in shapes.values()) > 1_000_000:
            return
        yield "runtime"
        try:
            results = session.run(feeds_of(self.drawn.model, shapes))
        except Failed:
            return
        yield "analysis"
        if claim.holds({**shapes, **true_shapes(results)}) is True:
            self.fault("false refutation", f"{claim}: {proof}, but there it is so", kind="so", claim=claim)


def _number_of(result: Any) -> int:
    from onnx import helper

    return _KINDS.get(result.dtype) or helper.np_dtype_to_tensor_dtype(result.dtype)


def _stem(message: str) -> str:
    """The part of a runtime's message that does not depend on names and sizes."""
    return "".join(c for c in message.split("Status Message:")[-1] if not c.isdigit())[:60]
