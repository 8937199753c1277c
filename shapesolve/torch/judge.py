"""Turns restrictions into findings. Each has the declaration, the resulting condition, the line, and text to paste."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..expr import Cond
from ..expr.sizes import sizes_text
from .correction import Advice
from .declared import Declaration
from .guards import Guard, guards_behind
from .outcome import Restriction
from .places import NOWHERE, Origin, Origins, Place, SourceFinding, read_trace
from .verdicts import Confirmed

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
    ) -> None:
        self.declaration, self.guards, self.program = declaration, guards, program
        self.origins, self.refused = origins, refused

    def finding(self, restriction: Restriction, advice: Advice, tried: Confirmed) -> SourceFinding:
        """The finding of one restriction. `tried` is the result of testing it."""
        origin, met, nodes = self._origin(restriction, tried)
        roots = [self.declaration.roots[n] for n in restriction.roots]
        code = self._code(restriction, tried)
        sizes = tried.sizes or restriction.counterexample
        notes = [f"declared: {self.declaration.quote(r.name)}" for r in roots]
        notes.append(f"came out: {restriction.term.text}, {self._who(restriction, nodes)}")
        if sizes:
            notes += _refuted(restriction, sizes, tried)
        else:
            notes.append(f"not decided: {restriction.proof!r}")
        if met is not None:
            notes.append(f"it meets the declared size at {met}: {met.code}")
        return SourceFinding(
            code,
            self._title(restriction, tried),
            nodes[0] if nodes else "",
            nodes=nodes,
            notes=tuple(notes),
            help=self._help(restriction, advice, tried),
            origin=origin,
            met=met,
            declared="; ".join(self.declaration.quote(r.name) for r in roots),
            term=restriction.term.text,
            counterexample=sizes,
            verdict=tried.verdict,
        )

    def _code(self, restriction: Restriction, tried: Confirmed) -> str:
        roots = [self.declaration.roots[n] for n in restriction.roots]
        told_by_torch = restriction.guarded and self.refused
        undecided = not restriction.counterexample
        if (undecided or (restriction.kind == "range" and restriction.beyond)) and not told_by_torch:
            return "SS605"
        promised = tried.verdict == "module" and all(r.hint == "DYNAMIC" for r in roots)
        if all(r.hint for r in roots) and not promised and not (self.refused and restriction.kind == "fixed"):
            return "SS606"
        return _CODES[restriction.kind]

    def _title(self, restriction: Restriction, tried: Confirmed) -> str:
        text = restriction.term.text
        names = " and ".join(f"`{n}`" for n in restriction.roots)
        if tried.verdict == "module" and tried.runs:
            return f"the module fails at {sizes_text(tried.sizes)}, which is declared"
        if tried.verdict == "graph" and tried.follows and restriction.guarded:
            return f"the exported graph does not follow the module at {sizes_text(tried.sizes)}, which is declared"
        only = (
            f"the exported graph is right for {text} only"
            if tried.verdict == "graph"
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
                if self._code(restriction, tried) == "SS606"
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

    def ruled_out(self, restriction: Restriction, advice: Advice, tried: Confirmed) -> SourceFinding:
        """A guard of torch.export's trace, which keeps sizes out at which the module runs."""
        origin, _, _ = self._origin(restriction, tried)
        sizes = tried.sizes or restriction.counterexample
        texts = (g.shown for g in guards_behind(restriction.term.nodes, self.guards))
        guards = sorted({t for t in texts if len(t) <= _LONGEST_GUARD}, key=len)[:2]
        declared = [self.declaration.quote(n) for n in restriction.roots]
        notes = [f"declared: {d}" for d in declared]
        notes.append(f"guard: {restriction.term.text}" + (f", from {' and '.join(guards)}" if guards else ""))
        title = f"torch.export's trace rules out sizes with {~restriction.term.cond}"
        if tried.verdict == "tracer":
            title += ", where the module runs"
            notes.append(
                f"tried: at {sizes_text(sizes)} the module runs, and the exported graph gives the same"
            )
        else:
            title += "; whether the module runs there was not found out"
        return SourceFinding(
            "SS610",
            title,
            notes=tuple(notes),
            help=advice.after("to export all the same, leave it to torch.export"),
            origin=origin,
            declared="; ".join(declared),
            term=restriction.term.text,
            counterexample=sizes,
            verdict="tracer",
        )

    def unexplained(self, finding: SourceFinding, advice: Advice) -> SourceFinding:
        """A failure at run time with the line of its node, and a declaration that avoids it."""
        if finding.node and finding.place is None:
            finding = replace(finding, origin=self.origins.of(finding.node))
        if not advice.text:
            return finding
        if finding.verdict == "module":
            return replace(finding, help=advice.after("mend the line, or declare only sizes that run"))
        fixed = advice.correction.given
        kept = ", ".join(f"`{n} at {v}`" for n, v in fixed.items())
        return replace(
            finding, help=advice.after(f"leave {kept}, as in the example" if kept else "declare it")
        )

    def _help(self, restriction: Restriction, advice: Advice, tried: Confirmed) -> str:
        correction = advice.correction
        if advice.state == "elsewhere" or not advice.text:
            return advice.after("lift it in the code")
        if correction.given:
            kept = ", ".join(f"`{n}` at {v}" for n, v in correction.given.items())
            return advice.after(f"lift it in the code, or leave {kept}, as in the example (tried)")
        speechless = str(restriction.term.cond) in correction.left_out
        if speechless or all(correction.fits[n].hint for n in restriction.roots):
            why = "dynamic_shapes has no words for this: " if speechless else ""
            return advice.after(
                f"{why}lift it in the code, or let torch.export find it out and make callers keep to it"
            )
        mend = (
            "write the line in another way, as the graph that is made of it holds for this size only"
            if tried.verdict == "graph"
            else "compute the size from the input's shape"
        )
        ways = {
            "fixed": f"{mend}; or declare what is true",
            "tied": "declare it",
            "range": "declare the limit, or lift it",
            "restricted": "declare it",
        }
        return advice.after(ways[restriction.kind])

    # ------------------------------------------------------------------ lines

    def _origin(
        self, restriction: Restriction, tried: Confirmed
    ) -> tuple[Origin, Place | None, tuple[str, ...]]:
        failed = tried.failed
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


def _refuted(restriction: Restriction, sizes: tuple[tuple[str, int], ...], tried: Confirmed) -> list[str]:
    """Notes on the test of a refutation."""
    at = f"refuted: {sizes_text(sizes)} is within the declaration"
    if tried.failed is not None:
        told = [f"{at}, and the module fails there: {tried.failed.words.partition(chr(10))[0]}"]
        if tried.runs:
            told.append(f"it runs at {'; '.join(sizes_text(s) for s in tried.runs[:_MAX_NODES])}")
        return told
    if tried.verdict == "graph":
        told = [f"{at}; the module runs there, and the exported graph fails or computes something else"]
        if tried.follows and restriction.guarded:
            told.append(f"it follows at {'; '.join(sizes_text(s) for s in tried.follows[:_MAX_NODES])}")
        return told
    return [f"{at}, but torch.export rules it out" if restriction.guarded else f"{at} and does not run"]


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
