"""Sizes of an exported program: its guards as conditions, its symbols, its own declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from torch.utils._sympy.printers import PythonPrinter

from ..analysis import Analysis
from ..expr import Cond, Dim, DimSyntaxError, parse_cond, parse_dim, symbol
from ..lower.types import Tensor
from ..propagate.constraint import Constraint
from ..propagate.constraint import Origin as Rule
from ..propagate.facts import Facts
from ..propagate.log import ConstraintSet
from ..solve.contract.build import find_contract
from ..solve.contract.contract import Contract
from ..solve.simplify.domain import defined_where
from .declared import Axis, Declaration, Root
from .exporting import Watch
from .limits import LEAST, MAX_GUARDS
from .places import NOWHERE, Origin

# ---------------------------------------------------------------------- guards


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: PyTorch's text, the condition on declared sizes (None: not expressible), and its origin."""

    text: str
    cond: Cond | None
    origin: Origin = NOWHERE

    @property
    def always(self) -> bool:
        """True if the guard holds at all sizes."""
        return self.cond is not None and self.cond.is_true


def find_guards(program: Any, declaration: Declaration, watch: Watch | None = None) -> tuple[Guard, ...]:
    """The guards of an `ExportedProgram`, in the order in which they were made."""
    env = shape_env(program)
    if env is None:
        return ()
    table = axis_symbols(env, program, declaration)
    return tuple(_guard(g, table, watch) for g in list(env.guards)[:MAX_GUARDS])


def _guard(guard: Any, table: Mapping[str, Dim], watch: Watch | None) -> Guard:
    text = _text(guard.expr)
    try:
        cond: Cond | None = parse_cond(text, table)
    except DimSyntaxError:
        cond = None
    if cond is not None and not cond.free <= {n for d in table.values() for n in d.free}:
        cond = None
    return Guard(text, cond, watch.of(guard.sloc) if watch is not None else NOWHERE)


def _name(source: Any) -> str:
    return source.name if isinstance(source.name, str) else str(source.name())


def _text(expr: Any) -> str:
    try:
        return str(PythonPrinter().doprint(expr))
    except Exception:  # a printer without a rule for some function; its plain form is shown instead
        return str(expr)


def shape_env(program: Any) -> Any:
    """The symbolic environment of an `ExportedProgram`, or None when nothing in it is dynamic."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        env = getattr(mode, "shape_env", None)
        if env is not None:
            return env
    return None


def axis_symbols(env: Any, program: Any, declaration: Declaration) -> dict[str, Dim]:
    """PyTorch's symbols (``s27``) in terms of the declared sizes."""
    sizes = {f"L{declaration.keys[a.leaf]}.size()[{a.index}]": a.size for a in declaration.axes}
    table: dict[str, Dim] = {}
    for sym, sources in env.var_to_sources.items():
        for source in sources:
            if (name := _name(source)) in sizes:
                table.setdefault(str(sym), sizes[name])
    for leaf, shape in enumerate(input_shapes(program)):
        for axis in declaration.at(leaf):
            if shape is not None and axis.index < len(shape):
                _solve(str(shape[axis.index]), axis.size, table)
    return table


def _solve(text: str, size: Dim, table: dict[str, Dim]) -> None:
    """Solves for a symbol. An axis is `text` for PyTorch (``s27``, ``2*s16``) and `size` in the declaration."""
    try:
        theirs = parse_dim(text)
    except DimSyntaxError:
        return
    free = sorted(theirs.free)
    if len(free) != 1 or free[0] in table:
        return
    if theirs is symbol(free[0]):
        table[free[0]] = size
        return
    ours = sorted(size.free)
    if len(ours) == 1 and size.subs({ours[0]: symbol(free[0])}) is theirs:
        table[free[0]] = symbol(ours[0])


def input_shapes(program: Any) -> list[tuple[Any, ...] | None]:
    """Per flattened input of the call its symbolic shape; None for what is no tensor."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    shapes: list[tuple[Any, ...] | None] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            shape = getattr(values.get(getattr(spec.arg, "name", "")), "shape", None)
            shapes.append(None if shape is None else tuple(shape))
    return shapes


def equal_sizes(program: Any, declaration: Declaration) -> list[tuple[Dim, Dim | int]]:
    """Declared sizes that are a number, or one symbol with another, in a program's inputs. No guard says so.

    A symbol of PyTorch with a single value counts as a number.
    """
    shapes = input_shapes(program)
    first: dict[str, Dim] = {}
    pairs: dict[tuple[Dim, Dim | int], None] = {}
    for axis in declaration.axes:
        shape = shapes[axis.leaf]
        if shape is None or axis.index >= len(shape):
            continue
        size = shape[axis.index]
        number = isinstance(size, int) or size.node.maybe_as_int() is not None
        other = axis.example if number else first.setdefault(str(size), axis.size)
        if other is not axis.size:
            pairs[axis.size, other] = None
    return list(pairs)


def input_names(program: Any) -> list[str]:
    """Per flattened input of the call the name it has in the graph."""
    return [
        str(getattr(spec.arg, "name", ""))
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]


def guard_contract(guards: Sequence[Guard], roots: Sequence[str], rlimit: int) -> Contract:
    """The guards as an irredundant contract on the declared sizes."""
    constraints = [
        Constraint(cond, "requirement", Rule(f"guard:{i}", "torch.export", g.text))
        for i, g in enumerate(guards)
        if g.cond is not None and not g.always
        for cond in (*defined_where(g.cond), g.cond)  # a guard that divides by 0 fails
    ]
    facts = Facts()
    for name in roots:
        facts.introduce(name)
    for i, constraint in enumerate(constraints):
        facts.assume(constraint.cond, i)
    return find_contract(ConstraintSet(constraints), facts, map(symbol, roots), rlimit).readable


def guards_behind(nodes: Sequence[str], guards: Sequence[Guard]) -> list[Guard]:
    """The guards of a contract term, from the labels of its constraints."""
    return [guards[int(n.removeprefix("guard:"))] for n in nodes if n.startswith("guard:")]


# ---------------------------------------------------------------------- declarations


def declared_by_program(program: Any, proto: onnx.ModelProto | None = None) -> Declaration:
    """The symbolic sizes of an `ExportedProgram`'s inputs, with its ranges. Named as in `proto`, if given."""
    limits = {str(k): (_number(v.lower), _number(v.upper)) for k, v in program.range_constraints.items()}
    written = {v.name: v.type.tensor_type.shape.dim for v in proto.graph.input} if proto is not None else {}
    ranges: dict[str, tuple[int | None, int | None]] = {}
    shapes: dict[str, list[Dim | None]] = {}
    for name, shape in zip(input_names(program), input_shapes(program)):
        shapes[name] = []
        for index, size in enumerate(shape or ()):
            shown = written[name][index].dim_param if name in written else ""
            dim = _parsed(shown or str(size))
            shapes[name].append(dim)
            if dim is not None and str(size) in limits:
                ranges[str(dim)] = limits[str(size)]
    return _stated(shapes, ranges)


def declared_by_model(analysis: Analysis) -> Declaration:
    """The symbolic sizes of a model's inputs; a file states no ranges."""
    known = analysis.inputs.items()
    return _stated({n: (k.shape if isinstance(k, Tensor) else None) or () for n, k in known}, {})


def _stated(
    shapes: Mapping[str, Sequence[Dim | None]], ranges: Mapping[str, tuple[int | None, int | None]]
) -> Declaration:
    """A declaration of the sizes that are not numbers. `ranges` are (min, max), None where unbounded."""
    roots: dict[str, Root] = {}
    axes: list[Axis] = []
    for leaf, (name, shape) in enumerate(shapes.items()):
        for index, size in enumerate(shape):
            if size is None or not size.free:
                continue
            for root in sorted(size.free):
                low, high = ranges.get(root, (None, None))
                # torch.export's own lower bound says nothing of the declaration
                roots.setdefault(root, Root(root, low if low is not None and low > LEAST else None, high))
            bounds = [str(c) for c in roots[size.name].conditions()] if size.name else []
            axes.append(Axis(leaf, name, index, size, LEAST, ", ".join(bounds) or str(size)))
    return Declaration(roots, tuple(axes), tuple(shapes), tuple(shapes))


def _parsed(text: str) -> Dim | None:
    try:
        return parse_dim(text)
    except DimSyntaxError:
        return None


def _number(bound: Any) -> int | None:
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return value if abs(value) < 2**62 else None


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
