"""Are two programs the same calls on the same sizes? Then what is written of them is the same file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: what a graph only checks, and what an ONNX file has nothing of
CHECKS = ("_assert", "sym_constrain_range", "_assert_scalar", "_assert_async", "_assert_tensor_metadata")
_SYMBOL = re.compile(r"\b[su]\d+\b")


def alike(a: Any, b: Any) -> bool:
    """The same calls in the same order, which make the same sizes, whatever nodes and symbols are called.

    What only checks sizes is left out, and sizes are compared by how they are computed, not by where.
    """
    return list(_calls(a)) == list(_calls(b))


def is_check(target: Any) -> bool:
    """Does an operator make nothing, and only check?"""
    name = getattr(getattr(target, "_schema", None), "name", "") or getattr(target, "__name__", "")
    return bool(name.rpartition("::")[2].startswith(CHECKS))


def _calls(program: Any) -> Iterator[str]:
    """Per call its target, its arguments and the sizes that it makes, as text; nodes are numbered, and so are symbols."""
    symbols: dict[str, str] = {}
    said: dict[Any, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return symbols.setdefault(match[0], f"s{len(symbols)}")

    yield from map(str, program.graph_signature.input_specs)
    calls = 0
    for node in program.graph.nodes:
        if node.op == "call_function" and is_check(node.target):
            continue
        given = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _Said(said[n]))
        text = f"{node.op} {node.target} {given}"
        values = pytree.tree_leaves(node.meta.get("val"))
        if node.op == "call_function" and values and all(map(_is_count, values)):
            said[node] = f"({text})"
            continue
        said[node] = f"%{calls}" if node.op == "call_function" else f"%{node.name}"
        calls += node.op == "call_function"
        yield f"{text} {_SYMBOL.sub(numbered, str([_size(value) for value in values]))}"


class _Said(str):
    """A node as text, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_count(value: Any) -> bool:
    """A number or a truth that is made of sizes: computing it changes nothing."""
    return isinstance(value, (int, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def _size(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else str(value)
