"""Kinds of findings about dims declared dynamic that the graph fixes or restricts."""

from __future__ import annotations

from ..causes.finding import ExampleModel, Kind


class OneSize(Kind):
    """the model runs at only one size of a dim declared dynamic

    An input dim with a name can only have a single size. The most common cause is an export that recorded
    the traced size as a constant.

    ## What to do

    Look at the node after `-->`. If a stored tensor holds the size, the `help` line names it, or an edit of
    it; the model was analyzed again with that edit, and the limit was gone.

    With a second export at another size, `shapesolve generalize` compares both and computes the differing
    constants from Shape. If the size is a batch of one, a single file is enough if its rows are proved to
    be independent: `shapesolve free --dim batch`. If the size really is fixed, declare it as a number.
    """

    code, severity = "SS401", "warning"
    example = ExampleModel(
        """g (float[1, seq, 32] x) => (y) {
        [turn] t = Transpose<perm: ints = [1, 0, 2]>(x)
        [view] y = Reshape(t, target) }""",
        data={"target": (9, 4, 8)},
    )


class SameDim(Kind):
    """two dims declared as different names must be equal

    Two names that inputs declare must be equal, or one follows from the others, for the model to run.

    ## What to do

    Declare the dim by the expression that the title gives, so that callers see it.
    """

    code, severity = "SS402", "warning"
    example = ExampleModel("g (float[m, k] a, float[j, n] b) => (y) { [product] y = MatMul(a, b) }")


class Restricted(Kind):
    """a dim declared dynamic is restricted to a range or to multiples

    The model does not accept every size of a dim that it declares dynamic, for a reason inherent in the
    model: skip connections require multiples, a position table ends, a kernel must fit, or two dims are
    related. Every contract condition stronger than "not empty" has such a finding, with a size that runs
    and the nearest one that does not. If the cause is a size of the example input, the finding is
    [SS404](SS404.md).

    ## What to do

    Callers must satisfy the condition, which is part of the contract. `shapesolve sizes` finds the nearest
    accepted sizes.
    """

    code, severity = "SS403", "info"
    example = ExampleModel(
        """g (float[batch, 4, height, 32] x) => (y) {
        [down] d = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
        [up] u = Resize<mode: string = "nearest">(d, , scales)
        [skip] y = Concat<axis: int = 1>(x, u) }""",
        data={"scales": (1.0, 1.0, 2.0, 2.0)},
    )


class BakedSize(Kind):
    """a dim declared dynamic is limited by a size that was baked in at export

    A dim accepts only a few sizes, or only sizes for which rows of a batch are cut and mixed, because of a
    constant in the model. The finding shows the constant and its values: the target of a Reshape or Expand,
    the sizes of a Resize, the end of a Slice, or positions or a mask for the example. This is usually an
    error of the export. Limits inherent in the model are reported separately: multiples for skip
    connections, the length of a table, and the size of a kernel are [SS403](SS403.md), channels and widths
    are [SS405](SS405.md).

    ## What to do

    The `help` line names the stored tensor that holds the example's size. Export the model at two sizes and
    run `shapesolve generalize` on both files. Constants that differ between them are computed from Shape,
    and the result is run at both sizes.

    Alternatively, find the constant in the source: a size that was a Python number when the model was
    traced. Take it from the tensor's shape, export with that dim dynamic, or declare the dim as a number.
    """

    code, severity = "SS404", "warning"
    example = ExampleModel(
        """g (float[batch, seq, 32] x) => (y) {
        [view] y = Reshape(x, target)
        [bias] z = Add(y, table) }""",
        {"table": (9, 32)},
        {"target": (-1, 9, 32)},
    )


class FixedWidth(Kind):
    """a dim declared dynamic is a width or a number of channels that the model has fixed

    A dim that an input declares as a name meets the channels of a weight, the rows of a matrix or the width
    of a head: it has one size, which every model of this kind fixes. The declaration promises more than
    there is, and does no harm otherwise.

    ## What to do

    Declare the dim as the number, so that callers see it.
    """

    code, severity = "SS405", "info"
    example = ExampleModel(
        """g (float[batch, channels, 32, 32] image) => (y) {
        [conv] y = Conv<kernel_shape: ints = [3, 3]>(image, conv_weight) }""",
        {"conv_weight": (8, 3, 3, 3)},
    )


class OnlyEmpty(Kind):
    """the model runs only on empty inputs

    All accepted sizes include a 0: if no input is empty, a node fails whatever the sizes are. Sizes that
    include a 0 are accepted only because many operators have nothing to check on empty tensors. If one
    particular dim must be 0, [SS401](SS401.md) is reported instead.

    ## What to do

    Look at the node after `-->`, which fails for all inputs that are not empty. An example is a Reshape
    whose target keeps all dims but one, and has another number for that one.
    """

    code, severity = "SS406", "warning"
    example = ExampleModel(
        """g (float[batch, seq, 4] x) => (y) {
        [rows] r = Reshape(x, target) [head] y = MatMul(r, weight) }""",
        {"weight": (6, 2)},
        {"target": (0, 0, 6)},
    )
