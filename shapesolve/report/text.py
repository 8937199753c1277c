"""Text report of an analysis, and findings as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..answers.names import Tensors, grouped, meanings, unknown_sizes
from ..causes.limits import MAX_LINES
from ..expr.sizes import sizes_text
from ..lines import GAP, Line, Printed, Row, join_names, line, plain, row, shortened
from ..solve.contract.contract import heading
from ..solve.groups import Group, stated_by, text_of
from .limits import MAX_NAMES

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding
    from ..expr import Cond, Shape
    from ..solve.contract.contract import Contract, Term
    from ..solve.facts.constraint import Constraint
    from .gate import Sifted

#: width of the label column, without and with the gap after it
_WIDTH, _LABEL = 8, 8 + GAP
_INDENT = " " * _LABEL


def render_text(analysis: Analysis) -> str:
    """Return the whole report as plain text."""
    return plain(report_lines(analysis))


def report_lines(
    analysis: Analysis, seconds: float | None = None, *, exact: bool = False
) -> Iterator[Printed]:
    """Return the lines of the report: headline, inputs, outputs, contract, findings. Forms are typical or `exact`."""
    yield headline(analysis, seconds)
    yield ()
    inputs = list(analysis.inputs)
    outputs = [name for name, _ in analysis.model.graph.outputs]
    yield from _table("inputs", tensor_rows(analysis, inputs, exact=exact))
    yield from _table("outputs", tensor_rows(analysis, outputs, exact=exact))
    yield from legend_lines(analysis, [*inputs, *outputs], exact=exact)
    yield ()
    yield from contract_lines(analysis, exact=exact)
    yield ()
    yield from summary_lines(analysis, _beyond_contract(analysis.findings), brief=True)


def model_name(analysis: Analysis) -> str:
    """Return the file name of the model with its folder, or the graph's name if there is no file."""
    path = analysis.model.path
    return "/".join(path.parts[-2:]) if path is not None else (analysis.model.graph.name or "model")


def headline(analysis: Analysis, seconds: float | None = None) -> Line:
    """Return ``model.onnx   8,175 nodes · opset 17 · 0.21 s``."""
    model = analysis.model
    name = model_name(analysis)
    count = len(model.graph.nodes)
    facts = [f"{count:,} node{'s' if count != 1 else ''}"]
    if "" in model.opsets:
        facts.append(f"opset {model.opsets['']}")
    if seconds is not None:
        facts.append(f"{seconds:.2f} s")
    return line(("bold", name), "   ", ("dim", " · ".join(facts)))


def tensor_rows(analysis: Analysis, names: list[str], *, exact: bool = False) -> list[Tensors]:
    """Return tensors with types and shapes, similar ones together, and inputs as they are declared."""
    shapes = shown_shapes(analysis, names, exact=exact)
    solved = analysis._solved
    unknown = solved.lowered.poisoned | unknown_sizes(solved.lowered).keys()
    inputs = ((n, getattr(known, "shape", None)) for n, known in analysis.inputs.items())
    declared = {n: shape for n, shape in inputs if shape is not None}
    return grouped(names, shapes, analysis.dtypes, unknown, declared)


def shown_shapes(analysis: Analysis, names: list[str], *, exact: bool = False) -> dict[str, Shape]:
    """Return the simplified shapes of these tensors, for typical sizes or `exact`."""
    simple = analysis._solved.simple_shapes
    return {n: simple[n] if exact else simple.usual(n)[0] for n in names if n in analysis.shapes}


def _table(title: str, rows: list[Tensors]) -> Iterator[Row]:
    for i, r in enumerate(rows):
        more = f"   (and {r.more} more like it)" if r.more else ""
        label = (title if i == 0 else "").ljust(_WIDTH)
        yield row(("dim", label), ("name", r.name), ("dim", r.dtype), line(("shape", r.shape), ("dim", more)))


def tensor_lines(analysis: Analysis, names: list[str], *, exact: bool = False) -> Iterator[Printed]:
    """Return a table of tensors with types and shapes."""
    yield from _table("tensors", [Tensors(n, *_one(analysis, n, exact), 0) for n in names])
    yield from legend_lines(analysis, names, exact=exact)


def _one(analysis: Analysis, name: str, exact: bool) -> tuple[str, str]:
    (found,) = tensor_rows(analysis, [name], exact=exact)
    return found.dtype, found.shape


def legend_lines(analysis: Analysis, names: Iterable[str], *, exact: bool = False) -> Iterator[Printed]:
    """Return the scope of these tensors' shapes, and the definitions of generated symbols (`_d0`) in them."""
    known = [n for n in names if n in analysis.shapes]
    used = (
        {} if exact else dict.fromkeys(c for n in known for c in analysis._solved.simple_shapes.usual(n)[1])
    )
    if used and not used.keys() <= set(analysis.contract.usual.scope):
        yield line(_INDENT, ("dim", f"shapes are {heading(used)} ({_others([*used])}: --exact)"))
    meanings = list(_meanings(analysis, shown_shapes(analysis, known, exact=exact)))
    for i, (name, meaning) in enumerate(meanings[:MAX_LINES]):
        label = "where" if i == 0 else ""
        yield row(("dim", label.ljust(_WIDTH)), ("shape", name), ("dim", meaning))
    if len(meanings) > MAX_LINES:
        yield line(_INDENT, ("dim", f"and {len(meanings) - MAX_LINES} more generated names"))


def _others(scope: Sequence[Cond]) -> str:
    """Return the sizes that `--exact` adds to forms of this scope."""
    bounds = [c.args[0] for c in scope if c.kind == ">=" and len(c.free) == 1]
    if not all(len(d.terms) == 1 for d in bounds) or len(bounds) < len([*scope]):
        return "other sizes"
    signs = {factor > 0 for d in bounds for _, factor in d.terms}
    return "other sizes" if len(signs) > 1 else "smaller sizes" if signs == {True} else "larger sizes"


def _meanings(analysis: Analysis, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, str]]:
    """Return the generated symbols in these shapes, each with an explanation."""
    reasons, definitions = meanings(analysis._solved), analysis._solved.definitions
    explained = reasons.keys() | definitions.keys()
    used = dict.fromkeys(
        s for shape in shapes.values() for d in shape for s in sorted(d.free) if s in explained
    )
    strange = unknown_sizes(analysis._solved.lowered)
    free = (s for shape in shapes.values() for d in shape for s in d.free)
    for operator in dict.fromkeys(strange[s] for s in free if s in strange):
        yield "?", f"depends on {operator}, which has no rule"
    used = {n: None for n in used if n not in strange}
    unknown = [n for n in used if n in analysis._solved.lowered.poisoned]
    yield from (("?", reason) for reason in dict.fromkeys(reasons[n] for n in unknown if n in reasons))
    left = [n for n in used if n not in unknown]
    while left:
        name = left.pop(0)
        defined = definitions.get(name)
        if defined is None:
            yield name, reasons[name]
            continue
        yield (
            name,
            str(defined).removeprefix("(").removesuffix(")") if defined.atom else str(defined),
        )
        for inner in sorted(defined.free & explained):
            if inner not in used:
                used[inner] = None
                left.append(inner)


def contract_lines(
    analysis: Analysis, limit: int | None = MAX_LINES, *, exact: bool = False
) -> Iterator[Printed]:
    """Return the lines of the contract: conditions and their nodes, for typical sizes or `exact`."""
    for i, conflict in enumerate(analysis._solved.rejected_request):
        yield line(("dim", ("" if i else "contract").ljust(_LABEL)), ("error", conflict.message))
    if analysis._solved.rejected_request:
        return
    if analysis.conflicts:
        yield line(
            ("dim", "contract".ljust(_LABEL)), ("error", "no input sizes run: the model contradicts itself")
        )
        for conflict in (
            analysis.conflicts if limit is None else ()
        ):  # with a limit, the conflicts are listed as findings
            yield row(" " * _WIDTH, conflict.finding.title, ("dim", conflict.finding.node), most=48)
        return
    contract = analysis.contract
    if contract.impossible:
        yield line(("dim", "contract".ljust(_LABEL)), ("error", "no input sizes satisfy all requirements"))
        return
    cases = analysis._solved.switched if contract.internal else {}
    if cases:
        for k, (text, case) in enumerate(cases.items()):
            yield from _form_lines(case.contract, limit, exact, "" if k else "contract", f"if {text}")
        return
    yield from _form_lines(contract, limit, exact, "contract")
    example = {} if exact else _example(analysis)
    if example:
        yield line(_INDENT, ("dim", f"runs at {sizes_text(example)}"))
    if contract.inputs == () and analysis.inputs and not contract:
        yield line(_INDENT, _inputs(analysis))
        yield line(_INDENT, ("dim", "to make sizes dynamic: shapesolve free, shapesolve generalize"))
    if contract.internal:
        count = len(contract.internal)
        what = "conditions" if count > 1 else "condition"
        yield line(_INDENT, ("dim", f"and {count} {what} on data, not on input sizes"))
        if limit is None:
            yield from _terms(list(contract.internal), limit)
    if (contract.terms if exact else contract.usual.terms) and contract.limits:
        yield line(_INDENT, ("dim", contract.limits))


def _form_lines(
    contract: Contract, limit: int | None, exact: bool, label: str, case: str = ""
) -> Iterator[Printed]:
    """Return the lines of a contract's simplified or exact form, after a label; `case` is its scope."""
    start = ("dim", label.ljust(_LABEL))
    terms = contract.terms if exact else contract.usual.terms
    if not terms:
        said = f"{case}: {contract.nothing}" if case else contract.nothing
        if limit is not None or not contract.terms:
            yield line(start, said)
            return
        first = contract.terms[0]
        empty = f"{first.text}: {', '.join(first.nodes[:1]) or _declared_by(first)}"
        if len(said) + len(empty) <= 66:
            yield line(start, said, ("dim", f"   {empty}"))
        else:
            yield line(start, said)
            yield line(_INDENT, ("dim", f"empty inputs fail: {empty}"))
        return
    scope = () if exact else contract.usual.scope
    limited = f"{heading(scope)} ({_others(scope)}: --exact)" if scope else "input sizes must satisfy"
    yield line(start, ("dim", f"{case}, {limited}" if case else limited))
    yield from _terms(list(terms), limit)
    if contract.usual.may_be_empty and not exact:
        yield line(_INDENT, ("dim", f"may be 0: {', '.join(contract.usual.may_be_empty)}"))


def _example(analysis: Analysis) -> dict[str, int]:
    """Return readable sizes that the model accepts, for the names without a simple bound."""
    terms = analysis.contract.usual.terms
    hard = [t for t in terms if len(t.symbols) > 1 or t.kind in ("alternative", "other")]
    found = (analysis._solved.example or {}) if hard else {}
    names = {s for t in hard for s in t.symbols}
    return {n: size for n, size in found.items() if n in names}


def _inputs(analysis: Analysis) -> str:
    return join_names(
        [f"{n} {analysis.shapes[n]}" for n in analysis.inputs if n in analysis.shapes], MAX_NAMES
    )


def _terms(terms: list[Term], limit: int | None) -> Iterator[Printed]:
    groups: dict[Group, list[str]] = {}
    for term in terms:
        if (group := stated_by(term.cond)) is not None:
            groups.setdefault(group, []).extend(term.nodes)
    for group, labels in groups.items():
        yield line(_INDENT, ("shape", text_of(group, MAX_NAMES)))
        yield line(_INDENT, "  ", ("dim", _needed_by(tuple(dict.fromkeys(labels)))))
    terms = [t for t in terms if stated_by(t.cond) not in groups]
    for term in terms[:limit]:
        nodes = ("dim", _needed_by(term.nodes) or _declared_by(term))
        if len(term.text) + len(nodes[1]) <= 64:
            yield row(" " * _WIDTH, ("shape", term.text), nodes, most=48)
        else:
            yield line(_INDENT, ("shape", term.text))
            yield line(_INDENT, "  ", nodes)
    if limit is not None and len(terms) > limit:
        yield line(_INDENT, ("dim", f"and {len(terms) - limit} more: shapesolve contract"))


def _needed_by(nodes: tuple[str, ...]) -> str:
    """Return the nodes that require a condition: two if they are short, and the number of the others."""
    count = 2 if sum(map(len, nodes[:2])) <= 36 else 1
    return f"needed by {join_names([shortened(node, 44) for node in nodes], count)}" if nodes else ""


def _declared_by(term: Term) -> str:
    """Return the declaration that requires a condition, if no node requires it."""
    return next((c.rule for c in term.constraints if not c.node), "")


def constraint_lines(rows: Sequence[Constraint]) -> Iterator[Printed]:
    """Return a constraint system's rows: role, node, condition, and the condition over the model's inputs if it differs."""
    if not rows:
        yield line("no constraints")
    for c in rows:
        over = c.text_over_inputs
        where = c.node or c.tensor
        yield row(
            ("dim", c.role),
            ("name", where),
            ("shape", c.text),
            ("dim", "holds" if over == "true" else over if over != c.text else ""),
            most=48,
        )


def _beyond_contract(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are not just a row of the contract, which is printed above them."""
    return [f for f in findings if (f.code != "SS403" and not f.usual) or _names_operand(f)]


def _names_operand(finding: Finding) -> bool:
    """Return True if the first note is about an operand, such as a stored table."""
    return any(note.startswith(f"{name} ") for note in finding.notes[:1] for name, _, _ in finding.operands)


def summary_lines(
    analysis: Analysis, shown: Sequence[Finding] | None = None, *, brief: bool = False
) -> Iterator[Printed]:
    """Return counts of findings by severity, then each finding. If `brief`, conditions are left to the contract above."""
    found = analysis.findings if shown is None else shown
    if not found:
        yield line(("dim", "findings".ljust(_LABEL)), ("good", "none"))
        return
    counts = {s: sum(f.severity == s for f in found) for s in ("error", "warning", "info")}
    worst = next(s for s, n in counts.items() if n)
    yield line(("dim", "findings".ljust(_LABEL)), (worst, counted(counts)))
    for finding in found:
        yield ()
        if brief and finding.code == "SS403":
            yield line((finding.severity, f"{finding.severity}[{finding.code}]"), f": {finding.notes[0]}")
        elif brief:  # the contract has an example
            notes = tuple(note for note in finding.notes if not note.startswith("runs at "))
            yield from finding_lines(replace(finding, notes=notes), conditions=False)
        else:
            yield from finding_lines(finding)


def closing_line(sifted: Sequence[Sifted], unusable: int = 0) -> Printed:
    """Return totals over all models: ``31 models: 2 errors; 126 limits and 5 known hidden``; empty for a single model."""
    limits, known = sum(of.limits for of in sifted), sum(of.known for of in sifted)
    total = len(sifted) + unusable
    if total < 2 and not limits + known and (unusable or any(of.shown for of in sifted)):
        return ()
    counts = {
        s: sum(f.severity == s for of in sifted for f in of.shown) for s in ("error", "warning", "info")
    }
    parts = [counted(counts) or "no findings"]
    if unusable:
        parts.append(f"{unusable} unusable")
    text = f"{_plural(total, 'model')}: {', '.join(parts)}" if total > 1 else ", ".join(parts)
    if limits or known:
        hidden = [_plural(limits, "limit")] if limits else []
        hidden += [f"{known} known"] if known else []
        text += f"; {' and '.join(hidden)} hidden" + (" (--limits shows them)" if limits else "")
    return line(("dim", text))


def _plural(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def counted(counts: dict[str, int]) -> str:
    """Return counts: ``2 errors, 1 warning``."""
    return ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for s, n in counts.items() if n)


def findings_text(findings: Iterable[Finding]) -> str:
    """Return findings as plain text."""
    return "\n\n".join(plain(finding_lines(f)) for f in findings)


def finding_lines(finding: Finding, *, conditions: bool = True) -> Iterator[Printed]:
    """Return the lines of one finding: code and title, location, operands, derivation, notes, and help."""
    yield line(
        (finding.severity, f"{finding.severity}[{finding.code}]"),
        ("bold", f": {finding.title}"),
    )
    if finding.node:
        kind = finding.op_type if finding.op_type and finding.op_type not in finding.node else ""
        yield line(("dim", "  --> "), finding.node, ("dim", f"  ({kind})" if kind else ""))
    if finding.operands:
        for name, shape, origin in finding.operands:
            yield row(("dim", "   |"), ("name", name), ("shape", shape), ("dim", origin))
    if finding.steps:
        if finding.operands:
            yield line(("dim", "   |"))
        for i, step in enumerate(finding.steps, 1):
            yield line(("dim", f"  {i:>2}  "), step.text)
    if finding.condition and conditions:
        yield line(("dim", "   = "), f"requires {finding.condition}")
    for note in finding.notes:
        yield line(("dim", "   = "), note)
    if finding.help:
        yield line(("good", "help: "), finding.help)
