"""Printed names of element types, of generated sizes, and groups of tensors with similar names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import TensorProto

from ..expr import Dim, Shape

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from .solved import Solved

_PLAIN = {"FLOAT": "float32", "DOUBLE": "float64", "UNDEFINED": "?"}
_NUMBER = re.compile(r"\d+")


def dtype_name(dtype: int) -> str:
    """Return the name of an element type: ``float32``, ``int64`` ..."""
    try:
        name = str(TensorProto.DataType.Name(dtype))  # type: ignore[arg-type, unused-ignore]
    except ValueError:
        return "?"
    return _PLAIN.get(name, name.lower())


def shape_text(shape: Shape | None, unknown: Set[str] = frozenset(), declared: Shape | None = None) -> str:
    """Return the text of a shape, or "of unknown rank". Sizes that depend on an `unknown` name are ``?``.

    A declared name with another size stands before it: ``[batch = 1, seq]``.
    """
    if shape is None:
        return "of unknown rank"
    sizes = [str(d) if unknown.isdisjoint(d.free) else "?" for d in shape]
    for k, own in enumerate(declared or ()):
        if own.name is not None and own is not shape[k]:
            sizes[k] = f"{own} = {sizes[k]}"
    return f"[{', '.join(sizes)}]"


def unknown_operators(lowered: Lowered) -> dict[str, str]:
    """Tensors of the main graph that depend on an operator without a rule, each with that operator's name."""
    made = {id(note.node): note.node for note in lowered.notes if note.kind == "unknown-op"}
    found: dict[str, str] = {}
    for node in lowered.model.graph.nodes if made else ():
        own = made.get(id(node))
        operator = f"{node.domain}.{node.op_type}".lstrip(".") if own is not None else ""
        operator = operator or next((found[n] for n in (*node.inputs, *node.captures) if n in found), "")
        if operator:
            found.update(dict.fromkeys(node.outputs, operator))
    return found


def unknown_sizes(lowered: Lowered) -> dict[str, str]:
    """Generated names of sizes that depend on an operator without a rule, each with that operator's name."""
    tensors = unknown_operators(lowered)
    if not tensors:
        return {}
    known = {
        s for name, shape in lowered.shapes.items() if name not in tensors for d in shape for s in d.free
    }
    sizes = ((s, of) for name, of in tensors.items() for d in lowered.shapes.get(name, ()) for s in d.free)
    return {s: of for s, of in sizes if s not in known and s not in lowered.symbols}


def upper_bounds(solved: Solved) -> dict[str, list[Dim]]:
    """Return the largest values of sizes that depend on data, as expressions of the input sizes."""
    found: dict[str, list[Dim]] = {}
    for stated in solved.stated.role("definition"):
        d = stated.cond.args[0] if stated.guard.is_true and stated.cond.kind == ">=" else None
        if not isinstance(d, Dim):
            continue
        for name in sorted(d.free - solved.symbols.keys()):
            factors = [
                factor if len(atoms) == 1 else 0
                for atoms, factor in d.terms
                if any(name in atom.free for atom in atoms)
            ]
            bound = solved.facts.dim(d.subs({name: 0}))
            if factors == [-1] and name not in bound.free and bound.free <= solved.symbols.keys():
                told = solved.facts.substitution.get(name)  # by the author's name, if there is one
                found.setdefault((told and told.name) or name, []).append(bound)
    return found


def meanings(solved: Solved) -> dict[str, str]:
    """Return what each generated name, or the author's name for it, stands for, with its largest value if it is known."""
    bounds, reasons = upper_bounds(solved), dict(solved.lowered.reasons)
    for name, d in solved.facts.substitution.items():
        if name in reasons and d.name is not None and d.name not in solved.symbols:
            reasons.setdefault(d.name, reasons[name])
    most = {n: f", at most {' and '.join(map(str, dict.fromkeys(of)))}" for n, of in bounds.items()}
    return {n: f"{reason}{most.get(n, '')}" for n, reason in reasons.items()}


@dataclass(frozen=True, slots=True)
class Tensors:
    """Group of tensors with the same type and shape whose names differ only in numbers."""

    name: str
    dtype: str
    shape: str
    more: int


def grouped(
    names: Iterable[str],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, int],
    unknown: Set[str] = frozenset(),
    declared: Mapping[str, Shape] = {},
) -> list[Tensors]:
    """Groups of similar tensors, in order of first appearance; `declared` has the inputs' shapes."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        shape = shape_text(shapes.get(name), unknown, declared.get(name))
        key = (_NUMBER.sub("#", name), dtype_name(dtypes.get(name, 0)), shape)
        groups.setdefault(key, []).append(name)
    return [
        Tensors(members[0], dtype, shape, len(members) - 1) for (_, dtype, shape), members in groups.items()
    ]


def item_size(dtype: int) -> int:
    """Bytes per element of a type; 0 if not whole or not fixed (int4, strings)."""
    import onnx

    try:
        size = int(onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize)
    except (KeyError, ValueError, TypeError):
        return 0
    packed = dtype in (onnx.TensorProto.STRING, onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
    return 0 if packed else size
