"""From an export to a report: its conditions are compared with the declaration, tested, and reported."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import onnx

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond, Dim, eq, ge, le
from ..expr.sizes import sizes_text
from ..expr.traverse import atoms_of
from ..solve.contract.contract import Term
from .correction import Advice, Correction, holds
from .declared import Declaration
from .exporting import Files, Written
from .judge import Judge
from .outcome import FREE, UNKNOWN, Comparison, Restriction, graph_terms, holds_at, outcomes
from .places import Origin, Origins, SourceFinding, located, read_trace
from .programs import (
    Guard,
    axis_symbols,
    dim_names,
    equal_sizes,
    guard_contract,
    input_names,
    renamed,
    shape_env,
)
from .refusal import own_words, untold
from .report import Report
from .running import Runs, Sizes
from .verdicts import UNTRIED, Confirmed, Graph, confirmed, probed

_RANK = {"error": 0, "warning": 1, "info": 2}
#: codes that running the module and its file reports better than the analysis, and declarations of the exporter
_REPORTED_BETTER = ("SS102", "SS3", "SS4")
_TRACED = "the module runs as declared; torch.export's trace keeps to "
_Found = list[tuple[Restriction, Confirmed]]


@dataclass(frozen=True)
class Settings:
    """Settings of a check besides the module."""

    assume: tuple[str | Cond, ...] = ()
    broadcast: BroadcastMode = "named"
    rlimit: int = DEFAULT_RLIMIT
    confirm: bool = True
    infer: bool = False


@dataclass(frozen=True)
class Call:
    """The call of the exporter: a module, its example arguments, the declaration. `runs` is None if nothing is to be run."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: Any
    files: Files
    runs: Runs | None = None


@dataclass
class Conclusion:
    """The known results of one export."""

    name: str
    declaration: Declaration
    settings: Settings
    guards: tuple[Guard, ...] = ()
    program: Any = None
    refusal: Exception | None = None
    call: Call | None = None
    extra: tuple[SourceFinding, ...] = ()
    analysis: Analysis | None = None
    found: _Found = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = self.call.runs if self.call is not None else None
        self.graph: Graph | None = None
        self.unwritten = False
        # asked before anything is written: the exporter may still make a size a number
        self.equal = equal_sizes(self.program, self.declaration) if self.program is not None else []

    # ------------------------------------------------------------------ what came out

    def _comparison(self, given: Sequence[Cond] = ()) -> Comparison:
        return Comparison(self.declaration, self.settings.rlimit, given)

    def _tried(self, found: Sequence[Restriction], beside: Sequence[Restriction] = ()) -> _Found:
        """Each restriction with the result of running at sizes that it alone rules out."""
        if self.runs is None:
            return [(r, UNTRIED) for r in found]
        every = [*beside, *found]
        others = [[o.term.cond for o in every if o is not r] for r in found]
        return [(r, confirmed(r, self.declaration, self.runs, self.graph, o)) for r, o in zip(found, others)]

    def hear(self, file: Written) -> None:
        """Holds the guards, and the conditions of the written model, against the declaration."""
        self.unwritten = file.failed is not None
        if self.runs is not None:
            self.graph = Graph(self.runs, self.program, file)
        roots = list(self.declaration.roots)
        # torch.export does not promise sizes 0 and 1
        least = [ge(r.dim, min(2, r.high or 2)) for r in self.declaration.roots.values()]
        comparison = self._comparison(least)
        contract = guard_contract(self.guards, roots, self.settings.rlimit) if self.guards else ()
        found = comparison.restrictions(contract, guarded=True)
        in_terms = {name for r in found for name in r.roots}
        terms = [_equal(a, b) for a, b in self.equal if not eq(a, b).free <= in_terms]
        found += comparison.restrictions(terms, guarded=True)
        self.found = self._tried(found)
        if file.proto is not None:
            self.hear_graph(self._analyzed(file.proto, contract))

    def _analyzed(self, proto: onnx.ModelProto, guarded: Iterable[Term]) -> Analysis:
        """The model, analyzed for the declared sizes that the guards leave.

        What only the trace asks for is not assumed: the graph is judged for the sizes that remain.
        """
        env = shape_env(self.program)
        table = axis_symbols(env, self.program, self.declaration) if env is not None else {}
        model = renamed(proto, table, self.declaration, input_names(self.program))
        traced = {str(r.term.cond) for r, c in self.found if c.verdict == "tracer"}
        needed = [t.cond for t in guarded if str(t.cond) not in traced]
        declared = [c for root in self.declaration.roots.values() for c in root.conditions()]
        known = [c for c in (*needed, *declared) if c.free <= dim_names(model)]
        settings = self.settings
        assume = (*settings.assume, *known)
        return analyze(model, assume=assume, broadcast=settings.broadcast, rlimit=settings.rlimit)

    def hear_graph(self, analysis: Analysis) -> None:
        """Take what the analysis found of the graph."""
        self.analysis = analysis
        known = [r for r, c in self.found if c.verdict != "tracer"]
        rest = self._comparison([r.term.cond for r in known])
        self.found += self._tried(rest.restrictions(graph_terms(analysis), guarded=False), known)

    # ------------------------------------------------------------------ the report

    def _only_traced(self, restriction: Restriction, tried: Confirmed) -> bool:
        """True if a guard of the tracer rules the sizes out, and the module runs there.

        So too if it was not run, after an export that was refused.
        """
        if not restriction.guarded or self.runs is None:
            return False
        return tried.verdict == "tracer" or (tried.verdict == "unknown" and self.refusal is not None)

    @cached_property
    def failing(self) -> list[SourceFinding]:
        """Failures at declared sizes that no condition explains."""
        if self.runs is None:
            return []
        conds = [r.term.cond for r, _ in self.found]
        astray = any(c.verdict == "graph" for _, c in self.found)
        graph = None if astray else self.graph
        return probed(self.declaration, self.runs, graph, lambda sizes: not _all_hold(conds, sizes))

    def report(self) -> Report:
        """The report: all findings, the outcome per size and the correction."""
        real = [(r, c) for r, c in self.found if not self._only_traced(r, c)]
        traced = [(r, c) for r, c in self.found if self._only_traced(r, c)] if self.refusal else []
        advice = self._advice(real, traced)
        nodes = self.analysis.model.graph.nodes if self.analysis is not None else ()
        origins = Origins(nodes)
        judge = Judge(self.declaration, self.guards, self.program, origins, refused=self.refusal is not None)
        findings = [*self.extra, *(self._placed(judge.finding(r, advice, c)) for r, c in real)]
        if not any(f.severity == "error" for f in findings):
            findings += [judge.ruled_out(r, advice, c) for r, c in traced]
        failing = [judge.unexplained(f, advice) for f in self.failing if not (real and f.verdict == "graph")]
        findings += failing
        unclear = self.refusal is not None and not findings
        if unclear and self.refusal is not None:
            findings.append(untold(self.refusal))
        if self.analysis is not None:
            mine = (f for f in self.analysis.diagnostics if not f.code.startswith(_REPORTED_BETTER))
            findings += [located(f, origins.of(f.node)) for f in mine]
        seen = {n: ("traced", _TRACED + r.term.text) for r, _ in traced for n in r.roots}
        seen |= {n: ("failing", _failing_text(f)) for f in failing for n, _ in f.counterexample}
        sizes = outcomes(self.declaration, [r for r, _ in real], UNKNOWN if unclear else FREE, seen)
        return Report(
            self.name,
            ranked(findings),
            self.declaration,
            sizes,
            advice.text,
            own_words(self.refusal) if self.refusal is not None else "",
            self.analysis,
            self.program,
            self.analysis.model.proto if self.analysis is not None else None,
            tried=advice.state == "tried",
        )

    def _placed(self, finding: SourceFinding) -> SourceFinding:
        """The finding with the source line of the refusal, if it has none itself."""
        if finding.place is not None or self.refusal is None:
            return finding
        return replace(finding, origin=Origin(read_trace(own_words(self.refusal))))

    # ------------------------------------------------------------------ the declaration to paste

    def _advice(self, real: _Found, traced: _Found) -> Advice:
        """The first declaration that fits what came out and that is seen to hold."""
        first = Correction(self.declaration, [r for r, _ in real])
        infer = self.settings.infer
        nothing = not (real or traced or self.failing or infer)
        if self.runs is None or self.call is None or self.unwritten or nothing:
            return Advice(first, "untried" if (first.changed or infer) and not first.elsewhere else "")
        speechless = set(first.left_out)
        tried: set[str] = set()
        for trial, whole in self._trials(real, traced, speechless):
            skipped = speechless if whole else ()
            # callers keep to what the module needs; where it runs, a file has to follow
            conds = [r.term.cond for r, c in real if c.verdict != "graph" and str(r.term.cond) not in skipped]
            allowed = partial(_all_hold, conds)
            wanted = [dict(c.sizes) for _, c in traced if c.verdict == "tracer" and not trial.given]
            if (trial.changed or infer) and trial.text not in tried:
                if holds(trial, self.runs, self.call.files, allowed, wanted):
                    return Advice(trial, "tried")
                tried.add(trial.text)
        return Advice(first)

    def _trials(
        self, real: _Found, traced: _Found, speechless: set[str]
    ) -> Iterator[tuple[Correction, bool]]:
        """Declarations to try, the plainest first, and if all that they promise has to run."""
        assert self.runs is not None
        declaration, example = self.declaration, self.runs.example
        every = [r for r, _ in real]
        spoken = [r for r in every if str(r.term.cond) not in speechless]
        limits = [c for f in self.failing if (c := self._limit(f)) is not None]
        astray = {n: example[n] for f in self.failing if f.verdict == "graph" for n, _ in f.counterexample}
        yield Correction(declaration, spoken, fixed=astray, limits=limits), True
        stronger = self._stronger([r for r in every if r not in spoken])
        if stronger:
            yield Correction(declaration, spoken, fixed=astray, limits=[*limits, *stronger]), False
        given = [item for r, c in real if r not in spoken and c.failed is not None for item in c.sizes]
        ends = [c for name, size in given if (c := self._end(name, size)) is not None]
        if ends:
            yield Correction(declaration, spoken, fixed=astray, limits=[*limits, *ends]), True
        meant = {n for r in every for n in r.roots}
        left = {n for r, _ in traced for n in r.roots}
        for opened in ({}, dict.fromkeys(sorted(left | meant), "AUTO")):
            yield Correction(declaration, every, opened=opened, fixed=astray, limits=limits), False
        fixed = {n: example[n] for n in sorted(meant)}
        yield Correction(declaration, opened=dict.fromkeys(left - meant, "AUTO"), fixed=fixed), False

    def _stronger(self, speechless: Sequence[Restriction]) -> list[Cond]:
        """Equal sizes and multiples from which these restrictions follow, if there are any."""
        assert self.runs is not None
        found: list[Cond] = []
        example = self.runs.example
        for cond in (r.term.cond for r in speechless):
            dims = {n: self.declaration.roots[n].dim for n in sorted(cond.free)}
            steps = {a.args[1].value for a in atoms_of(cond) if a.kind in ("//", "%")} - {None}
            pairs = [(a, b) for a, b in itertools.combinations(dims, 2) if example[a] == example[b]]
            alone = [[eq(dims[n] % d, 0)] for d in sorted(steps) for n in dims if example[n] % d == 0]
            every = [c for (c,) in alone]
            for given in ([], *([eq(dims[a], dims[b])] for a, b in pairs), *alone, every):
                if self._comparison([*found, *given]).implied(cond):
                    found += given
                    break
            else:
                return []
        return found

    def _limit(self, finding: SourceFinding) -> Cond | None:
        """The end of the sizes that run, next to a size that fails."""
        if finding.verdict != "module" or len(finding.counterexample) != 1:
            return None
        return self._end(*finding.counterexample[0])

    def _end(self, name: str, fails: int) -> Cond | None:
        """A bound on one size, found by halving between the example and a size that fails."""
        assert self.runs is not None
        good, far = self.runs.example[name], fails
        if self.runs.at({name: far}).state != "fails":
            return None
        while abs(far - good) > 1:
            middle = (good + far) // 2
            state = self.runs.at({name: middle}).state
            if state == "unknown":
                return None
            good, far = (middle, far) if state == "runs" else (good, middle)
        dim = self.declaration.roots[name].dim
        return le(dim, good) if fails > good else ge(dim, good)


def _all_hold(conds: Iterable[Cond], sizes: Sizes) -> bool:
    return all(holds_at(c, sizes) for c in conds)


def _failing_text(finding: SourceFinding) -> str:
    who = "the exported graph does not follow" if finding.verdict == "graph" else "the module fails"
    return f"{who} at {sizes_text(finding.counterexample)}"


def _equal(size: Dim, other: Dim | int) -> Term:
    cond = eq(size, other)
    return Term(cond, "equality", f"{size} == {other}", tuple(sorted(cond.free)), ())


def ranked(findings: Sequence[SourceFinding]) -> tuple[SourceFinding, ...]:
    """Errors first."""
    return tuple(sorted(findings, key=lambda f: _RANK[f.severity]))
