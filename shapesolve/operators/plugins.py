"""Rules of operators outside this package: modules that the user names, and installed packages.

A plugin is a module that calls `shapesolve.register` or `shapesolve.signature` when it is imported. A package offers one as
an entry point, which is looked up only if a model has an operator without a rule::

    [project.entry-points."shapesolve.operators"]
    acme = "acme.shapesolve_rules"
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ..lower.registry import DEFAULT, Registry

#: group of entry points
GROUP = "shapesolve.operators"
_sought: list[bool] = []
#: module -> folder, of the plugins that the user named; worker processes load them too
_named: dict[str, str] = {}


def load_plugin(name: str, folder: Path) -> None:
    """Import a plugin: a module that is installed or in `folder`, or a Python file.

    Raises:
        ValueError: If it cannot be imported.
    """
    file = Path(name)
    if file.suffix == ".py":
        file = folder / file
        name, folder = file.stem, file.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        import_module(name)
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise ValueError(f"cannot load plugin {name!r}: {type(error).__name__}: {error}") from error
    _named[name] = str(folder)


def named_plugins() -> tuple[tuple[str, str], ...]:
    """Modules that `load_plugin` has loaded, with their folders."""
    return tuple(_named.items())


def load_installed() -> bool:
    """Load the plugins of installed packages at the first call; return True if that may have added rules.

    Raises:
        ValueError: If a plugin fails to load.
    """
    if _sought:
        return False
    _sought.append(True)
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP)
    for point in found:
        try:
            loaded = point.load()
        except Exception as error:  # importing runs the package's code
            text = f"{type(error).__name__}: {error}"
            raise ValueError(f"cannot load plugin {point.name!r} ({point.value}): {text}") from error
        if isinstance(loaded, Registry):
            for rule in loaded:
                DEFAULT.add(rule)
        elif not isinstance(loaded, ModuleType):
            raise ValueError(f"plugin {point.name!r} must be a module or a Registry, got {point.value}")
    return bool(found)
