"""Turns restrictions into findings. Each has the declaration, the resulting condition, the line, and text to paste."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..expr import Cond
from .correction import Correction
from .declared import Declaration
from .findings import SourceFinding
from .guards import Guard, guards_behind
from .outcome import Restriction, sizes_text
from .places import NOWHERE, Origin, Origins, Place, read_trace
from .verdicts import Confirmed, excluded_text

_CODES = {"fixed": "SS601", "tied": "SS602", "restricted": "SS603", "range": "SS604"}
_MAX_NODES = 4
_LONGEST_GUARD = 80


class Judge:
    """Turns restrictions into findings, from the guards, the exported program and the ONNX graph."""

    def __init__(
        self,
        declaration: Declaration,
        guards: Sequence[Guard],
        program: Any,
        origins: Origins,
        *,
        refused: bool,
        written: bool,
    ) -> None:
        self.declaration, self.guards, self.program = declaration, guards, program
        self.origins, self.refused, self.written = origins, refused, written

    def finding(
        self, restriction: Restriction, correction: Correction, confirmed: Confirmed
    ) -> SourceFinding:
        """The finding of one restriction. `confirmed` is the result of testing it."""
        origin, met, nodes = self._origin(restriction, confirmed)
        roots = [self.declaration.roots[n] for n in restriction.roots]
        code = self._code(restriction, confirmed)
        sizes = confirmed.sizes or restriction.counterexample
        notes = [f"declared: {self.declaration.quote(r.name)}" for r in roots]
        notes.append(f"came out: {restriction.term.text}, {self._who(restriction, nodes)}")
        if sizes:
            notes += _refuted(restriction, sizes, confirmed)
        else:
            notes.append(f"not decided: {restriction.proof!r}")
        if met is not None:
            notes.append(f"it meets the declared size at {met}: {met.code}")
        return SourceFinding(
            code,
            self._title(restriction, confirmed),
            nodes[0] if nodes else "",
            nodes=nodes,
            notes=tuple(notes),
            help=self._help(restriction, correction, confirmed),
            origin=origin,
            met=met,
            declared="; ".join(self.declaration.quote(r.name) for r in roots),
            term=restriction.term.text,
            counterexample=sizes,
            verdict=confirmed.verdict,
        )

    def _code(self, restriction: Restriction, confirmed: Confirmed) -> str:
        roots = [self.declaration.roots[n] for n in restriction.roots]
        told_by_torch = restriction.guarded and self.refused
        undecided = not restriction.counterexample
        if (undecided or (restriction.kind == "range" and restriction.beyond)) and not told_by_torch:
            return "SS605"
        promised = confirmed.verdict == "module" and all(r.hint == "DYNAMIC" for r in roots)
        if all(r.hint for r in roots) and not promised and not (self.refused and restriction.kind == "fixed"):
            return "SS606"
        return _CODES[restriction.kind]

    def _title(self, restriction: Restriction, confirmed: Confirmed) -> str:
        text = restriction.term.text
        names = " and ".join(f"`{n}`" for n in restriction.roots)
        if confirmed.verdict == "module" and confirmed.runs:
            return f"the module fails at {sizes_text(confirmed.sizes)}, which is declared"
        if confirmed.verdict == "graph" and confirmed.follows and restriction.guarded:
            return f"the exported graph does not follow the module at {sizes_text(confirmed.sizes)}, which is declared"
        only = (
            f"the exported graph is right for {text} only"
            if confirmed.verdict == "graph"
            else f"only {text} runs"
        )
        if not restriction.counterexample:
            return f"only {text} runs, and it is not decided whether what was declared for {names} implies it"
        many = len(restriction.roots) > 1
        if restriction.kind == "fixed":
            return f"{names} was declared dynamic, but {only}"
        if restriction.kind == "tied":
            said = (
                "left to torch.export"
                if self._code(restriction, confirmed) == "SS606"
                else "declared independent"
            )
            return f"{names} were {said}, and {only}"
        if restriction.kind == "range":
            if restriction.beyond and not (restriction.guarded and self.refused):
                return f"{names} {'have' if many else 'has'} no such limit declared, but {only}"
            return f"the range declared for {names} is too wide: {only}"
        return f"{names} {'were' if many else 'was'} declared dynamic, but {only}"

    def _who(self, restriction: Restriction, nodes: tuple[str, ...]) -> str:
        if restriction.guarded:
            behind = guards_behind(restriction.term.nodes, self.guards)
            asked = any(g.asked for g in behind)
            return (
                "because the module's code asks"
                if asked
                else "because an operator needs it to trace the module"
            )
        shown = ", ".join(nodes[:_MAX_NODES]) + (" …" if len(nodes) > _MAX_NODES else "")
        return f"needed by {shown}" if shown else "needed by the graph"

    def ruled_out(
        self,
        restriction: Restriction,
        correction: Correction,
        confirmed: Confirmed,
        others: Sequence[Cond] = (),
    ) -> SourceFinding:
        """A guard of torch.export's trace, which keeps sizes out at which the module runs.

        Sizes that the `others` keep out are none of them.
        """
        origin, _, _ = self._origin(restriction, confirmed)
        excluded = excluded_text(restriction, self.declaration, others)
        at = sizes_text(confirmed.sizes or restriction.counterexample)
        texts = (g.shown for g in guards_behind(restriction.term.nodes, self.guards))
        guards = sorted({t for t in texts if len(t) <= _LONGEST_GUARD}, key=len)[:2]
        notes = [f"declared: {self.declaration.quote(n)}" for n in restriction.roots]
        who = "guard" if restriction.guarded else "needed by the graph"
        notes.append(f"{who}: {restriction.term.text}" + (f", from {' and '.join(guards)}" if guards else ""))
        if confirmed.verdict == "graph":
            title = f"what torch.export makes of this example rules out {excluded}, where the module runs"
            notes.append(
                f"tried: at {at} the module runs, and the graph of this example does not give the same"
            )
        elif confirmed.verdict == "tracer":
            title = f"torch.export's trace rules out {excluded}, where the module runs"
            notes.append(f"tried: at {at} the module runs, and the exported graph gives the same")
        else:
            title = (
                f"torch.export's trace rules out {excluded}; whether the module runs there was not found out"
            )
        if correction.elsewhere:
            help_ = _elsewhere(correction)
        elif correction.refused:
            more = "to try more declarations takes longer than the export, and none so far holds"
            help_ = more if correction.untried else "tried: no other declaration of it holds"
        else:
            left = "to export all the same, leave it to torch.export (tried)"
            if not self.written:
                left = "torch.export takes it when it is left to it (tried); the exporter does not write what it makes"
            help_ = f"{left}:\n{correction.text()}"
        return SourceFinding(
            "SS610",
            title,
            notes=tuple(notes),
            help=help_,
            origin=origin,
            declared="; ".join(self.declaration.quote(n) for n in restriction.roots),
            term=restriction.term.text,
            counterexample=confirmed.sizes or restriction.counterexample,
            verdict="tracer",
        )

    def _help(self, restriction: Restriction, correction: Correction, confirmed: Confirmed) -> str:
        if any(a.example == 1 for n in restriction.roots for a in self.declaration.axes_of(n)) and (
            restriction.kind == "fixed" and restriction.guarded
        ):
            return "torch.export takes a size of 1 in an example for a constant: give an example of size 2 or more"
        at_end = self._at_end(restriction)
        if at_end:
            return at_end
        if correction.elsewhere:
            return _elsewhere(correction)
        if correction.untried:
            return "lift it in the code: to try more declarations takes longer than the export, and none so far holds"
        if correction.refused:
            return "lift it in the code: no declaration of these sizes that was tried gives a file that follows the module"
        if correction.numbers:
            kept = ", ".join(f"`{n}` at {v}" for n, v in correction.numbers.items())
            return f"lift it in the code, or leave {kept}, as in the example (tried):\n{correction.text()}"
        speechless = str(restriction.term.cond) in correction.left_out
        if speechless or all(correction.fits[n].hint for n in restriction.roots):
            why = "dynamic_shapes has no words for this: " if speechless else ""
            return (
                f"{why}lift it in the code, or let torch.export find it out and make callers keep to it:"
                f"\n{correction.text()}"
            )
        mend = (
            "write the line in another way, as the graph that is made of it holds for this size only"
            if confirmed.verdict == "graph"
            else "compute the size from the input's shape"
        )
        ways = {
            "fixed": f"{mend}; or declare what is true:",
            "tied": "declare it:",
            "range": "declare the limit, or lift it:",
            "restricted": "declare it:",
        }
        return f"{ways[restriction.kind]}\n{correction.text()}"

    def _at_end(self, restriction: Restriction) -> str:
        """Advice for a size that the trace fixed and whose example value is an end of its range."""
        if restriction.kind != "fixed":
            return ""
        for name in restriction.roots:
            root = self.declaration.roots[name]
            for axis in self.declaration.axes_of(name):
                if axis.size is root.dim and axis.example in (root.low, root.high):
                    return f"the example has {name} = {axis.example}, an end of its range: give an example inside of it"
        return ""

    # ------------------------------------------------------------------ lines

    def _origin(
        self, restriction: Restriction, confirmed: Confirmed
    ) -> tuple[Origin, Place | None, tuple[str, ...]]:
        failed = confirmed.failed
        asked = [g for g in guards_behind(restriction.term.nodes, self.guards) if g.asked and g.origin.trace]
        if failed is not None and failed.origin.trace and not asked:
            nodes = () if restriction.guarded else restriction.term.nodes
            cause = self._cause(restriction, failed.origin)
            if cause is not None and cause.place is not None and cause.place != failed.origin.place:
                return cause, failed.origin.place, nodes
            return failed.origin, None, nodes
        if not restriction.guarded:
            return self._origin_of_nodes(restriction)
        behind = guards_behind(restriction.term.nodes, self.guards)
        ranked = sorted(behind, key=lambda g: (not g.origin.trace, not _relates(g.cond, restriction)))
        origin = ranked[0].origin if ranked else NOWHERE
        cause = self._cause(restriction, origin)
        if cause is not None and cause.place is not None and cause.place != origin.place:
            return cause, origin.place, ()
        return origin, None, ()

    def _origin_of_nodes(self, restriction: Restriction) -> tuple[Origin, Place | None, tuple[str, ...]]:
        nodes = restriction.term.nodes
        found = [o for o in (self.origins.of(n) for n in nodes) if o]
        origin = next((o for o in found if o.trace), found[0] if found else NOWHERE)
        cause = self._cause(restriction, origin)
        if cause is not None and cause.place is not None and cause.place != origin.place:
            return cause, origin.place, nodes
        return origin, None, nodes

    def _cause(self, restriction: Restriction, met: Origin) -> Origin | None:
        """The line that writes the size down as a number: ``torch.arange(10)`` far above the sum that fails."""
        if restriction.kind != "fixed" or self.program is None or met.place is None:
            return None
        number = _number(restriction.term.cond)
        if number is None or _says(met.place, number):
            return None
        for node in self._upstream(met.place):
            value = node.meta.get("val")
            trace = read_trace(node.meta.get("stack_trace", "") or "")
            shape = tuple(getattr(value, "shape", ()))
            if number not in shape or _names_axis(node, number) or _splits(node, shape, number):
                continue
            if trace and _says(trace[-1], number):
                return Origin(trace, met.module, met.kind)
        return None

    def _upstream(self, place: Place) -> Iterator[Any]:
        """The calls that feed a line, nearest first, that line's own calls included."""
        here = [n for n in self.program.graph.nodes if n.op == "call_function" and _at(n, place)]
        waiting, seen = list(here), set(here)
        while waiting:
            node = waiting.pop(0)
            yield node
            for source in node.all_input_nodes:
                if source not in seen and source.op == "call_function":
                    seen.add(source)
                    waiting.append(source)


def _refuted(restriction: Restriction, sizes: tuple[tuple[str, int], ...], confirmed: Confirmed) -> list[str]:
    """Notes on the test of a refutation."""
    at = f"refuted: {sizes_text(sizes)} is within the declaration"
    if confirmed.failed is not None:
        told = [f"{at}, and the module fails there: {confirmed.failed.words.partition(chr(10))[0]}"]
        if confirmed.runs:
            told.append(f"it runs at {'; '.join(sizes_text(s) for s in confirmed.runs[:_MAX_NODES])}")
        return told
    if confirmed.verdict == "graph":
        told = [f"{at}; the module runs there, and the exported graph fails or computes something else"]
        if confirmed.follows and restriction.guarded:
            told.append(f"it follows at {'; '.join(sizes_text(s) for s in confirmed.follows[:_MAX_NODES])}")
        return told
    return [f"{at}, but torch.export rules it out" if restriction.guarded else f"{at} and does not run"]


def _elsewhere(correction: Correction) -> str:
    """The exported graph is right only where the example is not."""
    sizes = sizes_text(correction.elsewhere)
    return f"mend the line: the exported graph is right for {sizes} only, which the example is not, and no declaration helps"


def _at(node: Any, place: Place) -> bool:
    trace = read_trace(node.meta.get("stack_trace", "") or "")
    return bool(trace) and (trace[-1].file, trace[-1].line) == (place.file, place.line)


def _says(place: Place, number: int) -> bool:
    """True if the line contains the number, not counted from the end (``transpose(-1, -2)``)."""
    before = (
        place.code[: m.start()].rstrip() for m in re.finditer(rf"(?<![\w.]){number}(?![\w.])", place.code)
    )
    return any(not re.search(r"(^|[(\[{,:=])\s*-$", text) for text in before)


def _names_axis(node: Any, number: int) -> bool:
    """True if the number is an axis of a call, as in ``transpose(1, 2)``. Sizes are SymInt in a schema, axes are int."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    given = zip((a.name for a in schema.arguments), node.args)
    axes = re.findall(r"\bint(?:\[\d*\])?\??\s(\w+)", str(schema))
    return any(number == v or (isinstance(v, (list, tuple)) and number in v) for n, v in given if n in axes)


def _splits(node: Any, shape: Sequence[Any], number: int) -> bool:
    """True if a call splits another size into the number and others, as heads of channels. No declared size may change."""
    for source in node.all_input_nodes:
        given, made = [*getattr(source.meta.get("val"), "shape", ())], [*shape]
        while given and made and _alike(given[0], made[0]):
            del given[0], made[0]
        while given and made and _alike(given[-1], made[-1]):
            del given[-1], made[-1]
        if given and len(made) > len(given) and number in made and number not in given:
            return True
    return False


def _alike(a: Any, b: Any) -> bool:
    """The same size; sizes are compared as they are written, since asking a symbolic one may make a guard."""
    return str(a) == str(b)


def _number(cond: Cond) -> int | None:
    """The number that ``x == n`` says."""
    if cond.kind != "==" or len(cond.free) != 1 or len(cond.args[0].terms) != 1:
        return None
    factor = cond.args[0].terms[0][1]
    return int(-cond.args[0].const // factor)


def _relates(cond: Cond | None, restriction: Restriction) -> bool:
    """True if a guard and the condition it led to are of the same kind."""
    return cond is not None and cond.kind == restriction.term.cond.kind
