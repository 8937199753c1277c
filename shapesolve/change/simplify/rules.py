"""Table of the `simplify` rules. A rule has a pattern, an obligation to prove, and a replacement.

Rules are tried on each node in graph order; a rule returns the change, or None without a proof. Shapes are compared as
expressions of the input sizes, so "equal" means equal for every size that the model accepts, including 0 and 1. A rule never
adds a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import constants, views
from .layouts import (
    concat_of_concat,
    concat_of_empty,
    expand_before_broadcast,
    expand_of_expand,
    pad_of_pad,
    same_layout,
    slice_of_slice,
    slice_to_the_end,
    transpose_of_transpose,
    transposes_nothing,
)
from .neutral import (
    cast_of_cast,
    casts_nothing,
    chosen_beforehand,
    done_already,
    drops_nothing,
    first_input,
    leaves_as_is,
    pads_nothing,
    repeats_nothing,
    slices_nothing,
)
from .site import At, Change


class RewriteRule(NamedTuple):
    """A `simplify` rule.

    Attributes:
        pattern: Description of the matched nodes.
        ops: Standard operators that it is tried on; empty for all.
        obligation: Description of the condition to prove.
        replacement: Description of the result.
        apply: Proves the obligation and makes the change, or returns None.
    """

    pattern: str
    ops: tuple[str, ...]
    obligation: str
    replacement: str
    apply: Callable[[At], Change | None]


_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_BROADCASTING = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater",
    "GreaterOrEqual", "Where", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
)  # fmt: skip

RULES: tuple[RewriteRule, ...] = (
    RewriteRule(
        "any node", (),
        "every element of the output is the same number for every input",
        "the constant", constants.known_beforehand,
    ),
    RewriteRule(
        "a float operation on constants", constants.FLOAT_OPS,
        "all inputs are constants, and the operator is defined exactly by IEEE 754 or only moves data",
        "the constant, computed in the element type", constants.folded_float,
    ),
    RewriteRule("Identity(x)", ("Identity",), "none", "x", first_input),
    RewriteRule(
        "Dropout(x)", ("Dropout",),
        "not in training mode: before opset 12, or training_mode is absent or false; the mask has no consumers",
        "x", drops_nothing,
    ),
    RewriteRule("Cast(x)", ("Cast",), "x has that element type already", "x", casts_nothing),
    RewriteRule(
        "Cast(Cast(x))", ("Cast",),
        "the inner type holds every value of the type of x exactly", "Cast(x)", cast_of_cast,
    ),
    RewriteRule("Transpose(x)", ("Transpose",), "the permutation moves no axis", "x", transposes_nothing),
    RewriteRule(
        "Transpose(Transpose(x))", ("Transpose",),
        "both permutations are known", "Transpose(x) with their composition, or x", transpose_of_transpose,
    ),
    RewriteRule(
        "Reshape, Flatten, Squeeze, Unsqueeze of x, or a chain of these", _VIEWS,
        "the output has the shape of x", "x", views.undone,
    ),
    RewriteRule(
        "a chain of Reshape, Flatten, Squeeze, Unsqueeze of x", _VIEWS,
        "the output's shape follows from x's shape by numbers, 0 (copy), and at most one -1, whose other sizes"
        " are never 0",
        "Reshape(x) with a constant target", views.chain,
    ),
    RewriteRule(
        "Reshape(x) with a computed target", ("Reshape",),
        "each size is a number, equals the size of x on that axis (0), or is the only other one and the rest is never"
        " 0 (-1)",
        "Reshape(x) with a constant target", views.constant_target,
    ),
    RewriteRule("Expand(x)", ("Expand",), "the output has the shape of x", "x", same_layout),
    RewriteRule(
        "Expand(Expand(x))", ("Expand",),
        "the outer target is the output's shape", "Expand(x)", expand_of_expand,
    ),
    RewriteRule(
        "an elementwise operator with an operand Expand(x)", _BROADCASTING,
        "with x itself, the operands still broadcast to the same shape: each size is a size of x or of another operand",
        "the operator on x", expand_before_broadcast,
    ),
    RewriteRule(
        "Relu(Relu(x)), and so for Abs, Ceil, Floor, Round and Sign", ("Relu", "Abs", "Ceil", "Floor", "Round", "Sign"),
        "none: each leaves its own output unchanged", "the inner one", done_already,
    ),
    RewriteRule("Tile(x)", ("Tile",), "every repeat is 1", "x", repeats_nothing),
    RewriteRule(
        "Slice(x)", ("Slice",), "the output has the shape of x and every step is 1", "x", slices_nothing,
    ),
    RewriteRule(
        "Slice(x) with computed ends", ("Slice",),
        "every step is 1, and each computed end is the size of x on that axis, or keeps everything from the start",
        "Slice(x) with a constant end beyond all sizes", slice_to_the_end,
    ),
    RewriteRule(
        "Slice(Slice(x))", ("Slice",),
        "both are constant and cut different axes", "Slice(x)", slice_of_slice,
    ),
    RewriteRule("Pad(x)", ("Pad",), "every pad is 0", "x", pads_nothing),
    RewriteRule(
        "Pad(Pad(x))", ("Pad",),
        "both pad with the same constant, by constant amounts that are not negative, all axes", "Pad(x)", pad_of_pad,
    ),
    RewriteRule(
        "Concat of one tensor, or of one and empty ones", ("Concat",),
        "the others have size 0 on that axis", "Concat of the rest, or x", concat_of_empty,
    ),
    RewriteRule(
        "Concat(.., Concat(..), ..)", ("Concat",),
        "same axis, and the inner one has no other consumers", "one Concat", concat_of_concat,
    ),
    RewriteRule(
        "Sum, Max, Min, Mean of one tensor; Split into one", ("Sum", "Max", "Min", "Mean", "Split"),
        "there is one input and one output", "x", first_input,
    ),
    RewriteRule(
        "Where(c, x, y)", ("Where",),
        "c is constant, all true or all false, and the output has the chosen operand's shape", "x or y",
        chosen_beforehand,
    ),
    RewriteRule(
        "x*1, x/1, x-0, x and true, x or false; x+0 of integers", ("Mul", "Div", "Sub", "Add", "And", "Or"),
        "every element of the other operand is that number, and the output has the shape of x", "x", leaves_as_is,
    ),
)  # fmt: skip

#: changes that are not local to one node, and their obligations
BEYOND_NODES = (
    ("two equal nodes", "same operator, attributes and inputs, and nothing random", "one of them"),
    ("If", "the condition is the same for every input", "the branch, inline"),
    (
        "a vector of sizes",
        "each element is an expression over sizes that are known before its first use",
        "the vector computed once, from at most one Shape per axis; only where the graph gets no larger by it",
    ),
    ("a node without consumers", "none", "nothing"),
)


def rules_by_operator() -> dict[str, tuple[RewriteRule, ...]]:
    """The rules that are tried on each operator, in order; those for all under ''."""
    found: dict[str, tuple[RewriteRule, ...]] = {"": tuple(rule for rule in RULES if not rule.ops)}
    for rule in RULES:
        for op in rule.ops:
            found.setdefault(op, tuple(r for r in RULES if not r.ops or op in r.ops))
    return found
