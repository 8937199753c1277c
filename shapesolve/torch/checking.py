"""`check`: export in memory, analyze, and say it in terms of the Python code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond
from ..solve.contract.contract import Contract
from .correction import Correction
from .declared import Axis, Declaration, read_declaration
from .exporting import Watch, export_onnx, export_program, named, relaxed
from .findings import SourceFinding, located
from .guards import (
    Guard,
    axis_symbols,
    find_guards,
    guard_contract,
    input_names,
    input_shapes,
    shape_env,
)
from .judge import Judge
from .outcome import Comparison, Restriction, graph_terms, outcomes
from .places import NOWHERE, Origin, Origins, read_trace
from .programs import declared_by_model, declared_by_program
from .refusal import is_about_dims, origin_of_error, own_words, refused, unwritable
from .renaming import dim_names, renamed
from .report import Report

_RANK = {"error": 0, "warning": 1, "info": 2}
#: findings of the analysis that the comparison with the declaration tells better
_TOLD_BETTER = ("SS401", "SS402", "SS403", "SS404", "SS405")


@dataclass(frozen=True)
class _Settings:
    assume: tuple[str | Cond, ...]
    broadcast: BroadcastMode
    rlimit: int
    opset: int | None


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

    A refusal of torch.export does not raise: it is what the report is about. Raises `ModelError` for an ONNX model that
    cannot be read, and what `shapesolve.analyze` raises for `assume`.
    """
    settings = _Settings(tuple(assume), broadcast, rlimit, opset)
    given = (tuple(args) if isinstance(args, (tuple, list)) else (args,), dict(kwargs or {}))
    if isinstance(module, torch.export.ExportedProgram):
        declaration = _declaration(module.module(), given, dynamic_shapes) or declared_by_program(module)
        return _of_program(module, declaration, settings)
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
    module: Any, given: tuple[tuple[Any, ...], dict[str, Any]], spec: Any, settings: _Settings, strict: bool
) -> Report:
    args, kwargs = given
    name = (
        type(module).__qualname__
        if isinstance(module, torch.nn.Module)
        else str(getattr(module, "__name__", module))
    )
    watch = Watch(module)
    refusal: Exception | None = None
    try:
        program = export_program(module, args, kwargs, named(spec), strict=strict, watch=watch)
    except Exception as error:  # whatever torch.export raises is a finding, not a failure of the check
        refusal = error
    try:
        declaration = read_declaration(module, args, kwargs, spec)
    except Exception as error:
        return _refused(name, refusal or error, module, given, Declaration())
    if refusal is not None:
        if not declaration.axes:
            return _refused(name, refusal, module, given, declaration)
        watch = Watch(module)
        try:
            program = export_program(module, args, kwargs, relaxed(spec), strict=strict, watch=watch)
        except Exception as error:
            return _refused(
                name, error, module, given, declaration, also=refusal if is_about_dims(refusal) else None
            )
    return _of_program(program, declaration, settings, name=name, watch=watch, refusal=refusal)


def _refused(
    name: str,
    error: Exception,
    module: Any,
    given: tuple[tuple[Any, ...], dict[str, Any]],
    declaration: Declaration,
    also: Exception | None = None,
) -> Report:
    finding = refused(error, module, *given)
    words = "\n\n".join(dict.fromkeys(own_words(e) for e in (also, error) if e is not None))
    return Report(name, (finding,), declaration, outcomes(declaration, (), known=False), refusal=words)


# ---------------------------------------------------------------------- programs and models


def _of_program(
    program: Any,
    declaration: Declaration,
    settings: _Settings,
    *,
    name: str = "ExportedProgram",
    watch: Watch | None = None,
    refusal: Exception | None = None,
) -> Report:
    guards = find_guards(program, declaration, watch)
    try:
        exported = export_onnx(program, settings.opset)
        proto = exported.model_proto
    except Exception as error:
        finding = unwritable(error, program)
        return _report(name, declaration, guards, program, None, settings, refusal, extra=(finding,))
    return _report(name, declaration, guards, program, proto, settings, refusal)


def _of_onnx_program(
    exported: Any, given: tuple[tuple[Any, ...], dict[str, Any]], spec: Any, settings: _Settings
) -> Report:
    program = exported.exported_program
    if program is None:
        return _of_model(exported.model_proto, settings, name="ONNXProgram")
    declaration = _declaration(program.module(), given, spec) or declared_by_program(
        program, exported.model_proto
    )
    guards = find_guards(program, declaration, None)
    return _report("ONNXProgram", declaration, guards, program, exported.model_proto, settings, None)


def _of_model(source: Any, settings: _Settings, name: str = "") -> Report:
    analysis = analyze(source, assume=settings.assume, broadcast=settings.broadcast, rlimit=settings.rlimit)
    path = analysis.model.path
    name = name or (path.name if path is not None else analysis.model.graph.name or "model")
    declaration = declared_by_model(analysis)
    return _judged(name, declaration, (), None, None, analysis, settings, None)


def _report(
    name: str,
    declaration: Declaration,
    guards: tuple[Guard, ...],
    program: Any,
    proto: onnx.ModelProto | None,
    settings: _Settings,
    refusal: Exception | None,
    extra: tuple[SourceFinding, ...] = (),
) -> Report:
    contract = guard_contract(guards, list(declaration.roots), settings.rlimit) if guards else None
    analysis = None
    if proto is not None:
        env = shape_env(program)
        table = axis_symbols(env, program, declaration) if env is not None else {}
        model = renamed(proto, table, declaration, input_names(program))
        # what torch.export asks of the sizes is told as such; the graph is judged for the sizes that remain
        known = [t.cond for t in contract or () if t.cond.free <= dim_names(model)]
        assume = (*settings.assume, *known)
        analysis = analyze(model, assume=assume, broadcast=settings.broadcast, rlimit=settings.rlimit)
    return _judged(name, declaration, guards, contract, program, analysis, settings, refusal, extra)


def _judged(
    name: str,
    declaration: Declaration,
    guards: tuple[Guard, ...],
    contract: Contract | None,
    program: Any,
    analysis: Analysis | None,
    settings: _Settings,
    refusal: Exception | None,
    extra: tuple[SourceFinding, ...] = (),
) -> Report:
    comparison = Comparison(declaration, settings.rlimit)
    found = comparison.restrictions(contract or (), guarded=True)
    if refusal is not None and not found and any(g.minor for g in guards):
        every = guard_contract(guards, list(declaration.roots), settings.rlimit, minor=True)
        found = comparison.restrictions(every, guarded=True)
    if analysis is not None:
        rest = Comparison(declaration, settings.rlimit, [r.term.cond for r in found])
        found += rest.restrictions(graph_terms(analysis), guarded=False)
    correction = Correction(declaration, found)
    origins = Origins(analysis.model.graph.nodes if analysis is not None else ())
    judge = Judge(declaration, guards, program, origins, refused=refusal is not None)
    findings = [*extra, *(judge.finding(r, correction) for r in found)]
    constants = _constants(declaration, program, found) if program is not None else {}
    findings += [_constant(declaration, root, axis, refusal) for root, axis in constants.items()]
    untold = refusal is not None and not any(f.severity == "error" for f in findings)
    if refusal is not None and untold:
        findings.append(_untold(refusal))
    if analysis is not None:
        findings += [
            located(f, origins.of(f.node)) for f in analysis.diagnostics if f.code not in _TOLD_BETTER
        ]
    return Report(
        name,
        tuple(sorted(findings, key=lambda f: _RANK[f.severity])),
        declaration,
        outcomes(
            declaration, found, {root: axis.example for root, axis in constants.items()}, known=not untold
        ),
        correction.text() if correction.changed else "",
        own_words(refusal) if refusal is not None else "",
        analysis,
        program,
        analysis.model.proto if analysis is not None else None,
    )


def _constants(declaration: Declaration, program: Any, found: Sequence[Restriction]) -> dict[str, Axis]:
    """Sizes that torch.export fixed without a guard that we saw: the example has 0 or 1 there, or TorchDynamo did it."""
    told = {name for r in found for name in r.roots}
    constants: dict[str, Axis] = {}
    for leaf, shape in enumerate(input_shapes(program)):
        for axis in declaration.at(leaf):
            fixed = shape is not None and axis.index < len(shape) and isinstance(shape[axis.index], int)
            if fixed:
                constants.update((root, axis) for root in axis.size.free if root not in told)
    return constants


def _constant(declaration: Declaration, root: str, axis: Axis, refusal: Exception | None) -> SourceFinding:
    if axis.example <= 1:
        help_ = "torch.export takes a size of 0 or 1 in an example for a constant: give an example of size 2 or more"
        origin = NOWHERE
    else:
        help_ = "compute the size from the input's shape, or leave it out of dynamic_shapes"
        origin = Origin(read_trace(own_words(refusal))) if refusal is not None else NOWHERE
    return SourceFinding(
        "SS606" if declaration.roots[root].hint == "AUTO" else "SS601",
        f"`{root}` was declared dynamic, but came out as the constant {axis.example}",
        notes=(f"declared: {axis.where}: {axis.quoted}", f"the example has {axis.where} == {axis.example}"),
        help=help_,
        origin=origin,
        declared=f"{axis.where}: {axis.quoted}",
        term=f"{axis.size} == {axis.example}",
    )


def _untold(refusal: Exception) -> SourceFinding:
    """A refusal whose reason shows in no guard: told in torch.export's own words."""
    words = own_words(refusal)
    return SourceFinding(
        "SS607",
        f"torch.export refuses the declaration: {words.splitlines()[0]}",
        notes=(words,),
        origin=origin_of_error(refusal) or Origin(read_trace(words)),
    )
