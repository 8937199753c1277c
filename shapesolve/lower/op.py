# compiled: see CONTRIBUTING.md
"""`Op`: a node with its known inputs, and what a rule can ask and state about it.

A rule reads attributes, shapes and known data, states what the node requires (`require`, `same`), and returns outputs
made by `out`. Nothing here knows about Z3; conditions are handed to the walk, which keeps them with their origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

from ..expr import (
    ONE,
    TRUE,
    Cond,
    Dim,
    IntoDim,
    Shape,
    always_fits,
    any_of,
    as_dim,
    broadcast,
    eq,
    ge,
    le,
)
from ..expr.limits import INT64_MAX, MAX_DIM_SIZE
from ..expr.traverse import outgrows
from ..model import Node
from .attributes import Attributes
from .attributes import InvalidNode as InvalidNode
from .attributes import MalformedNode as MalformedNode
from .interface import dtype_of, output_types
from .limits import MAX_BROADCAST, MAX_RANK, MAX_UNKNOWN
from .precision import tried
from .reason import BROADCAST
from .records import Place, Requirement
from .rule import Rule
from .scopes import Scopes
from .semantics import DIFFERENCES
from .types import Known, Sequence, Tensor
from .values import Value


class Op(Attributes):
    """A node with the known values of its inputs, as its rule sees it. Absent optional inputs count as not there."""

    __slots__ = (
        "ambiguous", "inputs", "n_out", "names", "node", "pure", "requirements",
        "rule", "version", "walk",
    )  # fmt: skip

    def __init__(
        self,
        walk: Scopes,
        node: Node,
        inputs: tuple[Known | None, ...],
        version: int,
        attrs: dict[str, Any] | None,
        rule: Rule | None = None,
    ) -> None:
        super().__init__(node.attributes, attrs)
        self.walk, self.node, self.inputs, self.version, self.rule = walk, node, inputs, version, rule
        self.names = node.inputs
        if None in inputs:  # an input of the function around it that its caller left out
            self.names = tuple(
                [n if k is not None else "" for n, k in zip(node.inputs, inputs, strict=False)]
            )
        self.n_out = len(node.outputs)
        self.requirements: list[Requirement] = []
        self.ambiguous: list[tuple[Dim, Dim, tuple[Place, ...]]] = []
        self.pure = True  # may the result be reused for an equal node?

    # ------------------------------------------------------------------ inputs

    @property
    def n_in(self) -> int:
        """Number of inputs listed (absent ones included)."""
        return len(self.inputs)

    def has(self, i: int) -> bool:
        """Return True if input `i` is connected."""
        return i < len(self.names) and self.names[i] != ""

    def wants(self, i: int) -> bool:
        """Return True if output `i` has a name."""
        return i < self.n_out and self.node.outputs[i] != ""

    def known(self, i: int) -> Known | None:
        """Return the known value of input `i` (tensor, sequence, optional, map), or None."""
        return self.inputs[i] if i < len(self.inputs) else None

    def tensor(self, i: int) -> Tensor | None:
        """Input `i` when it is a tensor."""
        known = self.inputs[i] if i < len(self.inputs) else None
        return known if type(known) is Tensor else None

    def sequence(self, i: int) -> Sequence | None:
        """Input `i` when it is a sequence."""
        known = self.known(i)
        return known if isinstance(known, Sequence) else None

    def shape(self, i: int, rank: int | None = None) -> Shape | None:
        """Return the shape of input `i`, None when its rank is unknown; with `rank`, the node requires that rank."""
        known = self.inputs[i] if i < len(self.inputs) else None
        shape = known.shape if type(known) is Tensor else None
        if rank is None:
            return shape
        if shape is None:
            return self._refine(i, rank) if self.has(i) else None
        if len(shape) != rank:
            found = f"got rank {len(shape)}: {shape}" if shape else "got a scalar"
            raise InvalidNode(f"input {self.name_of(i)} must have rank {rank}, {found}")
        return shape

    def sized(self, i: int, rank: int) -> Shape:
        """Return the shape of a needed input, which must have this rank."""
        shape = self.shape(i, rank)
        assert shape is not None
        return shape

    def _refine(self, i: int, rank: int) -> Shape | None:
        """Gives an input of unknown rank the rank that the node needs (backward inference)."""
        self.pure = False
        if self.too_deep(rank):
            return None
        shape = Shape(self.walk.fresh(f"dim {k} of {self.name_of(i)}") for k in range(rank))
        self.walk.refine(self.names[i], shape)
        if i < len(self.inputs):
            refined = self.walk.interner.tensor(self.dtype(i), shape, self.value(i))
            self.inputs = (*self.inputs[:i], refined, *self.inputs[i + 1 :])
        return shape

    def rank(self, i: int) -> int | None:
        """Return the rank of input `i`, or None."""
        shape = self.shape(i)
        return None if shape is None else len(shape)

    def dtype(self, i: int) -> int:
        """Element type of input `i`, 0 when unknown."""
        known = self.inputs[i] if i < len(self.inputs) else None
        return known.dtype if type(known) is Tensor else 0

    def value(self, i: int) -> Value | None:
        """Known data of input `i` (elements or bounds), or None."""
        known = self.inputs[i] if i < len(self.inputs) else None
        return known.value if type(known) is Tensor else None

    def ints(self, i: int) -> tuple[Dim, ...] | None:
        """Return the elements of an integer input of rank 0 or 1 as dims, with new symbols for unknown ones.

        Data-dependent elements get separate symbols, the same wherever that tensor is used. None if the number of
        elements is
        unknown.
        """
        t = self.tensor(i)
        if t is None:
            return None
        if t.value is not None and t.value.elems is not None:
            elems = t.value.elems
            if all(isinstance(e, Dim) for e in elems):
                return elems  # type: ignore[return-value]
            if any(e is not None and not isinstance(e, Dim) for e in elems):
                return None
        if t.shape is None or len(t.shape) > 1:
            return None
        n = t.shape.numel.value
        if n is None or n > MAX_UNKNOWN or t.dtype not in (0, 6, 7, 12, 13, 2, 3, 4, 5):
            return None
        self.pure = False
        return self.walk.unknown_values(self.names[i], t, n)

    def scalar(self, i: int) -> Dim | None:
        """Return the single element of an integer input, as a dim; None if its number of elements is unknown."""
        elems = self.ints(i)
        return elems[0] if elems is not None and len(elems) == 1 else None

    def const_ints(self, i: int) -> tuple[int, ...] | None:
        """Return the elements of an integer input if all are constant numbers, else None."""
        value = self.value(i)
        known = value.concrete if value is not None else None
        return None if known is None or not all(type(v) is int for v in known) else tuple(known)

    def name_of(self, i: int) -> str:
        """Return the name of input `i`, for messages."""
        return self.names[i] if i < len(self.names) and self.names[i] else f"#{i}"

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """`axis` made non-negative; the node is invalid when it is outside ``[-rank, rank - 1]``."""
        if not -rank <= axis < rank:
            raise InvalidNode(f"{what} {axis} is outside [-{rank}, {rank - 1}] for a tensor of rank {rank}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes made non-negative and checked to be distinct."""
        out = tuple(self.axis(a, rank) for a in axes)
        if len(set(out)) != len(out):
            raise InvalidNode(f"axes {list(out)} are not distinct")
        return out

    def as_onnxruntime(self, key: str) -> bool:
        """Return True if this analysis follows onnxruntime where it departs from the standard. `key` is an entry of
        `semantics.DIFFERENCES`.
        """
        assert key in DIFFERENCES, key
        return self.walk.request.semantics == "onnxruntime"

    def sizes_below(self, num: Dim) -> bool:
        """Assume that a size is in the range of known float roundings; False if not allowed."""
        cond = tried(num)
        if self.walk.facts.cond(cond).is_true:
            return True
        if self.walk.request.granted:
            self.pure = False
            why = "the product with a float rounds as that with a simple fraction"
            self.walk.define(cond, why, self.node, "assumption")
        return self.walk.request.granted

    # ------------------------------------------------------------------ requirements

    def require(self, cond: Cond, why: str, *places: Place) -> None:
        """Record a requirement: the node fails at run time unless `cond` holds."""
        if not cond.is_true:
            self.requirements.append((cond, why, places))

    def usual(self, cond: Cond) -> None:
        """Record a condition, neither required nor assumed, that typical inputs satisfy: a window within its input."""
        if cond.args and self.walk.scope.guard.is_true:
            self.walk.state.usual.setdefault(cond)

    def extends(self, size: Dim) -> None:
        """Record that the node appends to an axis of this size, a cache length that may be 0."""
        if size.name is not None:
            self.walk.state.caches.setdefault(size.name)

    def needed_rank(self, i: int = 0, among: Iterable[int] = ()) -> int | None:
        """Return the rank of output `i` that a later node needs; None if none does. Candidates `among` can be tried."""
        name, state = self.walk.scope.prefix + self.node.outputs[i] if self.wants(i) else "", self.walk.state
        state.possible_ranks[name] = tuple(sorted(set(among)))
        return len(state.hints[name]) if name in state.hints else None

    def counted(self, i: int, n: int, why: str) -> None:
        """Require that input `i`, a vector, has `n` elements."""
        shape = self.shape(i)
        if shape is not None and len(shape) == 1:
            self.require(eq(shape[0], n), why, (i, None))

    def same(self, a: IntoDim, b: IntoDim, why: str, *places: Place) -> Dim:
        """Require ``a == b``; returns the simpler of the two."""
        a, b = as_dim(a), as_dim(b)
        self.require(eq(a, b), why, *places)
        return a if not a.terms or (b.terms and a.size <= b.size) else b

    def same_shapes(self, indices: Iterable[int], why: str, skip: int | None = None) -> Shape | None:
        """Require equal shapes of these inputs (except on axis `skip`); returns the common shape."""
        out: list[Dim] | None = None
        first = 0
        for i in indices:
            shape = self.shape(i)
            if shape is None:
                continue
            if out is None:
                out, first = list(shape), i
                continue
            if len(shape) != len(out):
                raise InvalidNode(
                    f"{why}: {self.name_of(first)} has rank {len(out)}, {self.name_of(i)} rank {len(shape)}"
                )
            for k, d in enumerate(shape):
                if k != skip:
                    out[k] = self.same(out[k], d, why, (first, k), (i, k))
        return None if out is None else Shape(out)

    def broadcast(self, indices: Iterable[int] | None = None, skip_last: int = 0) -> Shape | None:
        """Return the multidirectional broadcast of inputs (all by default), without their last `skip_last` axes.

        https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md. Ambiguous pairs (equal or 1) are recorded.
        """
        found: list[tuple[int, Shape]] = []
        for i in indices if indices is not None else range(self.n_in):
            shape = self.shape(i)
            if shape is None:
                return None
            found.append((i, shape[: len(shape) - skip_last] if skip_last else shape))
        return self.broadcast_of(found)

    def broadcast_of(self, shapes: Seq[tuple[int, Shape]]) -> Shape:
        """Broadcast of shapes given with the input they come from."""
        if not shapes:
            return Shape()
        if len(shapes) == 2 and shapes[0][1] is shapes[1][1]:
            return shapes[0][1]
        rank = max([len(s) for _, s in shapes])
        out: list[Dim] = [ONE] * rank
        at: list[Place] = [(shapes[0][0], None)] * rank
        met: dict[int, set[Dim]] = {}  # by axis, the sizes that were compared
        for i, s in shapes:
            before = rank - len(s)
            for k, d in enumerate(s, before):
                if out[k] is ONE:
                    out[k], at[k] = d, (i, k - before)
                elif d is not ONE and d is not out[k]:
                    compared = met.setdefault(k, {out[k]})
                    if d in compared and len(shapes) > 2:
                        continue
                    compared.add(d)
                    if len(compared) <= MAX_BROADCAST:
                        out[k] = self.broadcast_pair(out[k], d, at[k], (i, k - before))
        for k, compared in met.items():
            if len(compared) > MAX_BROADCAST:
                out[k] = self._too_many(len(compared))
        return Shape(out)

    def _too_many(self, n: int) -> Dim:
        what = f"{n:,} sizes are broadcast on one axis: {MAX_BROADCAST} of them are compared"
        self.walk.note("open", what, self.node, self.walk.scope)
        return self.fresh("a broadcast of too many sizes")

    def broadcast_pair(self, a: Dim, b: Dim, *places: Place, why: str = BROADCAST) -> Dim:
        """Return the broadcast size of two dims; requires that they broadcast."""
        a1, b1 = eq(a, 1), eq(b, 1)
        if a1.is_true or b1.is_true or a is b:
            return b if a1.is_true else a
        if always_fits(a, b) or always_fits(b, a):
            return b if always_fits(a, b) else a
        same = eq(a, b)
        self.require(any_of((same, a1, b1)), why, *places)
        known = next((d for d in (a, b) if not d.terms), a)  # not 1: what fits a number gives that
        if not (a1.is_false and b1.is_false) and not same.is_false:
            self.ambiguous.append((a, b, places))
            if self.walk.take_equal(a, b, self.node):
                return known
        return known if a1.is_false or not known.terms else broadcast(a, b)

    def in_range(
        self, value: Value | None, size: Dim, indexed: Iterable[Dim], why: str, *places: Place
    ) -> None:
        """Require that all elements of an index tensor lie in ``[-size, size - 1]``. Not if a dim `indexed` is 0.

        Bounds that no element need reach require nothing.
        """
        if value is None or not value.reached:
            return
        lo, hi = value.bounds
        below = TRUE if hi is None else le(hi, size - 1)
        above = TRUE if lo is None else ge(lo, -size)
        if below.is_true and above.is_true:
            return
        empty = any_of([eq(d, 0) for d in indexed])
        self.require(any_of((below, empty)), why, *places)
        self.require(any_of((above, empty)), why, *places)

    # ------------------------------------------------------------------ outputs

    def fresh(self, what: str, lo: int = 0, hi: IntoDim | None = None) -> Dim:
        """Return a new symbol for a data-dependent size, at least `lo` and at most `hi`."""
        self.pure = False
        dim = self.walk.fresh(what)
        if lo:
            self.define(ge(dim, lo), what)
        if hi is not None:
            self.define(le(dim, hi), what)
        return dim

    def define(self, cond: Cond, why: str) -> None:
        """Record a definition: a condition that holds by construction."""
        self.pure = False
        self.walk.define(cond, why, self.node)

    def fresh_dims(self, rank: int, what: str) -> Shape:
        """Return a shape of new symbols, of a known small rank."""
        return Shape(self.fresh(what) for _ in range(rank))

    def fresh_shape(self, rank: int, what: str) -> Shape | None:
        """Return a shape of new symbols; None if the rank is too large."""
        return None if self.too_deep(rank) else self.fresh_dims(rank, what)

    def too_deep(self, rank: int) -> bool:
        """Return True if the rank is too large to be supported; a note reports it."""
        if rank <= MAX_RANK:
            return False
        self.pure = False
        what = f"a tensor of rank {rank:,}: ranks above {MAX_RANK} are not supported"
        self.walk.note("open", what, self.node, self.walk.scope)
        return True

    def out(
        self, shape: Shape | Iterable[Dim | int] | None, dtype: int = 0, value: Value | None = None
    ) -> Tensor:
        """Return a tensor for an output; a `dtype` of 0 is filled in from the operator's schema."""
        if shape is not None and type(shape) is not Shape:
            shape = Shape(shape)
        if shape is not None and len(shape) > MAX_RANK and self.too_deep(len(shape)):
            shape = None
        if shape is not None:
            for d in shape:
                if not d.terms and d.const > INT64_MAX:
                    raise InvalidNode(
                        f"an output would have the shape {shape}, but a size is at most 2**63 - 1"
                    )
                if outgrows(d, MAX_DIM_SIZE):
                    shape = Shape(self.named(d) for d in shape)
                    break
            if value is not None and value.shape is not None and len(value.shape) != len(shape):
                value = None
        if not dtype and self.n_out == 1:
            dtype = self.output_dtype(0)
        return self.walk.interner.tensor(dtype, shape, value)

    def output_dtype(self, i: int) -> int:
        """Return the element type of output `i` by the rule or the schema. It is 0 when neither gives one."""
        rule, node = self.rule, self.node
        if rule is not None and rule.types is not None:
            source = rule.types[min(i, len(rule.types) - 1)]
            if isinstance(source, str):
                return dtype_of(source)
            # An absent input's default has the type of the first input.
            return self.dtype(source if self.has(source) else 0)
        spec = output_types(node.domain, node.op_type, self.version)
        if not spec:
            return self.dtype(0) if rule is not None and rule.domain == "com.microsoft" else 0
        entry = spec[min(i, len(spec) - 1)]
        if isinstance(entry, int):
            return entry
        for j in entry:
            dtype = self.dtype(j)
            if dtype:
                return dtype
        return 0

    def named(self, d: Dim) -> Dim:
        """`d`, or a new symbol defined as `d` if the expression is too large."""
        if not outgrows(d, MAX_DIM_SIZE):
            return d
        state, key = self.walk.state, (d, self.walk.scope.guard)  # the definition holds under the guard
        name = state.named.get(key)
        if name is None:
            meaningless = sorted(state.poisoned & d.free)
            why = state.reasons.get(meaningless[0]) if meaningless else None
            name = state.named[key] = self.fresh(why or "a size whose formula is too long to follow")
            if meaningless:
                state.poisoned.update(name.free)
            self.define(eq(name, d), "names a large expression")
        return name

    def like(self, i: int = 0) -> Tensor:
        """Return a tensor with the shape of input `i`."""
        return self.out(self.shape(i))
