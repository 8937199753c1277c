"""Matrix products (MatMul, Gemm) and Einsum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from ..expr import ONE, Cond, Dim, Shape, all_of, any_of, eq, ge, product
from ..lower.axes import Axes, Label, Links, Unfollowed, own, plain, rank, sizes
from ..lower.op import InvalidNode, Op
from ..lower.reason import ADDED, BROADCAST, detailed
from ..lower.records import Place
from ..lower.registry import lower, signature
from ..lower.standard import standard_rank
from ..lower.types import Known
from ..lower.work import Operations, Outputs, Work, last_of, product_of

# ---------------------------------------------------------------------- products


def matmul_shape(op: Op, left: int = 0, right: int = 1) -> Shape | None:
    """Return the shape of the NumPy-style matrix product of two inputs; the inner sizes are required to agree."""
    a, b = op.shape(left), op.shape(right)
    for i, shape in ((left, a), (right, b)):
        if shape is not None and not shape:
            raise InvalidNode(f"a matrix product requires rank 1 or more, but {op.name_of(i)} is a scalar")
    if a is None or b is None:
        return None
    inner = max(len(b) - 2, 0)
    x, y = list(a), list(b)
    why = "inner sizes of a matrix product must be equal"
    op.require(eq(x[-1], y[inner]), why, (left, len(x) - 1), (right, inner))
    batch = op.broadcast_of([(left, a[:-2]), (right, b[:-2])])
    return Shape([*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ())])


def per_tensor(op: Op, *parameters: int) -> None:
    """Require that these quantization parameters have one element."""
    for i in parameters:
        shape = op.shape(i) if op.has(i) and op.as_onnxruntime("quantized-rows") else None
        if shape is not None and len(shape) > 1:
            raise InvalidNode(f"{op.name_of(i)} must be a scalar or have one element, got {shape}")
        if shape is not None and len(shape) == 1:
            op.require(eq(shape[0], 1), "quantization parameter must have one element", (i, 0))


def per_column(op: Op, parameter: int, matrix: int, what: str) -> None:
    """Require that a quantization parameter has one element, or one per column of a matrix."""
    shape = op.shape(parameter) if op.has(parameter) else None
    b = op.shape(matrix)
    if shape is None or b is None or not shape:
        return
    why = f"the {what} must have one element or one per column"
    if len(shape) == 1:  # one per column for a single matrix, not for a batch of them
        fits = any_of((eq(shape[0], 1), *(eq(shape[0], columns) for columns in b[1:2] if len(b) == 2)))
        op.require(fits, why, (parameter, 0), (matrix, len(b) - 1))
    elif len(shape) != len(b):
        raise InvalidNode(f"{why}, got {shape}")
    else:
        for k, (d, size) in enumerate(zip(shape, b, strict=True)):
            op.same(d, ONE if k == len(b) - 2 else size, why, (parameter, k), (matrix, k))


def product_axes(a: int = 0, b: int = 1, *, transposed: bool = False) -> Axes:
    """Make the axis rule of a product of inputs `a` and `b`; `transposed`: by attributes."""

    def axes(op: Op, _: Outputs) -> Links:
        ranks = rank(op, a), rank(op, b)
        left: list[Label] = ["k"] if ranks[0] == 1 else [*range(-ranks[0] + 2, 0), "M", "k"]
        right: list[Label] = ["k"] if ranks[1] == 1 else [*range(-ranks[1] + 2, 0), "k", "N"]
        for side, labels in (("A", left), ("B", right)):
            if transposed and op.attr(f"transBatch{side}", 0):
                raise Unfollowed
            if transposed and op.attr(f"trans{side}", 0):
                labels[-2:] = labels[:-3:-1]
        inputs = [{a: left, b: right}.get(i, own(op, i)) for i in range(op.n_in)]
        outer = max(*ranks, 2) - 2
        out: list[Label] = [
            *range(-outer, 0),
            *(["M"] if ranks[0] > 1 else []),
            *(["N"] if ranks[1] > 1 else []),
        ]
        return Links(inputs, [plain(out)], broadcasts=True)

    return axes


# https://onnx.ai/onnx/operators/onnx__MatMul.html
@lower(
    "MatMul",
    fault="cannot multiply these shapes",
    advice="product",
    work=product_of(last_of(0)),
    axes=product_axes(),
)
def matmul(op: Op) -> Known:
    return op.out(matmul_shape(op))


# https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
@lower(
    "MatMulInteger",
    fault="cannot multiply these shapes",
    advice="product",
    work=product_of(last_of(0)),
    axes=product_axes(),
)
def matmul_integer(op: Op) -> Known:
    per_tensor(op, 2)
    per_column(op, 3, 1, "zero point of the second matrix")
    return op.out(matmul_shape(op))


# https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
@lower(
    "QLinearMatMul",
    fault="cannot multiply these shapes",
    advice="product",
    work=product_of(last_of(0)),
    axes=product_axes(0, 3),
)
def qlinear_matmul(op: Op) -> Known:
    per_tensor(op, 1, 2, 6, 7)
    per_column(op, 4, 3, "scale of the second matrix")
    per_column(op, 5, 3, "zero point of the second matrix")
    return op.out(matmul_shape(op, 0, 3))


def gemm_shape(op: Op, *, expands: bool = True) -> Shape | None:
    """Return the shape of ``A B + C`` with the transposition flags; C expands to it (or has exactly that shape)."""
    a, b = _gemm_left(op), op.shape(1, 2)
    flip_a, flip_b = int(bool(op.int_attr("transA", 0))), int(bool(op.int_attr("transB", 0)))
    if b is None or (a is None and not op.has(0)):
        return None
    places = [(0, k if op.rank(0) == 2 else None if k == 0 else 0) for k in (0, 1)]
    if a is None:
        rows = op.fresh("rows of a product whose first operand may be a vector")
    else:
        rows = a[flip_a]
        why = "inner sizes of a matrix product must be equal"
        op.require(eq(a[1 - flip_a], b[flip_b]), why, places[1 - flip_a], (1, flip_b))
    out = Shape((rows, b[1 - flip_b]))
    at: tuple[Place, Place] = (places[flip_a], (1, 1 - flip_b))
    c = op.shape(2) if op.has(2) else None
    if c is None:
        return out
    if len(c) > 2 or (not expands and len(c) != 2):
        raise InvalidNode(f"{op.name_of(2)} of rank {len(c)} cannot be added to a matrix of shape {out}")
    for k, d in enumerate(c, 2 - len(c)):
        fits = any_of((eq(d, out[k]), eq(d, 1))) if expands else eq(d, out[k])
        op.require(fits, ADDED, (2, k - 2 + len(c)), at[k])
    return out


def _gemm_left(op: Op) -> Shape | None:
    """Return the shape of a Gemm's first operand, transposed if requested. onnxruntime treats a vector as one row.

    It rejects a vector that it can detect at load time. The result of a Squeeze without axes is then assumed to have
    the rank
    that was given.
    """
    a = op.shape(0)
    if (a is None or len(a) == 1) and op.as_onnxruntime("gemm-vector") and standard_rank(op, 0) in (None, 2):
        return a and Shape((ONE, *a))
    return op.shape(0, 2)


def gemm_inner(op: Op) -> Dim | None:
    """Return the inner size of a Gemm; None if the first operand's rank is unknown or no Gemm's."""
    a, flip = op.shape(0), bool(op.int_attr("transA", 0))
    return None if not a or len(a) > 2 else ONE if flip and len(a) == 1 else a[0 if flip else -1]


GEMM = product_of(gemm_inner, 2)


def gemm_axes(b: int = 1, bias: int = 2) -> Axes:
    """Make the axis rule of a Gemm: `b` and `bias` are the indices of those inputs."""

    def axes(op: Op, _: Outputs) -> Links:
        inputs: list[list[Label]] = [own(op, i) for i in range(op.n_in)]
        inputs[0] = ["k", "M"] if op.attr("transA", 0) else ["M", "k"]
        inputs[b] = ["N", "k"] if op.attr("transB", 0) else ["k", "N"]
        if op.has(bias) and inputs[bias]:
            tall = len(inputs[bias]) > 1 and sizes(op, bias)[0] is not ONE
            inputs[bias] = [*(["M"] if tall else inputs[bias][:-1]), "N"]
        return Links(inputs, [[["M"], ["N"]]])

    return axes


# https://onnx.ai/onnx/operators/onnx__Gemm.html
@lower("Gemm", since=1, fault="cannot multiply these shapes", advice="gemm", work=GEMM, axes=gemm_axes())
def gemm_1(op: Op) -> Known:
    return op.out(gemm_shape(op, expands=bool(op.int_attr("broadcast", 0))))


@lower("Gemm", since=7, fault="cannot multiply these shapes", advice="gemm", work=GEMM, axes=gemm_axes())
def gemm(op: Op) -> Known:
    return op.out(gemm_shape(op))


# https://onnx.ai/onnx/operators/onnx__Det.html
signature("Det", "*S M M -> *S", axes="=")

# ---------------------------------------------------------------------- Einsum

_ELLIPSIS = "..."
_TRANSPOSED = "onnxruntime cannot transpose this operand if these axes are empty"
#: a label, and which axis of its ellipsis
Axis = tuple[str, int]


class Equation(NamedTuple):
    """A parsed Einsum equation: labels per input and of the output; ``...`` is a group of dims."""

    terms: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


@lru_cache(maxsize=1024)
def parse_equation(text: str) -> Equation:
    """Parse an equation like ``"bij,bjk->bik"``; raises `InvalidNode`."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = tuple(_labels(term, text) for term in left.split(","))
    if arrow:
        output = _labels(right, text)
        known = {label for term in terms for label in term}
        if len(set(output)) != len(output) or not known.issuperset(output):
            raise InvalidNode(f"the result of {text!r} repeats a label or names one that no input has")
        if _ELLIPSIS in known and _ELLIPSIS not in output:
            raise InvalidNode(f"the result of the equation {text!r} leaves out the ellipsis of its inputs")
        return Equation(terms, output)
    count = Counter(label for term in terms for label in term)
    single = sorted(label for label, n in count.items() if n == 1 and label != _ELLIPSIS)
    return Equation(terms, (*((_ELLIPSIS,) if _ELLIPSIS in count else ()), *single))


def _labels(term: str, text: str) -> tuple[str, ...]:
    before, dots, after = term.partition(_ELLIPSIS)
    letters = before + after
    if letters and not (letters.isascii() and letters.isalpha()):
        raise InvalidNode(f"the equation {text!r} cannot be read")
    return (*before, *((_ELLIPSIS,) if dots else ()), *after)


class _Labels:
    """Sizes of the labels of one Einsum node; sizes with one label are broadcast."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.sizes: dict[str, Dim] = {}
        self.at: dict[str, Place] = {}
        self.groups: list[tuple[int, int, Shape]] = []

    def bind(self, label: str, dim: Dim, place: Place) -> None:
        """Gives a label the size `dim`, broadcast with its size so far."""
        known = self.sizes.get(label)
        if known is None:
            self.sizes[label], self.at[label] = dim, place
        elif known is not dim:
            rule = f"sizes of letter {label} must be equal, or one of them 1" if len(label) == 1 else ""
            why = detailed(BROADCAST, rule)
            self.sizes[label] = self.op.broadcast_pair(known, dim, self.at[label], place, why=why)

    def term(self, i: int, labels: tuple[str, ...], shape: Shape) -> None:
        """Bind the labels of input `i`."""
        extra = len(shape) - sum(label != _ELLIPSIS for label in labels)
        if extra < 0 or (extra and _ELLIPSIS not in labels):
            raise InvalidNode(f"{self.op.name_of(i)} {shape} does not have the equation's rank")
        seen: dict[str, int] = {}
        axis = 0
        for label in labels:
            if label == _ELLIPSIS:
                self.groups.append((i, axis, shape[axis : axis + extra]))
                axis += extra
                continue
            if label in seen:
                first = seen[label]
                self.op.require(
                    eq(shape[first], shape[axis]), "a diagonal needs one size", (i, first), (i, axis)
                )
            else:
                seen[label] = axis
                self.bind(label, shape[axis], (i, axis))
            axis += 1

    def ellipsis(self) -> tuple[Dim, ...]:
        """Return the dims covered by the ellipsis."""
        ranks = {len(dims) for _, _, dims in self.groups}
        if len(ranks) > 1:
            raise InvalidNode("the ellipsis must match the same number of dims in every input")
        for i, axis, dims in self.groups:
            for k, d in enumerate(dims):
                self.bind(f"...{k}", d, (i, axis + k))
        return tuple(self.sizes[f"...{k}"] for k in range(next(iter(ranks), 0)))


def _order(terms: Iterable[Seq[Axis]]) -> dict[Axis, int]:
    """Position of each label in onnxruntime's order: ellipsis first, then in order of appearance."""
    met = dict.fromkeys(axis for term in terms for axis in term)
    return {axis: i for i, axis in enumerate(sorted(met, key=lambda axis: axis[0] != _ELLIPSIS))}


def _axes(term: Seq[str], rank: int) -> list[Axis]:
    """Return the label of each axis of an input; axes of an ellipsis are numbered."""
    extra = rank - len(term) + 1
    return [(x, k) for x in term for k in (range(extra) if x == _ELLIPSIS else (0,))]


def _transposes(op: Op, terms: Seq[Seq[str]], shapes: Seq[Shape]) -> None:
    """Require that onnxruntime can transpose each operand into its axis order.

    Nothing is required if only axes of size 1 move. A term with a repeated label is not modeled.
    """
    labels = [_axes(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    order = _order(labels)
    for i, (axes, shape) in enumerate(zip(labels, shapes, strict=True)):
        places = [order[axis] for axis in axes]
        if len(set(places)) < len(places) or places == sorted(places):
            continue
        passing = [(p, q) for p, q in combinations(range(len(places)), 2) if places[p] > places[q]]
        still = all_of(any_of((eq(shape[p], 1), eq(shape[q], 1))) for p, q in passing)
        op.require(any_of((_transposable(places, shape), still)), _TRANSPOSED, (i, None))


def _transposable(places: list[int], shape: Shape) -> Cond:
    """Return the condition under which onnxruntime's kernels can transpose a tensor into ascending `places`.

    If two adjacent blocks of axes swap, and one of them is a single axis or both are last, onnxruntime moves one
    block and
    divides by its size and by the sizes before and after both. Other permutations fail only if the trailing fixed
    axes are empty.
    """
    wanted = sorted(places)
    changed = [i for i, (a, b) in enumerate(zip(places, wanted, strict=True)) if a != b]
    start, end = changed[0], changed[-1] + 1
    middle = places.index(wanted[start])
    behind = all_of(ge(d, 1) for d in shape[end:])
    swapped = places[middle:end] + places[start:middle] == wanted[start:end]
    if not swapped or (middle - start > 1 and end - middle > 1 and end < len(places)):
        return any_of((behind, *(eq(d, 0) for d in shape[:end])))
    inwards = middle - start == 1 < end - middle
    moved = shape[start:middle] if inwards else shape[middle:end]
    return all_of((behind, *(ge(d, 1) for d in (*shape[:start], *moved))))


def _einsum_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the operations of an Einsum that multiplies all operands at each choice of the labels, and sums.

    Each operand after the first costs a multiplication and an addition there; one alone is only summed.
    """
    sizes: dict[tuple[str, int], Dim] = {}
    for i, term in enumerate(parse_equation(op.text_attr("equation", "")).terms):
        shape = op.shape(i)
        if shape is None:
            return None
        for label, d in zip(_axes(term, len(shape)), shape, strict=True):
            if sizes.get(label, ONE) is ONE:
                sizes[label] = d
    cells = product(sizes.values())
    return Operations(cells.scale(op.n_in - 1)) if op.n_in > 1 else Operations(other=cells)


def _einsum_axes(op: Op, _: Outputs) -> Links:
    equation = parse_equation(op.text_attr("equation", ""))
    inputs = [_axes(term, rank(op, i)) for i, term in enumerate(equation.terms)]
    wide = max(sum(label == _ELLIPSIS for label, _ in labels) for labels in inputs)
    output = _axes(equation.output, len(equation.output) + wide - (_ELLIPSIS in equation.output))
    return Links(inputs, [plain(output)], broadcasts=True)


# https://onnx.ai/onnx/operators/onnx__Einsum.html
@lower(
    "Einsum",
    fault="cannot combine these shapes",
    runtime=("never empty",),
    work=Work(_einsum_work),
    axes=_einsum_axes,
)
def einsum(op: Op) -> Known:
    equation = parse_equation(op.text_attr("equation", ""))
    if len(equation.terms) != op.n_in:
        raise InvalidNode(f"the equation has {len(equation.terms)} terms for {op.n_in} inputs")
    labels, shapes = _Labels(op), list[Shape]()
    for i, term in enumerate(equation.terms):
        shape = op.shape(i) if _ELLIPSIS in term else op.shape(i, len(term))
        if shape is not None:
            labels.term(i, term, shape)
            shapes.append(shape)
    if len(shapes) < op.n_in:
        return op.out(None)
    group = labels.ellipsis()
    if op.as_onnxruntime("einsum-empty"):
        _transposes(op, equation.terms, shapes)
    dims: list[Dim] = []
    for label in equation.output:
        dims += group if label == _ELLIPSIS else (labels.sizes[label],)
    return op.out(dims)
