"""`Diff`: comparison of two models, and its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...causes.limits import MAX_LINES
from ...expr.sizes import sizes_text
from ...lines import GAP, Line, Printed, line, plain, row
from ...runs import Session, difference

#: an output of both models: equal shapes, different shapes (both proved), or undecided
Verdict = Literal["same", "differs", "open"]
#: relation of the second model's accepted sizes to the first's
Relation = Literal["equal", "wider", "narrower", "neither", "open", "none", "unrelated"]


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor in both models whose printed type or shape differs."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """An output in both models: its names, and if it is equal, with counterexample or reason (`why`).

    `values` is ``equal`` where its values are proved the same, ``not known`` elsewhere, and empty if that was not asked.
    """

    name: str
    other: str
    verdict: Verdict
    before: str
    after: str
    why: str = ""
    values: Literal["", "equal", "not known"] = ""


@dataclass(frozen=True, slots=True)
class ContractComparison:
    """Comparison of two models' accepted sizes and contract terms.

    `relation` is the second model's relation to the first: ``none`` if neither accepts any sizes, ``unrelated`` if they
    have no common input. `only_first` are example sizes that only the first accepts, if there are any; `left_out` is the
    number of data-dependent conditions, which are not compared. `first` and `second` are descriptions of the accepted
    sizes.
    """

    relation: Relation
    only_first: Mapping[str, int] | None
    only_second: Mapping[str, int] | None
    left_out: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    first: str = ""
    second: str = ""


@dataclass(frozen=True, slots=True)
class Runs:
    """Comparison of runs in onnxruntime: number, largest difference of values, errors."""

    count: int
    largest: float
    faults: tuple[str, ...]


def run_both(first: Any, second: Any, feeds: Sequence[Mapping[str, Any]], names: tuple[Any, Any]) -> Runs:
    """Run two models, as for `Session`, on the same inputs. `names` has pairs of inputs, and pairs of outputs."""
    inputs, outputs = names
    sessions = Session(first), Session(second)
    faults: list[str] = []
    count, largest = 0, 0.0
    for feed in feeds:
        at = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
        try:
            want = sessions[0].run(feed, [a for a, _ in outputs])
        except RuntimeError as error:
            faults.append(f"the first fails at {at}: {error}")
            continue
        try:
            got = sessions[1].run({b: feed[a] for a, b in inputs if a in feed}, [b for _, b in outputs])
        except RuntimeError as error:
            faults.append(f"the second fails at {at}: {error}")
            continue
        count += 1
        for (name, _), x, y in zip(outputs, want, got, strict=True):
            apart, fault = difference(x, y)
            largest = max(largest, apart)
            if fault:
                faults.append(f"{name} at {at}: {fault}")
    return Runs(count, largest, tuple(faults))


@dataclass(frozen=True, slots=True)
class Diff:
    """Result of comparing two models. `renamed` has the first model's name for symbols of the second.

    `removed` and `added` are inputs and outputs that only one model has, `requirements_removed` and `requirements_added`
    conditions of nodes. `shared` is the number of tensors in both, `conflicts` the number of conflicts in each. `runs` is
    None if the models were not run.
    """

    before: str
    after: str
    outputs: tuple[OutputComparison, ...]
    contract: ContractComparison
    changed: tuple[TensorChange, ...]
    shared: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    requirements_removed: tuple[str, ...]
    requirements_added: tuple[str, ...]
    conflicts: tuple[int, int]
    renamed: Mapping[str, str]
    runs: Runs | None = None

    def __repr__(self) -> str:
        verdict = "same" if self.same else "second replaces first" if self.replaces else "differ"
        return f"<Diff of {self.before} and {self.after}: {verdict if self.decided else 'not decided'}>"

    def __str__(self) -> str:
        return plain(diff_lines(self))

    @property
    def same(self) -> bool:
        """True if inputs, outputs and accepted sizes are provably the same."""
        declared = not any(c.name.startswith("input ") for c in self.changed)
        return self.replaces and self.contract.relation == "equal" and declared

    @property
    def replaces(self) -> bool:
        """True if the second can replace the first: same outputs, accepted sizes equal or wider.

        No run differs, and values that were asked for are proved the same.
        """
        alike = all(o.verdict == "same" and o.values != "not known" for o in self.outputs)
        runs = not (self.runs and self.runs.faults)
        return alike and runs and not self._ends and self.contract.relation in ("equal", "wider")

    @property
    def decided(self) -> bool:
        """True if the comparison is conclusive.

        Models that no size runs are not the same.
        """
        verdicts = {o.verdict for o in self.outputs}
        known = self._ends or "differs" in verdicts or (self.runs and self.runs.faults)
        nothing_runs = self.contract.relation == "none"
        return bool(known or nothing_runs or self.contract.only_first) or self.replaces

    @property
    def _ends(self) -> bool:
        return bool(self.removed or self.added)


# ---------------------------------------------------------------------- text

_VERDICTS = {
    "same": ("good", "same shape and type, proved"),
    "differs": ("error", "differs"),
    "open": ("warning", "not decided"),
}
_RELATIONS = {
    "equal": "both accept the same sizes",
    "wider": "the second accepts more sizes",
    "narrower": "the second accepts fewer sizes",
    "neither": "each accepts sizes that the other does not",
    "open": "accepted sizes are undecided",
    "none": "no input runs either of them",
    "unrelated": "not compared: the models have no input in common",
}


def diff_lines(diff: Diff, *, brief: bool = False) -> Iterator[Printed]:
    """Lines of the comparison; `brief`: only proved and run results."""
    if not brief:
        yield line(("error", "- "), ("bold", diff.before))
        yield line(("good", "+ "), ("bold", diff.after))
        if diff.renamed:
            renamed = ", ".join(f"{old} is read as {new}" for old, new in diff.renamed.items())
            yield line(("dim", f"  {renamed}"))
        if diff.conflicts != (0, 0):
            yield line(("warning", f"  conflicts: {diff.conflicts[0]} before, {diff.conflicts[1]} after"))
        yield ()
    if diff.removed or diff.added:
        yield from _sides("interface", diff.removed, diff.added)
    yield from _output_lines(diff.outputs, none="" if diff.contract.relation == "none" else "in common: none")
    yield from _contract_lines(diff.contract)
    yield from _value_lines(diff)
    if not brief:
        yield from _tensor_lines(diff)


def _label(text: str) -> tuple[str, str]:
    return "dim", text.ljust(14)


def _output_lines(outputs: Sequence[OutputComparison], none: str) -> Iterator[Printed]:
    if not outputs and none:
        yield line(_label("outputs"), none)
    for i, o in enumerate(outputs):
        name = o.name if o.name == o.other else f"{o.name} ({o.other} in the second)"
        style, word = _VERDICTS[o.verdict]
        shapes = o.before if o.before == o.after else f"{o.before} against {o.after}"
        where = "for sizes that both accept" if o.verdict == "same" and o.before != o.after else ""
        why = f"  ({o.why or where})" if o.why or where else ""
        label = ("dim", ("outputs" if not i else "").ljust(14 - GAP))
        yield row(label, ("name", name), (style, word), line(("shape", shapes), ("dim", why)))


def _contract_lines(contract: ContractComparison) -> Iterator[Line]:
    yield line(_label("contract"), _RELATIONS[contract.relation])
    if contract.relation not in ("equal", "none"):
        yield from _signed((contract.first,), (contract.second,))
    if contract.only_first:
        yield line(_label(""), f"only the first:   {sizes_text(contract.only_first)}")
    if contract.only_second:
        yield line(_label(""), f"only the second:  {sizes_text(contract.only_second)}")
    if contract.left_out:
        yield line(_label(""), f"{contract.left_out} other conditions are not compared")


def _value_lines(diff: Diff) -> Iterator[Line]:
    for value, words in (("equal", "equal, proved"), ("not known", "not known")):
        names = [o.name for o in diff.outputs if o.values == value]
        if names:
            yield line(_label("values"), f"{words}: {', '.join(names)}")
    runs = diff.runs
    if runs is not None:
        same = f"largest difference {runs.largest:.3g}" if runs.largest else "bit for bit the same"
        yield line(
            _label("runs"), f"{runs.count} at accepted sizes: {'differences' if runs.faults else same}"
        )
        yield from (line(_label(""), fault) for fault in runs.faults)
    elif any(not o.values for o in diff.outputs):
        text = "not compared: --values proves them equal, --run N runs both models on the same inputs"
        yield line(_label("values"), text)


def _tensor_lines(diff: Diff) -> Iterator[Line]:
    if not diff.changed:
        yield line(_label("tensors"), "shapes unchanged" if diff.shared else "the models share no tensor")
    for i, change in enumerate(diff.changed[:MAX_LINES]):
        yield line(_label("tensors" if not i else ""), ("name", change.name))
        yield from _signed((change.before,), (change.after,))
    if len(diff.changed) > MAX_LINES:
        yield line(_label(""), ("dim", f"and {len(diff.changed) - MAX_LINES} more"))


def _sides(title: str, removed: Iterable[str], added: Iterable[str]) -> Iterator[Line]:
    rows = [*_signed(removed, added)] or [line(_label(""), "unchanged")]
    yield line(_label(title), *rows[0][1:])
    yield from rows[1:]


def _signed(removed: Iterable[str], added: Iterable[str]) -> Iterator[Line]:
    rows = [*(("error", "- ", t) for t in removed), *(("good", "+ ", t) for t in added)]
    for style, mark, text in rows[:MAX_LINES]:
        yield line(_label(""), (style, mark), text)
    if len(rows) > MAX_LINES:
        yield line(_label(""), ("dim", f"and {len(rows) - MAX_LINES} more"))
