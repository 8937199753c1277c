"""Sizes of an exported program: its guards as conditions, its symbols, its own declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from ..analysis import Analysis
from ..expr import Cond, Dim, DimSyntaxError, eq, parse_cond, parse_dim, symbol
from ..expr.traverse import atoms_of
from ..lower.types import Tensor
from ..solve.contract.build import find_contract
from ..solve.contract.contract import Term
from ..solve.facts.constraint import Constraint
from ..solve.facts.constraint import Origin as Rule
from ..solve.facts.facts import Facts
from ..solve.facts.log import ConstraintSet
from ..solve.known import defined_where
from .declared import Axis, Declaration, Root, finite
from .exporting import Watch
from .internals import guards_of, is_number, symbols_of
from .limits import LEAST, MAX_GUARDS
from .places import NOWHERE, SourceOrigin

# ---------------------------------------------------------------------- guards

#: begins the label of a guard's constraint, before its index
GUARD = "guard:"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: PyTorch's text, the condition on declared sizes (None: not expressible), and its origin."""

    text: str
    cond: Cond | None
    origin: SourceOrigin = NOWHERE


def find_guards(program: Any, declaration: Declaration, watch: Watch | None = None) -> tuple[Guard, ...]:
    """The guards of an `ExportedProgram`, in the order in which they were made."""
    table = axis_symbols(program, declaration)
    return tuple(_guard(*g, table, watch) for g in guards_of(program)[:MAX_GUARDS])


def _guard(text: str, location: Any, table: Mapping[str, Dim], watch: Watch | None) -> Guard:
    try:
        cond: Cond | None = parse_cond(text, table)
    except DimSyntaxError:
        cond = None
    if cond is not None and not cond.free <= {n for d in table.values() for n in d.free}:
        cond = None
    return Guard(text, cond, watch.of(location) if watch is not None else NOWHERE)


def axis_symbols(program: Any, declaration: Declaration) -> dict[str, Dim]:
    """PyTorch's symbols (``s27``) in terms of the declared sizes."""
    sizes = {f"L{declaration.keys[a.leaf]}.size()[{a.index}]": a.size for a in declaration.axes}
    table: dict[str, Dim] = {}
    for name, source in symbols_of(program):
        if source in sizes:
            table.setdefault(name, sizes[source])
    for axis, size in _declared_sizes(program, declaration):
        _solve(str(size), axis.size, table)
    return table


def _declared_sizes(program: Any, declaration: Declaration) -> Iterator[tuple[Axis, Any]]:
    """The declared axes with their sizes in the program: numbers, or expressions of PyTorch."""
    shapes = input_shapes(program)
    for axis in declaration.axes:
        if axis.index < len(shapes[axis.leaf]):
            yield axis, shapes[axis.leaf][axis.index]


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


def input_shapes(program: Any) -> list[tuple[Any, ...]]:
    """Symbolic shape of each flattened input of the call; () if it is not a tensor."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    return [tuple(getattr(values.get(name), "shape", ())) for name in input_names(program)]


def equal_sizes(program: Any, declaration: Declaration) -> list[tuple[Dim, Dim | int]]:
    """Declared sizes that are numbers, or equal to another, in a program's inputs without a guard.

    A symbol of PyTorch with a single value counts as a number.
    """
    first: dict[str, Dim] = {}
    pairs: dict[tuple[Dim, Dim | int], None] = {}
    for axis, size in _declared_sizes(program, declaration):
        other = axis.example if is_number(size) else first.setdefault(str(size), axis.size)
        if other is not axis.size:
            pairs[axis.size, other] = None
    return list(pairs)


def rounded_sizes(call: Any, table: Mapping[str, Dim]) -> list[Cond]:
    """Conditions under which no input of a call has a rounded size: ``w % 2 == 0`` for ``w//2``."""
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in call.all_input_nodes)
    sizes = [
        size.subs(table) for shape in shapes for text in shape if (size := _parsed(str(text))) is not None
    ]
    names = {n for size in table.values() for n in size.free}
    atoms = [a for a in atoms_of(*sizes) if a.kind == "//" and a.free <= names]
    return list(dict.fromkeys(eq(a.args[0] % a.args[1], 0) for a in atoms))


def input_names(program: Any) -> list[str]:
    """Per flattened input of the call the name it has in the graph."""
    return [
        str(getattr(spec.arg, "name", ""))
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]


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


# ---------------------------------------------------------------------- declarations


def declared_by_program(program: Any, proto: onnx.ModelProto | None = None) -> Declaration:
    """The symbolic sizes of an `ExportedProgram`'s inputs, with its ranges. Named as in `proto`, if given."""
    limits = {str(k): (finite(v.lower), finite(v.upper)) for k, v in program.range_constraints.items()}
    inputs = proto.graph.input if proto is not None else ()
    named = {v.name: [d.dim_param for d in v.type.tensor_type.shape.dim] for v in inputs}
    ranges: dict[str, tuple[int | None, int | None]] = {}
    shapes: dict[str, list[Dim | None]] = {}
    for name, shape in zip(input_names(program), input_shapes(program)):
        texts = [str(size) for size in shape]
        shapes[name] = [_parsed(own or text) for own, text in zip(named.get(name, texts), texts)]
        ranges |= {str(dim): limits[text] for dim, text in zip(shapes[name], texts) if text in limits}
    return _stated(shapes, ranges)


def declared_by_model(analysis: Analysis) -> Declaration:
    """The symbolic sizes of a model's inputs; a file states no ranges."""
    known = analysis.inputs.items()
    return _stated({n: (k.shape if isinstance(k, Tensor) else None) or () for n, k in known}, {})


def _stated(
    shapes: Mapping[str, Sequence[Dim | None]], ranges: Mapping[str, tuple[int | None, int | None]]
) -> Declaration:
    """A declaration of the sizes that are not numbers. `ranges` are (min, max), None if unbounded."""
    roots: dict[str, Root] = {}
    axes: list[Axis] = []
    for leaf, (name, shape) in enumerate(shapes.items()):
        for index, size in enumerate(shape):
            if size is None or not size.free:
                continue
            for root in sorted(size.free):
                low, high = ranges.get(root, (None, None))
                # torch.export's own lower bound was not declared
                roots.setdefault(root, Root(root, low if low is not None and low > LEAST else None, high))
            bounds = [str(c) for c in roots[size.name].conditions()] if size.name else []
            axes.append(Axis(leaf, name, index, size, LEAST, ", ".join(bounds) or str(size)))
    return Declaration(roots, tuple(axes), tuple(shapes))


def _parsed(text: str) -> Dim | None:
    try:
        return parse_dim(text)
    except DimSyntaxError:
        return None


def renamed(
    proto: onnx.ModelProto, table: Mapping[str, Dim], declaration: Declaration, names: Sequence[str]
) -> onnx.ModelProto:
    """A copy of the model's graph with dims named as declared. Weights are shared by reference, not read.

    `table` says what PyTorch's symbols are; `names` are the graph inputs that belong to the declaration's inputs.
    """
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    inputs = {v.name: v for v in model.graph.input}
    for leaf, name in enumerate(names):
        for axis in declaration.at(leaf):
            dims = inputs[name].type.tensor_type.shape.dim if name in inputs else []
            if axis.index < len(dims) and dims[axis.index].dim_param in table:
                dims[axis.index].dim_param = str(axis.size)
    for value in _values(model.graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                _rename(dim, table)
    return model


def dim_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names of sizes in the dims of a model's inputs."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    sizes = (_parsed(dim.dim_param) for dim in dims if dim.dim_param)
    return frozenset(name for size in sizes if size is not None for name in size.free)


def _rename(dim: Any, table: Mapping[str, Dim]) -> None:
    size = _parsed(dim.dim_param)
    if size is None:
        return
    if size.value is not None:
        dim.dim_value = size.value
    elif size.free & table.keys():
        dim.dim_param = str(size.subs(table))


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _values(attribute.g)
