"""What the sources of compiled modules must keep to, where the compiler does not say so."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["custom"]["modules"]

pytestmark = pytest.mark.skipif(not (ROOT / "shapesolve").exists(), reason="the sources are not here")


def calls_of_dim(source: str) -> list[int]:
    """Lines on which `Dim(...)` is called."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Dim"
    ]


@pytest.mark.parametrize("module", MODULES)
def test_compiled_modules_make_dims_by_functions(module: str) -> None:
    """Called from compiled code, `Dim(...)` passes over `Surface.__new__`, and gives an object without content."""
    found = calls_of_dim((ROOT / module).read_text("utf-8"))
    assert len(found) == (module == "shapesolve/expr/core.py"), (
        f"{module}: `as_dim` or `constant` is due on lines {found}"
    )


@pytest.mark.parametrize("module", MODULES)
def test_compiled_modules_hide_no_context(module: str) -> None:
    """`raise ... from None` shows the context all the same when it is compiled: the error is raised outside of the handler."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    assert [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.cause is not None] == []
