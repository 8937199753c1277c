"""Findings of a check: what came out, who is at fault, the line, and a remedy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from traceback import walk_tb
from typing import Any

from torch.export import ExportedProgram

from ..analysis import Analysis
from ..expr.sizes import sizes_text
from ..lines import clipped
from .correction import Advice
from .declared import Declaration
from .exporting import Unrolled
from .internals import BLAMED, DATA_DEPENDENT, NUMBER_RETURNED, UNWRITTEN
from .limits import COMPARED, MAX_LINE, MAX_MESSAGE, MAX_PROBES, MAX_SHOWN
from .outcome import Restriction
from .places import (
    NOWHERE,
    Origins,
    SourceFinding,
    SourceOrigin,
    chain,
    first_line,
    located,
    origin_of_error,
    own_words,
    read_trace,
    trace_of,
)  # fmt: skip
from .running import ModuleRuns, Ran, SizeItems, probes
from .traced import GUARD, cause_of
from .verdicts import FileRuns, Judged

# ---------------------------------------------------------------------- a condition

#: codes that running the module reports better than the analysis, and codes of the exporter's own declarations
_REPORTED_BETTER = ("SS102", "SS104", "SS3", "SS4")
_CODES = {"fixed": "SS601", "tied": "SS602", "restricted": "SS603", "range": "SS604"}


class Judge:
    """Turns what was judged into findings, each with its Python line and a declaration that avoids it."""

    def __init__(self, judged: Judged, advice: Advice) -> None:
        self.judged, self.declaration, self.advice = judged, judged.declaration, advice
        analysis, refusal = judged.analysis, judged.export.refusal
        self.origins = Origins(analysis.model.graph.nodes if analysis is not None else ())
        self.refused = refusal is not None
        self.fallback = SourceOrigin(read_trace(own_words(refusal))) if refusal is not None else NOWHERE

    def findings(
        self, real: Sequence[Restriction], failing: Sequence[SourceFinding], first: Sequence[SourceFinding]
    ) -> Iterator[SourceFinding]:
        """All findings: the `first`, the restrictions, failures that none explains, and those of the analysis."""
        found = [*first, *map(self.finding, real)]
        found += [self._unexplained(f) for f in failing if not (real and f.verdict == "graph")]
        refusal, analysis, runs = self.judged.export.refusal, self.judged.analysis, self.judged.runs
        if refusal is not None and not found:
            found += [untold(refusal)]
        if analysis is not None:
            found += self._of_graph(analysis)
        if runs is not None and runs.by_values and not any(f.code == "SS614" for f in found):
            found += [by_data(*runs.by_values)]
        yield from dict.fromkeys(found)

    def finding(self, restriction: Restriction) -> SourceFinding:
        """The finding of one restriction, after it was tried."""
        origin, nodes = self._origin(restriction)
        notes = [f"came out: {restriction.term.text}, {_needed_by(restriction, nodes)}"]
        notes += _refuted(restriction) if restriction.sizes else [f"not proved: {restriction.answer.reason}"]
        cause = (
            cause_of(restriction.term.cond, origin, self.judged.export.graph)
            if restriction.kind == "fixed"
            else None
        )
        if cause is not None and origin.place is not None:
            notes.append(f"it meets the declared size at {origin.place}: {origin.place.code}")
        return _found(
            self._code(restriction),
            self._title(restriction),
            self.declaration,
            restriction.roots,
            notes,
            term=restriction.term.text,
            counterexample=restriction.sizes,
            node=nodes[0] if nodes else "",
            nodes=nodes,
            help=self._help(restriction),
            origin=cause or origin,
            verdict=restriction.tried.verdict,
        )

    def _unexplained(self, finding: SourceFinding) -> SourceFinding:
        """The finding of a failure at run time, with a declaration that avoids it, and a line if there is one.

        A failure of the file has the line whose tensor has other sizes than the file declares.
        """
        analysis = self.judged.analysis
        if finding.verdict == "graph" and not finding.origin and analysis is not None:
            stale = (self.origins.of(f.node) for f in analysis.findings if f.code == "SS102")
            finding = replace(finding, origin=next(filter(None, stale), finding.origin))
        if not self.advice.text:
            return finding
        way = "fix the line, or declare only sizes that run" if finding.verdict == "module" else "declare it"
        return replace(finding, help=self.advice.after(self.advice.kept or way))

    def _of_graph(self, analysis: Analysis) -> Iterator[SourceFinding]:
        """Findings of the analysis that running does not report better, including data-dependent sizes."""
        roots = self.declaration.roots.keys()
        data = {
            n for a in analysis.ambiguities if not a.pair[0].free | a.pair[1].free <= roots for n in a.sites
        }
        runs, other = self.judged.runs, None
        for finding in analysis.findings:
            decided = finding.code == "SS302" or (finding.code == "SS301" and finding.node in data)
            if decided and runs is not None and other is None:
                other = runs.other_data()
            if decided and other is not None:
                yield by_data(*other, finding.title, self.origins.of(finding.node))
            elif decided or not finding.code.startswith(_REPORTED_BETTER):
                yield located(finding, self.origins.of(finding.node))

    def _code(self, restriction: Restriction) -> str:
        roots = [self.declaration.roots[n] for n in restriction.roots]
        refused = restriction.guarded and self.refused
        undecided = not restriction.counterexample
        if (undecided or (restriction.kind == "range" and restriction.beyond)) and not refused:
            return "SS605"
        if all(r.hint for r in roots) and not (self.refused and restriction.kind == "fixed"):
            return "SS606"
        return _CODES[restriction.kind]

    def _title(self, restriction: Restriction) -> str:
        names, tried = " and ".join(f"`{n}`" for n in restriction.roots), restriction.tried
        many, at = len(restriction.roots) > 1, f"at {sizes_text(tried.sizes)}, which is declared"
        if tried.verdict == "module" and (tried.runs or not tried.exact):
            there = dict(tried.failed.sizes) if tried.failed is not None else {}
            sizes = {**dict(tried.sizes), **{n: there[n] for n in restriction.roots if n in there}}
            return f"the module fails at {sizes_text(sizes.items())}, which is declared"
        if tried.verdict == "graph":
            return f"the exported file does not follow the module {at}"
        text = restriction.term.text
        only = f"only {text} runs" if tried.verdict == "module" else f"the export requires {text}"
        if not restriction.counterexample:
            return f"{only}, but the declaration of {names} might not imply it"
        if restriction.kind == "tied":
            return f"{names} were declared independent, but {only}"
        if restriction.kind == "range" and restriction.beyond and not (restriction.guarded and self.refused):
            return f"{names} {'have' if many else 'has'} no such limit declared, but {only}"
        if restriction.kind == "range":
            return f"the range declared for {names} is too wide: {only}"
        return f"{names} {'were' if many else 'was'} declared dynamic, but {only}"

    def _help(self, restriction: Restriction) -> str:
        advice, kind, cond = self.advice, restriction.kind, str(restriction.term.cond)
        if cond in advice.correction.left_out and not advice.kept:
            way = f"dynamic_shapes cannot express this: lift it in the code, or make callers satisfy it (assume={[cond]})"
            return advice.after(f"{way}, and declare") if advice.text else way
        if not advice.text:
            return advice.after("lift it in the code")
        if advice.kept:
            return advice.after(f"lift it in the code, or {advice.kept}")
        if all(advice.correction.fits[n].hint for n in restriction.roots):
            return advice.after(
                "lift it in the code, or leave it to torch.export and make callers satisfy it"
            )
        if kind == "fixed" and restriction.tried.verdict == "graph":
            return advice.after("rewrite the line, because its graph holds only for this size; or declare it")
        ways = {
            "fixed": "compute the size from the input's shape; or declare what is true",
            "range": "declare the limit, or lift it",
        }
        return advice.after(ways.get(kind, "declare it"))

    def _origin(self, restriction: Restriction) -> tuple[SourceOrigin, tuple[str, ...]]:
        """Return the origin of the failure, or of the guard, the nodes, or the rejection; and the nodes."""
        nodes, failed = () if restriction.guarded else restriction.term.nodes, restriction.tried.failed
        if failed is not None and failed.origin.trace:
            return failed.origin, nodes
        labels = (n for n in restriction.term.nodes if n.startswith(GUARD))
        guards = [self.judged.guards[int(n.removeprefix(GUARD))] for n in labels]
        behind = [g for g in guards if g.origin.trace]
        alike = sorted(behind, key=lambda g: g.cond is None or g.cond.kind != restriction.term.cond.kind)
        found = [g.origin for g in alike] or [o for o in map(self.origins.of, nodes) if o]
        found += [self.fallback] if self.fallback.trace else []
        return next((o for o in found if o.trace), found[0] if found else NOWHERE), nodes


def _found(
    code: str, title: str, declaration: Declaration, names: Iterable[str], notes: Iterable[str], **more: Any
) -> SourceFinding:
    """Return a finding on declared sizes, which quotes them."""
    dims = tuple(names)
    declared = [declaration.quote(n) for n in dims]
    notes = (*(f"declared: {d}" for d in declared), *notes)
    return SourceFinding(code, title, notes=notes, declared="; ".join(declared), dims=dims, **more)


def _needed_by(restriction: Restriction, nodes: tuple[str, ...]) -> str:
    if restriction.guarded:
        return "a guard of torch.export"
    more = " …" if len(nodes) > MAX_SHOWN else ""
    return f"needed by {', '.join(nodes[:MAX_SHOWN]) or 'the graph'}{more}"


def _refuted(restriction: Restriction) -> list[str]:
    """Notes on the test of a refutation."""
    tried = restriction.tried
    at = f"refuted: {sizes_text(restriction.sizes)} is within the declaration"
    if tried.failed is not None:
        notes = [f"{at}, and the module fails there: {first_line(tried.failed.words)}"]
        runs = "; ".join(map(sizes_text, tried.runs[:MAX_SHOWN]))
        return [*notes, f"it runs at {runs}"] if runs else notes
    if tried.verdict == "graph":
        return [f"{at}; the module runs there, and the exported file fails or computes something else"]
    return [f"{at}, but torch.export rules it out" if restriction.guarded else f"{at} and does not run"]


# ---------------------------------------------------------------------- the declared sizes


def runs_text(judged: Judged, failing: Sequence[SourceFinding]) -> str:
    """Text that lists sizes the module ran with; empty if it fails for some declared size."""
    if judged.runs is None or failing or any(r.tried.failed is not None for r in judged.found):
        return ""
    sizes = [sizes_text(s) for s in judged.runs.seen()]
    shown = f": {'; '.join(sizes[:MAX_SHOWN])}{', …' if len(sizes) > MAX_SHOWN else ''}" if sizes else ""
    return f"the module itself runs on the example, and at the declared sizes tried{shown}"


def find_failing(judged: Judged) -> list[SourceFinding]:
    """Findings for declared sizes that satisfy all conditions, at which the module fails or the file differs."""
    runs = judged.runs
    if runs is None:
        return []
    conds = [r.term.cond for r in judged.found]
    graph = None if any(r.tried.verdict == "graph" for r in judged.found) else judged.file
    tried = itertools.islice(probes(runs.declaration, runs.example, conds), MAX_PROBES)
    found = [runs.at(sizes) for sizes in tried]
    failed, ran = ([r for r in found if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        differing = [_alone(runs, graph, r) for r in ran[:COMPARED] if graph.agrees(dict(r.sizes)) is False]
        blamed: set[str] = set()
        for one in sorted(differing, key=lambda r: len(runs.changed(r))):
            names = {n for n, _ in runs.changed(one)}
            if not names & blamed:
                findings.append(_differing(runs, graph, one))
                blamed |= names
    return findings


def _alone(runs: ModuleRuns, graph: FileRuns, ran: Ran) -> Ran:
    """A run at which the file differs, with only one size changed if that is enough."""
    alone = [{name: size} for name, size in runs.changed(ran)]
    return next((runs.at(sizes) for sizes in alone if graph.agrees(sizes) is False), ran)


def _failing(runs: ModuleRuns, failed: Sequence[Ran], ran: Sequence[Ran]) -> SourceFinding:
    first, *also = sorted(failed, key=lambda r: len(runs.changed(r)))
    sizes = runs.changed(first)
    names = {n for n, _ in sizes}
    like = [c for c in map(runs.changed, ran) if {n for n, _ in c} <= names][:MAX_SHOWN]
    notes = [f"the module fails at {sizes_text(sizes)}: {first_line(first.words)}"]
    notes += [f"it fails at {sizes_text(runs.changed(r))} too" for r in also[: MAX_SHOWN - 1]]
    notes += [f"it runs at {'; '.join(map(sizes_text, like))}"] if like else []
    title = f"the module fails at {sizes_text(sizes)}, which is declared"
    return _at_run_time(runs, sizes, title, notes, origin=first.origin, verdict="module")


def _differing(runs: ModuleRuns, graph: FileRuns, ran: Ran) -> SourceFinding:
    sizes, words = runs.changed(ran), graph.failures.get(ran.sizes, "")
    at = f"at {sizes_text(sizes)}"
    title = f"the exported file fails {at}, where the module runs"
    notes = [f"tried: onnxruntime runs it on the example, and {at} says: {clipped(words, MAX_LINE)}"]
    if not words:
        title = f"the exported file does not compute what the module computes {at}"
        why = "a size or a value became a number while the module was exported"
        notes = [f"tried: both were run there on the same data; {why}"]
    if graph.agrees_when_bare(ran):
        notes += [BARE]
    return _at_run_time(runs, sizes, title, notes, verdict="graph")


def _at_run_time(
    runs: ModuleRuns, sizes: SizeItems, title: str, notes: Sequence[str], **more: Any
) -> SourceFinding:
    names = [n for n, _ in sizes]
    return _found("SS609", title, runs.declaration, names, notes, counterexample=sizes, **more)


def by_data(
    fails: tuple[str, Ran], runs: tuple[str, Ran], needed: str = "", origin: SourceOrigin = NOWHERE
) -> SourceFinding:
    """Return the finding of a data-dependent size: the module fails with some data, and runs with other data."""
    (bad, failed), (good, _) = fails, runs
    sizes = sizes_text(failed.sizes)
    notes = [
        f"at {sizes} it fails with {bad}: {first_line(failed.words)}",
        f"at {sizes} it runs with {good}",
    ]
    notes += [f"the exported file: {needed}"] if needed else []
    title = "whether the module runs at declared sizes depends on the data"
    return SourceFinding("SS614", title, notes=tuple(notes), origin=failed.origin or origin, verdict="module")


# ---------------------------------------------------------------------- refusals

#: note on a file that agrees without the sizes that it declares inside
BARE = (
    "the exporter left the example's sizes on tensors inside the file, and onnxruntime relies on them; without them"
    ' it agrees (tried): `model = program.model_proto; model.graph.ClearField("value_info")`'
)

#: recurrent layers, which the exporter unrolls step by step if their length is no plain dim
_RECURRENT = re.compile(r"\b(lstm|gru)\b")
_UNROLLED = (
    "torch.export unrolls {} over a length that is no plain dim: a number, or rounded, as `w//2` behind pooling or strides;"
    ' where it is rounded, declare the size in multiples, such as `2 * Dim("_width")` (not tried)'
)


def _origin_of(error: BaseException) -> SourceOrigin:
    """The lines of the module's own code on the way to an error; its causes are searched too."""
    return next(filter(None, map(origin_of_error, chain(error))), NOWHERE)


def untold(error: BaseException, runs: str = "") -> SourceFinding:
    """The finding of a refusal without a condition on sizes, in torch.export's own words."""
    words = own_words(error)
    title = f"{'the module runs, and ' if runs else ''}{_translated(error, words)}"
    first = first_line(words)
    more = words.removeprefix(first).strip() if first in title else words
    notes = tuple(filter(None, (more, runs)))
    origin = _origin_of(error) or SourceOrigin(read_trace(words))
    return SourceFinding("SS607", title, notes=notes, origin=origin, verdict="export")


def _translated(error: BaseException, words: str) -> str:
    kind = type(error).__name__
    depends = DATA_DEPENDENT.search(words)
    if kind == "GuardOnDataDependentSymNode" or depends:
        what = f" `{depends[1].strip()}`" if depends else ""
        return f"torch.export cannot decide{what}: it depends on the data, not on sizes"
    if "dynamic_shapes" in words or kind == "UserError":
        return f"torch.export refuses the declaration: {first_line(words)}"
    return f"torch.export refuses the module: {kind}: {first_line(words)}"


def unwritable(error: BaseException, runs: str = "") -> SourceFinding:
    """The finding of a failed write after torch.export succeeded. `runs` is text about sizes that run."""
    if isinstance(error, Unrolled):
        help = _UNROLLED.format("nn.LSTM")
        return SourceFinding(
            "SS608", str(error), notes=(runs,), help=help, origin=error.origin, verdict="export"
        )
    title = f"the exporter cannot write {_what(error)}"
    blamed = _blamed_call(error)
    layer = _RECURRENT.search(str(blamed.target)) if blamed is not None else None
    trace = read_trace(own_words(error)) or (trace_of(blamed) if blamed is not None else ())
    causes = [clipped(f"{type(e).__name__}: {first_line(own_words(e))}", MAX_LINE) for e in chain(error)]
    return SourceFinding(
        "SS608",
        f"the module runs, and {title}" if runs else title,
        notes=(*list(dict.fromkeys(reversed(causes)))[:MAX_SHOWN], *filter(None, [runs])),
        help=_UNROLLED.format(layer[0]) if layer is not None else "",
        origin=SourceOrigin(trace) if trace else _origin_of(error),
        verdict="export",
    )


def _what(error: BaseException) -> str:
    words = own_words(error)
    if NUMBER_RETURNED in words:
        return "a number among the results of forward, which may only be tensors"
    match = next(filter(None, (form.search(words) for form in UNWRITTEN)), None)
    *_, root = chain(error)
    return f"a call{f' of {match[1]}' if match else ''} as ONNX: {first_line(own_words(root))}"


def _blamed_call(error: BaseException) -> Any:
    """The call that an exporter's error names, in the programs of the error's frames: decomposed ones first."""
    causes = list(chain(error))
    frames = [frame for cause in causes for frame, _ in walk_tb(cause.__traceback__)]
    held = (value for frame in reversed(frames) for value in frame.f_locals.values())
    words = "\n".join(str(cause)[:MAX_MESSAGE] for cause in causes)
    names = [next(filter(None, found)) for found in BLAMED.findall(words)]
    for program in (value for value in held if isinstance(value, ExportedProgram)):
        nodes = {node.name: node for node in program.graph.nodes if node.op == "call_function"}
        if found := next((nodes[name] for name in names if name in nodes), None):
            return found
    return None
