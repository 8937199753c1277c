"""`check`: exports a module in memory, analyzes it, and reports in terms of the Python code."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import AdditionalInputs
from torch.export import Dim as TorchDim

from ..analysis import DEFAULT_RLIMIT, BroadcastMode
from ..expr import Cond
from .concluding import Conclusion, Settings, ranked
from .correction import Correction
from .declared import (
    Declaration,
    ExportCall,
    declared_axes,
    entries_added,
    from_dynamic_axes,
    python_name,
    read_declaration,
    resolved,
    spec_text,
)
from .exporting import FunctionModule, Written, as_module, captured, written
from .internals import UserError
from .places import SourceFinding
from .programs import declared_by_model, declared_by_program, find_guards
from .refusal import first_line, untold
from .report import Report
from .running import ModuleRuns, Ran


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
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    input_names: Sequence[str] = (),
) -> Report:
    """Check a module before it is exported: shapes, contract, and what became of ``dynamic_shapes``.

        report = shapesolve.torch.check(net, (torch.zeros(2, 16),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})
        print(report)

    Args:
        module: a `torch.nn.Module` or a function of tensors (of a compiled one the original is checked), a
            `torch.export.ExportedProgram`, an `ONNXProgram`, or an exported model (path, bytes, `onnx.ModelProto`), also one of
            the TorchScript-based exporter.
        args: example arguments, as for `torch.export.export`; not needed for what is exported already.
        kwargs: example keyword arguments.
        dynamic_shapes: the declaration, as for `torch.export.export`; names as text are taken as dims. With None the report
            says that every size is fixed, and gives a declaration to paste; ``{}`` declares that they all are.
        assume: conditions that hold for your inputs, as for `shapesolve.analyze`.
        broadcast: as for `shapesolve.analyze`.
        opset: the ONNX opset to export to; the exporter's default when None.
        rlimit: bound of Z3's work per query.
        confirm: run the module at sizes of a refutation before it is reported (a copy of it, without gradients, on seeded
            data, with bounded work), and at some more of the declared ones.
        infer: find a declaration instead of checking one: `report.corrected`, with names for the sizes that
            `dynamic_shapes` leaves to torch.export, which are all of them when it is None.
        examples: more example arguments; the sizes that differ between them are the dynamic ones.
        dynamic_axes, input_names: of a call of the older exporter. The report says what they are in `dynamic_shapes`.

    A refusal of torch.export does not raise: it is what the report is about. Raises `ModelError` for an ONNX model that
    cannot be read, and what `shapesolve.analyze` raises for `assume`.
    """
    settings = Settings(tuple(assume), broadcast, rlimit, confirm, infer, opset)
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    named = dict(kwargs or {})
    if isinstance(module, torch.export.ExportedProgram):
        call = ExportCall(module.module(), given, named, dynamic_shapes)
        return _of_program("ExportedProgram", call, module, written(module, opset), settings)
    if hasattr(module, "model_proto") and module.exported_program is None:
        return _of_model(module.model_proto, settings, name="ONNXProgram")
    if hasattr(module, "model_proto"):
        program = module.exported_program
        call = ExportCall(program.module(), given, named, dynamic_shapes)
        return _of_program("ONNXProgram", call, program, Written(program, module.model_proto), settings)
    if not isinstance(module, torch.nn.Module) and (
        not callable(module) or hasattr(module, "to_model_proto")
    ):
        return _of_model(module, settings)
    module = as_module(module)
    call = ExportCall(module, given, named, dynamic_shapes)
    extra: tuple[SourceFinding, ...] = ()
    if dynamic_axes:
        spec, unknown = from_dynamic_axes(call, dynamic_axes, input_names)
        call, extra = replace(call, spec=spec), (_as_dynamic_shapes(spec, unknown),)
    elif examples:
        more = AdditionalInputs()
        for example in examples:
            more.add(tuple(example), named)
        call, infer = replace(call, spec=more), True
    if call.spec is None:
        return _undeclared(call, settings) if not infer else _inferred(call, settings)
    return _inferred(call, settings) if infer else _of_module(resolved(call), settings, extra)


# ---------------------------------------------------------------------- what is asked


def _as_dynamic_shapes(spec: Any, unknown: Sequence[str]) -> SourceFinding:
    notes = [f"`{n}` is no input, and only inputs are declared" for n in unknown]
    title = "`dynamic_axes` belongs to the older exporter; `dynamic_shapes` takes its place"
    return SourceFinding("SS613", title, notes=tuple(notes), help=f"write:\n{spec_text(spec)}")


def _undeclared(call: ExportCall, settings: Settings) -> Report:
    """The report on a call that declares nothing, with a declaration to paste."""
    report = _of_module(call, settings)
    if report.program is None or not report.declaration.keys:
        return report
    found = _inferred(call, settings) if settings.confirm else report
    text = "`infer=True` finds out what can be declared"
    if found.corrected:
        text = f"declare what is to change ({_tried(found)}):\n{found.corrected}"
    title = "no size is declared dynamic: the file takes the sizes of the example only"
    finding = SourceFinding("SS612", title, help=text)
    return replace(
        report,
        findings=ranked([*report.findings, finding]),
        corrected=found.corrected,
        tried=found.tried,
    )


def _inferred(call: ExportCall, settings: Settings) -> Report:
    """The report on a declaration that is found by leaving all sizes to torch.export."""
    if call.spec is None:
        named = lambda leaf, path, axis, size: TorchDim(python_name(f"{path}_dim{axis}"))  # noqa: E731
        call = replace(call, spec=declared_axes(call, named))
    call = resolved(call)
    given = read_declaration(call)
    roots = {n: replace(root, hint="") for n, root in given.roots.items()}
    spec = Correction(replace(given, roots=roots)).spec  # what is left to torch.export gets names
    report = _of_module(replace(call, spec=spec), replace(settings, infer=True))
    if not report.corrected:
        return report
    text = f"declare ({_tried(report)}):\n{report.corrected}"
    finding = SourceFinding("SS613", "a declaration that fits the example", help=text)
    return replace(report, findings=(finding,), inferred=True)


def _tried(report: Report) -> str:
    return "tried" if report.tried else "not tried"


# ---------------------------------------------------------------------- modules


def _of_module(call: ExportCall, settings: Settings, extra: tuple[SourceFinding, ...] = ()) -> Report:
    """The report on a call. Sizes that came out fixed are traced to an input without an entry, or an example of size 1."""
    report = _checked(call, settings, extra)
    fixed = {s.root.name: s for s in report.sizes if s.state == "fixed"}
    if not fixed or settings.infer:
        return report
    found = report.declaration
    alone = {a.size.name: a for a in reversed(found.axes) if a.size.name in fixed}
    ones = {n: max(2, found.roots[n].low or 2) for n, a in alone.items() if a.example == 1}
    if ones:
        grown = _checked(ModuleRuns(call, found).grown(ones), settings, extra)
        names = " and ".join(f"`{n}`" for n in ones)
        title = f"the example has size 1 for {names}, which torch.export turns into a number"
        state = "tried" if _was_run(grown, settings) else "not tried"
        text = f"take an example of 2 or more for {names} ({state})"
        return _told_instead(report, grown, settings, fixed, title, text, report.corrected)
    for every in (False, True):
        spec, left_out = entries_added(call, found, list(alone.values()), every)
        if not left_out:
            return report
        wider = _checked(replace(call, spec=spec), settings, extra)
        titles = [f"`{path}` has no entry for {axes}" for path, axes in left_out.items()]
        text = wider.corrected or spec_text(spec)
        state = "tried" if _was_run(wider, settings) else "not tried"
        text_of_help = f"declare it ({state}):\n{text}"
        told = _told_instead(report, wider, settings, fixed, "; ".join(titles), text_of_help, text)
        if told is not report:
            return told
    return report


def _was_run(report: Report, settings: Settings) -> bool:
    return settings.confirm and (report.tried or report.ok)


def _told_instead(
    report: Report,
    other: Report,
    settings: Settings,
    fixed: Mapping[str, Any],
    title: str,
    help: str,
    corrected: str,
) -> Report:
    """The report with one finding for sizes that came out fixed, if in `other` they did not."""
    still = {s.root.name for s in other.sizes if s.state in ("fixed", "unknown")}
    if other.program is None or still & fixed.keys() or any(f.verdict == "export" for f in other.errors):
        return report
    mine = next((f for f in report.findings if any(n in f.term for n in fixed)), None)
    if mine is None:
        return report
    first = replace(mine, title=title, help=help)
    tried = _was_run(other, settings)
    return replace(report, findings=ranked([first, *other.findings]), corrected=corrected, tried=tried)


def _checked(call: ExportCall, settings: Settings, extra: tuple[SourceFinding, ...] = ()) -> Report:
    name = call.module.name if isinstance(call.module, FunctionModule) else type(call.module).__qualname__
    found = captured(call, free=True)
    try:
        declaration = read_declaration(call)
    except (UserError, TypeError):
        if found.program is not None:  # an error of this package, not of the call
            raise
        declaration = Declaration()
    runs = ModuleRuns(call, declaration)
    guards = () if found.program is None else find_guards(found.program, declaration, found.watch)
    if found.program is not None and found.refusal is not None:  # the exporter may take it all the same
        taken = captured(call)
        found = taken if taken.program is not None else found
    usable = runs if settings.confirm and declaration.axes and runs.usable else None
    known = Conclusion(name, declaration, settings, guards, found.program, found.refusal, usable, extra)
    if found.program is not None:
        known.add_file(known.files.of(found.program))
    elif found.refusal is not None:
        known.extra += (_refused(found.refusal, runs.at({}), known.runs_text()),)
    return known.report()


def _refused(error: Exception, example: Ran, runs: str) -> SourceFinding:
    """The finding of a refusal without a program, after a run on the example."""
    if example.state != "fails":
        return untold(error, runs)
    title = f"the module fails on the example arguments, before any export: {first_line(example.words)}"
    return SourceFinding("SS607", title, notes=(example.words,), origin=example.origin, verdict="module")


# ---------------------------------------------------------------------- programs and models


def _of_program(name: str, call: ExportCall, program: Any, file: Written, settings: Settings) -> Report:
    declaration = read_declaration(resolved(call)) if call.spec else declared_by_program(program, file.proto)
    known = Conclusion(name, declaration, settings, find_guards(program, declaration), program)
    known.add_file(file)
    return known.report()


def _of_model(source: Any, settings: Settings, name: str = "") -> Report:
    analysis = settings.analyzed(source)
    path = analysis.model.path
    name = name or (path.name if path is not None else analysis.model.graph.name or "model")
    known = Conclusion(name, declared_by_model(analysis), settings)
    known.add_graph(analysis)
    return known.report()


def assert_exports(
    module: Any,
    example: Sequence[Any] = (),
    dynamic_shapes: Any = None,
    *,
    warnings: bool = False,
    **options: Any,
) -> Report:
    """Asserts that ``torch.onnx.export`` with these arguments gives a file that follows the module.

        def test_export() -> None:
            assert_exports(Net(), (torch.zeros(2, 16),), {"x": {0: Dim("batch", max=64)}})

    Args:
        module: as for `check`.
        example: example arguments.
        dynamic_shapes: the declaration.
        warnings: fail on a warning too.
        options: as for `check`.

    Returns the report; raises `AssertionError` with the report as its message.
    """
    report = check(module, example, dynamic_shapes=dynamic_shapes, **options)
    bad = [f for f in report.findings if f.severity == "error" or (warnings and f.severity == "warning")]
    if bad:
        raise AssertionError(f"{report.name} cannot be exported as declared\n\n{report}")
    return report


# ---------------------------------------------------------------------- the command line

_ARGUMENTS = tuple(inspect.signature(check).parameters)


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
    except Exception as error:  # importing is running somebody's code: whatever goes wrong there ends here
        raise ValueError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise ValueError(f"{module_name!r} has no {path!r}")
    try:
        return found()
    except Exception as error:
        raise ValueError(f"{target} fails: {type(error).__name__}: {error}") from error
