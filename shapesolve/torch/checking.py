"""Check of a module: export it in memory, analyze the graph, and report on the Python code."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import AdditionalInputs
from torch.export import Dim as TorchDim

from ..analysis import DEFAULT_RLIMIT, BroadcastMode
from ..expr import Cond, parse_cond
from ..report.gate import SEVERITIES
from .correction import Advice, Correction, advise
from .declared import (
    Declaration,
    ExportCall,
    call_of_program,
    declared_axes,
    entries_added,
    python_name,
    read_declaration,
    resolved,
    spec_text,
)
from .exporting import Exported, FunctionModule, as_module, exported
from .findings import Wording, found_declaration, nothing_dynamic, to_paste
from .places import SourceFinding, own_words
from .report import Report, outcomes
from .running import ModuleRuns, probes
from .traced import lost_axes
from .verdicts import Judged, Settings, judge


def check(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    assume: Iterable[str | Cond] = (),
    broadcast: BroadcastMode = "named",
    *,
    opset: int | None = None,
    rlimit: int = DEFAULT_RLIMIT,
    confirm: bool = True,
    infer: bool = False,
    examples: Iterable[Sequence[Any]] = (),
    **older: Any,
) -> Report:
    """Check a module before export: its shapes, its input constraints, and its ``dynamic_shapes``.

        report = shapesolve.torch.check(net, (torch.zeros(2, 16),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})
        print(report)

    Args:
        module: A `torch.nn.Module` or a function of tensors; the original of a compiled one is checked. An exported
            program is checked with its own example, and with its dynamic sizes as the declaration.
        args: Example arguments, as for `torch.onnx.export`, which takes a dict at the end for `kwargs`.
        kwargs: Example keyword arguments.
        dynamic_shapes: The declaration, as for `torch.onnx.export`; names may be strings. If None, the report says that
            every size is fixed, and suggests a declaration; ``{}`` declares that all sizes are fixed.
        assume: Conditions that hold for your inputs, as for `shapesolve.analyze`.
        broadcast: As for `shapesolve.analyze`.
        opset: ONNX opset to export to. Default: the exporter's.
        rlimit: Z3's resource limit per query.
        confirm: Run the module at the sizes of a counterexample before it is reported (a copy, without gradients, on seeded
            data, with bounded work), and at some more of the declared sizes.
        infer: Find a declaration instead of checking one. It's `report.corrected`, with names for the sizes that
            `dynamic_shapes` leaves to torch.export: all of them if it is None.
        examples: More example arguments; sizes that differ between examples are dynamic.
        older: No argument; ``dynamic_axes`` and ``input_names`` are refused.

    Returns:
        The report. It also covers a rejection by torch.export, which does not raise.

    Raises:
        TypeError: If there is no such argument, or `module` is no module and no function.
        ValueError: If `shapesolve.analyze` rejects a condition in `assume`.
    """
    if older:
        raise TypeError(
            f"check has no argument {next(iter(older))}; pass dynamic_shapes, whose entries may be those of dynamic_axes:"
            ' {"x": {0: "batch"}}, by the names of the parameters'
        )
    settings = Settings(tuple(assume), broadcast, rlimit, confirm, infer, opset)
    given: list[Any] = [*args] if isinstance(args, (tuple, list)) else [args]
    named = dict(kwargs or {})
    if not named and given and isinstance(given[-1], dict):  # as torch.onnx.export takes it
        named = dict(given.pop())
    program = getattr(module, "exported_program", module)  # of what torch.onnx.export returned
    if isinstance(program, torch.export.ExportedProgram):
        call = call_of_program(program)
    elif callable(module):
        call = ExportCall(as_module(module), tuple(given), named, dynamic_shapes)
    else:
        raise TypeError(
            f"check takes a module or a function, not {type(module).__name__}; of a file: shapesolve check FILE"
        )
    if examples:
        more = AdditionalInputs()
        for example in examples:
            more.add(tuple(example), call.kwargs)
        call, infer = replace(call, spec=more), True
    if infer:
        return _inferred(call, settings)
    return _undeclared(call, settings) if call.spec is None else _of_module(resolved(call), settings)


# ---------------------------------------------------------------------- what is asked


def _undeclared(call: ExportCall, settings: Settings) -> Report:
    report = _of_module(call, settings)
    if report.model is None or not report.declaration.keys:
        return report
    found = _inferred(call, settings) if settings.confirm else report
    findings = ranked([*report.findings, nothing_dynamic(found.corrected, found.tried)])
    return replace(report, findings=findings, corrected=found.corrected, tried=found.tried)


def _inferred(call: ExportCall, settings: Settings) -> Report:
    if call.spec is None:
        named = lambda leaf, path, axis, size: TorchDim(python_name(f"{path}_dim{axis}"))  # noqa: E731
        call = replace(call, spec=declared_axes(call, named))
    call = resolved(call)
    given = read_declaration(call)
    roots = {n: replace(root, hint="") for n, root in given.roots.items()}
    spec = Correction(replace(given, roots=roots)).spec  # sizes left to torch.export get names
    report = _of_module(replace(call, spec=spec), replace(settings, infer=True))
    if not report.corrected:
        return report
    return replace(report, findings=(found_declaration(report.corrected, report.tried),), inferred=True)


# ---------------------------------------------------------------------- modules


def _of_module(call: ExportCall, settings: Settings) -> Report:
    """Report on a call. If a size came out fixed, look for a missing entry or an example of size 1."""
    judged = _judged(call, settings)
    fixed = [r for r in judged.real if r.kind == "fixed"]
    names = {n for r in fixed for n in r.roots}
    for title, way, other in _ways_out(judged, names) if fixed and not settings.infer else ():
        if settings.confirm and not _runs_otherwise(other, names):
            continue
        again = _judged(other, settings)
        found = _report(again, advise(again, settings))
        still = {s.root.name for s in found.sizes if s.state in ("fixed", "unknown")}
        if found.model is None or still & names or any(f.verdict == "export" for f in found.errors):
            continue
        tried = settings.confirm and (found.tried or found.ok)
        text = found.corrected or (spec_text(other.spec) if other.spec is not call.spec else "")
        report = _report(judged, Advice(Correction(judged.declaration)))
        mine = next(f for f in report.findings if any(n in f.term for n in names))
        findings = ranked([replace(mine, title=title, help=to_paste(way, text, tried)), *found.findings])
        return replace(report, findings=findings, corrected=text, tried=tried)
    return _report(judged, advise(judged, settings))


def _runs_otherwise(call: ExportCall, names: Iterable[str]) -> bool:
    """Whether a module runs at another value of each of these sizes, which shows before an export."""
    runs = ModuleRuns(call, declaration := read_declaration(call))
    if not runs.usable:
        return False
    return all(runs.runs_at(next(probes(declaration, runs.example, (), [name]), {})) for name in names)


def _ways_out(judged: Judged, fixed: Collection[str]) -> Iterator[tuple[str, str, ExportCall]]:
    call, found = judged.call, judged.declaration
    alone = {str(a.size.name): a for a in reversed(found.axes) if a.size.name in fixed}
    ones = {n: max(2, found.roots[n].low or 2) for n, a in alone.items() if a.example == 1}
    if ones:
        names = " and ".join(f"`{n}`" for n in ones)
        title = f"the example has size 1 for {names}, which torch.export turns into a number"
        yield title, f"take an example of 2 or more for {names}", ModuleRuns(call, found).grown(ones)
        return
    for every in (False, True):
        spec, left_out = entries_added(call, found, list(alone.values()), every)
        if left_out:
            title = "; ".join(f"`{path}` has no entry for {axes}" for path, axes in left_out.items())
            yield title, "declare it", replace(call, spec=spec)


def _judged(call: ExportCall, settings: Settings) -> Judged:
    export = exported(call, settings.opset)
    declaration = _declared(call, export, settings.assume)
    if export.proto is not None and not lost_axes(export, declaration):
        export = replace(export, refusal=None)  # the exporter took the sizes as declared
    return judge(declaration, export, ModuleRuns(call, declaration), settings)


def _report(judged: Judged, advice: Advice) -> Report:
    module, export = judged.call.module, judged.export
    return Report(
        module.name if isinstance(module, FunctionModule) else type(module).__qualname__.rpartition(".")[2],
        ranked(Wording(judged, advice).findings()),
        judged.declaration,
        outcomes(judged),
        advice.text,
        own_words(export.refusal) if export.refusal is not None else "",
        judged.analysis,
        export.program,
        export.proto,
        tried=advice.state == "tried",
    )


def _declared(call: ExportCall, export: Exported, assume: Iterable[str | Cond]) -> Declaration:
    """The declaration with what callers satisfy; empty if the exporter does not understand it either."""
    try:
        declaration = read_declaration(call)
    except Exception:
        if export.failed is None:  # a bug in this package, not in the call
            raise
        declaration = Declaration()
    stated = [parse_cond(c) if isinstance(c, str) else c for c in assume]
    return replace(declaration, assumed=tuple(c for c in stated if c.free <= declaration.roots.keys()))


def ranked(findings: Iterable[SourceFinding]) -> tuple[SourceFinding, ...]:
    """Findings sorted by severity; among errors, failures of the module before the exporter's."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.verdict == "export")))


def assert_exports(
    module: Any,
    example: Sequence[Any] = (),
    dynamic_shapes: Any = None,
    *,
    warnings: bool = False,
    **options: Any,
) -> Report:
    """Assert that ``torch.onnx.export`` with these arguments writes a file that computes what the module computes.

        def test_export() -> None:
            assert_exports(Net(), (torch.zeros(2, 16),), {"x": {0: Dim("batch", max=64)}})

    Args:
        module: As for `check`.
        example: Example arguments.
        dynamic_shapes: The declaration.
        warnings: Whether a warning fails, too.
        options: As for `check`.

    Returns:
        The report.

    Raises:
        AssertionError: If the report has an error; the message is the report.
    """
    report = check(module, example, dynamic_shapes=dynamic_shapes, **options)
    bad = [f for f in report.findings if f.severity == "error" or (warnings and f.severity == "warning")]
    if bad:
        raise AssertionError(f"{report.name} cannot be exported as declared\n\n{report}")
    return report


# ---------------------------------------------------------------------- the command line

_ARGUMENTS = tuple(inspect.signature(check).parameters)[:-1]


def check_target(
    target: str, assume: Iterable[str] = (), broadcast: BroadcastMode = "named", infer: bool = False
) -> Report:
    """Check what a factory makes. `target` is ``package.module:factory``; modules of the working directory are found.

    The factory takes no arguments and gives a mapping of arguments of `check` (``{"module": net, "args": (x,),
    "dynamic_shapes": ...}``), or a tuple of the first of them (``net, (x,), {}, dynamic_shapes``).

    Raises `ValueError` when there is no such factory, it fails, or gives something else.
    """
    made = _made(target)
    by_place = made if isinstance(made, tuple) else (made,)
    given = dict(made if isinstance(made, Mapping) else zip(_ARGUMENTS, by_place))
    strange = sorted(map(str, given.keys() - set(_ARGUMENTS)))
    if "module" not in given or strange:
        raise ValueError(
            f"{target} gives {', '.join(map(str, given))}; it must give arguments of shapesolve.torch.check,"
            f" which are {', '.join(_ARGUMENTS)}"
        )
    given["assume"] = (*given.get("assume", ()), *assume)
    given.setdefault("broadcast", broadcast)
    given["infer"] = infer or given.get("infer", False)
    with contextlib.redirect_stdout(sys.stderr):  # what the module prints is no part of the answer
        return check(**given)


def _made(target: str) -> Any:
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ValueError(f"--torch takes package.module:factory, not {target!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # the imported code may raise anything
        raise ValueError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise ValueError(f"{module_name!r} has no {path!r}")
    try:
        return found()
    except Exception as error:
        raise ValueError(f"{target} fails: {type(error).__name__}: {error}") from error
