"""Which shapesolve is measured: the installed package where there is one, or else the sources of the checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def installed(paths: Sequence[str]) -> Path | None:
    """The folder that holds an installed package; None without one: an editable install is a checkout."""
    elsewhere = [path for path in paths if Path(path).resolve() != ROOT]
    for found in metadata.distributions(name="shapesolve", path=elsewhere):
        home = Path(str(found.locate_file("")))
        if (home / "shapesolve" / "__init__.py").exists():
            return home
    return None


def differences(one: Path, other: Path) -> list[str]:
    """The Python files that two folders do not hold alike."""
    texts = [{file.relative_to(top): file.read_bytes() for file in top.rglob("*.py")} for top in (one, other)]
    return sorted(str(file) for file in {*texts[0], *texts[1]} if texts[0].get(file) != texts[1].get(file))


def choose() -> None:
    """Import the installed package, if any, though the checkout comes first on the path; SystemExit if it is an old one."""
    home = installed(sys.path)
    if home is None or "shapesolve" in sys.modules:
        return
    sources = ROOT / "shapesolve"
    if sources.exists() and (files := differences(home / "shapesolve", sources)):
        sys.exit(
            f"the shapesolve installed in {home} is not the one of this checkout "
            f"({len(files)} files differ, the first is {files[0]}): install it again, or uninstall it"
        )
    before = sys.path[:]
    sys.path.insert(0, str(home))
    try:
        import_module("shapesolve")  # its modules follow from where it lies
    finally:
        sys.path[:] = before


def kind() -> str:
    """What is measured, in words."""
    return "compiled" if find_spec("shapesolve.compiled__mypyc") else "pure Python"
