"""`Request`: the options of an analysis, with which it can be repeated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..expr import Cond, Dim
from ..model import Node
from ..solve.facts import budget
from .rule import Rules
from .semantics import Semantics
from .state import LoweringState
from .types import Known
from .values import Elem

#: Z3 work per query (see `solve.facts.budget`); deterministic, unlike seconds
DEFAULT_RLIMIT = budget.RLIMIT


#: called with a node and the known values of its outputs, by full name
Observer = Callable[[Node, Mapping[str, Known]], None]
#: called with the nodes done and all nodes
Progress = Callable[[int, int], None]


class Watch(NamedTuple):
    """Functions that are called while a model is lowered.

    `stop` is asked after a node of the main graph that fails or requires something; True ends the lowering there.
    """

    progress: Progress | None = None
    observe: Observer | None = None
    stop: Callable[[LoweringState], bool] | None = None


class OtherShape(NamedTuple):
    """Shape to assume for an initializer instead of its own; None is an unknown size."""

    dims: tuple[int | None, ...]


class Request(NamedTuple):
    """Validated arguments of `analyze`.

    `untaken` are inputs whose default value is ignored. Without `granted`, only assumptions of the user or of a node
    are made.
    `instead` are elements that replace those of inputs or initializers, by full name, flat (None is an unknown
    number), or an
    `OtherShape`. With `filled`, inputs are assumed to be non-empty. `opaque` are the file's declared expressions of
    input dims
    that are treated as plain names.
    """

    assume: tuple[str | Cond, ...]
    bind: Mapping[str, int]
    broadcast: str
    rules: Rules
    rlimit: int = DEFAULT_RLIMIT
    untaken: frozenset[str] = frozenset()
    granted: bool = True
    semantics: Semantics = "onnxruntime"
    instead: Mapping[str, tuple[Elem, ...] | OtherShape] = MappingProxyType({})
    filled: bool = False
    opaque: frozenset[Dim] = frozenset()


def size_of(name: str, given: Any) -> int:
    """Check a size given for `name`: an integer of at least 0, of Python or numpy.

    Raises `ValueError` for everything else; nothing is rounded.
    """
    try:
        size = operator.index(given)
    except TypeError:
        raise ValueError(f"the size of {name} must be an integer, not {given!r}"[:200]) from None
    if size < 0 or isinstance(given, bool):
        raise ValueError(f"the size of {name} must be an integer >= 0, not {given!r}"[:200])
    if size >= 2**63:
        raise ValueError(f"the size of {name} must be below 2**63, not {given!r}"[:200])
    return size


def sizes_of(given: Mapping[str, Any]) -> dict[str, int]:
    """Check sizes given by name."""
    return {name: size_of(name, size) for name, size in given.items()}
