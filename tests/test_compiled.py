"""What the sources of compiled modules must keep to, where the compiler does not say so."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    file.relative_to(ROOT).as_posix()
    for file in (ROOT / "shapesolve").rglob("*.py")
    if file.read_text("utf-8").startswith("# compiled: see CONTRIBUTING.md\n")
)

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


def test_the_hook_compiles_what_is_marked() -> None:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("compile_hook", ROOT / ".ci/compile_hook.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    found = [file.relative_to(ROOT).as_posix() for file in hook.marked_modules(ROOT / "shapesolve")]
    assert found == MODULES
    assert {"shapesolve/expr/core.py", "shapesolve/lower/walk.py"} <= set(found)


@pytest.mark.parametrize("module", MODULES)
def test_compiled_modules_cache_no_properties(module: str) -> None:
    """A compiled object has no dictionary for `functools.cached_property` to keep the value in: it is worked out each time."""
    assert "cached_property" not in (ROOT / module).read_text("utf-8")
