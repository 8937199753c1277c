"""Kinds of findings about conditions that contradict each other, and about files and nodes that cannot run."""

from __future__ import annotations

from .finding import ExampleModel, Kind


class Contradiction(Kind):
    """the sizes of a node's inputs contradict each other

    What a node requires of its inputs contradicts what other nodes, weights and inputs say: no input size
    makes the model run. The numbered lines tell where each side comes from, the last one where they meet.

    ## What to do

    Start at the node after `-->` and check the two sides that are printed under it. The bug is at one of
    the steps: the node itself, or whatever first made one of the sizes. `help` names a change where the
    shapes suggest one. It was tried on the whole model: if another node then fails, the line says so, as it
    does if the change could be tried on the node alone.
    """

    code, severity = "SS201", "error"
    example = ExampleModel(
        "g (float[batch, seq, 64] x) => (y) { [fc] y = MatMul(x, fc_weight) }", {"fc_weight": (65, 256)}
    )


class BrokenNode(Kind):
    """a node cannot run as it is written

    A node cannot run as it is written, whatever the sizes are: an attribute does not fit the rank, an axis
    is out of range, an input is missing.

    ## What to do

    Correct the attribute or the operand that the title names.
    """

    code, severity = "SS202", "error"
    example = ExampleModel(
        "g (float[batch, 8, 64] x) => (y) { [turn] y = Transpose<perm: ints = [0, 2, 3, 1]>(x) }"
    )


class Refuted(Kind):
    """an assumption contradicts the model

    A condition given with `--assume` or `assume=` contradicts the model, or several such conditions
    contradict each other. The numbered lines list everything involved in the contradiction.

    ## What to do

    Drop or correct the assumption; the model may need another size than you think.
    """

    code, severity = "SS203", "error"
    example = ExampleModel(
        "g (float[batch, width] x) => (y) { [fc] y = MatMul(x, fc_weight) }",
        {"fc_weight": (64, 8)},
        assume=("width >= 65",),
    )


class BrokenFile(Kind):
    """the file cannot be loaded as it is written

    onnxruntime cannot load the file for a reason that is not a node's: the IR version is missing, two nodes
    of a graph have the same name, or an initializer does not have the type or shape of the graph input with
    its name. The shapes are inferred anyway, to find other problems.

    ## What to do

    Correct the file. `onnx.save` does not check these properties; `onnx.checker.check_model` finds most of
    them.
    """

    code, severity = "SS205", "error"
    example = ExampleModel("g (float[batch, 64] x) => (y) { [conv] a = Relu(x) [conv] y = Relu(a) }")
