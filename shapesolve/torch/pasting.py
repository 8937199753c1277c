"""A declaration that is told to paste, read back: what is tried is exactly what is printed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from torch.export import Dim as TorchDim


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
