"""Lazy imports and garbage collector settings that make the command line start and exit fast. It changes settings of
its own process only.

`import onnx` loads all of onnx, and with it numpy and ml_dtypes. Most analyses use no array.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

#: modules that are executed when something of theirs is used
_LATER = frozenset(
    (
        "ml_dtypes",
        "numpy",
        *(
            f"onnx.{name}"
            for name in ("checker", "compose", "gen_proto", "helper", "inliner", "numpy_helper")
        ),
        *(f"onnx.{name}" for name in ("parser", "printer", "serialization", "shape_inference", "utils")),
        "onnx.version_converter",
    )
)


class _Module(ModuleType):
    """A module that is executed at the first access to an attribute.

    `importlib.util.LazyLoader` makes such modules too, which the second import of them executes.
    """

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            spec = _FOUND.pop(self, None)
            if spec is not None:
                assert spec.loader is not None
                self.__spec__, self.__loader__, self.__file__ = spec, spec.loader, spec.origin
                if spec.submodule_search_locations is not None:
                    self.__path__ = spec.submodule_search_locations
                spec.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]  # whose attributes are all there by now
            elif self.__class__ is _Module:  # what is executed asks for what is not there yet
                return _own(self, name)
        return getattr(self, name)


def _own(module: ModuleType, name: str) -> Any:
    made = vars(module).get("__getattr__")
    if made is None:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    return made(name)


#: held while a lazy module is executed; threads that use it wait
_LOCK = RLock()
#: modules that have not been executed, with where they lie
_FOUND: dict[ModuleType, ModuleSpec] = {}


class _Later:
    """Import hook that delays the execution of modules. It has no base class, as `importlib.abc` imports much."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) if fullname in _LATER else None
        if found is None or found.loader is None:
            return None
        package = found.submodule_search_locations is not None
        loader: Any = self
        return ModuleSpec(fullname, loader, origin=found.origin, loader_state=found, is_package=package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        _FOUND[module] = module.__spec__.loader_state
        vars(module).pop("__path__", None)  # who looks for a module within it executes it first


def start_light() -> None:
    """Sets up lazy imports and rare garbage collection."""
    # few commands allocate so much, and what is imported is no garbage; the numbers are those of mypy
    gc.set_threshold(200_000, 30, 30)
    sys.meta_path.insert(0, _Later())


def end_light() -> None:
    """Excludes all objects from garbage collection, so that the interpreter exits fast."""
    gc.freeze()
