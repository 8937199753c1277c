# compiled: see CONTRIBUTING.md
"""Checks a node against its operator's interface: number of inputs, types, attributes. It covers numbers of inputs and
outputs, attributes, element types.

Runtimes refuse a model with a node that does not fit when they load it, whatever the sizes are.
https://onnx.ai/onnx/api/defs.html; onnxruntime's own operators are declared by `operators/schemas.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from functools import lru_cache
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, TensorProto

from ..model import Node
from ..model.types import type_name
from .attributes import Attributes
from .rule import Rule, Runtime
from .types import Known, Map, Optional, Sequence, Tensor

_NAMES = {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL", "string": "STRING",
}  # fmt: skip


@lru_cache(maxsize=256)
def dtype_of(name: str) -> int:
    """Return the TensorProto type of a schema's element type name (``float``, ``int64`` ...)."""
    return int(TensorProto.DataType.Value(_NAMES.get(name, name.upper())))


def find_schema(domain: str, op_type: str, version: int) -> Any:
    """The installed onnx's `OpSchema` of an operator at an opset version, or None. Its type stubs leave out bodies."""
    try:
        return _schema(domain, op_type, version)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)  # names that no schema has are not kept: there is no end to them
def _schema(domain: str, op_type: str, version: int) -> Any:
    return onnx.defs.get_schema(op_type, min(max(version, 1), 2**31 - 1), domain)


def output_types(domain: str, op_type: str, version: int) -> tuple[int | tuple[int, ...], ...]:
    """For each output its fixed element type, or the inputs with the same type variable. Empty when unknown."""
    interface = find_interface(domain, op_type, version)
    return () if interface is None else interface.outputs


def _tensor_type(text: str) -> int:
    if text.startswith("tensor(") and text.endswith(")"):
        return dtype_of(text[7:-1])
    return 0


_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
#: schema names of types other than tensors
_KINDS: dict[type, str] = {Sequence: "seq", Optional: "optional", Map: "map"}


class Formal(NamedTuple):
    """One formal input of an operator: name, type variable, accepted element types."""

    name: str
    variable: str
    allowed: frozenset[int]
    required: bool
    kinds: frozenset[str] = frozenset()


class Interface(NamedTuple):
    """Interface of an operator at an opset version; a field is None if there is no limit."""

    inputs: tuple[Formal, ...]
    most_inputs: int | None
    most_outputs: int | None
    least_outputs: int
    repeats: bool
    attributes: dict[str, int] | None
    needed: tuple[str, ...]
    #: for each output its element type, or the inputs with the same type variable
    outputs: tuple[int | tuple[int, ...], ...] = ()

    def formal(self, i: int) -> Formal | None:
        """Return the formal parameter of input `i`."""
        if i < len(self.inputs):
            return self.inputs[i]
        return self.inputs[-1] if self.repeats and self.inputs else None


def misfit(
    node: Node, names: tuple[str, ...], version: int, rule: Rule | None, lenient: bool = True
) -> str | None:
    """Return a message on wrong numbers of inputs or outputs, or wrong attributes; None if the node is valid.

    With `lenient`, attributes that onnxruntime ignores may have any value ("lenient-attributes" in `semantics`).
    """
    beside: tuple[Runtime, ...] = () if rule is None else rule.runtime
    gone = None if node.domain else _withdrawn(node.op_type, version, beside)
    if gone is not None:
        return gone
    interface = find_interface(node.domain, node.op_type, version)
    if interface is None:
        return None
    op = node.op_type
    for i, formal in enumerate(interface.inputs):
        if formal.required and (i >= len(names) or not names[i]):
            return f"{op} requires input {formal.name} (index {i})"
    if interface.repeats and interface.inputs[-1].variable and "" in names[len(interface.inputs) - 1 :]:
        return f"{op} needs all of its inputs {interface.inputs[-1].name}, one is left out"
    if interface.most_inputs is not None and len(names) > interface.most_inputs:
        return f"{op} takes at most {interface.most_inputs} inputs at opset {version}, got {len(names)}"
    if interface.most_outputs is not None and len(node.outputs) > interface.most_outputs:
        return (
            f"{op} takes at most {interface.most_outputs} outputs at opset {version}, got {len(node.outputs)}"
        )
    if len(node.outputs) < interface.least_outputs:
        return f"{op} has at least {interface.least_outputs} outputs, got {len(node.outputs)}"
    return None if lenient and "any attribute" in beside else _bad_attribute(node, interface, version)


def _withdrawn(op_type: str, version: int, beside: tuple[Runtime, ...]) -> str | None:
    """Message that a standard operator does not exist at this opset version; None if it does."""
    try:
        came, gone = _life(op_type, version)
    except onnx.defs.SchemaError:
        return None
    if came and "early" not in beside:
        return f"{op_type} does not exist at opset {version}: it was added in {came}"
    if gone and "kept" not in beside:
        return f"{op_type} was removed in opset {gone}, but the model uses opset {version}"
    return None


@lru_cache(maxsize=4096)  # as with schemas, unknown names are not kept
def _life(op_type: str, version: int) -> tuple[int, int]:
    """Return the opset versions that added and removed an operator missing from this version.

    Both are 0 if it exists, or if the installed onnx does not know the version.
    """
    if version > onnx.defs.onnx_opset_version():
        return 0, 0
    schema = find_schema("", op_type, version)
    if schema is not None:
        return 0, schema.since_version if schema.deprecated else 0
    for later in range(version + 1, onnx.defs.onnx_opset_version() + 1):
        if find_schema("", op_type, later) is not None:
            return later, 0
    raise onnx.defs.SchemaError(f"{op_type} is not of the standard")


def unchosen(node: Node, given: Attributes, rule: Rule | None) -> str | None:
    """Message on an attribute value that its declaration does not allow; None if all are fine."""
    if rule is None or rule.choices is None:
        return None
    for name, allowed in rule.choices.items():
        value = given.attr(name)
        if value is not None and value not in allowed:
            few = f"one of {', '.join(map(str, allowed))}" if len(allowed) > 1 else str(allowed[0])
            return f"attribute {name} of {node.op_type} must be {few}, got {value!r}"
    return None


def misranked(node: Node, inputs: tuple[Known | None, ...], rule: Rule) -> str | None:
    """Message on an input that is missing, or whose rank is wrong, for the operator's kernel; None if all are fine."""
    names = node.inputs
    for group in rule.together:
        missing = [i for i in group if i >= len(names) or not names[i]]
        if missing and (len(missing) < len(group) or len(group) == 1):
            return f"{node.op_type} requires its input {missing[0]}"
    for i in rule.named:
        if i < len(names) and not names[i]:
            return f"{node.op_type} cannot run with an empty name as its input {i}"
    for least, positions in ((1, rule.vectors), (0, rule.flat)):
        for i in positions:
            known = inputs[i] if i < len(inputs) else None
            shape = known.shape if isinstance(known, Tensor) else None
            if shape is not None and not least <= len(shape) <= 1:
                kind = "a vector" if least else "a vector or a scalar"
                return f"{node.op_type} takes {node.inputs[i]} as {kind}, got {shape}"
    return None


def _bad_attribute(node: Node, interface: Interface, version: int) -> str | None:
    op, given = node.op_type, node.attribute_kinds
    for name in interface.needed:
        if name not in given:
            return f"{op} needs the attribute {name}"
    if interface.attributes is None:
        return None
    for name, given_kind in given.items():
        kind = interface.attributes.get(name)
        if kind is None:
            return f"{op} has no attribute {name} at opset {version}"
        if given_kind not in (kind, 0):
            kinds = AttributeProto.AttributeType
            return f"attribute {name} of {op} must be {kinds.Name(kind)}, got {kinds.Name(given_kind)}"
    return None


def mistyped(node: Node, inputs: tuple[Known | None, ...], version: int) -> str | None:
    """Return a message on an input type that the operator does not accept at this opset, or None.

    Types that must equal another input's are checked too.
    """
    types = tuple([known.dtype if type(known) is Tensor else type(known) for known in inputs])
    try:
        at = _ill_typed(node.domain, node.op_type, version, types)
    except onnx.defs.SchemaError:
        return None
    if at is None:
        return None
    first, i = at
    input_name, other = node.inputs[first], types[i]
    if not isinstance(other, int):
        return f"{node.op_type} takes no {_KINDS[other]} as its input {input_name}"
    if first == i:
        return f"{node.op_type} does not take {input_name} as {type_name(other)} at opset {version}"
    kinds = [types[first], other]
    one, two = [type_name(k) for k in kinds if isinstance(k, int)]
    return f"{node.op_type} inputs must have the same element type, got {one} for {input_name} and {two} for {node.inputs[i]}"


@lru_cache(maxsize=8192)
def _ill_typed(
    domain: str, op_type: str, version: int, types: tuple[int | type, ...]
) -> tuple[int, int] | None:
    """Positions of two inputs whose types conflict. Both are the same where one is wrong alone."""
    interface = _interface(domain, op_type, version)
    for group in _shared_types(interface, len(types)):
        known = [i for i in group if types[i] and isinstance(types[i], int)]
        for i in known:
            if types[i] != types[known[0]]:
                return known[0], i
    for i, found in enumerate(types if interface is not None else ()):
        formal = interface.formal(i) if interface is not None else None
        if formal is None or not formal.kinds or not found or found is type(None):
            continue
        fits = found in formal.allowed if isinstance(found, int) else _KINDS[found] in formal.kinds
        if not fits:
            return i, i
    return None


def _shared_types(interface: Interface | None, n_in: int) -> tuple[tuple[int, ...], ...]:
    groups: dict[str, list[int]] = {}
    for i in range(n_in):
        formal = None if interface is None else interface.formal(i)
        if formal is not None and formal.allowed and formal.variable:
            groups.setdefault(formal.variable, []).append(i)
    return tuple([tuple(group) for group in groups.values() if len(group) > 1])


def find_interface(domain: str, op_type: str, version: int) -> Interface | None:
    """Return the interface of an operator at an opset version; None when no installed schema declares it."""
    try:
        return _interface(domain, op_type, version)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)  # as with schemas, unknown names are not kept
def _interface(domain: str, op_type: str, version: int) -> Interface | None:
    schema = find_schema(domain, op_type, version)
    if schema is None:
        own = [row for row in _own(domain, op_type) if row["since"] <= version]
        if not own:
            raise onnx.defs.SchemaError(f"{op_type} has no schema")
        return _of_row(own[0])
    gone = schema.deprecated and domain  # `misfit` reports standard operators
    if gone or (not domain and version > onnx.defs.onnx_opset_version()):
        return None
    kinds = {name: int(a.type.value) for name, a in schema.attributes.items()}
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = tuple(
        _formal(p.name, p.option.name, p.type_str, p.types, p.is_homogeneous, p.min_arity > 0)
        for p in schema.inputs
    )
    repeats = any(p.option == _VARIADIC for p in schema.inputs)
    return Interface(
        inputs,
        None if repeats else schema.max_input,
        None if any(p.option == _VARIADIC for p in schema.outputs) else schema.max_output,
        schema.min_output,
        repeats,
        kinds,
        tuple(name for name, a in schema.attributes.items() if a.required),
        tuple(_output(p.type_str, allowed, [q.type_str for q in schema.inputs]) for p in schema.outputs),
    )


def _output(text: str, allowed: Mapping[str, Seq[str]], inputs: Seq[str]) -> int | tuple[int, ...]:
    """Return the element type of an output, or the inputs with its type."""
    if text not in allowed:
        return _tensor_type(text) or ()
    fixed = _tensor_type(allowed[text][0]) if len(allowed[text]) == 1 else 0
    return fixed or tuple(i for i, other in enumerate(inputs) if other == text)


def _formal(
    name: str, option: str, variable: str, types: Iterable[str], is_homogeneous: bool, at_least_one: bool
) -> Formal:
    tensors = [t for t in types if t.startswith(("tensor(", "sparse_tensor("))]
    allowed = frozenset(dtype_of(t.partition("(")[2][:-1]) for t in tensors)
    shared = variable if is_homogeneous and "(" not in variable else ""
    required = option == "Single" or (option == "Variadic" and at_least_one)
    kinds = frozenset(t.partition("(")[0] for t in types if "(" in t)
    return Formal(name, shared, allowed, required, kinds)


# ---------------------------------------------------------------------- operators that onnx does not declare

_OPTIONS = {"": "Single", "?": "", "*": "Variadic", "#": "Variadic"}
_FORMAL = re.compile(r"(?P<name>[^:]*):(?P<type>[^?*#+]*)(?P<option>[?*#]?)(?P<needed>\+?)")


def _own(domain: str, op_type: str) -> list[dict[str, Any]]:
    return _table().get(f"{domain}.{op_type}".lstrip("."), [])


@lru_cache(maxsize=1)
def _table() -> dict[str, list[dict[str, Any]]]:
    from importlib.resources import files  # a compiled module does not know its folder

    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(files("shapesolve").joinpath("operators/schemas.json").read_text("utf-8")):
        found.setdefault(row["op"], []).append(row)
    return found


def _of_row(row: Mapping[str, Any]) -> Interface:
    """Return the interface of a row. onnx's checker, and so onnxruntime, checks no counts of a withdrawn experiment."""
    allowed = {letter: [_whole(t) for t in text.split()] for letter, text in row["types"].items()}
    inputs, outputs = ([_FORMAL.fullmatch(t) for t in row[key].split()] for key in ("inputs", "outputs"))
    formals = tuple(
        _formal(
            m["name"],
            _OPTIONS[m["option"]],
            m["type"] if m["type"] in allowed else "(",
            allowed.get(m["type"]) or [_whole(m["type"])],
            m["option"] != "#",
            bool(m["needed"]),
        )
        for m in inputs
        if m is not None
    )
    made = [m for m in outputs if m is not None]
    repeats = any(m["option"] in ("*", "#") for m in inputs if m is not None and m["option"])
    unchecked = "withdrawn" in row
    kinds = {
        name: int(AttributeProto.AttributeType.Value(k.rstrip("!"))) for name, k in row["attributes"].items()
    }
    return Interface(
        formals,
        None if repeats or unchecked else len(formals),
        None if unchecked or any(m["option"] in ("*", "#") and m["option"] for m in made) else len(made),
        0 if unchecked else sum(m["option"] == "" for m in made),
        repeats,
        None if unchecked else kinds,
        () if unchecked else tuple(name for name, k in row["attributes"].items() if k.endswith("!")),
        tuple(
            _output(
                m["type"] if m["type"] in allowed else _whole(m["type"]),
                allowed,
                [i["type"] for i in inputs if i is not None],
            )
            for m in made
        ),
    )


def _whole(text: str) -> str:
    return text if "(" in text else f"tensor({text})"
