"""Lazy imports and garbage collector settings that make the command line start and exit fast.

Only the command line process changes these settings. `import onnx` loads all of onnx, numpy, ml_dtypes, and protobuf's part in
Python, but most analyses use no array and no text of a message.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

#: modules that are executed at the first access to an attribute
_LATER = frozenset(
    (
        "google.protobuf.internal.python_message",
        "google.protobuf.text_format",
        "ml_dtypes",
        "numpy",
        "socket",
        *(
            f"onnx.{name}"
            for name in ("checker", "compose", "gen_proto", "helper", "inliner", "numpy_helper")
        ),
        *(f"onnx.{name}" for name in ("parser", "printer", "serialization", "shape_inference", "utils")),
        "onnx.version_converter",
    )
)


class _Module(ModuleType):
    """Module that is executed at the first access to an attribute.

    `importlib.util.LazyLoader` also makes such modules, but importing one a second time executes it.
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
            elif (
                self.__class__ is _Module
            ):  # the module's own code looks up a name that it has not defined yet
                return _own(self, name)
        return getattr(self, name)


def _own(module: ModuleType, name: str) -> Any:
    made = vars(module).get("__getattr__")
    if made is None:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    return made(name)


#: held while a lazy module is executed; other threads that use the module wait
_LOCK = RLock()
#: modules that have not been executed, with their specs
_FOUND: dict[ModuleType, ModuleSpec] = {}


class _Later:
    """Import hook that delays the execution of modules. It has no base class because importing `importlib.abc` is slow."""

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
        vars(module).pop("__path__", None)  # Looking for a submodule then executes the module first.


def start_light() -> None:
    """Set up lazy imports and infrequent garbage collection."""
    # Few commands allocate this many objects, and imported modules are not garbage. mypy uses the same thresholds.
    gc.set_threshold(200_000, 30, 30)
    sys.meta_path.insert(0, _Later())


def end_light() -> None:
    """Exclude all objects from garbage collection, so that the interpreter exits fast."""
    gc.freeze()
