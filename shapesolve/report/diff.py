"""Comparison of two models: their differences, and proofs that shared outputs are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..analysis import Analysis, analyze
from ..expr import Dim, Shape, eq, symbol
from ..expr.sizes import sizes_text
from ..lower.types import Tensor
from ..solve.contract.contract import text_of
from ..solve.proof import Proved, Refuted
from .lines import GAP, Line, Printed, line, row
from .names import dtype_name, shape_text

#: an output of both models: provably of one shape, provably not, or not decided
Verdict = Literal["same", "differs", "open"]
_MAX_ROWS = 40
_LABEL = 14


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor of both models whose type or shape reads differently."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Comparison of an output of both models. ``why`` is a counterexample or a reason."""

    name: str
    verdict: Verdict
    before: str
    after: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences of two models. Symbols are matched by common inputs, and ``shared`` are the tensors of both."""

    before: str
    after: str
    outputs: tuple[OutputComparison, ...]
    changed: tuple[TensorChange, ...]
    shared: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    contract_removed: tuple[str, ...]
    contract_added: tuple[str, ...]
    needs_removed: tuple[str, ...]
    needs_added: tuple[str, ...]
    conflicts: tuple[int, int]
    renamed: Mapping[str, str]

    @property
    def same(self) -> bool:
        """True if both have the same interface: contract, conflicts, inputs, and provably the same outputs."""
        return self._alike and all(o.verdict == "same" for o in self.outputs)

    @property
    def decided(self) -> bool:
        """True if it is known that the interfaces agree or differ. False if an output is open and no difference is known."""
        verdicts = {o.verdict for o in self.outputs}
        return not self._alike or "differs" in verdicts or "open" not in verdicts

    @property
    def _alike(self) -> bool:
        ends = [c for c in (*self.contract_removed, *self.contract_added, *self.removed, *self.added) if c]
        return not ends and self.conflicts[0] == self.conflicts[1] and not self.changed_inputs

    @property
    def changed_inputs(self) -> tuple[TensorChange, ...]:
        """Inputs that are declared differently."""
        return tuple(c for c in self.changed if c.name.startswith("input "))


def diff(before: Any, after: Any) -> Diff:
    """Differences in output shapes, accepted sizes and conflicts between two models.

    Each is an `Analysis` or what `analyze` takes. Values are not compared.
    """
    before, after = (m if isinstance(m, Analysis) else analyze(m) for m in (before, after))
    renamed = _renaming(before, after)
    to = {old: before.symbols.get(new) or symbol(new) for old, new in renamed.items()}
    names_b, names_a = set(before.dtypes), set(after.dtypes)
    ends = {n for n, _ in before.model.graph.outputs} & {n for n, _ in after.model.graph.outputs}
    changed = [*_inputs_changed(before, after, to), *_changed(before, after, names_b & names_a, to)]
    terms_b, terms_a = _terms(before, {}), _terms(after, to)
    needs_b, needs_a = _needs(before, {}), _needs(after, to)
    return Diff(
        _name(before),
        _name(after),
        tuple(_output(before, after, n, to) for n, _ in before.model.graph.outputs if n in ends),
        tuple(changed),
        len(names_b & names_a),
        tuple(sorted(_ends(before) - _ends(after))),
        tuple(sorted(_ends(after) - _ends(before))),
        tuple(t for t in terms_b if t not in terms_a),
        tuple(t for t in terms_a if t not in terms_b),
        tuple(t for t in needs_b if t not in needs_a),
        tuple(t for t in needs_a if t not in needs_b),
        (len(before.conflicts), len(after.conflicts)),
        {old: new for old, new in renamed.items() if old != new},
    )


def _name(analysis: Analysis) -> str:
    path = analysis.model.path
    return str(path) if path is not None else analysis.model.graph.name


def _ends(analysis: Analysis) -> set[str]:
    inputs = {f"input {n}" for n in analysis.inputs}
    return inputs | {f"output {n}" for n, _ in analysis.model.graph.outputs}


def _renaming(before: Analysis, after: Analysis) -> dict[str, str]:
    """Symbols of the second model -> those of the first at the same place of an input of the same name."""
    found: dict[str, str] = {}
    for name, known in after.inputs.items():
        other = before.inputs.get(name)
        if (
            not isinstance(known, Tensor)
            or not isinstance(other, Tensor)
            or known.shape is None
            or other.shape is None
        ):
            continue
        if len(known.shape) == len(other.shape):
            for mine, its in zip(known.shape, other.shape):
                if mine.name is not None and its.name is not None:
                    found.setdefault(mine.name, its.name)
    taken = set(found.values())
    for name in after.symbols:  # a name of its own must not be mistaken for one of the first model
        if name not in found and name in taken:
            found[name] = f"{name}_of_the_second"
    return found


def _translated(shape: Shape | None, to: Mapping[str, Dim]) -> Shape | None:
    return shape if shape is None or not to else Shape(d.subs(to) for d in shape)


def _typed(analysis: Analysis, name: str, to: Mapping[str, Dim]) -> str:
    shape = _translated(analysis.shapes.get(name), to)
    return f"{dtype_name(analysis.dtypes.get(name, 0))} {shape_text(shape)}"


def _inputs_changed(before: Analysis, after: Analysis, to: Mapping[str, Dim]) -> Iterator[TensorChange]:
    for name in before.inputs:
        if name in after.inputs:
            b, a = _typed(before, name, {}), _typed(after, name, to)
            if b != a:
                yield TensorChange(f"input {name}", b, a)


def _changed(
    before: Analysis, after: Analysis, names: set[str], to: Mapping[str, Dim]
) -> Iterator[TensorChange]:
    for name in before.dtypes:
        if name in names and name not in before.inputs:
            b, a = _typed(before, name, {}), _typed(after, name, to)
            if b != a:
                yield TensorChange(name, b, a)


def _output(before: Analysis, after: Analysis, name: str, to: Mapping[str, Dim]) -> OutputComparison:
    b, a = before.shapes.get(name), _translated(after.shapes.get(name), to)
    texts = shape_text(b), shape_text(a)
    if b is None or a is None:
        return OutputComparison(name, "open", *texts, "the rank is not known")
    if before.dtypes.get(name) != after.dtypes.get(name):
        return OutputComparison(name, "differs", _typed(before, name, {}), _typed(after, name, to))
    if len(b) != len(a):
        return OutputComparison(name, "differs", *texts, "the ranks differ")
    verdicts = [_dims(before, after, x, y, to) for x, y in zip(b, a)]
    for wanted in ("differs", "open"):
        for verdict, why in verdicts:
            if verdict == wanted:
                return OutputComparison(name, verdict, *texts, why)
    return OutputComparison(name, "same", *texts)


def _dims(before: Analysis, after: Analysis, x: Dim, y: Dim, to: Mapping[str, Dim]) -> tuple[Verdict, str]:
    strange = sorted((x.free | y.free) - before.symbols.keys())
    if strange:
        return "open", f"{strange[0]} depends on data or on an input that the other model lacks"
    if x is y:
        return "same", ""
    proof = before.prove(eq(x, y))
    if isinstance(proof, Proved):
        if proof.assumptions:
            return "open", f"{x} == {y} holds only assuming {' and '.join(proof.assumptions)}"
        return "same", ""
    if isinstance(proof, Refuted):
        sizes = {n: v for n, v in proof.counterexample.items() if n in before.symbols}
        if all(t.cond.subs(to).evaluate(sizes) is not False for t in after.contract):
            at = sizes_text(sizes, sorted(x.free | y.free))
            return "differs", f"{f'at {at}: ' if at else ''}{x.evaluate(sizes)} against {y.evaluate(sizes)}"
    return "open", f"{x} == {y} is not decided"


def _terms(analysis: Analysis, to: Mapping[str, Dim]) -> dict[str, None]:
    if analysis.conflicts:
        return {}
    return dict.fromkeys(text_of(t.cond.subs(to)) if to else t.text for t in analysis.contract)


def _needs(analysis: Analysis, to: Mapping[str, Dim]) -> dict[str, None]:
    found: dict[str, None] = {}
    for c in analysis._solved.stated:
        if c.role == "requirement" and c.cond.free and c.cond.free <= analysis.symbols.keys():
            found[f"{c.origin.node}: {c.cond.subs(to) if to else c.cond}"] = None
    return found


# ---------------------------------------------------------------------- text


def diff_lines(diff: Diff) -> Iterator[Printed]:
    """The comparison for a reader, `-` before and `+` after."""
    yield line(("error", "- "), ("bold", diff.before))
    yield line(("good", "+ "), ("bold", diff.after))
    if diff.renamed:
        told = ", ".join(f"{old} is read as {new}" for old, new in diff.renamed.items())
        yield line(("dim", f"  {told}"))
    if diff.conflicts != (0, 0):
        yield line(("warning", f"  conflicts: {diff.conflicts[0]} before, {diff.conflicts[1]} after"))
    yield from _ends_lines(diff)
    yield from _outputs_lines(diff.outputs)
    yield from _sides("contract", diff.contract_removed, diff.contract_added)
    yield from _sides("requirements", diff.needs_removed, diff.needs_added)
    yield ()
    if not diff.changed:
        told = "shapes unchanged" if diff.shared else "the models share no tensor"
        yield line(("dim", "tensors".ljust(_LABEL)), told)
    for i, change in enumerate(diff.changed[:_MAX_ROWS]):
        yield line(("dim", ("tensors" if not i else "").ljust(_LABEL)), ("name", change.name))
        yield line(" " * _LABEL, ("error", "- "), change.before)
        yield line(" " * _LABEL, ("good", "+ "), change.after)
    if len(diff.changed) > _MAX_ROWS:
        yield line(" " * _LABEL, ("dim", f"and {len(diff.changed) - _MAX_ROWS} more"))


def _ends_lines(diff: Diff) -> Iterator[Line]:
    if diff.removed or diff.added:
        yield from _sides("interface", diff.removed, diff.added)


def _outputs_lines(outputs: Sequence[OutputComparison]) -> Iterator[Printed]:
    yield ()
    if not outputs:
        yield line(("dim", "outputs".ljust(_LABEL)), "the models share no output")
    words = {"same": ("good", "same"), "differs": ("error", "differs"), "open": ("warning", "not decided")}
    for i, o in enumerate(outputs):
        label = ("dim", ("outputs" if not i else "").ljust(_LABEL - GAP))
        style, word = words[o.verdict]
        why = f"  ({o.why})" if o.why else ""
        shapes = o.before if o.before == o.after else f"{o.before} against {o.after}"
        yield row(label, ("name", o.name), (style, word), line(("shape", shapes), ("dim", why)))


def _sides(title: str, removed: Iterable[str], added: Iterable[str]) -> Iterator[Line]:
    rows = [*(("error", "- ", t) for t in removed), *(("good", "+ ", t) for t in added)]
    yield ()
    if not rows:
        yield line(("dim", title.ljust(_LABEL)), "unchanged")
    for i, (style, mark, text) in enumerate(rows[:_MAX_ROWS]):
        yield line(("dim", (title if not i else "").ljust(_LABEL)), (style, mark), text)
    if len(rows) > _MAX_ROWS:
        yield line(" " * _LABEL, ("dim", f"and {len(rows) - _MAX_ROWS} more"))


def diff_data(diff: Diff) -> dict[str, Any]:
    """The comparison as plain data."""
    from dataclasses import asdict

    return {"same": diff.same, **asdict(diff)}
