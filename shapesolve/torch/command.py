"""``shapesolve check --torch package.module:factory``: the check from the command line."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ..analysis import BroadcastMode
from .checking import check
from .report import Report

_ARGUMENTS = tuple(inspect.signature(check).parameters)


def check_target(
    target: str, assume: Iterable[str] = (), broadcast: BroadcastMode = "named", infer: bool = False
) -> Report:
    """Check what a factory makes. `target` is ``package.module:factory``; modules of the working directory are found.

    The factory takes no arguments and gives a mapping of arguments of `check` (``{"module": net, "args": (x,),
    "dynamic_shapes": ...}``), or a tuple of the first of them (``net, (x,), {}, dynamic_shapes``).

    Raises `ValueError` when there is no such factory, it fails, or gives something else.
    """
    made = _made(target)
    by_place = made if isinstance(made, tuple) else (made,)
    given = dict(made if isinstance(made, Mapping) else zip(_ARGUMENTS, by_place))
    strange = sorted(map(str, given.keys() - set(_ARGUMENTS)))
    if "module" not in given or strange:
        raise ValueError(
            f"{target} gives {', '.join(map(str, given))}; it must give arguments of shapesolve.torch.check,"
            f" which are {', '.join(_ARGUMENTS)}"
        )
    given["assume"] = (*given.get("assume", ()), *assume)
    given.setdefault("broadcast", broadcast)
    given["infer"] = infer or given.get("infer", False)
    return check(**given)


def _made(target: str) -> Any:
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ValueError(f"--torch takes package.module:factory, not {target!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # importing is running somebody's code: whatever goes wrong there ends here
        raise ValueError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise ValueError(f"{module_name!r} has no {path!r}")
    try:
        return found()
    except Exception as error:
        raise ValueError(f"{target} fails: {type(error).__name__}: {error}") from error
