"""Findings of a check: what came out, who is at fault, the line, and a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
from .limits import MAX_LINE, MAX_MESSAGE, MAX_SHOWN
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
    return_of,
    trace_of,
)  # fmt: skip
from .running import Ran
from .traced import GUARD, cause_of
from .verdicts import Failure, Judged, Restriction

# ---------------------------------------------------------------------- a condition

#: codes that running the module reports better than the analysis, and codes of the exporter's own declarations
_REPORTED_BETTER = ("SS102", "SS104", "SS3", "SS4")
_CODES = {"fixed": "SS601", "tied": "SS602", "restricted": "SS603", "range": "SS604"}


class Wording:
    """Turns what was judged into findings, each with its Python line and a declaration that avoids it."""

    def __init__(self, judged: Judged, advice: Advice) -> None:
        self.judged, self.declaration, self.advice = judged, judged.declaration, advice
        analysis, refusal = judged.analysis, judged.export.refusal
        self.origins = Origins(analysis.model.graph.nodes if analysis is not None else ())
        self.refused = refusal is not None
        self.fallback = SourceOrigin(read_trace(own_words(refusal))) if refusal is not None else NOWHERE

    def findings(self) -> Iterator[SourceFinding]:
        """All findings: of the call, of restrictions, of failures that none explains, and of the analysis."""
        judged, refusal, runs = self.judged, self.judged.export.refusal, self.judged.runs
        found = [*self._of_call(), *map(self.finding, judged.real)]
        found += [self.failure(f) for f in judged.failures if not (judged.real and f.verdict == "graph")]
        if refusal is not None and not found:
            found += [untold(refusal)]
        if judged.analysis is not None:
            found += self._of_graph(judged.analysis)
        if runs is not None and runs.by_values and not any(f.code == "SS614" for f in found):
            found += [by_data(*runs.by_values)]
        yield from dict.fromkeys(found)

    def _of_call(self) -> Iterator[SourceFinding]:
        export, example = self.judged.export, self.judged.example
        if export.failed is not None and export.unwritten:
            yield unwritable(export.failed, self.judged.call.module, self._runs())
        elif export.refusal is not None and example is not None and example.state == "fails":
            title = (
                f"the module fails on the example arguments, before any export: {first_line(example.words)}"
            )
            yield SourceFinding(
                "SS607", title, notes=(example.words,), origin=example.origin, verdict="module"
            )
        elif export.refusal is not None and example is not None:
            yield untold(export.refusal, self._runs())

    def _runs(self) -> str:
        """Text that lists sizes the module ran with; empty if it fails for some declared size."""
        judged = self.judged
        if judged.runs is None or judged.failures or any(r.tried.failed is not None for r in judged.found):
            return ""
        sizes = [sizes_text(s) for s in judged.runs.seen()]
        shown = f": {'; '.join(sizes[:MAX_SHOWN])}{', …' if len(sizes) > MAX_SHOWN else ''}" if sizes else ""
        return f"the module itself runs on the example, and at the declared sizes tried{shown}"

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

    def failure(self, failure: Failure) -> SourceFinding:
        """The finding of a failure at run time, with a declaration that avoids it."""
        sizes, words, origin, verdict = failure.sizes, failure.words, failure.origin, "module"
        at, names = f"at {sizes_text(sizes)}", [n for n, _ in sizes]
        if failure.verdict == "module":
            title, way = (
                f"the module fails {at}, which is declared",
                "fix the line, or declare only sizes that run",
            )
            notes = [f"the module fails {at}: {words}"]
            notes += [f"it fails at {sizes_text(more)} too" for more in failure.also]
            notes += [f"it runs at {'; '.join(map(sizes_text, failure.runs))}"] if failure.runs else []
        else:
            verdict, way = "graph", f"leave {' and '.join(f'`{n}`' for n in names)} as in the example"
            title = f"the exported file fails {at}, where the module runs"
            notes = [f"tried: onnxruntime runs it on the example, and {at} says: {clipped(words, MAX_LINE)}"]
            if not words:
                title = f"the exported file does not compute what the module computes {at}"
                why = "a size or a value became a number while the module was exported"
                notes = [f"tried: both were run there on the same data; {why}"]
            notes += [BARE] if failure.bare else []
            stale = self.judged.analysis.findings if self.judged.analysis is not None else ()
            # its line is that of a tensor with other sizes than the file declares
            of_stale = (self.origins.of(f.node) for f in stale if f.code == "SS102")
            origin = next(filter(None, of_stale), NOWHERE)
        return _found(
            "SS609",
            title,
            self.declaration,
            names,
            notes,
            counterexample=sizes,
            help=self.advice.after(way) if self.advice.text else "",
            origin=origin,
            verdict=verdict,
        )

    def _of_graph(self, analysis: Analysis) -> Iterator[SourceFinding]:
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
        if cond in advice.correction.left_out:
            way = f"dynamic_shapes cannot express this: lift it in the code, or make callers satisfy it (assume={[cond]})"
            return advice.after(f"{way}, and declare") if advice.text else way
        if not advice.text:
            return advice.after("lift it in the code")
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
    tried = restriction.tried
    at = f"refuted: {sizes_text(restriction.sizes)} is within the declaration"
    if tried.failed is not None:
        notes = [f"{at}, and the module fails there: {first_line(tried.failed.words)}"]
        runs = "; ".join(map(sizes_text, tried.runs[:MAX_SHOWN]))
        return [*notes, f"it runs at {runs}"] if runs else notes
    if tried.verdict == "graph":
        return [f"{at}; the module runs there, and the exported file fails or computes something else"]
    return [f"{at}, but torch.export rules it out" if restriction.guarded else f"{at} and does not run"]


# ---------------------------------------------------------------------- the whole call


def to_paste(way: str, text: str, tried: bool) -> str:
    """Help: a way out, whether it was tried, and the declaration to paste."""
    return f"{way} ({'tried' if tried else 'not tried'}){':' if text else ''}\n{text}".rstrip()


def nothing_dynamic(text: str, tried: bool) -> SourceFinding:
    """The finding of a call without a declaration; `text` is one that can be declared."""
    help = (
        to_paste("declare what is to change", text, tried)
        if text
        else "`infer=True` finds out what can be declared"
    )
    title = "no size is declared dynamic: the file accepts only the example's sizes"
    return SourceFinding("SS612", title, help=help)


def found_declaration(text: str, tried: bool) -> SourceFinding:
    """The finding of a declaration that was looked for."""
    return SourceFinding(
        "SS613", "a declaration that fits the example", help=to_paste("declare", text, tried)
    )


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


def unwritable(error: BaseException, module: Any, runs: str = "") -> SourceFinding:
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
        origin=SourceOrigin(trace) if trace else _origin_of(error) or return_of(module),
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
