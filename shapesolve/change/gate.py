"""The gate for a changed model: compares output shapes and accepted sizes with the original, by proof.

Outputs are matched by name, the others by position; sizes by the inputs that they are declared on. What is said to differ
comes with sizes at which that was checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..analysis import Analysis
from ..expr import Cond, Dim, any_of, eq
from ..lower.types import Known, Tensor
from ..solve.check import Checker
from ..solve.proof import Proved, Prover, Refuted

Verdict = Literal["same", "differs", "open"]
#: relation of the sizes that the second model accepts to those of the first
Relation = Literal["equal", "wider", "narrower", "neither", "open", "none", "unrelated"]
_CLOSE = 1e-3


@dataclass(frozen=True, slots=True)
class OutputProof:
    """An output of both models: its names, the verdict, its shapes, and what they are where they differ.

    `values` is ``equal`` where its values are proved the same, ``not known`` elsewhere, and empty if that was not asked.
    """

    name: str
    other: str
    verdict: Verdict
    shapes: tuple[str, str]
    why: str = ""
    values: Literal["", "equal", "not known"] = ""


@dataclass(frozen=True, slots=True)
class ContractProof:
    """The accepted sizes of two models as sets.

    Attributes:
        relation: of the second to the first; ``none`` where no size runs either of them, ``unrelated`` where they have
            no input in common.
        only_first: sizes that the first accepts and the second does not, if there are any.
        only_second: the other way round.
        left_out: how many conditions on data, not on sizes, are not compared.
    """

    relation: Relation
    only_first: Mapping[str, int] | None
    only_second: Mapping[str, int] | None
    left_out: int


@dataclass(frozen=True, slots=True)
class Runs:
    """Results of runs with onnxruntime: their number, the largest difference of values, and the faults."""

    count: int
    largest: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """The whole comparison; `unmatched`: outputs that only one of the models has."""

    outputs: tuple[OutputProof, ...]
    unmatched: tuple[str, ...]
    contract: ContractProof
    runs: Runs | None = None

    @property
    def passed(self) -> bool:
        """True if outputs are proved the same, accepted sizes equal or wider, and no run differs.

        Values that were asked for are proved the same, too.
        """
        alike = all(o.verdict == "same" and o.values != "not known" for o in self.outputs)
        same = alike and not self.unmatched
        return same and self.contract.relation in ("equal", "wider") and not (self.runs and self.runs.faults)

    @property
    def decided(self) -> bool:
        """True if the result is known. It is not if nothing is known to differ and an output or the sizes are open.

        Models that nothing runs do not pass.
        """
        verdicts = {o.verdict for o in self.outputs}
        refuted = "differs" in verdicts or self.unmatched or self.contract.only_first
        nothing_runs = self.contract.relation == "none"
        return bool(refuted or nothing_runs or (self.runs and self.runs.faults)) or self.passed


class _Side:
    """One model, and what it says in the names of the other."""

    def __init__(self, mine: Analysis, other: Analysis) -> None:
        self.analysis = mine
        self.to: dict[str, Dim] = {}
        self.ties: list[Cond] = []
        self.open = 0
        self._match(mine, other)
        for cond in Checker(mine._solved.lowered.constraints, mine._solved.facts).conditions:
            now = cond if cond.free <= self.to.keys() else mine._solved.facts.cond(cond)
            if now.free <= self.to.keys():
                self.ties.append(now.subs(self.to))
            else:
                self.open += 1

    def _match(self, mine: Analysis, other: Analysis) -> None:
        pairs = [(mine.inputs[a], other.inputs[b]) for a, b in matched([*mine.inputs], [*other.inputs])]
        later: list[tuple[Dim, Dim]] = []
        for known, its in pairs:
            for d, x in zip(_dims(known), _dims(its)):
                if d.name is not None and d.name not in self.to:
                    self.to[d.name] = x
                else:
                    later.append((d, x))
        for d, x in later:
            if d.free <= self.to.keys():
                self.ties.append(eq(d.subs(self.to), x))
            else:
                self.open += 1

    def said(self, d: Dim) -> Dim | None:
        """A size in the names of the other model, where it has them."""
        return d.subs(self.to) if d.free <= self.to.keys() else None


def _dims(known: Known) -> Sequence[Dim]:
    return known.shape if isinstance(known, Tensor) and known.shape is not None else ()


def matched(mine: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names: those that are the same, and what is left by position where that is as many."""
    pairs = [(name, name) for name in mine if name in others]
    left, right = [n for n in mine if n not in others], [n for n in others if n not in mine]
    return pairs + ([*zip(left, right)] if len(left) == len(right) else [])


def hold(before: Analysis, after: Analysis, *, values: bool = False) -> Gate:
    """Compare two models; both should be analyzed with ``broadcast="strict"``, so that nothing is assumed.

    With `values`, the values of outputs too are proved equal where they are (see `same_values`).
    """
    first, second = _Side(before, after), _Side(after, before)
    forward, backward = _prover(before), _prover(after)
    only_first = _outside(before, forward, second)
    only_second = _outside(after, backward, first)
    names = [n for n, _ in before.model.graph.outputs], [n for n, _ in after.model.graph.outputs]
    pairs = matched(*names)
    outputs = tuple([_output(before, after, forward, second, a, b) for a, b in pairs])
    if values:
        from .same_values import same_values

        equal = same_values(before, after, matched([*before.inputs], [*after.inputs]), pairs)
        outputs = tuple([replace(o, values="equal" if equal[o.name] else "not known") for o in outputs])
    seen = {a for a, _ in pairs}, {b for _, b in pairs}
    unmatched = [n for names_, found in zip(names, seen) for n in names_ if n not in found]
    relation = _relation(only_first, only_second)
    if before.contract.impossible and after.contract.impossible:
        relation, only_first, only_second, outputs = "none", None, None, ()  # there is nothing to compare
    elif not matched([*before.inputs], [*after.inputs]) and (before.inputs or after.inputs):
        relation, only_first, only_second = "unrelated", None, None
    contract = ContractProof(relation, only_first or None, only_second or None, first.open + second.open)
    return Gate(outputs, tuple(unmatched), contract)


def _prover(analysis: Analysis) -> Prover:
    request = analysis._solved.request
    return Prover(
        analysis._solved.lowered.constraints, analysis._solved.facts, rlimit=request.rlimit, assumptions=()
    )


#: undecided: no sizes are known, and their absence is not proved
_UNDECIDED: Mapping[str, int] = {}


def _outside(mine: Analysis, prover: Prover, other: _Side) -> Mapping[str, int] | None:
    """Sizes that `mine` accepts and the other model rejects. None: proved that there are none; empty: undecided."""
    checker = Checker(mine._solved.lowered.constraints, mine._solved.facts)
    decided = True
    for cond in dict.fromkeys(other.ties):
        proof = prover.prove(cond)
        if isinstance(proof, Proved):
            continue
        decided = False
        if isinstance(proof, Refuted):
            sizes = {n: v for n, v in proof.counterexample.items() if n in mine.symbols}
            if cond.evaluate(sizes) is False and not checker.broken(sizes):
                return sizes
    return None if decided else _UNDECIDED


def _relation(only_first: Mapping[str, int] | None, only_second: Mapping[str, int] | None) -> Relation:
    if _UNDECIDED in (only_first, only_second):
        return "open"
    if only_first is None:
        return "equal" if only_second is None else "wider"
    return "narrower" if only_second is None else "neither"


def _output(
    before: Analysis, after: Analysis, prover: Prover, second: _Side, name: str, other: str
) -> OutputProof:
    x, y = before.shapes.get(name), after.shapes.get(other)
    texts = str(x) if x is not None else "?", str(y) if y is not None else "?"
    kinds = before.dtypes.get(name, 0), after.dtypes.get(other, 0)
    if all(kinds) and kinds[0] != kinds[1]:
        return OutputProof(name, other, "differs", texts, f"element type {kinds[0]} became {kinds[1]}")
    if x is None or y is None or not all(kinds):
        return OutputProof(name, other, "open", texts, "the rank or type is not known")
    if len(x) != len(y):
        return OutputProof(name, other, "differs", texts, "the ranks differ")
    why = ""
    for a, b in zip(x, y):
        verdict, reason = _sizes(before, prover, second, a, b)
        if verdict == "differs":
            return OutputProof(name, other, verdict, texts, reason)
        why = why or reason
    return OutputProof(name, other, "open" if why else "same", texts, why)


def _sizes(before: Analysis, prover: Prover, second: _Side, a: Dim, b: Dim) -> tuple[Verdict, str]:
    its = second.said(b)
    if its is None or not a.free <= before.symbols.keys():
        return "open", f"{a} or {b} depends on data, or on sizes that the inputs of only one model have"
    if a is its:
        return "same", ""
    refused = [~c for c in dict.fromkeys(second.ties) if not before._solved.facts.cond(c).is_true]
    proof = prover.prove(any_of((*refused, eq(a, its))))
    if isinstance(proof, Proved):
        return "same", ""
    if isinstance(proof, Refuted):
        sizes = {n: v for n, v in proof.counterexample.items() if n in before.symbols}
        values = a.evaluate(sizes), its.evaluate(sizes)
        accepted = not Checker(before._solved.lowered.constraints, before._solved.facts).broken(sizes)
        if accepted and None not in values and values[0] != values[1]:
            return "differs", f"{a} is {values[0]} and {its} is {values[1]} for {told(sizes)}"
    return "open", f"{a} == {its} is not decided"


def told(sizes: Mapping[str, int]) -> str:
    """Sizes as text."""
    return ", ".join(f"{n} = {v}" for n, v in sizes.items()) or "all sizes"


# ---------------------------------------------------------------------- runs


def run_both(first: Any, second: Any, feeds: Sequence[Mapping[str, Any]], names: tuple[Any, Any]) -> Runs:
    """Runs two models (bytes or paths) with onnxruntime on the same inputs. `names`: pairs of inputs and of outputs."""
    inputs, outputs = names
    sessions = session(first), session(second)
    faults: list[str] = []
    count, largest = 0, 0.0
    for feed in feeds:
        at = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
        try:
            want = sessions[0].run([a for a, _ in outputs], dict(feed))
        except Exception as error:
            faults.append(f"the first fails at {at}: {_short(error)}")
            continue
        try:
            got = sessions[1].run([b for _, b in outputs], {b: feed[a] for a, b in inputs if a in feed})
        except Exception as error:
            faults.append(f"the second fails at {at}: {_short(error)}")
            continue
        count += 1
        for (name, _), x, y in zip(outputs, want, got):
            difference, fault = _difference(x, y)
            largest = max(largest, difference)
            if fault:
                faults.append(f"{name} at {at}: {fault}")
    return Runs(count, largest, tuple(faults))


def session(model: Any) -> Any:
    """A session of onnxruntime on the CPU without optimizations, for a model as bytes or a path."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _difference(x: Any, y: Any) -> tuple[float, str]:
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return 0.0, "" if type(x) is type(y) and repr(x) == repr(y) else "the values differ"
    if x.dtype != y.dtype or x.shape != y.shape:
        return 0.0, f"{x.dtype} {list(x.shape)} became {y.dtype} {list(y.shape)}"
    if x.dtype.kind not in "fiub":
        return 0.0, "" if x.tolist() == y.tolist() else "the values differ"
    if not x.size or x.tobytes() == y.tobytes():
        return 0.0, ""
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        both = np.isfinite(a) & np.isfinite(b)
        largest = float(np.abs(a - b)[both].max(initial=0.0))
        same = bool(np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE * _CLOSE, equal_nan=True))
    return largest, "" if same else f"values differ by up to {largest:.3g}"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


#: characters before what a line of a comparison says
GATE_LABEL = 10


def gate_lines(gate: Gate) -> Iterator[str]:
    """The comparison for a reader."""
    names = [o.name if o.name == o.other else f"{o.name} ({o.other} in the second)" for o in gate.outputs]
    width = max(map(len, names), default=0)
    for o, name in zip(gate.outputs, names, strict=True):
        word = {"same": "same shape and type, proved", "differs": "differs", "open": "not decided"}[o.verdict]
        shapes = o.shapes[0] if o.shapes[0] == o.shapes[1] else " against ".join(o.shapes)
        yield f"output    {name:<{width}}  {word}  {shapes}" + (f"  ({o.why})" if o.why else "")
    for name in gate.unmatched:
        yield f"output    {name}  is in one of the models only"
    c = gate.contract
    words = {
        "equal": "both accept the same sizes",
        "wider": "the second accepts more sizes",
        "narrower": "the second accepts fewer sizes",
        "neither": "each accepts sizes that the other does not",
        "open": "which sizes they accept is not decided",
        "none": "no input runs either of them",
        "unrelated": "not compared: the models have no input in common",
    }
    yield f"contract  {words[c.relation]}"
    if c.only_first:
        yield f"          only the first:   {told(c.only_first)}"
    if c.only_second:
        yield f"          only the second:  {told(c.only_second)}"
    if c.left_out:
        yield f"          {c.left_out} other conditions are not compared"
    for word in ("equal", "not known"):
        which = [name for o, name in zip(gate.outputs, names, strict=True) if o.values == word]
        if which:
            yield f"values    {'equal, proved' if word == 'equal' else word}: {', '.join(which)}"
    if gate.runs is None and any(not o.values for o in gate.outputs):
        yield "values    not compared: --values proves them equal, --run N runs both models on the same inputs"
    elif gate.runs is not None:
        largest = gate.runs.largest
        how = "bit for bit the same" if not largest else f"largest difference {largest:.3g}"
        yield f"runs      {gate.runs.count} at accepted sizes: {'differences' if gate.runs.faults else how}"
        yield from (f"          {fault}" for fault in gate.runs.faults)
