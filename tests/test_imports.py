"""Imports point one way, and `import shapesolve` stays light."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import shapesolve

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(shapesolve.__file__).parent

# What a room may import besides itself. A dotted entry stands for a room within a room, or for one module of it.
# A new top-level module of the package belongs in this table.
CORE = {"expr", "model", "lower", "operators", "solve"}
EVERYTHING = CORE | {
    "arguments",
    "lines",
    "settings",
    "causes",
    "answers",
    "constraints",
    "findings",
    "analysis",
    "explorer",
    "report",
    "change",
    "deploy",
    "runs",
}
ALLOWED: dict[str, set[str]] = {
    "arguments": set(),
    "lazy": set(),
    "runs": set(),
    "settings": set(),
    "expr": {"arguments"},
    "model": {"expr"},
    "solve.facts": {"expr"},
    "lower": {"arguments", "expr", "model", "solve.facts"},
    "operators": {"expr", "model", "lower", "solve.facts"},
    "solve": {"arguments", "expr"},
    "constraints": {"expr", "model", "lower", "solve", "collection", "lines"},
    "causes": CORE | {"constraints"},
    "answers": CORE | {"causes", "constraints", "runs"},
    "findings": CORE | {"answers", "causes"},
    "collection": set(),
    "lines": set(),
    "analysis": CORE | {"answers", "arguments", "causes", "collection", "constraints", "findings"},
    "report": CORE | {"answers", "causes", "findings", "analysis", "deploy", "lines", "settings"},
    "explorer": CORE | {"answers", "causes", "analysis", "deploy", "lines", "report", "constraints"},
    "change": CORE | {"answers", "arguments", "causes", "analysis", "collection", "deploy", "lines", "runs"},
    "change.annotate": CORE | {"analysis", "answers", "change", "findings", "report"},
    "deploy": CORE | {"answers", "arguments", "analysis", "causes"},
    "builder": EVERYTHING,
    "compat": EVERYTHING | {"builder"},
    "cli": EVERYTHING | {""},
    "onnx_ir": EVERYTHING,
    "pytest_plugin": EVERYTHING,
    "testing": EVERYTHING,
    "torch": EVERYTHING,
    "__init__": EVERYTHING,
    "__main__": {"cli"},
}

# Rooms that are named in a text, and loaded when they are first asked for: what a method of a lower room shows or works out,
# and what an extra brings.
BY_NAME: dict[str, set[str]] = {
    "expr.offer": {"solve.simplify"},  # `Dim.simplify`
    "analysis": {"change.annotate", "deploy", "explorer", "report"},  # `Analysis.to_html` and the like
    "testing": {"torch"},
    "cli.checking": {"torch"},
}
_NAMED = re.compile(r"shapesolve\.(\w+(?:\.\w+)*)(?::\w+)?")

# Loaded when first needed, never by `import shapesolve`.
LAZY = ["IPython", "click", "onnxruntime", "rich", "sympy", "torch", "z3"]


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """All texts and imports of a source."""
    return [
        n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.Constant, ast.Import, ast.ImportFrom))
    ]


def named_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and dotted path within shapesolve of every module of ours that a text names."""
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = _NAMED.fullmatch(node.value)
            if said and said[1].partition(".")[0] in ALLOWED:
                yield node.lineno, said[1]


def imports_of(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and dotted path within shapesolve of every import of ours, wherever it stands in the file.

    The package itself is the empty path. `from a.b import c` yields `a.b.c`: `c` may be a module.
    """
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{prefix}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "shapesolve":
                yield node.lineno, rest


def room_of(module: str) -> str:
    """The innermost room of the table that holds a module (dotted, from `shapesolve`); a name of no room if there is none."""
    path = module.partition(".")[2] or "__init__"
    within = [room for room in ALLOWED if path == room or path.startswith(f"{room}.")]
    return max(within, key=len, default=path.partition(".")[0])


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """The imports of `module` (dotted, from `shapesolve`) that the table does not allow."""
    room = room_of(module)
    if room not in ALLOWED:
        return [f"{module}: no such room in the table of tests/test_imports.py"]
    allowed = ALLOWED[room] | {room, "lazy"}
    rooms = ALLOWED.keys()
    found = []
    for line, path in imports_of(source, module, is_package=is_package):
        target = path if path.partition(".")[0] in rooms else ""  # a name of shapesolve/__init__.py
        if not any(target == ok or (ok and target.startswith(f"{ok}.")) for ok in allowed):
            found.append(f"{module}:{line} imports {target or 'the package itself'}")
    allowed |= BY_NAME.get(module.partition(".")[2], set())
    for line, target in named_in(source):
        if not any(target == ok or (ok and target.startswith(f"{ok}.")) for ok in allowed):
            found.append(f"{module}:{line} names {target}")
    return found


def test_imports_point_one_way() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    found = []
    for file in files:
        parts = list(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        if is_package:
            parts.pop()
        found += violations(file.read_text("utf-8"), ".".join(parts), is_package=is_package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("shapesolve.expr.core", "from shapesolve.expr import atoms", True),
        ("shapesolve.expr.core", "from . import atoms", True),
        ("shapesolve.expr.core", "import shapesolve.model", False),
        ("shapesolve.expr.core", "from ..model import Node", False),
        ("shapesolve.expr.core", "from .. import model", False),
        ("shapesolve.expr.core", "from shapesolve import Dim", False),
        ("shapesolve.expr.core", "def f():\n    import shapesolve.solve.facts.facts", False),
        ("shapesolve.model.node", "from shapesolve.expr import Dim", True),
        ("shapesolve.model.node", "from shapesolve.lower import conv", False),
        ("shapesolve.operators.conv", "from shapesolve.solve.facts.constraint import Constraint", True),
        ("shapesolve.operators.conv", "from shapesolve.lower import Op", True),
        ("shapesolve.operators.conv", "from shapesolve.solve import Constraint", False),
        ("shapesolve.operators.conv", "from shapesolve.solve.constraints_of_z3 import x", False),
        ("shapesolve.solve.z3", "from shapesolve.model import Node", False),
        ("shapesolve.analysis", "from shapesolve.solve import proof", True),
        ("shapesolve.analysis", "from shapesolve.report import text", False),
        ("shapesolve.answers.judge", "from shapesolve.analysis import Analysis", False),
        ("shapesolve.report.text", "from shapesolve.analysis import Analysis", True),
        ("shapesolve.report.text", "from shapesolve.cli import main", False),
        ("shapesolve.cli", "from shapesolve import analyze, report", True),
        ("shapesolve.__main__", "from shapesolve.cli import main", True),
        ("shapesolve.attic", "import os", False),
        ("shapesolve.expr.core", "import shapesolver, os.path", True),
        ("shapesolve.expr.core", "import_module('shapesolve.solve.simplify')", False),
        ("shapesolve.expr.offer", "import_module('shapesolve.solve.simplify')", True),
        ("shapesolve.expr.offer", "import_module('shapesolve.solve.engine')", False),
    ],
)
def test_the_table_is_enforced(module: str, source: str, allowed: bool) -> None:
    assert (not violations(source, module)) == allowed


def test_a_relative_import_of_a_package_starts_at_itself() -> None:
    assert not violations("from .expr import Dim", "shapesolve.expr", is_package=True)
    assert violations("from ..model import Node", "shapesolve.expr", is_package=True)


#: files that import each other round and round: at most so many, of one room
MOST_IN_A_CIRCLE = 3


def imports_between(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """By module, the modules of ours that it imports, wherever that stands, for types only too; those of `sources` alone."""
    return {
        module: {
            target
            for _, path in imports_of(source, f"shapesolve.{module}", is_package=False)
            for target in (path, path.rpartition(".")[0])
            if target in sources and target != module
        }
        for module, source in sources.items()
    }


def circles(arrows: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest groups of modules that all reach each other."""
    reached: dict[str, set[str]] = {}
    for module in arrows:
        seen, todo = set[str](), [module]
        while todo:
            new = arrows[todo.pop()] - seen
            seen |= new
            todo += new
        reached[module] = seen
    found = {frozenset(m for m in seen if module in reached[m]) for module, seen in reached.items()}
    return {circle for circle in found if circle}


def test_no_circle_of_imports_leaves_a_room_or_has_many_files() -> None:
    sources = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts): file.read_text("utf-8")
        for file in PACKAGE.rglob("*.py")
        if file.stem != "__init__"
    }
    for circle in circles(imports_between(sources)):
        rooms = {module.partition(".")[0] for module in circle}
        assert len(rooms) == 1, sorted(circle)
        assert len(circle) <= MOST_IN_A_CIRCLE, sorted(circle)


#: files that go on with a lowering, besides the rooms that lower
GOES_ON = {"change/free/state.py", "causes/given.py", "causes/repair.py"}


def test_what_was_lowered_is_read_through_lowered() -> None:
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        if name.partition("/")[0] not in ("lower", "operators", "constraints") and name not in GOES_ON:
            assert "walk.state" not in file.read_text("utf-8"), name


def test_circles_are_found() -> None:
    sources = {
        "a.x": "from .y import f",
        "a.y": "if TYPE_CHECKING:\n    from .z import T",
        "a.z": "def f():\n    from . import x",
        "a.top": "from .x import f",
    }
    arrows = imports_between(sources)
    assert arrows == {"a.x": {"a.y"}, "a.y": {"a.z"}, "a.z": {"a.x"}, "a.top": {"a.x"}}
    assert circles(arrows) == {frozenset({"a.x", "a.y", "a.z"})}


def test_importing_the_package_is_light() -> None:
    code = f"import sys, shapesolve; print(*(m for m in {LAZY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
