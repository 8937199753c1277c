"""Operators that work on each element, along some axes, or move axes about: how their axes hang together."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from ..expr import ONE, ZERO
from .provenance_notation import Along, Items, Label, Links, Unfollowed, Uniform, View, axes


def own(i: int, rank: int) -> list[Label]:
    return [(i, k) for k in range(rank)]


def plain(labels: Seq[Label]) -> list[Items]:
    return [[name] for name in labels]


# ---------------------------------------------------------------------- one element at a time


def elementwise(view: View) -> Links:
    """Multidirectional broadcast: axes are counted from the right."""
    ranks = [view.rank(i) if view.has(i) else 0 for i in range(view.n_in)]
    inputs = [[k - rank for k in range(rank)] for rank in ranks]
    outputs = [plain([k - max(ranks) for k in range(max(ranks))])] * len(view.node.outputs)
    return Links(inputs, outputs, broadcasts=True)


def first_only(view: View) -> Links:
    """The shape of the first input; the others are scalars that say how (bounds, ratios, types)."""
    rank = view.rank(0)
    labels = own(0, rank)
    others = [own(i, len(view.shapes[i] or ())) for i in range(1, view.n_in)]
    return Links([labels, *others], [plain(labels)] * len(view.node.outputs))


# ---------------------------------------------------------------------- along axes


def along(view: View, acted: Seq[int], outputs: int | None = None) -> Links:
    """The operator works along these axes of its first input and keeps them."""
    rank = view.rank(0)
    labels = own(0, rank)
    out: list[Items] = [[Along(labels[k]) if k in acted else labels[k]] for k in range(rank)]
    others = [own(i, len(view.shapes[i] or ())) for i in range(1, view.n_in)]
    count = len(view.node.outputs) if outputs is None else outputs
    return Links([labels, *others], [out] * count)


def softmax(view: View) -> Links:
    axis = view.axis(-1 if view.version >= 13 else 1)
    return along(view, [axis] if view.version >= 13 else range(axis, view.rank(0)))


def along_attribute(view: View) -> Links:
    return along(view, [view.axis(-1)])


def running(view: View) -> Links:
    found = view.ints(1)
    if found is None:
        raise Unfollowed
    return along(view, [found[0] % max(view.rank(0), 1)])


def triangle(view: View) -> Links:
    return along(view, range(view.rank(0) - 2, view.rank(0)))


def layer_norm(view: View) -> Links:
    return along(view, range(view.axis(-1), view.rank(0)))


def mean_variance(view: View) -> Links:
    return along(view, view.attr("axes", (0, 2, 3)))


def batch_norm(view: View) -> Links:
    if view.attr("training_mode", 0) or len([o for o in view.node.outputs if o]) > 1:
        return along(view, range(view.rank(0)))
    return axes("N C *S, C, C, C, C -> N C *S")(view)


def dropout(view: View) -> Links:
    training = view.version >= 12 and view.has(2)
    return along(view, range(view.rank(0)) if training else ())


def reduce(view: View) -> Links:
    rank = view.rank(0)
    try:
        gone = view.axes(1, default=None)
    except Unfollowed:
        if view.has(1):
            raise
        gone = []
    if not gone:
        gone = [] if view.attr("noop_with_empty_axes", 0) else list(range(rank))
    return _reduced(view, gone)


def _reduced(view: View, gone: Seq[int]) -> Links:
    labels = own(0, view.rank(0))
    keep = view.attr("keepdims", 1)
    out = [[] if k in gone else [name] for k, name in enumerate(labels) if keep or k not in gone]
    return Links([labels, *[None] * (view.n_in - 1)], [out])


def arg(view: View) -> Links:
    return _reduced(view, [view.axis(0)])


def top_k(view: View) -> Links:
    labels = own(0, view.rank(0))
    axis = view.axis(-1)
    out: list[Items] = [[("new", k) if k == axis else name] for k, name in enumerate(labels)]
    return Links([labels, *[None] * (view.n_in - 1)], [out, out])


def quantize(view: View) -> Links:
    rank = view.rank(0)
    labels = own(0, rank)
    per = []
    for i in range(1, view.n_in):
        scale = len(view.shapes[i] or ())
        if scale == 1 and rank and view.shape(i)[0] is not ONE:
            per.append([labels[view.axis(1)]])
        else:
            per.append(own(i, scale))
    return Links([labels, *per], [plain(labels)])


# ---------------------------------------------------------------------- moving axes


def transpose(view: View) -> Links:
    labels = own(0, view.rank(0))
    order = view.attr("perm", tuple(reversed(range(len(labels)))))
    return Links([labels], [[[labels[k]] for k in order]])


def regroup(view: View) -> Links:
    return Links([own(0, view.rank(0)), *[None] * (view.n_in - 1)], [None], regroups=True)


def expand(view: View) -> Links:
    shape, made = view.shape(0), view.out()
    labels = own(0, len(shape))
    before = len(made) - len(shape)
    out: list[Items] = []
    for k, size in enumerate(made):
        kept = k >= before and shape[k - before] is size
        out.append([labels[k - before]] if kept else [Uniform(size)])
    if any(k >= before and shape[k - before] not in (size, ONE) for k, size in enumerate(made)):
        raise Unfollowed
    return Links([labels, None], [out])


def filled(view: View) -> Links:
    return Links([None], [[[Uniform(size)] for size in view.out()]])


def tile(view: View) -> Links:
    repeats = view.dims(1)
    labels = own(0, view.rank(0))
    if repeats is None or len(repeats) != len(labels):
        raise Unfollowed
    return Links([labels, None], [[[Uniform(r), name] for r, name in zip(repeats, labels, strict=True)]])


def concat(view: View) -> Links:
    rank = view.rank(0)
    axis = view.axis(0, rank)
    inputs = [[("cut", i) if k == axis else k for k in range(rank)] for i in range(view.n_in)]
    only = len([1 for i in range(view.n_in) if view.has(i) and view.shape(i)[axis] is not ZERO]) == 1
    joined: Label = ("cut", 0) if only and view.n_in == 1 else "joined"
    return Links(inputs, [[[joined if k == axis else k] for k in range(rank)]])


def split(view: View) -> Links:
    labels = own(0, view.rank(0))
    axis = view.axis(0)
    out = [
        [[("part", i) if k == axis else name] for k, name in enumerate(labels)]
        for i in range(len(view.node.outputs))
    ]
    return Links([labels, None], out)


def cut(view: View) -> Links:
    """Slice: an axis whose size stays, without steps backward, is left alone."""
    shape, made = view.shape(0), view.out()
    steps: Seq[int] | None = () if view.version < 10 or not view.has(4) else view.ints(4)
    axes = view.ints(3) if steps and view.has(3) else range(len(steps or ()))
    if steps is None or axes is None:
        raise Unfollowed
    backward = {axis % len(shape) for axis, step in zip(axes, steps, strict=True) if step < 0}
    return _resized(
        view, [a is b and k not in backward for k, (a, b) in enumerate(zip(shape, made, strict=True))]
    )


def _resized(view: View, same: Seq[bool]) -> Links:
    labels = own(0, view.rank(0))
    out: list[Items] = [
        [name if keep else ("new", k)] for k, (name, keep) in enumerate(zip(labels, same, strict=True))
    ]
    return Links([labels, *[None] * (view.n_in - 1)], [out])


def pad(view: View) -> Links:
    rank = view.rank(0)
    amounts = view.attr("pads", view.attr("paddings"))
    if view.version >= 11:
        amounts = view.dims(1)
    if amounts is None:
        raise Unfollowed
    named = [a % rank for a in (view.ints(3) or ())] if view.has(3) else list(range(rank))
    if view.has(3) and view.ints(3) is None:
        raise Unfollowed
    before = dict(zip(named, amounts, strict=False))
    after = dict(zip(named, amounts[len(named) :], strict=False))
    kept = [all(at.get(k, 0) in (0, ZERO) for at in (before, after)) for k in range(rank)]
    return _resized(view, kept)


def resize(view: View) -> Links:
    if view.attr("coordinate_transformation_mode", b"") in ("tf_crop_and_resize", b"tf_crop_and_resize"):
        raise Unfollowed
    return _resized(view, [a is b for a, b in zip(view.shape(0), view.out(), strict=True)])
