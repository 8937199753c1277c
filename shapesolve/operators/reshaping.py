# compiled: see CONTRIBUTING.md
"""Reshape: the output shape from target entries, where 0 copies a size and -1 is inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from itertools import product as cases_of
from math import gcd, prod
from typing import NamedTuple

from ..expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    constant,
    divides,
    eq,
    exact_quotient,
    floor_div,
    ge,
    implies,
    ite,
    le,
    maximum,
    ne,
    of_atom,
    product,
)
from ..lower.axes import regroup
from ..lower.needed import const_dims, rank_made
from ..lower.op import InvalidNode, Op
from ..lower.reads import TARGET
from ..lower.reason import ELEMENTS, EMPTY_RESHAPE
from ..lower.registry import lower
from ..lower.types import Known
from ..lower.work import VIEW
from .layout import held, same_elements
from .limits import MAX_CASES

# ---------------------------------------------------------------------- Reshape
# https://onnx.ai/onnx/operators/onnx__Reshape.html


class Outcome(NamedTuple):
    """Result of a Reshape: dims, the condition on them, and the condition under which they are known."""

    dims: list[Dim]
    needs: Cond
    followed: Cond = TRUE


@lower(
    "Reshape",
    until=5,
    passes=(0,),
    values=True,
    fault="cannot give its input this shape",
    advice="target",
    work=VIEW,
    axes=regroup,
)
def reshape_by_attribute(op: Op) -> Known:
    return reshaped(op, const_dims(op.ints_attr("shape") or ()))


@lower(
    "Reshape",
    since=5,
    passes=(0,),
    reads={1: TARGET},
    values=True,
    data=(1,),
    vectors=(1,),
    fault="cannot give its input this shape",
    advice="target",
    work=VIEW,
    axes=regroup,
)
def reshape(op: Op) -> Known:
    target = op.ints(1)
    if target is not None:
        return reshaped(op, target)
    length = op.shape(1, 1)
    rank = rank_made(op, length[0], (1, None)) if length is not None else None
    value = op.value(0)
    return op.out(
        None if rank is None else op.fresh_shape(rank, "a run-time target"), value=value and value.loose
    )


def reshaped(op: Op, target: Seq[Dim]) -> Known:
    """Return the input reshaped to `target`."""
    if sum(t.value == -1 for t in target) > 1 or any(t.value is not None and t.const < -1 for t in target):
        raise InvalidNode(f"target shape {Shape(target)} must have entries >= -1, and at most one -1")
    copies = not op.int_attr("allowzero", 0)
    x = op.shape(0)
    value = op.value(0)
    if op.too_deep(len(target)):
        return op.out(None, value=value and value.loose)
    if x is None:
        free = [_entry_alone(op, t, copies) for t in target]
        return op.out(free, value=value and value.loose)
    entries = [_entry(op, x, i, t, copies) for i, t in enumerate(target)]
    dims, needs, followed = _settle(op, x, target, entries, copies)
    op.require(needs, ELEMENTS, (0, None), (1, None))
    op.require(followed, EMPTY_RESHAPE, (0, None), (1, None))
    return op.out(dims, value=same_elements(value, x, dims))


def _entry_alone(op: Op, t: Dim, copies: bool) -> Dim:
    """Return the size for a target entry if the input's shape is unknown."""
    return t if held(op, ge(t, 1 if copies else 0)) else op.fresh("a dim that Reshape copies or infers")


def _entry(op: Op, x: Shape, i: int, t: Dim, copies: bool) -> Dim | None:
    """Return the size for a target entry; None if it may be -1 (inferred) or 0 (copied)."""
    if t.value == -1:
        return None
    if held(op, ge(t, 0 if not copies else 1)):
        return t
    beyond = i >= len(x)
    if copies and t.value == 0:
        if beyond:
            raise InvalidNode(f"target entry {i} is 0, but {op.name_of(0)} {x} has no axis {i} to copy")
        return x[i]
    op.require(ge(t, -1), "target entries must be at least -1", (1, 0))
    if copies and held(op, ge(t, 0)):
        if beyond:
            op.require(ge(t, 1), "a target entry of 0 copies an axis that the input does not have", (1, 0))
            return t
        if ite(eq(t, 0), x[i], t) is t:  # a 0 here copies a 0
            return t
    return None


def _settle(op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None], copies: bool) -> Outcome:
    """Return the result of a Reshape with entries that may still be unknown (None)."""
    open_at = [i for i, e in enumerate(entries) if e is None and target[i].value != -1]
    inferred = next((i for i, t in enumerate(target) if t.value == -1), None)
    if not open_at:
        dims = [e if e is not None else ONE for e in entries]
        return (
            _infer(op, x, dims, inferred, copies) if inferred is not None else Outcome(dims, _match(x, dims))
        )
    if inferred is None and len(open_at) == 1:
        (k,) = open_at
        rest = [e if e is not None else ONE for e in entries]
        if all(held(op, ge(e, 1)) for i, e in enumerate(rest) if i != k):
            dims, needs, followed = _infer(op, x, rest, k, copies)
            matches = _says(op, target[k], dims[k], x, k, copies)
            return Outcome(dims, all_of((needs, matches)), followed)
    return _split_cases(op, x, target, entries, open_at, inferred) or _give_up(op, x, target, entries)


def _says(op: Op, t: Dim, size: Dim, x: Shape, k: int, copies: bool) -> Cond:
    """Condition that target entry `t` results in `size`. It is equal to it, or -1, or 0 where the copied axis has it."""
    same = eq(t, size)
    if not copies:
        return any_of((same, eq(t, -1)))
    copied = eq(x[k], size) if k < len(x) else FALSE
    rest = exact_quotient(t, x[k]) if k < len(x) else None
    if same.is_true and rest is not None:
        return any_of((_positive(op, rest), eq(x[k], 0)))
    plain = all_of((same, any_of((ne(t, 0), copied))))
    return any_of((plain, eq(t, -1), all_of((eq(t, 0), copied))))


def _meanings(op: Op, t: Dim, copies: bool) -> list[tuple[str, Cond]]:
    """Possible meanings of an unknown target entry (size, copied, inferred), each with its condition."""
    found = [("size", ge(t, 1 if copies else 0))]
    if copies:
        found.append(("copied", eq(t, 0)))
    if not held(op, ge(t, 0)):
        found.append(("inferred", eq(t, -1)))
    return [(meaning, when) for meaning, when in found if not when.is_false]


def _split_cases(
    op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None], open_at: list[int], inferred: int | None
) -> Outcome | None:
    """Return the result by cases: each unknown entry is a size, or copied, or inferred.

    None when there are too many cases.
    """
    copies = not op.int_attr("allowzero", 0)
    meanings = [_meanings(op, target[k], copies) for k in open_at]
    if prod(map(len, meanings)) > MAX_CASES:
        return None
    found: list[tuple[Cond, list[Dim]]] = []
    needs = followed = TRUE
    for chosen in cases_of(*meanings):
        case = all_of(when for _, when in chosen)
        if case.is_false:
            continue
        means = dict(zip(open_at, (meaning for meaning, _ in chosen), strict=True))
        solved = [when.solved() for meaning, when in chosen if meaning != "size"]
        known = dict(s for s in solved if s is not None)
        outcome = _in_case(op, x, target, entries, means, inferred, known, copies)
        needs = all_of((needs, implies(case, outcome.needs)))
        followed = all_of((followed, implies(case, outcome.followed)))
        if not outcome.needs.is_false:
            found.append((case, outcome.dims))
    if not found:
        return Outcome(
            [e if e is not None else op.fresh("an impossible reshape") for e in entries], needs, followed
        )
    last = found[0][1]
    for case, here in found[1:]:
        last = [ite(case, a, b) for a, b in zip(here, last, strict=True)]
    return Outcome(last, needs, followed)


def _in_case(
    op: Op,
    x: Shape,
    target: Seq[Dim],
    entries: list[Dim | None],
    means: Mapping[int, str],
    inferred: int | None,
    known: Mapping[str, Dim],
    copies: bool,
) -> Outcome:
    """Return the result in one case: given meanings of the unknown entries."""
    dims = [e if e is not None else ONE for e in entries]
    left = [k for k, meaning in means.items() if meaning == "inferred"]
    left += [inferred] if inferred is not None else []
    for k, meaning in means.items():
        if meaning == "copied" and k >= len(x):
            return Outcome(dims, FALSE)
        if meaning != "inferred":
            dims[k] = x[k] if meaning == "copied" else target[k]
    if len(left) > 1:
        return Outcome(dims, FALSE)
    x, here = x.subs(known), [d.subs(known) for d in dims]
    if not left:
        return Outcome(here, _match(x, here))
    sure = [target[k] for k, meaning in means.items() if meaning == "size"] if copies else ()
    return _infer(op, x, here, left[0], copies, sure)


def _give_up(op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None]) -> Outcome:
    """Return the result with new symbols for unknown entries, with the conditions that are certain."""
    dims: list[Dim] = []
    for t, e in zip(target, entries, strict=True):
        d = op.fresh("a dim that Reshape copies or infers") if e is None else e
        if e is None and t.value is None:
            op.define(any_of((eq(d, t), le(t, 0))), "a positive target entry is the size")
        dims.append(d)
    op.define(eq(product(dims), x.numel), "Reshape keeps the number of elements")
    return Outcome(dims, TRUE)


def _match(x: Seq[Dim], dims: Seq[Dim]) -> Cond:
    """Return the condition that both shapes have the same number of elements."""
    left, right = _without_shared(x, dims)
    d = product(left) - product(right)
    factors = [f for f in x if f in dims]
    if d.terms and not d.const:  # a common factor that may be zero cannot be canceled
        for atom in d.terms[0][0]:
            rest = exact_quotient(d, of_atom(atom))
            if rest is not None:
                d = rest
                factors.append(of_atom(atom))
    return any_of((eq(d, 0), *(eq(f, 0) for f in factors)))


def _without_shared(x: Seq[Dim], dims: Seq[Dim]) -> tuple[list[Dim], list[Dim]]:
    left, right = list(x), []
    for d in dims:
        if d in left:
            left.remove(d)
        else:
            right.append(d)
    return left, right


def _infer(op: Op, x: Shape, dims: list[Dim], at: int, copies: bool, sure: Seq[Dim] = ()) -> Outcome:
    """Return the result with the dim at `at` inferred from the number of elements. Sizes in `sure` are >= 1.

    onnxruntime fails if the other dims contain a 0, even for an empty tensor. Only with allowzero, and if the input
    has a 0
    too, it continues and ignores zeros in the count. This is modeled if an entry is known to be 0, and otherwise only
    if at most
    one 0 is possible: one on each side would need another formula.
    """
    others = [d for i, d in enumerate(dims) if i != at]
    left, right = _without_shared(x, others)
    if not copies and any(d.value == 0 for d in others):
        size, needs = _quotient([maximum(d, ONE) for d in left], [maximum(d, ONE) for d in right])
        return Outcome([*dims[:at], size, *dims[at + 1 :]], all_of((needs, any_of(eq(d, 0) for d in x))))
    shared = [d for d in others if d not in right]
    filled = [_positive(op, d) for d in (others if copies else right) if d not in sure]
    size, needs = _quotient(left, right)
    made = [*dims[:at], size, *dims[at + 1 :]]
    if copies:
        return Outcome(made, all_of((*filled, needs)))
    filled.append(any_of((_all_positive(op, shared), _all_positive(op, left))))
    return Outcome(made, needs, all_of(filled))


def _quotient(left: Iterable[Dim], right: Iterable[Dim]) -> tuple[Dim, Cond]:
    """Return the product of `left` divided by the product of `right`, and the condition that it divides evenly."""
    n, open_divisors = product(left), []
    for d in right:
        q = exact_quotient(n, d)
        if q is None:
            open_divisors.append(d)
        else:
            n = q
    divisor = product(open_divisors)
    return (ZERO, FALSE) if divisor.value == 0 else (floor_div(n, divisor), multiple_of(divisor, n))


def _all_positive(op: Op, dims: Iterable[Dim]) -> Cond:
    return all_of(_positive(op, d) for d in dims)


def _positive(op: Op, d: Dim) -> Cond:
    """``d >= 1`` for a size, split into conditions on factors if it is a product."""
    if held(op, ge(d, 1)):
        return TRUE
    if len(d.terms) == 1 and not d.const and d.terms[0][1] > 0:
        factors = [of_atom(a) for a in dict.fromkeys(d.terms[0][0])]
        if all(f.lo is not None and f.lo >= 0 for f in factors):
            return all_of(ge(f, 1) for f in factors)
    return ge(d, 1)


def multiple_of(k: Dim, n: Dim) -> Cond:
    """``n % k == 0``, after dividing both by their common content."""
    if k.value and n.terms:
        content = gcd(n.const, *(c for _, c in n.terms))
        rest = exact_quotient(n, constant(content))
        return divides(k.const // gcd(k.const, content), rest if rest is not None else n)
    return divides(k, n)
