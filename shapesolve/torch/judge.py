"""Turns restrictions into findings. Each has the declaration, the resulting condition, the line, and text to paste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..expr.sizes import sizes_text
from .causes import cause_of
from .correction import Advice
from .declared import Declaration
from .limits import MAX_SHOWN
from .outcome import Restriction
from .places import NOWHERE, Origin, Origins, SourceFinding
from .programs import Guard, guards_behind
from .running import SizeItems
from .verdicts import Confirmed

_CODES = {"fixed": "SS601", "tied": "SS602", "restricted": "SS603", "range": "SS604"}


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
        origin, nodes = self._origin(restriction, tried)
        roots = [self.declaration.roots[n] for n in restriction.roots]
        code = self._code(restriction, tried)
        sizes = tried.sizes or restriction.counterexample
        notes = [f"declared: {self.declaration.quote(r.name)}" for r in roots]
        notes.append(f"came out: {restriction.term.text}, {self._who(restriction, nodes)}")
        if sizes:
            notes += _refuted(restriction, sizes, tried)
        else:
            notes.append(f"not decided: {restriction.proof!r}")
        cause = cause_of(restriction.term.cond, origin, self.program) if restriction.kind == "fixed" else None
        if cause is not None:
            notes.append(
                f"it meets the declared size at {origin.place}: {origin.place.code if origin.place else ''}"
            )
        return SourceFinding(
            code,
            self._title(restriction, tried),
            nodes[0] if nodes else "",
            nodes=nodes,
            notes=tuple(notes),
            help=self._help(restriction, advice, tried),
            origin=cause or origin,
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
        names = " and ".join(f"`{n}`" for n in restriction.roots)
        many, at = len(restriction.roots) > 1, f"at {sizes_text(tried.sizes)}, which is declared"
        if tried.verdict == "module" and tried.runs:
            return f"the module fails {at}"
        if tried.verdict == "graph":
            return f"the exported graph does not follow the module {at}"
        only = f"only {restriction.term.text} runs"
        if not restriction.counterexample:
            return f"{only}, and it is not decided whether what was declared for {names} implies it"
        if restriction.kind == "tied":
            return f"{names} were not declared equal, and {only}"
        if restriction.kind == "range" and restriction.beyond and not (restriction.guarded and self.refused):
            return f"{names} {'have' if many else 'has'} no such limit declared, but {only}"
        if restriction.kind == "range":
            return f"the range declared for {names} is too wide: {only}"
        return f"{names} {'were' if many else 'was'} declared dynamic, but {only}"

    def _who(self, restriction: Restriction, nodes: tuple[str, ...]) -> str:
        if restriction.guarded:
            return "a guard of torch.export"
        more = " …" if len(nodes) > MAX_SHOWN else ""
        return f"needed by {', '.join(nodes[:MAX_SHOWN]) or 'the graph'}{more}"

    def ruled_out(self, restriction: Restriction, advice: Advice, tried: Confirmed) -> SourceFinding:
        """A guard of torch.export's trace, which keeps sizes out at which the module runs."""
        origin, _ = self._origin(restriction, tried)
        sizes = tried.sizes or restriction.counterexample
        declared = [self.declaration.quote(n) for n in restriction.roots]
        notes = [f"declared: {d}" for d in declared]
        notes.append(f"guard: {restriction.term.text}")
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
        """A failure at run time with a declaration that avoids it."""
        if not advice.text:
            return finding
        way = "mend the line, or declare only sizes that run" if finding.verdict == "module" else "declare it"
        return replace(finding, help=advice.after(advice.kept or way))

    def _help(self, restriction: Restriction, advice: Advice, tried: Confirmed) -> str:
        correction = advice.correction
        if not advice.text:
            return advice.after("lift it in the code")
        if advice.kept:
            return advice.after(f"lift it in the code, or {advice.kept}")
        speechless = str(restriction.term.cond) in correction.left_out
        if speechless or all(correction.fits[n].hint for n in restriction.roots):
            why = "dynamic_shapes has no words for this: " if speechless else ""
            return advice.after(
                f"{why}lift it in the code, or let torch.export find it out and make callers keep to it"
            )
        if restriction.kind == "fixed" and tried.verdict == "graph":
            return advice.after(
                "write the line in another way, as its graph holds for this size only; or declare it"
            )
        ways = {
            "fixed": "compute the size from the input's shape; or declare what is true",
            "range": "declare the limit, or lift it",
        }
        return advice.after(ways.get(restriction.kind, "declare it"))

    def _origin(self, restriction: Restriction, tried: Confirmed) -> tuple[Origin, tuple[str, ...]]:
        """The line that fails, or else that of the guard or of the nodes, and the nodes."""
        nodes = () if restriction.guarded else restriction.term.nodes
        behind = [g for g in guards_behind(restriction.term.nodes, self.guards) if g.origin.trace]
        if tried.failed is not None and tried.failed.origin.trace:
            return tried.failed.origin, nodes
        alike = sorted(behind, key=lambda g: g.cond is None or g.cond.kind != restriction.term.cond.kind)
        found = [g.origin for g in alike] or [o for o in map(self.origins.of, nodes) if o]
        return next((o for o in found if o.trace), found[0] if found else NOWHERE), nodes


def _refuted(restriction: Restriction, sizes: SizeItems, tried: Confirmed) -> list[str]:
    """Notes on the test of a refutation."""
    at = f"refuted: {sizes_text(sizes)} is within the declaration"
    if tried.failed is not None:
        notes = [f"{at}, and the module fails there: {tried.failed.words.partition(chr(10))[0]}"]
        runs = "; ".join(map(sizes_text, tried.runs[:MAX_SHOWN]))
        return [*notes, f"it runs at {runs}"] if runs else notes
    if tried.verdict == "graph":
        return [f"{at}; the module runs there, and the exported graph fails or computes something else"]
    return [f"{at}, but torch.export rules it out" if restriction.guarded else f"{at} and does not run"]
