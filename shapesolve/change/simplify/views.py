"""Rules of `simplify` for Reshape, Flatten, Squeeze and Unsqueeze, which keep the order of elements."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import ONE
from ...lower.limits import MAX_DERIVED
from .knowledge import Dims
from .site import At, Become, Change, Use, same

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def undone(site: At) -> Change | None:
    """Drops a chain of Reshapes and the like whose last shape equals its first."""
    for name, shape in [(site.input(0), site.shape(0)), *_roots(site)]:
        if same(shape, site.out):
            return Use(name)
    return None


def chain(site: At) -> Change | None:
    """Merges a chain of Reshapes and the like into one Reshape."""
    if site.opset < 5 or not site.read_once(0):  # the target as an attribute
        return None
    best = None
    for name, shape in _roots(site):
        target = reshape_target(site, shape, site.out)
        if target is not None:
            best = name, target
    if best is None:
        return None
    return _reshape(site, *best)


def constant_target(site: At) -> Change | None:
    """Replaces the computed target of a Reshape by a constant one of numbers, 0 and -1."""
    if site.opset < 5 or site.ints(1) is not None:
        return None
    target = reshape_target(site, site.shape(0), site.out)
    return None if target is None else _reshape(site, site.input(0), target)


def reshape_target(site: At, given: Dims | None, wanted: Dims | None) -> list[int] | None:
    """Reshape target from shape `given` to `wanted`. It has numbers, 0 for the size of that axis, -1 for the rest."""
    if given is None or wanted is None:
        return None
    entries = target_entries(given, wanted)
    if entries is None:
        return None
    left = [i for i, e in enumerate(entries) if e is None]
    if len(left) > 1:
        return None
    if left and not all(site.known.at_least_one(wanted[i]) for i in range(len(wanted)) if i != left[0]):
        return None
    return [-1 if e is None else e for e in entries]


def target_entries(given: Dims, wanted: Dims) -> list[int | None] | None:
    """Return the target entry per axis: the number, 0 to copy the size of `given`, or None. Return None if a 0 is ambiguous."""
    entries: list[int | None] = []
    for i, d in enumerate(wanted):
        copied = i < len(given) and given[i] is d
        if not d.terms and (d.const > 0 or not copied):
            if d.const < 1:
                return None
            entries.append(d.const)
        else:
            entries.append(0 if copied else None)
    return entries


def _reshape(site: At, name: str, target: list[int]) -> Change:
    return Become("Reshape", (name, site.store(target, f"{site.node.outputs[0]}_shape")), {"allowzero": None})


def _roots(site: At) -> Iterator[tuple[str, Dims | None]]:
    """Tensors from which reshapes and the like make the node's input, nearest first, with their shapes."""
    at: At | None = site
    for _ in range(MAX_DERIVED):
        assert at is not None
        at = at.producer(0, *_VIEWS)
        if at is None or (at.node.op_type == "Transpose" and not _keeps_order(at)):
            return
        yield at.input(0), at.shape(0)


def _keeps_order(site: At) -> bool:
    """True if a Transpose moves only axes of size 1."""
    shape = site.shape(0)
    if shape is None:
        return False
    perm = site.node.attribute("perm", tuple(reversed(range(len(shape)))))
    if not isinstance(perm, tuple) or sorted(perm) != [*range(len(shape))]:
        return False
    large = [axis for axis in perm if shape[axis] is not ONE]
    return large == sorted(large)
