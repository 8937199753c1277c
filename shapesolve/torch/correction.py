"""Corrected declarations: derived from restrictions, tried by an export, and suggested."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch.export import Dim as TorchDim

from ..expr import Cond, Dim, constant, eq, solve_for_symbol, symbol
from ..expr.traverse import atoms_of
from ..solve.facts.budget import MAX_AHEAD
from .declared import Axis, Declaration, declared_axes, python_name, read_declaration, spec_text
from .exporting import exported
from .limits import COMPARED, MAX_PROBES
from .running import FileRuns, ModuleRuns, Sizes, example_sizes, probes, root_size
from .traced import lost_axes
from .verdicts import Comparison, Judged, Restriction, Settings, holds_at, last_bound


@dataclass
class _Fit:
    """The new declaration of a root. It is a size, an expression, ``step * new + offset`` in bounds, or a `hint`."""

    low: int | None
    high: int | None
    equals: Dim | None = None
    step: int = 1
    offset: int = 0
    hint: str = ""


class Correction:
    """A corrected declaration; ``left_out`` are conditions that ``dynamic_shapes`` cannot express."""

    def __init__(
        self, declaration: Declaration, restrictions: Iterable[Restriction] = (), limits: Iterable[Cond] = ()
    ) -> None:
        self.declaration = declaration
        self._declared = {n: _Fit(r.low, r.high, hint=r.hint) for n, r in declaration.roots.items()}
        self.fits = {n: replace(fit) for n, fit in self._declared.items()}
        self.left_out: list[str] = []
        found = [r.term.cond for r in sorted(restrictions, key=lambda r: _ORDER[r.kind])]
        for cond in (*found, *limits):
            for part in cond.args if cond.kind == "and" else (cond,):
                if not self._apply(part):
                    # torch.export infers it, and callers must obey it
                    self.left_out.append(str(part))
                    for name in part.free & self.fits.keys():
                        self.fits[name].hint = "DYNAMIC"

    @property
    def changed(self) -> bool:
        """True if the correction differs from the declaration."""
        return self.fits != self._declared

    @property
    def elsewhere(self) -> bool:
        """True if a required number is not the example's. A declaration without that size means the example's."""
        equals = {n: f.equals for n, f in self.fits.items() if f.equals is not None}
        return any(a.size.subs(equals).value not in (None, a.example) for a in self.declaration.axes)

    # ------------------------------------------------------------------ from conditions to fits

    def _apply(self, cond: Cond) -> bool:
        names = sorted(cond.free)
        if cond.kind == "==":
            if len(names) == 1 and self._residue(cond, names[0]):
                return True
            return self._equality(cond)
        if cond.kind == ">=" and len(names) == 1 and len(cond.args[0].terms) == 1:
            return self._bound(cond.args[0], names[0])
        return False

    def _equality(self, cond: Cond) -> bool:
        order = list(self.fits)
        found = solve_for_symbol(cond.args[0], lambda a: order.index(a.args[0]) if a.args[0] in order else -1)
        if found is None:
            return False
        name, rest = found[0].args[0], found[1]
        if name not in self.fits:
            return False
        if rest.value is None and (
            len(rest.terms) != 1 or rest.terms[0][1] < 1 or len(rest.terms[0][0]) != 1
        ):
            return False  # torch.export derives a dim from one other dim, increasing
        self.fits[name].equals = rest
        return True

    def _residue(self, cond: Cond, name: str) -> bool:
        divisors = {a.args[1].value for mono, _ in cond.args[0].terms for a in mono if a.kind == "//"}
        (step, *others) = divisors or {None}
        if step is None or others or not 1 < step <= MAX_AHEAD:
            return False
        rests = [r for r in range(step) if cond.evaluate({name: 16 * step + r})]
        if len(rests) != 1:
            return False
        fit = self.fits[name]
        fit.step, fit.offset = step, rests[0]
        return True

    def _bound(self, d: Dim, name: str) -> bool:
        (monomial, factor), fit = d.terms[0], self.fits[name]
        if len(monomial) != 1 or monomial[0].kind != "sym":
            return False
        if factor > 0:
            fit.low = max(fit.low or 0, -(d.const // factor))
        else:
            high = d.const // -factor
            fit.high = high if fit.high is None else min(fit.high, high)
        return True

    # ------------------------------------------------------------------ from fits to a declaration

    @cached_property
    def text(self) -> str:
        """Python to paste: the dims, and ``dynamic_shapes``."""
        return spec_text(self.spec)

    @cached_property
    def spec(self) -> Any:
        """The new ``dynamic_shapes``."""
        self._dims: dict[str, Any] = {}
        axes = {(axis.leaf, axis.index): axis for axis in self.declaration.axes}
        assert self.declaration.call is not None
        return declared_axes(
            self.declaration.call,
            lambda leaf, _, i, __: self._size(axes[leaf, i]) if (leaf, i) in axes else None,
        )

    def _size(self, axis: Axis) -> Any:
        size = axis.size
        for _ in self.fits:  # a size may be equal to one that is equal to another
            size = size.subs({n: self._value(n) for n in size.free})
        if size.value is not None:
            return None
        (name,) = sorted(size.free)[:1]
        fit = self.fits[name]
        dim = self._dims.setdefault(name, self._dim(name))
        if dim is None:
            return _hint(
                fit.hint,
                size.subs({name: fit.low or 0}).value,
                fit.high and size.subs({name: fit.high}).value,
            )
        size = size.subs({name: symbol(name) * fit.step + fit.offset})
        offset = size.const
        factor = (size - offset).terms[0][1]
        made = dim if factor == 1 else factor * dim
        return made + offset if offset > 0 else made - -offset if offset else made

    def _dim(self, name: str) -> Any:
        """The ``Dim`` of a root; None for one that is left to torch.export."""
        fit = self.fits[name]
        low, high, label = fit.low, fit.high, python_name(name)
        if fit.step > 1 or fit.offset:
            label = f"_{label.lstrip('_')}"
            low = max(1, -(-((low or 0) - fit.offset) // fit.step))
            high = None if high is None else (high - fit.offset) // fit.step
        elif fit.hint and not any(f.equals is not None and name in f.equals.free for f in self.fits.values()):
            return None
        return TorchDim(label, min=low or None, max=high)

    def _value(self, name: str) -> Dim:
        fit = self.fits[name]
        if fit.equals is None and fit.high is not None and (fit.low or 0) >= fit.high:
            return constant(fit.high)
        return fit.equals if fit.equals is not None else self.declaration.roots[name].dim

    # ------------------------------------------------------------------ the sizes that it promises

    def promised(self, runs: ModuleRuns) -> Iterator[dict[str, int]]:
        """Sizes that it allows, as sizes of the original declaration's roots."""
        new = read_declaration(replace(runs.call, spec=self.spec))
        example = example_sizes(new)
        for changed in probes(new, example):
            sizes = {**example, **changed}
            given = {(a.leaf, a.index): a.size.evaluate(sizes) for a in new.axes}
            found: dict[str, int] = {}
            for axis in self.declaration.axes:
                for name in axis.size.free:
                    size = root_size(axis.size, name, given.get((axis.leaf, axis.index), axis.example))
                    found.setdefault(name, size if size is not None else runs.example[name])
            yield found


def _hint(kind: str, low: int | None, high: int | None) -> Any:
    """``Dim.DYNAMIC(min=4, max=64)``; a lower bound of up to 2 is what the hint says anyway."""
    if kind == "AUTO":
        return TorchDim.AUTO  # with bounds torch.export refuses what it finds narrower
    low = low if low is not None and low > 2 else None
    return TorchDim.DYNAMIC if low is None and high is None else TorchDim.DYNAMIC(min=low, max=high)


_ORDER = {"range": 0, "restricted": 1, "tied": 2, "fixed": 3}


# ---------------------------------------------------------------------- trying


@dataclass(frozen=True)
class Advice:
    """A declaration to suggest, and its state: tried, untried, or empty when none holds."""

    correction: Correction
    state: str = ""

    @property
    def text(self) -> str:
        """Python to paste; empty if there is nothing to suggest."""
        return self.correction.text if self.state else ""

    def after(self, way: str) -> str:
        """Text: a way out, and the declaration to paste."""
        if not self.text:
            return f"{way}: no declaration tried for these sizes gives a file that computes what the module computes"
        return f"{way}{' (not tried)' if self.state == 'untried' else ''}:\n{self.text}"


def advise(judged: Judged, settings: Settings) -> Advice:
    """The first corrected declaration whose export computes what the module computes; otherwise an unconfirmed one."""
    declaration, real, runs, infer = judged.declaration, judged.real, judged.runs, settings.infer
    first = Correction(declaration, real)
    if runs is None or judged.export.unwritten or not (real or judged.failures or infer):
        untried = judged.export.graph is not None and (first.changed or infer) and not first.elsewhere
        return Advice(first, "untried" if untried else "")
    spoken = [r for r in real if str(r.term.cond) not in first.left_out]
    limits: list[Cond] = []
    for failure in judged.failures:
        for name, size in failure.sizes:
            stays = failure.verdict == "graph"
            bound = eq(symbol(name), runs.example[name]) if stays else last_bound(runs, name, size)
            limits += [bound] if bound is not None else []
    unspoken = [r.term.cond for r in real if r not in spoken]

    def stronger(found: list[Cond], only_kept: bool = False) -> list[Cond]:
        return _stronger(declaration, runs.example, found, settings.rlimit, only_kept)

    def trials() -> Iterator[Correction]:
        """As the conditions say; with stronger ones that can be declared; with sizes as in the example."""
        yield Correction(declaration, spoken, limits)
        yield Correction(declaration, spoken, [*limits, *stronger(unspoken)])
        yield Correction(declaration, (), [*limits, *stronger([r.term.cond for r in real], True)])

    tried: set[str] = set()
    for trial in trials():
        if (trial.changed or infer) and trial.text not in tried:
            # callers satisfy what the module requires; wherever it runs, the file must agree
            needed = [r.term.cond for r in (real if tried else spoken) if r.tried.verdict != "graph"]
            works = holds(trial, runs, settings.opset, needed)
            if works is not False:
                return Advice(trial, "tried" if works else "untried")
        tried.add(trial.text)
    return Advice(first)


def _stronger(
    declaration: Declaration, example: Sizes, found: Iterable[Cond], rlimit: int, only_kept: bool
) -> list[Cond]:
    """Equal sizes, multiples, and sizes of the example from which these conditions follow; or `only_kept` the last."""
    given: list[Cond] = []
    for cond in found:
        dims = {n: declaration.roots[n].dim for n in sorted(cond.free)}
        steps = sorted({a.args[1].value for a in atoms_of(cond) if a.kind in ("//", "%")} - {None})
        pairs = [eq(dims[a], dims[b]) for a, b in itertools.combinations(dims, 2) if example[a] == example[b]]
        alone = [eq(dims[n] % d, 0) for d in steps for n in dims if example[n] % d == 0]
        every = [eq(dim, example[n]) for n, dim in dims.items()]
        kept = [*([k] for k in every), every]
        ways = kept if only_kept else [[], *([p] for p in pairs), *([a] for a in alone), alone, *kept]
        way = next((w for w in ways if Comparison(declaration, rlimit, [*given, *w]).implied(cond)), every)
        given += [c for c in way if c not in given]
    return given


def holds(trial: Correction, runs: ModuleRuns, opset: int | None, needed: Sequence[Cond]) -> bool | None:
    """Return True if the exporter accepts a declaration and the exported file behaves like the module.

    It is run at sizes that the declaration promises and at which all that is `needed` holds. None if it could not be compared.
    """
    if trial.elsewhere:
        return False
    allowed = (s for s in (*trial.promised(runs), runs.example) if all(holds_at(c, s) for c in needed))
    tried = [runs.at(sizes) for sizes in itertools.islice(allowed, MAX_PROBES)]
    if any(ran.state == "fails" for ran in tried):  # runs cost less than an export
        return False
    call = replace(runs.call, spec=trial.spec)
    export = exported(call, opset)
    if export.proto is None or lost_axes(export, read_declaration(call)):
        return False
    graph = FileRuns(runs, export)
    same = [graph.agrees(dict(ran.sizes)) for ran in tried if ran.state == "runs"][:COMPARED]
    return False if False in same else True if True in same else None
