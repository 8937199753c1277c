"""`help()` says of everything public what the sources say; of what is compiled, the signatures alone."""

import ast
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import shapesolve as ss

Definition = ast.ClassDef | ast.FunctionDef
CLASSES = [name for name in ss.__all__ if isinstance(getattr(ss, name), type)]
FUNCTIONS = [name for name in ss.__all__ if name not in CLASSES and callable(getattr(ss, name))]


@cache
def definitions(module: str) -> dict[str, Definition]:
    """Classes and functions of a module, methods as `Class.name`, by its source, which lies beside a compiled one too."""
    file = Path(ss.__file__).parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    found: dict[str, Definition] = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, Definition):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{n.name}": n for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


def parameters(node: ast.FunctionDef) -> list[str]:
    a = node.args
    positional = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else [])]
    return [p.arg for p in (*positional, *a.kwonlyargs, *([a.kwarg] if a.kwarg else []))]


def compare(value: Any, node: Definition, module: str) -> None:
    if str(sys.modules[module].__file__).endswith(".py"):
        assert inspect.getdoc(value) == ast.get_docstring(node)
    elif getattr(value, "__text_signature__", None) is None:
        return
    if isinstance(node, ast.FunctionDef) and callable(value):
        assert [*inspect.signature(value).parameters] == parameters(node)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_and_their_members(name: str) -> None:
    cls = getattr(ss, name)
    known = definitions(cls.__module__)
    compare(cls, known[cls.__name__], cls.__module__)
    for full, node in known.items():
        of, _, member = full.partition(".")
        made = {getattr(d, "id", getattr(d, "attr", "")) for d in getattr(node, "decorator_list", ())}
        if (
            of == cls.__name__
            and member
            and not member.startswith("_")
            and not made & {"classmethod", "setter"}
        ):
            compare(inspect.getattr_static(cls, member), node, cls.__module__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    value = getattr(ss, name)
    module, known = value.__module__, value.__name__
    owner = getattr(value, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):  # of a registry
        value = getattr(type(owner), name)
        module, known = type(owner).__module__, f"{type(owner).__name__}.{name}"
    compare(value, definitions(module)[known], module)
