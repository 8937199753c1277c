"""Suggestions: declarations to paste, each exported as a user would and run at sizes it promises."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
from torch.export import Dim as TorchDim

from .correction import Correction
from .declared import Declaration, read_declaration
from .exports import Exports
from .findings import TRIED, SourceFinding
from .guards import fixed_axes, input_names
from .probing import probed, probes
from .running import Runs
from .unguarded import InRuntime, Unguarded
from .writing import Written

#: sizes at which the file is held against the module
_COMPARED = 8


@dataclass(frozen=True)
class File:
    """A program and its written file (`proto`, of the decomposed program). None if none could be written.

    `source` is the program whose symbols the file has, where that is not the program but one like it.
    """

    program: Any
    decomposed: Any = None
    proto: onnx.ModelProto | None = None
    source: Any = None

    @staticmethod
    def of(found: Written) -> File:
        """The file that was written."""
        return File(found.source, found.program, found.proto, found.source)

    def numbers(self, declaration: Declaration) -> set[str]:
        """The declared sizes that are numbers in the file's inputs, or in the program's if there is no file.

        A size that torch.export took for a number may be free in the file all the same: ONNX has recurrent layers.
        """
        if self.proto is None:
            return {*fixed_axes(self.program, declaration)}
        inputs = {v.name: v.type.tensor_type.shape.dim for v in self.proto.graph.input}
        given = [inputs.get(name, ()) for name in input_names(self.decomposed)]
        axes = (a for a in declaration.axes if a.index < len(given[a.leaf]))
        return {n for a in axes if given[a.leaf][a.index].HasField("dim_value") for n in a.size.free}


def holds_up(
    text: str,
    runs: Runs,
    promised: Iterable[Mapping[str, int]],
    *,
    dynamic: Iterable[str],
    exports: Exports,
) -> bool:
    """True if `torch.onnx.export` takes the declaration and its file follows the module at promised sizes.

    The sizes `dynamic` must stay dynamic in the file, and the module must not fail at `promised` sizes. What takes more
    exports than are made for suggestions counts as no.
    """
    args, kwargs = runs.inputs({})
    try:
        program, found = exports.by_exporter(args, kwargs, pasted(text))
    except Exception:  # refused, narrowed, or not written
        return False
    file = replace(File.of(found), program=program)
    if not file.numbers(runs.declaration).isdisjoint(dynamic):
        return False
    ran = _where_it_runs(runs, promised)
    graph = _running(file, runs)
    return ran is not None and False not in [graph.agrees(sizes) for sizes in ran]


def _where_it_runs(runs: Runs, promised: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]] | None:
    """The first of these sizes that the module runs at; None when it fails at one before."""
    ran: list[Mapping[str, int]] = []
    for sizes in promised:
        state = runs.at(sizes).state
        if state == "fails":
            return None
        if state == "runs":
            ran.append(sizes)
        if len(ran) == _COMPARED:
            break
    return ran


def _running(file: File, runs: Runs) -> Unguarded:
    plain = Unguarded(file.program, runs)
    if file.proto is None:
        return plain
    in_runtime = InRuntime(file.proto, input_names(file.decomposed), runs)
    return Unguarded(file.decomposed, runs, plain, in_runtime)


#: a failure on either side of the example, and one more
_ROUNDS = 3


def way_out(finding: SourceFinding, runs: Runs, exports: Exports) -> str:
    """A tested declaration to use instead of a size that fails, as text. Empty if none works."""
    sizes = dict(finding.counterexample)
    if finding.verdict == "module":
        text = _narrower(runs, sizes, exports) if len(sizes) == 1 else ""
        return f"mend the line, or declare only sizes that run; {TRIED}:\n{text}" if text else ""
    numbers = {n: runs.example[n] for n in sizes}
    correction = Correction(runs.declaration, ())
    for name, value in numbers.items():
        correction.fix(name, value)
    text = correction.text()
    if not _exported(text, runs, (), exports):
        return ""
    return (
        f"leave {', '.join(f'`{n}` at {v}' for n, v in numbers.items())}, as in the example; {TRIED}:\n{text}"
    )


def _narrower(runs: Runs, failing: Mapping[str, int], exports: Exports) -> str:
    """The largest range around the example within which no run fails."""
    ((name, value),) = failing.items()
    correction = Correction(runs.declaration, ())
    for _ in range(_ROUNDS):
        last = _last_that_runs(runs, name, value)
        if last is None:
            return ""
        correction.limit(name, last, upper=value > last)
        text = correction.text()
        other = _called(text, runs)
        more = probed(other.declaration, other, None, lambda _: False)
        found = next((v for f in more for n, v in f.counterexample if n == name), None)
        if found is None:
            return text if _exported(text, runs, (name,), exports) else ""
        value = found
    return ""


def _last_that_runs(runs: Runs, name: str, fails: int) -> int | None:
    """Between the example and a size that fails: the last size before the failures begin."""
    good = runs.example[name]
    while abs(fails - good) > 1:
        middle = (good + fails) // 2
        state = runs.at({name: middle}).state
        if state == "unknown":
            return None
        good, fails = (middle, fails) if state == "runs" else (good, middle)
    return good


def _called(text: str, runs: Runs) -> Runs:
    """The same call under another declaration."""
    args, kwargs = runs.inputs({})
    declared: Declaration = read_declaration(runs.module, args, kwargs, pasted(text))
    return Runs(runs.module, args, kwargs, declared)


def _exported(text: str, runs: Runs, dynamic: tuple[str, ...], exports: Exports) -> bool:
    """True if torch.onnx.export keeps these dims dynamic and its file follows the module."""
    other = _called(text, runs)
    if any(n not in other.declaration.roots for n in dynamic):
        return False
    tried = probes(other.declaration, other)
    return holds_up(text, other, tried, dynamic=other.declaration.roots, exports=exports)


def pasted(text: str) -> Any:
    """The ``dynamic_shapes`` of a text made of ``name = Dim(...)`` lines. Raises ValueError for anything else in it."""
    names: dict[str, Any] = {}
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            raise ValueError("a declaration is made of assignments")
        names[statement.targets[0].id] = _value(statement.value, names)
    return names["dynamic_shapes"]


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Dict():
            return {
                _value(k, names): _value(v, names) for k, v in zip(node.keys, node.values) if k is not None
            }
        case ast.Tuple():
            return tuple(_value(e, names) for e in node.elts)
        case ast.List():
            return [_value(e, names) for e in node.elts]
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, names)
        case ast.Attribute(value=ast.Name(id="Dim")):
            return _hint(node.attr)
        case ast.Call(func=ast.Name(id="Dim")):
            return TorchDim(*(_value(a, names) for a in node.args), **_options(node, names))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="Dim"), attr=hint)):
            return _hint(hint)(**_options(node, names))
        case ast.BinOp():
            return _combined(node, names)
    raise ValueError(f"no part of a declaration: {ast.unparse(node)}")


def _options(node: ast.Call, names: Mapping[str, Any]) -> dict[str, Any]:
    return {k.arg: _value(k.value, names) for k in node.keywords if k.arg is not None}


def _hint(name: str) -> Any:
    hints = {"AUTO": TorchDim.AUTO, "DYNAMIC": TorchDim.DYNAMIC, "STATIC": TorchDim.STATIC}
    if name not in hints:
        raise ValueError(f"no hint: Dim.{name}")
    return hints[name]


def _combined(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(left, int) and not isinstance(right, int):
        left, right = right, left
    match node.op:
        case ast.Mult():
            return left * right
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
    raise ValueError("dims are scaled and shifted only")
