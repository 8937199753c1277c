"""Rules of `simplify` that remove or merge Transpose, Expand, Slice, Pad and Concat nodes.

Stores parameters that need no computation.
"""

from __future__ import annotations

from ...expr import ONE
from ...expr.limits import INT64_MAX
from .knowledge import Dims
from .site import At, Become, Change, Use, same


def same_layout(site: At) -> Change | None:
    """Drops a node whose output has the shape of its first input."""
    return Use(site.input(0)) if same(site.shape(0), site.out) else None


# ---------------------------------------------------------------------- Transpose


def _permutation(site: At) -> tuple[int, ...] | None:
    shape = site.shape(0)
    perm = site.node.attribute("perm")
    if perm is None:
        return None if shape is None else tuple(reversed(range(len(shape))))
    ok = isinstance(perm, tuple) and sorted(perm) == [*range(len(perm))]
    return perm if ok else None


def transposes_nothing(site: At) -> Change | None:
    """Drops a Transpose that keeps the order of axes."""
    perm = _permutation(site)
    return Use(site.input(0)) if perm is not None and perm == tuple(range(len(perm))) else None


def transpose_of_transpose(site: At) -> Change | None:
    """Merges two consecutive Transposes."""
    inner = site.producer(0, "Transpose")
    first = None if inner is None else _permutation(inner)
    second = _permutation(site)
    if inner is None or first is None or second is None or len(first) != len(second):
        return None
    both = tuple([first[axis] for axis in second])
    if both == tuple(range(len(both))):
        return Use(inner.input(0))
    return Become("Transpose", (inner.input(0),), {"perm": both})


# ---------------------------------------------------------------------- Expand


def expand_of_expand(site: At) -> Change | None:
    """Merges two consecutive Expands: the second one's target alone, if it equals the output shape."""
    inner = site.producer(0, "Expand")
    target = site.known.sizes(site.input(1))
    return Become("Expand", (inner.input(0), site.input(1))) if inner and same(target, site.out) else None


def expand_before_broadcast(site: At) -> Change | None:
    """Skips an Expand before an operator that broadcasts the operand to the same shape itself."""
    if site.opset < 7 or site.out is None:  # numpy broadcasting starts at opset 7
        return None
    names = list(site.node.inputs)
    for i in range(len(names)):
        inner = site.producer(i, "Expand")
        if inner is None or inner.shape(0) is None:
            continue
        others = [site.known.shape(name) for k, name in enumerate(names) if k != i]
        if all(shape is not None for shape in others) and _reaches([inner.shape(0), *others], site.out):
            names[i] = inner.input(0)
            return Become(site.node.op_type, tuple(names))
    return None


def _reaches(shapes: list[Dims | None], out: Dims) -> bool:
    """True if each output size is a size of an operand, so that broadcasting gives the output shape."""
    return all(
        out[-k] is ONE or any(s is not None and k <= len(s) and s[-k] is out[-k] for s in shapes)
        for k in range(1, len(out) + 1)
    ) and max(len(s or ()) for s in shapes) == len(out)


# ---------------------------------------------------------------------- Slice


def _slice_axes(site: At) -> tuple[int, ...] | None:
    shape, starts = site.shape(0), site.known.sizes(site.input(1))
    if shape is None or starts is None or site.opset < 10:  # bounds as attributes
        return None
    axes = site.ints(3) if site.has(3) else tuple(range(len(starts)))
    if axes is None or len(axes) != len(starts) or not all(-len(shape) <= a < len(shape) for a in axes):
        return None
    found = tuple([a % len(shape) for a in axes])
    return found if len({*found}) == len(found) else None


def _steps_are_one(site: At) -> bool:
    return not site.has(4) or set(site.ints(4) or (0,)) == {1}


def slice_to_the_end(site: At) -> Change | None:
    """Replaces computed ends of a Slice by the largest integer where they equal the size of the axis."""
    axes, starts, ends = _slice_axes(site), site.ints(1), site.known.sizes(site.input(2))
    shape, out = site.shape(0), site.out
    if axes is None or starts is None or ends is None or site.ints(2) is not None or not _steps_are_one(site):
        return None
    if shape is None or out is None or len(ends) != len(axes) or site.known.dtype(site.input(2)) != 7:
        return None
    found = []
    for axis, start, end in zip(axes, starts, ends, strict=True):
        if not end.terms:
            found.append(end.const)
        elif end is shape[axis] or (start >= 0 and out[axis] is shape[axis] - start):
            found.append(INT64_MAX)
        else:
            return None
    name = site.store(found, f"{site.node.outputs[0]}_ends")
    return Become("Slice", (*site.node.inputs[:2], name, *site.node.inputs[3:]))


def slice_of_slice(site: At) -> Change | None:
    """Merges two consecutive Slices that cut different axes."""
    inner = site.producer(0, "Slice")
    if inner is None or not site.read_once(0):
        return None
    parts = []
    for at in (inner, site):
        axes, starts, ends = _slice_axes(at), at.ints(1), at.ints(2)
        steps = at.ints(4) if at.has(4) else (1,) * len(axes or ())
        if axes is None or starts is None or ends is None or steps is None:
            return None
        if not len(axes) == len(starts) == len(ends) == len(steps) or at.known.dtype(at.input(1)) != 7:
            return None
        parts.append((starts, ends, axes, steps))
    if {*parts[0][2]} & {*parts[1][2]}:
        return None
    hint = site.node.outputs[0]
    names = [
        site.store((*a, *b), f"{hint}_{what}")
        for what, a, b in zip(("starts", "ends", "axes", "steps"), *parts, strict=True)
    ]
    return Become("Slice", (inner.input(0), *names))


# ---------------------------------------------------------------------- Pad, Concat


def pad_of_pad(site: At) -> Change | None:
    """Merges two consecutive Pads with the same constant."""
    inner = site.producer(0, "Pad")
    if inner is None or site.opset < 11 or not site.read_once(0):  # pads as attributes
        return None
    modes = [at.node.attribute("mode", "constant") for at in (inner, site)]
    pads = [at.ints(1) for at in (inner, site)]
    if modes != ["constant", "constant"] or any(at.has(3) for at in (inner, site)):
        return None
    first, second = pads
    if first is None or second is None or len(first) != len(second) or min((*first, *second), default=0) < 0:
        return None
    if inner.input(2) != site.input(2):
        return None
    total = [a + b for a, b in zip(first, second, strict=True)]
    name = site.store(total, f"{site.node.outputs[0]}_pads")
    return Become("Pad", (inner.input(0), name, *site.node.inputs[2:]))


def concat_of_empty(site: At) -> Change | None:
    """Drops empty inputs of a Concat."""
    axis, names = site.node.attribute("axis"), site.node.inputs
    if not isinstance(axis, int):
        return None
    kept = []
    for i, name in enumerate(names):
        shape = site.shape(i)
        empty = shape is not None and -len(shape) <= axis < len(shape) and shape[axis] == 0
        if not empty:
            kept.append(name)
    if len(kept) == 1:
        return Use(kept[0])
    return Become("Concat", tuple(kept)) if 1 < len(kept) < len(names) else None


def concat_of_concat(site: At) -> Change | None:
    """Merges a Concat into one along the same axis that reads it."""
    axis, out = site.node.attribute("axis"), site.out
    if out is None or not isinstance(axis, int):
        return None
    names: list[str] = []
    for i, name in enumerate(site.node.inputs):
        inner = site.producer(i, "Concat")
        own = None if inner is None else inner.node.attribute("axis")
        if (
            inner is not None
            and isinstance(own, int)
            and own % len(out) == axis % len(out)
            and site.read_once(i)
        ):
            names += inner.node.inputs
        else:
            names.append(name)
    return Become("Concat", tuple(names)) if len(names) > len(site.node.inputs) else None
