"""Guards of torch.export as conditions on the declared sizes, with the source lines they come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._sympy.printers import PythonPrinter

from ..expr import Cond, Dim, DimSyntaxError, ge, parse_cond, parse_dim, symbol
from ..propagate.constraint import Constraint
from ..propagate.constraint import Origin as Rule
from ..propagate.facts import Facts
from ..propagate.log import ConstraintSet
from ..solve.contract.build import find_contract
from ..solve.contract.contract import Contract, Terms
from ..solve.engine import Engine
from ..solve.simplify.domain import defined_where
from .declared import Axis, Declaration
from .exporting import Watch
from .places import NOWHERE, Origin, Place, is_foreign

#: beyond this torch.export has guarded on every element of something
MAX_GUARDS = 2000
_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b")
#: PyTorch's printed form of a difference: ``H + (-1)*(H % 8)``
_MINUS = re.compile(r"\+ \(-1\)\*")


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: PyTorch's text, the condition on declared sizes (None: not expressible), and its origin.

    ``shown`` is the text with the declared names.
    """

    text: str
    cond: Cond | None
    origin: Origin = NOWHERE
    asked: bool = False
    shown: str = ""

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
    location = guard.sloc
    seen = watch.of(location) if watch is not None else None
    origin, asked = (seen.origin, seen.asked) if seen is not None else _kept_location(location)
    text = _text(guard.expr)
    try:
        cond: Cond | None = parse_cond(text, table)
    except DimSyntaxError:
        cond = None
    if cond is not None and not cond.free <= {n for d in table.values() for n in d.free}:
        cond = None
    shown = {n: str(d) if d.name else f"({d})" for n, d in table.items()}
    own = _MINUS.sub("- ", _SYMBOL.sub(lambda m: shown.get(m[0], m[0]), text))
    return Guard(text, cond, origin, asked, own)


def _name(source: Any) -> str:
    return source.name if isinstance(source.name, str) else str(source.name())


def _kept_location(location: Any) -> tuple[Origin, bool]:
    """The origin that PyTorch itself records for a guard."""
    frame: Any = getattr(location, "framework_loc", None)
    file = getattr(frame, "filename", None)
    if not file or is_foreign(file):
        return NOWHERE, False
    return Origin((Place(file, int(frame.lineno or 0), str(frame.name), str(frame.line or "")),)), True


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


def fixed_axes(program: Any, declaration: Declaration) -> dict[str, Axis]:
    """The declared sizes that are numbers in a program's inputs, with an axis of each. The example has 0 or 1 there, or the
    module fixed it. A symbol of PyTorch with a single value counts as a number.
    """
    found: dict[str, Axis] = {}
    for leaf, shape in enumerate(input_shapes(program)):
        for axis in declaration.at(leaf):
            if shape is not None and axis.index < len(shape) and _is_number(shape[axis.index]):
                found.update((root, axis) for root in axis.size.free)
    return found


def tied_axes(program: Any, declaration: Declaration) -> list[tuple[Axis, Axis]]:
    """Declared axes of other sizes that are one symbol in a program's inputs. No guard says so."""
    shapes = input_shapes(program)
    first: dict[str, Axis] = {}
    pairs: list[tuple[Axis, Axis]] = []
    for axis in declaration.axes:
        shape = shapes[axis.leaf]
        if shape is not None and axis.index < len(shape) and not _is_number(shape[axis.index]):
            other = first.setdefault(str(shape[axis.index]), axis)
            pairs += [(other, axis)] if other.size is not axis.size else []
    return pairs


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or size.node.maybe_as_int() is not None


def input_names(program: Any) -> list[str]:
    """Per flattened input of the call the name it has in the graph."""
    return [
        str(getattr(spec.arg, "name", ""))
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]


def sizes_of_call(node: Any, program: Any, declaration: Declaration) -> list[str]:
    """The declared sizes among the numbers that a call is given, as an attribute is."""
    env = shape_env(program)
    if node is None or env is None:
        return []
    table = axis_symbols(env, program, declaration)
    given = (v for v in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(v, torch.fx.Node))
    values = [v.meta.get("val") for v in given]
    symbols = {n for v in values if isinstance(v, torch.SymInt) for n in _SYMBOL.findall(str(v))}
    found = {name for n in symbols & table.keys() for name in table[n].free}
    return [n for n in declaration.roots if n in found]


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
    found = find_contract(ConstraintSet(constraints), facts, map(symbol, roots), rlimit)
    return _for_nonempty(found.readable, roots, rlimit)


def _for_nonempty(contract: Contract, roots: Sequence[str], rlimit: int) -> Contract:
    """Drops bounds that follow from the rest at sizes of at least 1. torch.export promises nothing about others."""
    engine, kept = Engine(rlimit), list(contract.terms)
    least = [ge(symbol(name), 1) for name in roots]
    for term in [t for t in kept if t.kind in ("range", "nonempty")]:
        if engine.entails(term.cond, [*(t.cond for t in kept if t is not term), *least]).proved:
            kept.remove(term)
    return replace(contract, terms=Terms(kept))


def guards_behind(nodes: Sequence[str], guards: Sequence[Guard]) -> list[Guard]:
    """The guards of a contract term, from the labels of its constraints."""
    return [guards[int(n.removeprefix("guard:"))] for n in nodes if n.startswith("guard:")]
