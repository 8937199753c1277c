"""`check`: export in memory, analyze, and say it in terms of the Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..analysis import DEFAULT_RLIMIT, BroadcastMode, analyze
from ..expr import Cond
from .concluding import Call, Conclusion, Settings, empty
from .correction import Correction
from .declared import Declaration, read_declaration
from .exporting import Watch, export_program, named, relaxed
from .exports import Exported, Exports, shapes
from .findings import SourceFinding
from .guards import find_guards
from .outcome import SizeOutcome
from .probing import probed
from .programs import declared_by_model, declared_by_program
from .refusal import at_numbers, is_about_dims, own_words, refused
from .report import Report
from .running import Runs
from .suggestions import File, pasted
from .writing import Written, clashing, rewritten, unwritable, with_other_names, written


def check(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    assume: Iterable[str | Cond] = (),
    broadcast: BroadcastMode = "named",
    *,
    strict: bool = False,
    opset: int | None = None,
    rlimit: int = DEFAULT_RLIMIT,
    confirm: bool = True,
) -> Report:
    """Check a module before it is exported: shapes, contract, and what became of ``dynamic_shapes``.

        report = shapesolve.torch.check(net, (torch.zeros(2, 16),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})
        print(report)

    Args:
        module: a `torch.nn.Module` (or what `torch.export.export` takes), a `torch.export.ExportedProgram`, an `ONNXProgram`,
            or an exported model (path, bytes, `onnx.ModelProto`), also one of the TorchScript-based exporter.
        args: example arguments, as for `torch.export.export`; not needed for what is exported already.
        kwargs: example keyword arguments.
        dynamic_shapes: the declaration, as for `torch.export.export`; names as text are taken as dims.
        assume: conditions that hold for your inputs, as for `shapesolve.analyze`.
        broadcast: as for `shapesolve.analyze`.
        strict: export with TorchDynamo (``torch.export.export(strict=True)``).
        opset: the ONNX opset to export to; the exporter's default when None.
        rlimit: bound of Z3's work per query.
        confirm: run the module at sizes that are told of as failing before they are (a copy of it, without gradients, on
            seeded data, with bounded work), and at some more of the declared ones.

    A refusal of torch.export does not raise: it is what the report is about. Raises `ModelError` for an ONNX model that
    cannot be read, and what `shapesolve.analyze` raises for `assume`.
    """
    settings = Settings(tuple(assume), broadcast, rlimit, opset, confirm)
    given = (tuple(args) if isinstance(args, (tuple, list)) else (args,), dict(kwargs or {}))
    if isinstance(module, torch.export.ExportedProgram):
        declaration = _declaration(module.module(), given, dynamic_shapes) or declared_by_program(module)
        guards = find_guards(module, declaration, None)
        return _of_program(Conclusion("ExportedProgram", declaration, settings, guards, module))
    if hasattr(module, "model_proto"):
        return _of_onnx_program(module, given, dynamic_shapes, settings)
    if isinstance(module, torch.nn.Module) or (callable(module) and not hasattr(module, "to_model_proto")):
        return _of_module(module, given, dynamic_shapes, settings, strict)
    return _of_model(module, settings)


def _declaration(
    module: Any, given: tuple[tuple[Any, ...], dict[str, Any]], dynamic_shapes: Any
) -> Declaration | None:
    if not dynamic_shapes:
        return None
    args, kwargs = given
    return read_declaration(module, args, kwargs, dynamic_shapes)


# ---------------------------------------------------------------------- modules


def _of_module(
    module: Any, given: tuple[tuple[Any, ...], dict[str, Any]], spec: Any, settings: Settings, strict: bool
) -> Report:
    args, kwargs = given
    name = (
        type(module).__qualname__
        if isinstance(module, torch.nn.Module)
        else str(getattr(module, "__name__", module))
    )
    exports = Exports(module, strict=strict, opset=settings.opset)
    made, refusal = exports.first(args, kwargs, named(spec))
    try:
        declaration = read_declaration(module, args, kwargs, spec)
    except Exception as error:
        return _refused(Conclusion(name, Declaration(), settings, refusal=refusal or error), module, given)
    call = None
    if settings.confirm and declaration.axes:
        runs = Runs(module, args, kwargs, declaration)
        call = Call(runs, spec, exports) if runs.usable else None
    if refusal is None and made is not None:
        guards = find_guards(made.program, declaration, made.watch)
        known = Conclusion(name, declaration, settings, guards, made.program, call=call)
        return _of_program(known, lambda: _as_called(known, exports, given, named(spec), made))
    known = Conclusion(name, declaration, settings, refusal=refusal, call=call)
    if not declaration.axes:
        return _refused(known, module, given)
    if not strict:
        report = _as_called(known, exports, given, named(spec), made)
        if report is not None:
            return report
    try:
        made = made or exports.program(*given, relaxed(spec), trial=False)
    except Exception as error:
        return _refused(known, module, given, error)
    guards = find_guards(made.program, declaration, made.watch)
    return _of_program(replace(known, program=made.program, guards=guards))


def _as_called(
    known: Conclusion,
    exports: Exports,
    given: tuple[tuple[Any, ...], dict[str, Any]],
    spec: Any,
    traced: Exported | None,
) -> Report | None:
    """The report on what `torch.onnx.export` writes of a module that `torch.export.export` refuses. None if both refuse.

    The guards of what was `traced` before the refusal say where to run the module.
    """
    try:
        program, found = exports.by_exporter(*given, spec, trial=False)
    except Exception:  # what the reader calls fails too: the refusal is the finding
        return None
    if File(program, found.program, found.proto).numbers(known.declaration):
        return None
    base, watch = (program, None) if traced is None else (traced.program, traced.watch)
    guards = find_guards(base, known.declaration, watch)
    judged = replace(known, program=program, guards=guards, refusal=None, found=[], constants={})
    judged.hear_graph(found.proto, found.program, found.source)
    return judged.report()


def _refused(
    known: Conclusion,
    module: Any,
    given: tuple[tuple[Any, ...], dict[str, Any]],
    again: Exception | None = None,
) -> Report:
    """Nothing was exported: `again` is what the export with free sizes raised."""
    refusal, call, declaration = known.refusal, known.call, known.declaration
    assert refusal is not None
    error = again or refusal
    said = (refusal, error) if is_about_dims(refusal) else (error,)
    words = "\n\n".join(dict.fromkeys(map(own_words, said)))
    if call is None:
        return empty(known.name, declaration, [refused(error, module, *given)], words)
    failing = probed(declaration, call.runs, None, lambda _: False)
    runs = "" if failing else known.runs()
    numbers = _with_numbers(known, partial(at_numbers, error, runs=runs)) if runs else None
    if numbers is not None:
        return numbers.report()
    finding = refused(error, module, *given, runs=runs)
    return empty(known.name, declaration, [*failing, finding], words)


# ---------------------------------------------------------------------- programs and models


def _of_program(known: Conclusion, as_called: Callable[[], Report | None] = lambda: None) -> Report:
    try:
        _hear_graph(known)
    except _Unwritable as error:
        report = as_called()
        if report is not None:
            return report
        other = _other_names(known, error.cause) or _with_numbers(
            known, partial(rewritten, error.cause, known.program, runs=known.runs())
        )
        if other is None:
            known.extra = (*known.extra, unwritable(error.cause, known.program, runs=known.runs()))
            return known.report()
        known = other
    return known.report()


class _Unwritable(Exception):
    """The exporter failed; `cause` is how."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _written(known: Conclusion) -> Written:
    call = known.call
    if call is None:
        return written(known.program, known.settings.opset)
    return call.exports.file(known.program, shapes(*call.example()), trial=False)


def _hear_graph(known: Conclusion) -> None:
    try:
        found = _written(known)
    except Exception as error:
        raise _Unwritable(error) from error
    if found.failed is not None:
        more = rewritten(found.failed, known.program, found.change, found.proto, runs=known.runs())
        known.extra = (*known.extra, more)
    known.hear_graph(found.proto, found.program)


def _other_names(known: Conclusion, error: Exception) -> Conclusion | None:
    """The module with parts renamed that clash with attributes of the exporter, if that can be exported."""
    call = known.call
    names = clashing(call.runs.module) if call is not None else ()
    if call is None or not names:
        return None
    module = with_other_names(call.runs.module, names)
    watch, spec = Watch(module), relaxed(call.spec) if known.refusal is not None else named(call.spec)
    try:
        program = export_program(module, *call.example(), spec, strict=call.exports.strict, watch=watch)
    except Exception:  # torch.export refuses it by these names
        return None
    guards = find_guards(program, known.declaration, watch)
    told = ", ".join(f"`self.{n}`" for n in names)
    change = f"give {told} of {known.name} another name: the exporter takes it for an attribute of its own"
    more = rewritten(error, known.program, change, runs=known.runs())
    other = replace(known, program=program, guards=guards, extra=(*known.extra, more), found=[], constants={})
    try:
        _hear_graph(other)
    except _Unwritable:
        return None
    return other


def _with_numbers(known: Conclusion, told: Callable[..., SourceFinding]) -> Conclusion | None:
    """The module with some sizes fixed to the example's, if that exports. Some ONNX attributes must be numbers.

    As few as will do: all of them first, then one after the other is given back. `told` makes the finding of what changes.
    """
    if known.call is None:
        return None
    refusals = dict.fromkeys((None, known.refusal))

    def tried(names: Sequence[str]) -> Conclusion | None:
        return next(filter(None, (_at_numbers(known, told, names, r) for r in refusals)), None)

    numbers = list(known.declaration.roots)
    best = tried(numbers)
    for name in tuple(numbers) if best is not None else ():
        fewer = [n for n in numbers if n != name]
        freed = tried(fewer) if fewer else None
        if freed is not None:
            best, numbers = freed, fewer
    return best


def _at_numbers(
    known: Conclusion, told: Callable[..., SourceFinding], names: Sequence[str], refusal: Exception | None
) -> Conclusion | None:
    """The module with these sizes at the example's numbers. With a `refusal`, the others are left to torch.export."""
    call = known.call
    assert call is not None
    correction = Correction(known.declaration, ())
    sizes = {n: call.runs.example[n] for n in names}
    for name, size in sizes.items():
        correction.fix(name, size)
    spec = pasted(correction.text())
    args, kwargs = call.example()
    try:
        made = call.exports.program(args, kwargs, relaxed(spec) if refusal else spec)
        declaration = read_declaration(call.runs.module, args, kwargs, spec)
    except Exception:  # torch.export refuses it with these numbers
        return None
    runs = Runs(call.runs.module, args, kwargs, declaration)
    change = f"leave {_listed([f'`{n}`' for n in sizes])} at {_listed(sizes.values())}, as in the example"
    more = told(change=change, paste=correction.text())
    roots, quote = known.declaration.roots, known.declaration.quote
    other = Conclusion(
        known.name, declaration, known.settings, find_guards(made.program, declaration, made.watch), made.program, refusal,
        replace(call, runs=runs, spec=spec), (more,),
        numbers=tuple(SizeOutcome(roots[n], quote(n), "fixed", constant=v) for n, v in sizes.items()),
    )  # fmt: skip
    try:
        _hear_graph(other)
    except _Unwritable:
        return None
    return other


def _listed(words: Iterable[object]) -> str:
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def _of_onnx_program(
    exported: Any, given: tuple[tuple[Any, ...], dict[str, Any]], spec: Any, settings: Settings
) -> Report:
    program = exported.exported_program
    if program is None:
        return _of_model(exported.model_proto, settings, name="ONNXProgram")
    declaration = _declaration(program.module(), given, spec) or declared_by_program(
        program, exported.model_proto
    )
    known = Conclusion("ONNXProgram", declaration, settings, find_guards(program, declaration, None), program)
    known.hear_graph(exported.model_proto)
    return known.report()


def _of_model(source: Any, settings: Settings, name: str = "") -> Report:
    analysis = analyze(source, assume=settings.assume, broadcast=settings.broadcast, rlimit=settings.rlimit)
    path = analysis.model.path
    name = name or (path.name if path is not None else analysis.model.graph.name or "model")
    known = Conclusion(name, declared_by_model(analysis), settings)
    known.hear(analysis)
    return known.report()
