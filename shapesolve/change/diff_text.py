"""Text of a comparison of two models (see `diff`), `-` before and `+` after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..expr.sizes import sizes_text
from ..report.lines import GAP, Line, Printed, line, row
from .limits import MAX_ROWS

if TYPE_CHECKING:
    from .diff import ContractComparison, Diff, OutputComparison

_LABEL = 14
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
    "open": "which sizes they accept is not decided",
    "none": "no input runs either of them",
    "unrelated": "not compared: the models have no input in common",
}


def diff_lines(diff: Diff, *, brief: bool = False) -> Iterator[Printed]:
    """The comparison for a reader; if `brief`, only what is proved and run."""
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
        yield from _sides("requirements", diff.requirements_removed, diff.requirements_added)
        yield from _tensor_lines(diff)


def _label(text: str) -> tuple[str, str]:
    return "dim", text.ljust(_LABEL)


def _output_lines(outputs: Sequence[OutputComparison], none: str) -> Iterator[Printed]:
    if not outputs and none:
        yield line(_label("outputs"), none)
    for i, o in enumerate(outputs):
        name = o.name if o.name == o.other else f"{o.name} ({o.other} in the second)"
        style, word = _VERDICTS[o.verdict]
        shapes = o.before if o.before == o.after else f"{o.before} against {o.after}"
        why = f"  ({o.why})" if o.why else ""
        label = ("dim", ("outputs" if not i else "").ljust(_LABEL - GAP))
        yield row(label, ("name", name), (style, word), line(("shape", shapes), ("dim", why)))


def _contract_lines(contract: ContractComparison) -> Iterator[Line]:
    yield line(_label("contract"), _RELATIONS[contract.relation])
    yield from _signed(contract.removed, contract.added)
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
    for i, change in enumerate(diff.changed[:MAX_ROWS]):
        yield line(_label("tensors" if not i else ""), ("name", change.name))
        yield from _signed((change.before,), (change.after,))
    if len(diff.changed) > MAX_ROWS:
        yield line(_label(""), ("dim", f"and {len(diff.changed) - MAX_ROWS} more"))


def _sides(title: str, removed: Iterable[str], added: Iterable[str]) -> Iterator[Line]:
    rows = [*_signed(removed, added)] or [line(_label(""), "unchanged")]
    yield line(_label(title), *rows[0][1:])
    yield from rows[1:]


def _signed(removed: Iterable[str], added: Iterable[str]) -> Iterator[Line]:
    rows = [*(("error", "- ", t) for t in removed), *(("good", "+ ", t) for t in added)]
    for style, mark, text in rows[:MAX_ROWS]:
        yield line(_label(""), (style, mark), text)
    if len(rows) > MAX_ROWS:
        yield line(_label(""), ("dim", f"and {len(rows) - MAX_ROWS} more"))
