"""Turns restrictions into findings with a line, the declaration, the condition, and a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..expr import Cond
from ..expr.sizes import sizes_text
from .correction import Advice
from .declared import Declaration
from .limits import MAX_SHOWN
from .outcome import Restriction
from .places import NOWHERE, Origins, Place, SourceFinding, SourceOrigin, read_trace, trace_of
from .refusal import first_line, own_words
from .traced import GUARD, Guard

_CODES = {"fixed": "SS601", "tied": "SS602", "restricted": "SS603", "range": "SS604"}


class Judge:
    """Turns restrictions into findings, from the guards, the exported program and the ONNX graph."""

    def __init__(
        self,
        declaration: Declaration,
        guards: Sequence[Guard],
        graph: Any,
        origins: Origins,
        advice: Advice,
        refusal: Exception | None,
    ) -> None:
        self.declaration, self.guards, self.graph = declaration, guards, graph
        self.origins, self.advice, self.refused = origins, advice, refusal is not None
        self.fallback = SourceOrigin(read_trace(own_words(refusal))) if refusal is not None else NOWHERE

    def finding(self, restriction: Restriction) -> SourceFinding:
        """The finding of one restriction, after it was tried."""
        origin, nodes = self._origin(restriction)
        notes = [f"came out: {restriction.term.text}, {_needed_by(restriction, nodes)}"]
        notes += _refuted(restriction) if restriction.sizes else [f"not proved: {restriction.answer.reason}"]
        cause = cause_of(restriction.term.cond, origin, self.graph) if restriction.kind == "fixed" else None
        if cause is not None and origin.place is not None:
            notes.append(f"it meets the declared size at {origin.place}: {origin.place.code}")
        return self._found(
            self._code(restriction),
            self._title(restriction),
            restriction,
            notes,
            node=nodes[0] if nodes else "",
            nodes=nodes,
            help=self._help(restriction),
            origin=cause or origin,
            verdict=restriction.tried.verdict,
        )

    def unexplained(self, finding: SourceFinding) -> SourceFinding:
        """The finding of a failure at run time, with a declaration that avoids it."""
        if not self.advice.text:
            return finding
        way = "fix the line, or declare only sizes that run" if finding.verdict == "module" else "declare it"
        return replace(finding, help=self.advice.after(self.advice.kept or way))

    def _found(
        self, code: str, title: str, restriction: Restriction, notes: Sequence[str], **more: Any
    ) -> SourceFinding:
        """Return a finding that quotes the declared sizes of a restriction."""
        declared = [self.declaration.quote(n) for n in restriction.roots]
        return SourceFinding(
            code,
            title,
            notes=(*(f"declared: {d}" for d in declared), *notes),
            declared="; ".join(declared),
            term=restriction.term.text,
            counterexample=restriction.sizes,
            **more,
        )

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
        guards = [self.guards[int(n.removeprefix(GUARD))] for n in labels]
        behind = [g for g in guards if g.origin.trace]
        alike = sorted(behind, key=lambda g: g.cond is None or g.cond.kind != restriction.term.cond.kind)
        found = [g.origin for g in alike] or [o for o in map(self.origins.of, nodes) if o]
        found += [self.fallback] if self.fallback.trace else []
        return next((o for o in found if o.trace), found[0] if found else NOWHERE), nodes


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


# ---------------------------------------------------------------------- the line that wrote a number


def cause_of(cond: Cond, failing: SourceOrigin, module: Any) -> SourceOrigin | None:
    """Origin of the call that writes the only size that runs as a number, before the failing line.

        positions = torch.arange(10)             # the cause
        return x + self.table(positions)         # where a sequence of another length fails

    None if the failing line has it itself, or no such call is found. `module` is the traced graph.
    """
    number = _only_size(cond)
    if number is None or module is None or failing.place is None or _contains(failing.place, number):
        return None
    for node in _upstream(failing.place, module):
        shape = tuple(getattr(node.meta.get("val"), "shape", ()))
        trace = trace_of(node)
        if number not in shape or _is_axis(node, number) or _splits(node, shape, number):
            continue
        if trace and _contains(trace[-1], number):
            return SourceOrigin(trace, failing.module, failing.kind)
    return None


def _only_size(cond: Cond) -> int | None:
    """The number n of ``x == n``."""
    if cond.kind != "==" or len(cond.free) != 1 or len(cond.args[0].terms) != 1:
        return None
    factor = cond.args[0].terms[0][1]
    return int(-cond.args[0].const // factor)


def _upstream(place: Place, module: Any) -> Iterator[Any]:
    """The calls that feed a line, nearest first, including its own."""
    calls = [(n, trace_of(n)) for n in module.graph.nodes if n.op == "call_function"]
    at = (place.file, place.line)
    waiting = [n for n, trace in calls if trace and (trace[-1].file, trace[-1].line) == at]
    seen = set(waiting)
    while waiting:
        node = waiting.pop(0)
        yield node
        for source in node.all_input_nodes:
            if source not in seen and source.op == "call_function":
                seen.add(source)
                waiting.append(source)


def _contains(place: Place, number: int) -> bool:
    """True if the line contains the number, not counted from the end (``transpose(-1, -2)``)."""
    found = re.finditer(rf"(?<![\w.]){number}(?![\w.])", place.code)
    return any(not re.search(r"(^|[(\[{,:=])\s*-$", place.code[: m.start()].rstrip()) for m in found)


def _is_axis(node: Any, number: int) -> bool:
    """True if the number is an axis of a call, as in ``transpose(1, 2)``. Sizes are SymInt in a schema, axes are int."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    given = zip((a.name for a in schema.arguments), node.args)
    axes = re.findall(r"\bint(?:\[\d*\])?\??\s(\w+)", str(schema))
    return any(number == v or (isinstance(v, (list, tuple)) and number in v) for n, v in given if n in axes)


def _splits(node: Any, shape: Sequence[Any], number: int) -> bool:
    """True if a call splits another size into the number and others, as heads of channels."""
    for source in node.all_input_nodes:
        # as text: the comparison of a symbolic size may make a guard
        given, made = [*map(str, getattr(source.meta.get("val"), "shape", ()))], [*map(str, shape)]
        for end in (0, -1):
            while given and made and given[end] == made[end]:
                del given[end], made[end]
        if given and len(made) > len(given) and str(number) in made and str(number) not in given:
            return True
    return False
