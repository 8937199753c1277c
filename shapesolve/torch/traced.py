"""Sizes of a traced module: its guards as conditions, PyTorch's symbols, the names in its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from torch.export.graph_signature import ConstantArgument

from ..expr import Cond, Dim, DimSyntaxError, eq, parse_cond, parse_dim, symbol
from ..solve.contract.build import find_contract
from ..solve.contract.contract import Term
from ..solve.facts.constraint import Constraint
from ..solve.facts.constraint import Origin as Rule
from ..solve.facts.facts import Facts
from ..solve.facts.log import ConstraintSet
from ..solve.known import defined_where
from .declared import Axis, Declaration
from .exporting import Exported
from .internals import size_arguments
from .places import NOWHERE, Place, SourceOrigin, trace_of

# ---------------------------------------------------------------------- guards

#: begins the label of a guard's constraint, before its index
GUARD = "guard:"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: PyTorch's text, the condition on declared sizes (None: not expressible), and its origin."""

    text: str
    cond: Cond | None
    origin: SourceOrigin = NOWHERE


def find_guards(found: Exported, declaration: Declaration) -> tuple[Guard, ...]:
    """The guards of a trace, in the order in which they were made."""
    table = axis_symbols(found, declaration)
    return tuple(_guard(text, origin, table) for text, origin in found.guards)


def _guard(text: str, origin: SourceOrigin, table: Mapping[str, Dim]) -> Guard:
    try:
        cond: Cond | None = parse_cond(text, table)
    except DimSyntaxError:
        cond = None
    if cond is not None and not cond.free <= {n for d in table.values() for n in d.free}:
        cond = None
    return Guard(text, cond, origin)


def axis_symbols(found: Exported, declaration: Declaration) -> dict[str, Dim]:
    """PyTorch's symbols (``s27``) in terms of the declared sizes."""
    sizes = {f"L{declaration.keys[a.leaf]}.size()[{a.index}]": a.size for a in declaration.axes}
    table: dict[str, Dim] = {}
    for source, name in found.symbols.items():
        if source in sizes:
            table.setdefault(name, sizes[source])
    for axis, size in _traced_sizes(found, declaration):
        _solve(str(size), axis.size, table)
    return table


def _traced_sizes(found: Exported, declaration: Declaration) -> Iterator[tuple[Axis, int | str]]:
    for axis in declaration.axes:
        shape = found.shapes.get(f"L{declaration.keys[axis.leaf]}", ())
        if axis.index < len(shape):
            yield axis, shape[axis.index]


def _solve(text: str, size: Dim, table: dict[str, Dim]) -> None:
    """Solves an axis for its symbol: `text` is PyTorch's size (``2*s16``), `size` the declared one."""
    theirs = _parsed(text)
    if theirs is None or len(theirs.free) != 1 or theirs.free <= table.keys():
        return
    (name,) = theirs.free
    roots = sorted(size.free)
    if theirs is symbol(name):
        table[name] = size
    elif len(roots) == 1 and size.subs({roots[0]: symbol(name)}) is theirs:
        table[name] = symbol(roots[0])


def equal_sizes(found: Exported, declaration: Declaration) -> list[Cond]:
    """Equalities of declared sizes with numbers, and with each other, in a trace without a guard."""
    first: dict[str, Dim] = {}
    pairs: dict[tuple[Dim, Dim | int], None] = {}
    for axis, size in _traced_sizes(found, declaration):
        other = axis.example if isinstance(size, int) else first.setdefault(size, axis.size)
        if other is not axis.size:
            pairs[axis.size, other] = None
    return [eq(a, b) for a, b in pairs]


def guard_contract(guards: Sequence[Guard], roots: Sequence[str], rlimit: int) -> tuple[Term, ...]:
    """The guards as irredundant conditions on declared sizes that are not 0."""
    constraints = [
        Constraint(cond, "requirement", Rule(f"{GUARD}{i}", "torch.export", g.text))
        for i, g in enumerate(guards)
        if g.cond is not None and not g.cond.is_true
        for cond in (*defined_where(g.cond), g.cond)  # a guard that divides by 0 fails
    ]
    facts = Facts()
    for name in roots:
        facts.introduce(name)
    for i, constraint in enumerate(constraints):
        facts.assume(constraint.cond, i)
    return tuple(find_contract(ConstraintSet(constraints), facts, map(symbol, roots), rlimit).usual)


# ---------------------------------------------------------------------- names in the file


def with_declared_names(proto: onnx.ModelProto, found: Exported, declaration: Declaration) -> onnx.ModelProto:
    """The file with dims named as declared: itself if the exporter named them, a copy if sizes have names of PyTorch."""
    table = axis_symbols(found, declaration)
    texts = {dim.dim_param for dim in _dims(proto.graph)}
    sizes = {text: size for text in texts if text and (size := _parsed(text)) is not None}
    named = {text: size.subs(table) for text, size in sizes.items() if size.free & table.keys()}
    changed = {text: size for text, size in named.items() if size is not sizes[text]}
    if not changed:
        return proto
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    for dim in _dims(model.graph):
        size = changed.get(dim.dim_param)
        if size is not None and size.value is not None:
            dim.dim_value = size.value
        elif size is not None:
            dim.dim_param = str(size)
    return model


def lost_axes(found: Exported, declaration: Declaration) -> list[Axis]:
    """The axes with a declared name that the file has as numbers, after torch.export refused the declaration."""
    if found.refusal is None or found.proto is None:
        return []
    specs = found.program.graph_signature.input_specs
    own = [s for s in specs if s.kind.name == "USER_INPUT"]
    kept = [i for i, s in enumerate(own) if not isinstance(s.arg, ConstantArgument)]
    inputs = dict(zip(kept, found.proto.graph.input, strict=True))
    dims = {leaf: value.type.tensor_type.shape.dim for leaf, value in inputs.items()}
    return [a for a in declaration.axes if a.leaf in dims and not dims[a.leaf][a.index].dim_param]


def dim_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names of sizes in the dims of a model's inputs."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    sizes = (_parsed(dim.dim_param) for dim in dims if dim.dim_param)
    return frozenset(name for size in sizes if size is not None for name in size.free)


def _dims(graph: onnx.GraphProto) -> Iterator[Any]:
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            yield from value.type.tensor_type.shape.dim
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _dims(attribute.g)


def _parsed(text: str) -> Dim | None:
    try:
        return parse_dim(text)
    except DimSyntaxError:
        return None


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
        if number not in shape or number not in size_arguments(node) or _splits(node, shape, number):
            continue
        if trace and _contains(trace[-1], number):
            return SourceOrigin(trace, failing.module, failing.kind)
    return None


def _only_size(cond: Cond) -> int | None:
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
