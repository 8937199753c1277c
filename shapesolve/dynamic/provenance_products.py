"""Products, picking by index, recurrent layers and attention: how their axes hang together."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from ..expr import ONE, Dim
from .provenance_layouts import along, own, plain
from .provenance_notation import Items, Label, Links, Unfollowed, View, axes

# ---------------------------------------------------------------------- products


def matmul(view: View) -> Links:
    a, b = view.rank(0), view.rank(1)
    rest = [own(i, len(view.shapes[i] or ())) for i in range(2, view.n_in)]
    left: list[Label] = ["k"] if a == 1 else [*range(-a + 2, 0), "M", "k"]
    right: list[Label] = ["k"] if b == 1 else [*range(-b + 2, 0), "k", "N"]
    outer = max(a, b, 2) - 2
    out: list[Label] = [*range(-outer, 0), *(["M"] if a > 1 else []), *(["N"] if b > 1 else [])]
    return Links([left, right, *rest], [plain(out)], broadcasts=True)


def qlinear_matmul(view: View) -> Links:
    return matmul_of(view, 0, 3)


def matmul_of(view: View, a: int, b: int) -> Links:
    """A product of inputs `a` and `b` among others that are scales and zero points."""
    ranks = view.rank(a), view.rank(b)
    if min(ranks) < 2:
        raise Unfollowed
    inputs: list[Seq[Label]] = [own(i, len(view.shapes[i] or ())) for i in range(view.n_in)]
    inputs[a] = [*range(-ranks[0] + 2, 0), "M", "k"]
    inputs[b] = [*range(-ranks[1] + 2, 0), "k", "N"]
    out: list[Label] = [*range(-max(ranks) + 2, 0), "M", "N"]
    return Links(inputs, [plain(out)], broadcasts=True)


def gemm(view: View) -> Links:
    left: list[Label] = ["k", "M"] if view.attr("transA", 0) else ["M", "k"]
    right: list[Label] = ["N", "k"] if view.attr("transB", 0) else ["k", "N"]
    bias: list[Label] = []
    if view.has(2):
        rank = view.rank(2)
        tall = rank == 2 and view.shape(2)[0] is not ONE
        bias = [*(["M" if tall else "one"] if rank == 2 else []), *(["N"] if rank else [])]
    return Links([left, right, bias][: view.n_in], [[["M"], ["N"]]])


def einsum(view: View) -> Links:
    text = view.attr("equation", "")
    if not isinstance(text, str):
        raise Unfollowed
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    inputs = []
    most = 0
    for i, term in enumerate(terms):
        spare = view.rank(i) - len(term.replace("...", ""))
        if spare < 0 or (spare and "..." not in term):
            raise Unfollowed
        most = max(most, spare)
        before, _, after = term.partition("...")
        inputs.append([*before, *(("...", n - spare) for n in range(spare)), *after])
    if not arrow:
        letters = [c for c in sorted(set(left)) if c.isalpha() and left.count(c) == 1]
        right = "..." * ("..." in left) + "".join(letters)
    before, dots, after = right.partition("...")
    out: list[Label] = [*before, *((("...", n - most) for n in range(most)) if dots else ()), *after]
    return Links(inputs, [plain(out)], broadcasts=True)


# ---------------------------------------------------------------------- picking


def gather(view: View) -> Links:
    data, indices = own(0, view.rank(0)), own(1, view.rank(1))
    axis = view.axis(0)
    return Links([data, indices], [plain([*data[:axis], *indices, *data[axis + 1 :]])])


def gather_elements(view: View) -> Links:
    rank = view.rank(0)
    axis = view.axis(0)
    data: list[Label] = ["picked" if k == axis else k for k in range(rank)]
    return Links([data, list(range(rank))], [plain(list(range(rank)))])


def gather_nd(view: View) -> Links:
    batch = int(view.attr("batch_dims", 0))
    length = view.shape(1)[-1].value
    if length is None:
        raise Unfollowed
    data: list[Label] = [k if k < batch else ("data", k) for k in range(view.rank(0))]
    indices: list[Label] = [k if k < batch else ("index", k) for k in range(view.rank(1))]
    return Links([data, indices], [plain([*indices[:-1], *data[batch + length :]])])


def scatter_elements(view: View) -> Links:
    rank = view.rank(0)
    axis = view.axis(0)
    labels: list[Label] = ["place" if k == axis else k for k in range(rank)]
    out: list[Label] = ["new" if k == axis else k for k in range(rank)]
    index: list[Label] = ["from" if k == axis else k for k in range(rank)]
    return Links([labels, index, index], [plain(out)])


def scatter_nd(view: View) -> Links:
    length = view.shape(1)[-1].value
    if length is None:
        raise Unfollowed
    rank, wide = view.rank(0), view.rank(1) - 1
    data: list[Label] = [("place" if k < length else "kept", k) for k in range(rank)]
    index: list[Label] = [("from", k) for k in range(wide)]
    out: list[Label] = [("new" if k < length else "kept", k) for k in range(rank)]
    return Links([data, [*index, "which"], [*index, *data[length:]]], [plain(out)])


def compress(view: View) -> Links:
    if view.attr("axis") is None:
        raise Unfollowed
    return along(view, [view.axis(0)])


def one_hot(view: View) -> Links:
    labels = own(0, view.rank(0))
    axis = int(view.attr("axis", -1))
    axis = axis + len(labels) + 1 if axis < 0 else axis
    return Links([labels, None, own(2, 1)], [plain([*labels[:axis], "class", *labels[axis:]])])


def reverse_sequence(view: View) -> Links:
    labels = own(0, view.rank(0))
    batch, time = int(view.attr("batch_axis", 1)), int(view.attr("time_axis", 0))
    out: list[Items] = [[("new", k) if k == time else name] for k, name in enumerate(labels)]
    return Links([labels, [labels[batch]]], [out])


# ---------------------------------------------------------------------- recurrent, attention, signals


def recurrent(view: View) -> Links:
    if view.attr("layout", 0):
        made = "B t i, d g i, d g h, d b, B, B d h, B d h, d p -> B T d H, B d H, B d H"
    else:
        made = "t B i, d g i, d g h, d b, B, d B h, d B h, d p -> T d B H, d B H, d B H"
    return axes(made)(view)


def batched(made: Seq[Dim] | None, at: int = 0) -> list[Items] | None:
    """Axes of which one is the batch, and nothing is said of the others."""
    return None if made is None else [["B"] if k == at else [("new", k)] for k in range(len(made))]


def attention(view: View) -> Links:
    """Queries go along one axis, keys and values along another; a mask has both, unless one row stands for all."""
    with_past = view.has(4)
    inputs: list[Seq[Label] | None] = []
    for i in range(view.n_in):
        rank = view.rank(i) if view.has(i) else 0
        labels = own(i, rank)
        if i < 3 and rank > 2:
            labels[rank - 2 if rank > 3 else 1] = "queries" if i == 0 else "keys"
        if i == 3 and rank > 1:
            named: tuple[Label, Label] = ("queries", labels[-1] if with_past else "keys")
            for k in (-2, -1):
                if view.shape(3)[k] is not ONE:
                    labels[k] = named[k]
        inputs.append(["B", *labels[1:]] if rank > 2 and (i != 3 or rank == 4) else labels)
    outputs = [
        batched(made) if name else None for name, made in zip(view.node.outputs, view.made, strict=True)
    ]
    if view.has(3) and view.rank(3) == 4 and view.shape(3)[0] is ONE:
        inputs[3] = [(3, 0), *(inputs[3] or ())[1:]]
    if view.has(6):
        inputs[6] = ["B"]
    return Links(inputs, outputs)


def rotary(view: View) -> Links:
    caches = [own(i, view.rank(i)) for i in (1, 2)]
    if not view.has(3):
        caches = [["B", "s", *labels[2:]] for labels in caches]
    positions: list[list[Label]] = [["B", "s"]] if view.has(3) else []
    x: list[Label] = ["B", *own(0, view.rank(0))[1:]]
    x[-2] = "s"
    return Links([x, *caches, *positions], [batched(view.made[0])])


def fourier(view: View) -> Links:
    rank = view.rank(0)
    axis = int(view.attr("axis", 1))
    if view.version >= 20:
        found = view.ints(2) if view.has(2) else [-2]
        if found is None:
            raise Unfollowed
        axis = found[0]
    return along(view, [axis % rank, rank - 1])
