"""What the sources of compiled modules must keep to, where the compiler does not say so."""

import ast
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


@pytest.fixture
def hook() -> Any:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("compile_hook", ROOT / ".ci/compile_hook.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def test_the_hook_compiles_what_is_marked(hook: Any) -> None:
    found = [file.relative_to(ROOT).as_posix() for file in hook.marked_modules(ROOT / "shapesolve")]
    assert found == MODULES
    assert {"shapesolve/expr/core.py", "shapesolve/lower/walk.py"} <= set(found)


def test_all_c_is_in_files_of_like_size(hook: Any, tmp_path: Path) -> None:
    sources = [tmp_path / f"{number}.c" for number in range(40)]
    for number, source in enumerate(sources):
        source.write_text("x" * (number * 10 + 1))
    parts = [
        Path(part).read_text().splitlines() for part in hook.put_together(list(map(str, sources)), tmp_path)
    ]
    assert sorted(line for part in parts for line in part) == sorted(
        f'#include "{source.as_posix()}"' for source in sources
    )
    sizes = [sum(Path(line.split('"')[1]).stat().st_size for line in part) for part in parts]
    assert max(sizes) < 1.2 * min(sizes)


def test_what_starts_modules_of_the_same_name_is_kept_apart(hook: Any, tmp_path: Path) -> None:
    names = ["a.one", "a.two", "b.two", "c.two", "b.one", "c.three"]
    starters = [SimpleNamespace(name=name, sources=[f"{name}.c"]) for name in names]
    layers = [[starter.name for starter in layer] for layer in hook.different_names(starters)]
    assert layers == [["a.one", "a.two", "c.three"], ["b.two", "b.one"], ["c.two"]]
    text = Path(hook.one_for_all(starters[:2], tmp_path / "all.c")).read_text()
    assert [line for line in text.splitlines() if "include" in line] == [
        '#include "a.one.c"',
        '#include "a.two.c"',
    ]


def test_what_starts_a_module_is_copied_with_its_ending(hook: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.cpython-311.so").write_text("code")
    (tmp_path / "a" / "one_more.cpython-311.so").write_text("other")
    hook.copy_extension(tmp_path, "a.one", "b.c.one_too")
    assert [(file.name, file.read_text()) for file in (tmp_path / "b/c").iterdir()] == [
        ("one_too.cpython-311.so", "code")
    ]


@pytest.mark.parametrize("module", MODULES)
def test_compiled_modules_cache_no_properties(module: str) -> None:
    """A compiled object has no dictionary for `functools.cached_property` to keep the value in: it is worked out each time."""
    assert "cached_property" not in (ROOT / module).read_text("utf-8")
