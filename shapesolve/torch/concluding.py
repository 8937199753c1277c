"""Compares the conditions of an export with the declaration, tests them, and reports them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import onnx

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond, Dim, eq, ge
from ..expr.sizes import sizes_text
from ..expr.traverse import atoms_of
from ..report.gate import SEVERITIES
from ..solve.contract.contract import Term
from .correction import Advice, Correction, holds
from .declared import Declaration
from .exporting import Exported
from .findings import Judge, by_data, probed, untold, unwritable
from .limits import MAX_SHOWN
from .outcome import FREE, UNKNOWN, Comparison, Restriction, graph_terms, holds_at, outcomes
from .places import Origins, SourceFinding, located, own_words
from .report import Report
from .running import ModuleRuns, Sizes
from .traced import Guard, dim_names, equal_sizes, find_guards, guard_contract, with_declared_names
from .verdicts import FileRuns, confirmed, last_bound, run_on_both_sides

#: codes that running the module reports better than the analysis, and codes of the exporter's own declarations
_REPORTED_BETTER = ("SS102", "SS104", "SS3", "SS4")


@dataclass(frozen=True)
class Settings:
    """Settings of a check, apart from the module and its arguments."""

    assume: tuple[str | Cond, ...] = ()
    broadcast: BroadcastMode = "named"
    rlimit: int = DEFAULT_RLIMIT
    confirm: bool = True
    infer: bool = False
    opset: int | None = None

    def analyzed(self, model: Any, given: Iterable[Cond] = ()) -> Analysis:
        """The analysis of a model under these settings and the conditions given."""
        return analyze(model, assume=(*self.assume, *given), broadcast=self.broadcast, rlimit=self.rlimit)


@dataclass
class Conclusion:
    """Results of one export. `runs` executes its module; None if nothing may be run."""

    name: str
    declaration: Declaration
    settings: Settings
    export: Exported
    runs: ModuleRuns | None = None
    extra: tuple[SourceFinding, ...] = ()
    analysis: Analysis | None = None
    found: list[Restriction] = field(default_factory=list)
    graph: FileRuns | None = None
    guards: tuple[Guard, ...] = ()
    moved: dict[str, Cond] = field(
        default_factory=dict
    )  # a condition of the export -> what the runs made of it

    # ------------------------------------------------------------------ what came out

    def _comparison(self, given: Sequence[Cond] = ()) -> Comparison:
        return Comparison(self.declaration, self.settings.rlimit, given)

    def _tried(
        self, found: Sequence[Restriction], beside: Sequence[Restriction] = ()
    ) -> Iterator[Restriction]:
        """Each restriction with the result of a run at sizes that only it rules out."""
        if self.runs is None:
            yield from found
            return
        every = [*beside, *found]
        for one in found:
            others = [o.term.cond for o in every if o is not one]
            tried = replace(one, tried=confirmed(one, self.runs, self.graph, others))
            moved = run_on_both_sides(tried, self.runs, self.graph, others)
            if moved.term is not one.term:
                self.moved[str(one.term.cond)] = moved.term.cond
            yield moved

    def compare(self) -> None:
        """Compares the guards, and the conditions of the written model, with the declaration."""
        export, roots = self.export, self.declaration.roots
        if self.runs is not None:
            self.graph = FileRuns(self.runs, export)
        self.guards = find_guards(export, self.declaration)
        # torch.export does not promise sizes 0 and 1
        least = [ge(r.dim, min(2, r.high or 2)) for r in roots.values()]
        comparison = self._comparison(least)
        contract = guard_contract(self.guards, list(roots), self.settings.rlimit) if self.guards else ()
        found = comparison.restrictions(contract, guarded=True)
        in_terms = {name for r in found for name in r.roots}
        equal = equal_sizes(export.env, self.declaration)
        terms = [_equal(a, b) for a, b in equal if not eq(a, b).free <= in_terms]
        found += comparison.restrictions(terms, guarded=True)
        self.found = [*self._tried(found)]
        if export.proto is not None:
            self.analysis = self._analyzed(export.proto, contract)
            known = [r for r in self.found if r.tried.verdict != "tracer"]
            rest = self._comparison([r.term.cond for r in known])
            self.found += self._tried(rest.restrictions(graph_terms(self.analysis), guarded=False), known)
        elif export.failed is not None and export.unwritten:
            self.extra += (unwritable(export.failed, self.runs_text()),)

    def _analyzed(self, proto: onnx.ModelProto, guarded: Iterable[Term]) -> Analysis:
        """The model, analyzed for the declared sizes that the guards leave.

        Conditions that only the trace requires are not assumed.
        """
        model = with_declared_names(proto, self.export, self.declaration)
        traced = {str(r.term.cond) for r in self.found if r.tried.verdict == "tracer"}
        needed = [self.moved.get(str(t.cond), t.cond) for t in guarded if str(t.cond) not in traced]
        declared = [c for root in self.declaration.roots.values() for c in root.conditions()]
        known = dim_names(model)
        return self.settings.analyzed(model, [c for c in (*needed, *declared) if c.free <= known])

    # ------------------------------------------------------------------ the report

    def runs_text(self) -> str:
        """Return text that lists sizes the module ran with; empty if it fails for some declared size."""
        if self.runs is None or self.failing or any(r.tried.failed is not None for r in self.found):
            return ""
        sizes = [sizes_text(s) for s in self.runs.seen()]
        shown = f": {'; '.join(sizes[:MAX_SHOWN])}{', …' if len(sizes) > MAX_SHOWN else ''}" if sizes else ""
        return f"the module itself runs on the example, and at the declared sizes tried{shown}"

    def _only_traced(self, restriction: Restriction) -> bool:
        """True if a guard of the tracer rules the sizes out, and the module runs there.

        So too if it was not run, after an export that was refused.
        """
        if not restriction.guarded or self.runs is None:
            return False
        tried = restriction.tried
        unknown = tried.verdict == "unknown" and (bool(tried.runs) or self.export.refusal is not None)
        return tried.verdict == "tracer" or unknown

    @cached_property
    def failing(self) -> list[SourceFinding]:
        """Failures at declared sizes that no condition explains."""
        if self.runs is None:
            return []
        conds = [r.term.cond for r in self.found]
        astray = any(r.tried.verdict == "graph" for r in self.found)
        graph = None if astray else self.graph
        return probed(self.runs, graph, conds)

    def report(self) -> Report:
        """The report: all findings, the outcome per size, and the corrected declaration."""
        refusal = self.export.refusal
        real = [r for r in self.found if not self._only_traced(r)]
        if refusal is not None and not (real or self.extra):
            real = self.found  # the call is refused for sizes at which the module runs
        advice = self._advice(real)
        origins = Origins(self.analysis.model.graph.nodes if self.analysis is not None else ())
        judge = Judge(self.declaration, self.guards, self.export.graph, origins, advice, refusal)
        findings = [*self.extra, *map(judge.finding, real)]
        failing = [f for f in self.failing if not (real and f.verdict == "graph")]
        failing = [self._located(judge.unexplained(f), origins) for f in failing]
        findings += failing
        default = UNKNOWN if refusal is not None and self.export.proto is None else FREE
        if refusal is not None and not findings:
            findings += [untold(refusal)]
        if self.analysis is not None:
            findings += self._of_graph(self.analysis, origins)
        if self.runs is not None and self.runs.by_values and not any(f.code == "SS614" for f in findings):
            findings += [by_data(*self.runs.by_values)]
        seen = {n: ("failing", _failing_text(f)) for f in failing for n, _ in f.counterexample}
        return Report(
            self.name,
            ranked(findings),
            self.declaration,
            outcomes(self.declaration, real, default, seen),
            advice.text,
            own_words(refusal) if refusal is not None else "",
            self.analysis,
            self.export.program,
            self.export.proto,
            tried=advice.state == "tried",
        )

    def _located(self, finding: SourceFinding, origins: Origins) -> SourceFinding:
        """A failure of the file with the line whose tensor has other sizes than the file declares, if there is one."""
        if finding.verdict != "graph" or finding.origin or self.analysis is None:
            return finding
        stale = [origins.of(f.node) for f in self.analysis.findings if f.code == "SS102"]
        return replace(finding, origin=next(filter(None, stale), finding.origin))

    def _of_graph(self, analysis: Analysis, origins: Origins) -> Iterator[SourceFinding]:
        """Findings of the analysis that running does not report better, including data-dependent sizes."""
        roots = self.declaration.roots.keys()
        data = {
            n for a in analysis.ambiguities if not a.pair[0].free | a.pair[1].free <= roots for n in a.sites
        }
        other = None
        for finding in analysis.findings:
            decided = finding.code == "SS302" or (finding.code == "SS301" and finding.node in data)
            if decided and self.runs is not None and other is None:
                other = self.runs.other_data()
            if decided and other is not None:
                yield by_data(*other, finding.title, origins.of(finding.node))
            elif decided or not finding.code.startswith(_REPORTED_BETTER):
                yield located(finding, origins.of(finding.node))

    # ------------------------------------------------------------------ the declaration to paste

    def _advice(self, real: Sequence[Restriction]) -> Advice:
        """The first corrected declaration whose export computes what the module computes; otherwise an unconfirmed one."""
        first = Correction(self.declaration, real)
        infer = self.settings.infer
        nothing = not (real or self.failing or infer)
        if self.runs is None or self.export.unwritten or nothing:
            untried = self.export.env is not None and (first.changed or infer) and not first.elsewhere
            return Advice(first, "untried" if untried else "")
        spoken = [r for r in real if str(r.term.cond) not in first.left_out]
        tried: set[str] = set()
        for trial in self._trials(real, spoken):
            # callers satisfy what the module requires; wherever it runs, the file must agree
            needed = [r.term.cond for r in (real if tried else spoken) if r.tried.verdict != "graph"]
            if (trial.changed or infer) and trial.text not in tried:
                works = holds(trial, self.runs, self.settings.opset, partial(_all_hold, needed))
                if works is not False:
                    return Advice(trial, "tried" if works else "untried")
            tried.add(trial.text)
        return Advice(first)

    def _trials(self, real: Sequence[Restriction], spoken: Sequence[Restriction]) -> Iterator[Correction]:
        """Declarations to try, plainest first. `spoken` are the restrictions that ``dynamic_shapes`` can express."""
        assert self.runs is not None
        declaration, example = self.declaration, self.runs.example
        failed = (s for f in self.failing if f.verdict == "module" for s in f.counterexample)
        limits = [c for name, size in failed if (c := last_bound(self.runs, name, size)) is not None]
        astray = {n: example[n] for f in self.failing if f.verdict == "graph" for n, _ in f.counterexample}
        for more in ([], self._stronger([r for r in real if r not in spoken])):
            yield Correction(declaration, spoken, fixed=astray, limits=[*limits, *more])
        every = {n for r in real for n in r.roots} | astray.keys()
        given = self._stronger(real, only_kept=True)
        for names in ({n for c in given for n in c.free} | astray.keys(), every):
            yield Correction(declaration, fixed={n: example[n] for n in sorted(names or every)})

    def _stronger(self, found: Sequence[Restriction], only_kept: bool = False) -> list[Cond]:
        """Conditions on single sizes from which these restrictions follow; empty if one follows from none.

        They are equal sizes, multiples, and sizes of the example, or `only_kept` sizes of the example.
        """
        assert self.runs is not None
        given: list[Cond] = []
        example = self.runs.example
        for cond in (r.term.cond for r in found):
            dims = {n: self.declaration.roots[n].dim for n in sorted(cond.free)}
            steps = sorted({a.args[1].value for a in atoms_of(cond) if a.kind in ("//", "%")} - {None})
            pairs = [
                eq(dims[a], dims[b]) for a, b in itertools.combinations(dims, 2) if example[a] == example[b]
            ]
            alone = [eq(dims[n] % d, 0) for d in steps for n in dims if example[n] % d == 0]
            kept = [[eq(dim, example[n])] for n, dim in dims.items()]
            ways = kept if only_kept else [[], *([p] for p in pairs), *([a] for a in alone), alone, *kept]
            way = next((w for w in ways if self._comparison([*given, *w]).implied(cond)), None)
            if way is None:
                return []
            given += [c for c in way if c not in given]
        return given


def _all_hold(conds: Iterable[Cond], sizes: Sizes) -> bool:
    return all(holds_at(c, sizes) for c in conds)


def _failing_text(finding: SourceFinding) -> str:
    who = "the exported file does not follow" if finding.verdict == "graph" else "the module fails"
    return f"{who} at {sizes_text(finding.counterexample)}"


def _equal(size: Dim, other: Dim | int) -> Term:
    cond = eq(size, other)
    return Term(cond, "equality", f"{size} == {other}", tuple(sorted(cond.free)), ())


def ranked(findings: Sequence[SourceFinding]) -> tuple[SourceFinding, ...]:
    """Findings sorted by severity; among errors, failures of the module before the exporter's."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.verdict == "export")))
