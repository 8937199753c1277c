"""`check`: export in memory, analyze, and say it in terms of the Python code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo.exc import UserError
from torch.export import AdditionalInputs
from torch.export import Dim as TorchDim

from ..analysis import DEFAULT_RLIMIT, BroadcastMode, analyze
from ..expr import Cond
from ..expr.sizes import sizes_text
from .concluding import Call, Conclusion, Settings, ranked
from .correction import Correction
from .declared import (
    Declaration,
    declared_axes,
    from_dynamic_axes,
    python_name,
    read_declaration,
    resolved,
    spec_text,
)
from .exporting import Files, Function, Written, as_module, captured, written
from .outcome import UNKNOWN, outcomes
from .places import SourceFinding
from .programs import declared_by_model, declared_by_program, find_guards
from .refusal import own_words, refused, seen_to_run, unwritable
from .report import Report
from .running import Runs

_INFER = "`infer=True` finds out what can be declared"


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
    settings = Settings(tuple(assume), broadcast, rlimit, confirm, infer)
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    named = dict(kwargs or {})
    if isinstance(module, torch.export.ExportedProgram):
        declaration = _declaration(module.module(), given, named, dynamic_shapes) or declared_by_program(
            module
        )
        known = Conclusion("ExportedProgram", declaration, settings, find_guards(module, declaration), module)
        return _concluded(known, written(module, opset))
    if hasattr(module, "model_proto"):
        return _of_onnx_program(module, given, named, dynamic_shapes, settings)
    if not isinstance(module, torch.nn.Module) and (
        not callable(module) or hasattr(module, "to_model_proto")
    ):
        return _of_model(module, settings)
    module = as_module(module)
    call = Call(module, given, named, dynamic_shapes, Files(opset))
    extra: tuple[SourceFinding, ...] = ()
    if dynamic_axes:
        spec, unknown = from_dynamic_axes(module, given, named, dynamic_axes, input_names)
        call, extra = replace(call, spec=spec), (_as_dynamic_shapes(spec, unknown),)
    elif examples:
        more = AdditionalInputs()
        for example in examples:
            more.add(tuple(example), named)
        call, infer = replace(call, spec=more), True
    if call.spec is None:
        return _undeclared(call, settings) if not infer else _inferred(call, settings)
    return _inferred(call, settings) if infer else _of_module(_plain(call), settings, extra)


def _declaration(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> Declaration | None:
    return read_declaration(module, args, kwargs, resolved(module, args, kwargs, spec)) if spec else None


# ---------------------------------------------------------------------- what is asked


def _plain(call: Call) -> Call:
    """The call with its `dynamic_shapes` in dicts and tuples. The arguments stay as they are."""
    try:
        return replace(call, spec=resolved(call.module, call.args, call.kwargs, call.spec))
    except ValueError:  # a collection that does not fit the call: torch.export says so
        return call


def _as_dynamic_shapes(spec: Any, unknown: Sequence[str]) -> SourceFinding:
    notes = [f"`{n}` is no input, and only inputs are declared" for n in unknown]
    title = "`dynamic_axes` belongs to the older exporter; `dynamic_shapes` takes its place"
    return SourceFinding("SS613", title, notes=tuple(notes), help=f"write:\n{spec_text(spec)}")


def _undeclared(call: Call, settings: Settings) -> Report:
    """The report on a call that declares nothing, with a declaration to paste."""
    report = _of_module(call, settings)
    declaration = read_declaration(call.module, call.args, call.kwargs, None)
    if report.program is None or not declaration.paths:
        return report
    found = _inferred(call, settings) if settings.confirm else report
    text = f"declare what is to change ({_tried(found)}):\n{found.corrected}" if found.corrected else _INFER
    title = "no size is declared dynamic: the file takes the sizes of the example only"
    finding = SourceFinding("SS612", title, help=text)
    return replace(
        report,
        findings=ranked([*report.findings, finding]),
        corrected=found.corrected,
        tried=found.tried,
    )


def _inferred(call: Call, settings: Settings) -> Report:
    """The report on a declaration that is found by leaving all sizes to torch.export."""
    if call.spec is None:
        named = lambda leaf, path, axis, size: TorchDim(python_name(f"{path}_dim{axis}"))  # noqa: E731
        spec = declared_axes(call.module, call.args, call.kwargs, named)
        call = replace(call, spec=spec)
    call = _plain(call)
    given = read_declaration(call.module, call.args, call.kwargs, call.spec)
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


def _of_module(call: Call, settings: Settings, extra: tuple[SourceFinding, ...] = ()) -> Report:
    module, args, kwargs = call.module, call.args, call.kwargs
    name = module.name if isinstance(module, Function) else type(module).__qualname__
    found = captured(module, args, kwargs, call.spec, free=True)
    try:
        declaration = read_declaration(module, args, kwargs, call.spec)
    except (UserError, TypeError):
        if found.program is not None:  # an error of this package, not of the call
            raise
        declaration = Declaration()
    if settings.confirm and declaration.axes:
        runs = Runs(module, args, kwargs, declaration)
        call = replace(call, runs=runs if runs.usable else None)
    if found.program is None:
        assert found.refusal is not None
        return _refused(name, declaration, call, found.refusal)
    guards = find_guards(found.program, declaration, found.watch)
    if found.refusal is not None:  # the exporter may take it all the same
        taken = captured(module, args, kwargs, call.spec)
        found = taken if taken.program is not None else found
    known = Conclusion(name, declaration, settings, guards, found.program, found.refusal, call, extra)
    return _concluded(known, call.files.of(found.program))


def _concluded(known: Conclusion, file: Written) -> Report:
    known.hear(file)
    if file.failed is not None:
        known.extra += (unwritable(file, _runs_text(known)),)
    return known.report()


def _runs_text(known: Conclusion) -> str:
    """Text: sizes at which the module ran. Empty if it fails at some declared size."""
    if known.runs is None or known.failing or any(c.failed is not None for _, c in known.found):
        return ""
    return seen_to_run([sizes_text(s) for s in known.runs.seen()])


def _refused(name: str, declaration: Declaration, call: Call, error: Exception) -> Report:
    """Nothing was exported."""
    known = Conclusion(name, declaration, Settings(), call=call)
    finding = refused(error, call.module, call.args, call.kwargs, _runs_text(known))
    sizes = outcomes(declaration, (), UNKNOWN, {})
    return Report(name, ranked([*known.failing, finding]), declaration, sizes, refusal=own_words(error))


# ---------------------------------------------------------------------- programs and models


def _of_onnx_program(
    exported: Any, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, settings: Settings
) -> Report:
    program, proto = exported.exported_program, exported.model_proto
    if program is None:
        return _of_model(proto, settings, name="ONNXProgram")
    declaration = _declaration(program.module(), args, kwargs, spec) or declared_by_program(program, proto)
    known = Conclusion("ONNXProgram", declaration, settings, find_guards(program, declaration), program)
    return _concluded(known, Written(program, program, proto))


def _of_model(source: Any, settings: Settings, name: str = "") -> Report:
    analysis = analyze(source, assume=settings.assume, broadcast=settings.broadcast, rlimit=settings.rlimit)
    path = analysis.model.path
    name = name or (path.name if path is not None else analysis.model.graph.name or "model")
    known = Conclusion(name, declared_by_model(analysis), settings)
    known.hear_graph(analysis)
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
