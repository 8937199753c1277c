"""From an export to a report: its conditions are compared with the declaration, tested, and reported."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond, eq
from ..solve.contract.contract import Contract, Term
from .correction import Correction
from .declared import Axis, Declaration
from .exports import Exports
from .findings import SourceFinding, located
from .guards import Guard, axis_symbols, fixed_axes, guard_contract, input_names, shape_env
from .judge import Judge
from .outcome import Comparison, Restriction, SizeOutcome, graph_terms, outcomes, sizes_text
from .places import Origin, Origins, read_trace
from .probing import probed
from .programs import dim_names, renamed
from .refusal import own_words, seen_to_run, untold
from .report import Report
from .running import Runs, Sizes
from .suggestions import File, holds_up, way_out
from .unguarded import InRuntime, Unguarded
from .verdicts import Confirmation, Confirmed, excluded_text, holds_at

_RANK = {"error": 0, "warning": 1, "info": 2}
#: codes that running the module and its file reports better than the analysis, and declarations of the exporter
_TOLD_BETTER = ("SS102", "SS3", "SS4")
_UNTRIED = Confirmed("unknown")


@dataclass(frozen=True)
class Settings:
    """Settings of a check besides the module."""

    assume: tuple[str | Cond, ...] = ()
    broadcast: BroadcastMode = "named"
    rlimit: int = DEFAULT_RLIMIT
    opset: int | None = None
    confirm: bool = True


@dataclass(frozen=True)
class Call:
    """The call that is exported, where it can be made again: runs of the module, the declaration, exports."""

    runs: Runs
    spec: Any
    exports: Exports

    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that were exported."""
        return self.runs.inputs({})


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
    found: list[tuple[Restriction, Confirmed]] = field(default_factory=list)
    constants: dict[str, Axis] = field(default_factory=dict)
    numbers: tuple[SizeOutcome, ...] = ()
    contract: Contract | None = None
    analysis: Analysis | None = None

    def __post_init__(self) -> None:
        self.graph: Unguarded | None = None
        self.file = File(self.program)
        self.fixed: dict[str, Axis] = {}
        if self.call is not None and self.program is not None:
            self.graph = Unguarded(self.program, self.call.runs)
        self.comparison = Comparison(self.declaration, self.settings.rlimit)
        if self.program is not None:
            self._hear_guards()

    # ------------------------------------------------------------------ what came out

    def _hear_guards(self) -> None:
        roots = list(self.declaration.roots)
        if self.guards:
            self.contract = guard_contract(self.guards, roots, self.settings.rlimit)
        found = self.comparison.restrictions(self.contract or (), guarded=True)
        if self.refusal is not None and not found and any(g.minor for g in self.guards):
            every = guard_contract(self.guards, roots, self.settings.rlimit, minor=True)
            found = self.comparison.restrictions(every, guarded=True)
        told = {name for r in found for name in r.roots}
        # asked before anything is written: the exporter's decompositions may still make a size a number
        self.fixed = fixed_axes(self.program, self.declaration)
        self.constants = {name: axis for name, axis in self.fixed.items() if name not in told}
        found += self.comparison.restrictions(map(_constant, self.constants.values()), guarded=True)
        self.found = self._without_echoes([(r, self._tried(r, found)) for r in found])

    def _without_echoes(
        self, found: list[tuple[Restriction, Confirmed]]
    ) -> list[tuple[Restriction, Confirmed]]:
        """Without conditions that follow from shorter ones, which the module was seen to fail without."""
        kept: list[Restriction] = []
        echoes: list[Restriction] = []
        for one, confirmed in sorted(found, key=lambda pair: len(pair[0].term.text)):
            beside = Comparison(self.declaration, self.settings.rlimit, [r.term.cond for r in kept])
            if kept and not beside.restrictions([one.term], guarded=one.guarded):
                echoes.append(one)
            elif confirmed.verdict == "module" and not confirmed.runs:
                kept.append(one)
        return [(r, c) for r, c in found if r not in echoes]

    def _tried(self, restriction: Restriction, beside: Sequence[Restriction]) -> Confirmed:
        if self.call is None:
            return _UNTRIED
        others = [r.term.cond for r in beside if r is not restriction]
        return Confirmation(self.declaration, self.call.runs, self.graph).of(restriction, others)

    def hear_graph(self, proto: onnx.ModelProto, written: Any = None, source: Any = None) -> None:
        """Analyzes the exported model for the declared sizes. Also for those that guards leave, and should leave.

        It has the symbols of the program `source`, or else of this one.
        """
        self.file = File(self.program, written, proto)
        source = source or self.program
        if written is not None and self.call is not None:
            runs = self.call.runs
            file = InRuntime(proto, input_names(written), runs)
            self._hold_to(Unguarded(written, runs, self.graph, file))
        env = shape_env(source)
        table = axis_symbols(env, source, self.declaration) if env is not None else {}
        model = renamed(proto, table, self.declaration, input_names(source))
        # what torch.export asks of the sizes is told as such; the graph is judged for the sizes that remain
        free = {str(r.term.cond) for r, c in self.found if c.verdict == "tracer"}
        terms = [t.cond for t in self.contract or () if str(t.cond) not in free]
        declared = [c for root in self.declaration.roots.values() for c in root.conditions()]
        known = [c for c in (*terms, *declared) if c.free <= dim_names(model)]
        assume = (*self.settings.assume, *known)
        self.hear(
            analyze(model, assume=assume, broadcast=self.settings.broadcast, rlimit=self.settings.rlimit)
        )

    def _hold_to(self, graph: Unguarded) -> None:
        """Uses the written file for verdicts. The exporter's decompositions can be wrong where the program is right."""
        self.graph = graph
        for i, (restriction, confirmed) in enumerate(self.found):
            if confirmed.verdict == "tracer":
                held = Confirmation(self.declaration, graph.runs, graph).of_graph(confirmed.runs)
                self.found[i] = (restriction, held if held.verdict == "graph" else confirmed)

    def hear(self, analysis: Analysis) -> None:
        """Take what the analysis found of the graph."""
        self.analysis = analysis
        known = [r.term.cond for r, c in self.found if c.verdict != "tracer"]
        rest = Comparison(self.declaration, self.settings.rlimit, known)
        more = rest.restrictions(graph_terms(analysis), guarded=False)
        beside = [*(r for r, c in self.found if c.verdict != "tracer"), *more]
        self.found += [(r, self._tried(r, beside)) for r in more]

    # ------------------------------------------------------------------ the report

    def _judge(self) -> Judge:
        origins = Origins(self.analysis.model.graph.nodes if self.analysis is not None else ())
        return Judge(
            self.declaration,
            self.guards,
            self.program,
            origins,
            refused=self.refusal is not None,
            written=self.analysis is not None,
        )

    def _only_traced(self, restriction: Restriction, confirmed: Confirmed) -> bool:
        """True if only the tracer rules the sizes out. An untested restriction counts if a test was intended."""
        if not restriction.guarded or self.call is None:
            return False
        return confirmed.verdict == "tracer" or (confirmed.verdict == "unknown" and self.refusal is not None)

    def report(self) -> Report:
        """The report: all findings, the outcome per size and the correction."""
        judge = self._judge()
        real = [(r, c) for r, c in self.found if not self._only_traced(r, c)]
        traced = (
            [(r, c) for r, c in self.found if self._only_traced(r, c)] if self.refusal is not None else []
        )
        correction = self._plain_words([r for r, _ in real], traced)
        if correction is None:
            correction = self._correction([r for r, _ in real], traced)
        else:  # with this declared, torch.export asks for nothing else
            real, traced = [(r, c) for r, c in real if str(r.term.cond) in correction.said], []
        findings = [*self.extra, *(self._placed(judge.finding(r, correction, c)) for r, c in real)]
        others = [r.term.cond for r, _ in real]
        if not any(
            f.severity == "error" for f in findings
        ):  # beside a fault of the module it is none of its own
            findings += [judge.ruled_out(r, correction, c, others) for r, c in traced]
        mended = (
            self.refusal is not None
            and correction.changed
            and not (correction.refused or correction.elsewhere)
        )
        # of a correction that holds the file was run; what the export with free sizes computes is no file of the user's
        probed_there = [f for f in self._probed() if not (mended and real and f.verdict == "graph")]
        failing = [self._helped(f, judge.origins) for f in probed_there]
        findings += failing
        unclear = self.refusal is not None and not findings
        if unclear and self.refusal is not None:
            findings.append(untold(self.refusal, self._unseen(own_words(self.refusal))))
        if self.analysis is not None:
            origins = judge.origins
            findings += [
                located(f, origins.of(f.node))
                for f in self.analysis.diagnostics
                if not f.code.startswith(_TOLD_BETTER)
            ]
        constants = {n: a.example for n, a in self.constants.items() if any(n in r.roots for r, _ in real)}
        out = {n: excluded_text(r, self.declaration, others) for r, _ in traced for n in r.roots}
        return Report(
            self.name,
            ranked(findings),
            self.declaration,
            self.numbers
            + outcomes(
                self.declaration,
                [r for r, _ in real],
                constants,
                known=not unclear,
                ruled_out=out,
                failing={n: _failing_text(f) for f in failing for n, _ in f.counterexample},
            ),
            self._to_paste(correction, failing, real),
            own_words(self.refusal) if self.refusal is not None else "",
            self.analysis,
            self.program,
            self.analysis.model.proto if self.analysis is not None else None,
        )

    @staticmethod
    def _to_paste(
        correction: Correction,
        failing: Sequence[SourceFinding],
        real: Sequence[tuple[Restriction, Confirmed]],
    ) -> str:
        """The declaration that fits: of what came out, or without the only size that was seen to fail."""
        if correction.changed and not (correction.refused or correction.elsewhere):
            return correction.text()
        return failing[0].help.partition(":\n")[2] if len(failing) == 1 and not real else ""

    def _helped(self, finding: SourceFinding, origins: Origins) -> SourceFinding:
        """A failure at run time with the line of its node, and a tested declaration that avoids it."""
        if finding.node and finding.place is None:
            finding = replace(finding, origin=origins.of(finding.node))
        if self.call is None:
            return finding
        return replace(finding, help=way_out(finding, self.call.runs, self.call.exports))

    def _placed(self, finding: SourceFinding) -> SourceFinding:
        """The finding with the source line of the refusal, if it has none itself."""
        if finding.place is not None or self.refusal is None:
            return finding
        return replace(finding, origin=Origin(read_trace(own_words(self.refusal))))

    def _plain_words(
        self, real: Sequence[Restriction], traced: Sequence[tuple[Restriction, Confirmed]]
    ) -> Correction | None:
        """The correction in terms that `dynamic_shapes` can express, if nothing else remains to report."""
        left_out = Correction(self.declaration, real).left_out
        said = [r for r in real if str(r.term.cond) not in left_out]
        if self.call is None or not said or not (traced or left_out):
            return None
        plain = Correction(self.declaration, said)
        return plain if not plain.elsewhere and self._holds_up(plain, said, traced) else None

    def _correction(
        self, real: Sequence[Restriction], traced: Sequence[tuple[Restriction, Confirmed]]
    ) -> Correction:
        """The first declaration that fits and that is seen to hold."""
        left = {n for r, _ in traced for n in r.roots}
        plain = Correction(self.declaration, real, dict.fromkeys(left, "DYNAMIC"))
        if self.call is None or not plain.changed or plain.elsewhere:
            return plain
        meant = {n for r in real for n in r.roots}
        roots = self.declaration.roots
        opened = [left, meant | left, set(roots)]
        trials = [*self._tied(real), plain]
        trials += [Correction(self.declaration, real, dict.fromkeys(sorted(o), "AUTO")) for o in opened]
        seen: set[str] = set()
        for trial in trials:
            text = trial.text()
            if text not in seen and self._holds_up(trial, real, traced):
                return trial
            seen.add(text)
        numbers = Correction(self.declaration, (), dict.fromkeys(left - meant, "AUTO"))
        for name in sorted(meant):
            numbers.fix(name, self.call.runs.example[name])
        if meant and self._holds_up(numbers, (), traced):
            return numbers
        untried = self.call.exports.left_untried
        return Correction(
            self.declaration, real, dict.fromkeys(meant | left, "AUTO"), refused=True, untried=untried
        )

    def _tied(self, real: Sequence[Restriction]) -> Iterator[Correction]:
        """One dim for sizes that are equal in the example and tied by a condition that cannot be declared."""
        assert self.call is not None
        example, left_out = self.call.runs.example, set(Correction(self.declaration, real).left_out)
        said = [r for r in real if str(r.term.cond) not in left_out]
        pairs = {r.roots for r in real if r not in said and len(r.roots) == 2}
        equal = [(a, b) for a, b in sorted(pairs) if example[a] == example[b]]
        if equal and len(equal) == len(real) - len(said):
            yield Correction(self.declaration, said, equal=equal)

    def _holds_up(
        self,
        trial: Correction,
        real: Sequence[Restriction],
        traced: Sequence[tuple[Restriction, Confirmed]],
    ) -> bool:
        """True if a correction can be exported and its file follows the module at the promised sizes."""
        assert self.call is not None
        # callers keep to what the module needs; where it runs, a file has to follow
        call = self.call
        conds = [r.term.cond for r, c in self.found if r in real and c.verdict != "graph"]
        wanted = [dict(c.sizes) for _, c in traced if c.verdict == "tracer"]
        allowed = (s for s in trial.promised(call.runs.example) if all(holds_at(c, s) for c in conds))
        return holds_up(
            trial.text(),
            call.runs,
            itertools.chain((s for s in wanted if trial.numbers.keys().isdisjoint(s)), allowed),
            dynamic=trial.dynamic,
            exports=call.exports,
        )

    def _probed(self) -> list[SourceFinding]:
        if self.call is None:
            return []
        conds = [r.term.cond for r, _ in self.found]

        def told(sizes: Sizes) -> bool:
            return not all(holds_at(c, sizes) for c in conds)

        astray = any(c.verdict == "graph" for _, c in self.found)
        return probed(self.declaration, self.call.runs, None if astray else self.graph, told)

    def runs(self) -> str:
        """Text: sizes at which the module ran. Empty if it fails at some declared size."""
        if self.call is None or self._probed() or any(c.failed is not None for _, c in self.found):
            return ""
        return seen_to_run([sizes_text(s) for s in self.call.runs.seen()])

    def _unseen(self, words: str) -> list[Guard]:
        """The guards that a refusal names, where each of them holds at every declared size."""
        named = [g for g in self.guards if g.said and g.said in words]
        return named if all(self.comparison.implied(g.cond) for g in named) else []


def _failing_text(finding: SourceFinding) -> str:
    who = "the exported graph does not follow" if finding.verdict == "graph" else "the module fails"
    return f"{who} at {sizes_text(finding.counterexample)}"


def _constant(axis: Axis) -> Term:
    text = f"{axis.size} == {axis.example}"
    return Term(eq(axis.size, axis.example), "equality", text, tuple(sorted(axis.size.free)), ())


def ranked(findings: Sequence[SourceFinding]) -> tuple[SourceFinding, ...]:
    """Errors first."""
    return tuple(sorted(findings, key=lambda f: _RANK[f.severity]))


def empty(name: str, declaration: Declaration, findings: Sequence[SourceFinding], words: str) -> Report:
    """A report without an export."""
    return Report(name, ranked(findings), declaration, outcomes(declaration, (), known=False), refusal=words)
