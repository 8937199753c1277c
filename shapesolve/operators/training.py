"""Training operators: losses, optimizer steps, gradients."""

from __future__ import annotations

from functools import partial

from ..expr import Shape, any_of, eq, ge, le
from ..lower.op import InvalidNode, Op
from ..lower.reads import along
from ..lower.registry import lower
from ..lower.standard import standard_size
from ..lower.types import Known

_TRAINING = "ai.onnx.preview.training"


def _loss(op: Op, scores: Shape | None, labels: Shape | None) -> Known:
    """Return the loss output: a scalar, or with ``reduction="none"`` one loss per label.

    The standard wants labels of the scores' shape without its class axis; onnxruntime gathers by the labels,
    and so takes fewer labels than scores as well.
    """
    if scores is not None and len(scores) < 2:
        raise InvalidNode(f"input {op.name_of(0)} must have shape [N, C, ...], got {scores}")
    if scores is not None and op.has(1):
        labels = op.shape(1, len(scores) - 1)
    if scores is not None and labels is not None:
        for k, label in enumerate(labels):
            at = k + (k > 0)
            known = {standard_size(op, 1, k), standard_size(op, 0, at)} - {None}
            if len(known) > 1 or not op.as_onnxruntime("loss-labels"):
                op.same(label, scores[at], "expected one label per position of the scores", (1, k), (0, at))
            op.require(le(label, scores[at]), "there must not be more labels than scores", (1, k), (0, at))
        empty = eq(labels.numel, 0)
        op.require(
            any_of((ge(scores[1], 1), empty)),
            "scores must have at least one class if there are labels",
            (0, 1),
        )
        if op.attr("ignore_index") is None:
            op.in_range(op.value(1), scores[1], (labels.numel,), "a label must be a class", (1, None), (0, 1))
    if op.has(2):
        op.shape(2, 1)
    return op.out(labels if op.text_attr("reduction", "mean") == "none" else [])


# https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
@lower("NegativeLogLikelihoodLoss", reads={1: along(1)}, elements=(1,), runtime=("no kernel",))
def negative_log_likelihood_loss(op: Op) -> Known:
    scores, weight = op.shape(0), op.shape(2, 1)
    if scores is not None and weight is not None and len(scores) > 1:
        known = {standard_size(op, 0, 1), standard_size(op, 2, 0)} - {None}
        if len(known) > 1 or not op.as_onnxruntime("loss-labels"):
            op.same(weight[0], scores[1], "expected one weight per class", (2, 0), (0, 1))
    return _loss(op, scores, op.shape(1))


# https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
@lower("SoftmaxCrossEntropyLoss", reads={1: along(1)}, elements=(1,), runtime=("no kernel",))
def softmax_cross_entropy_loss(op: Op) -> list[Known]:
    """Lower SoftmaxCrossEntropyLoss: the loss, and log probabilities."""
    scores = op.shape(0)
    loss = _loss(op, scores, op.shape(1))
    for k in range(2 if scores is not None else 0):
        assert scores is not None
        op.require(ge(scores[k], 1), "the scores cannot be reshaped when batch or classes are empty", (0, k))
    return [loss, op.out(scores)]


# https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
# https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html
# https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
def optimizer_step(op: Op, groups: int) -> list[Known]:
    """Lower an optimizer step: R, T, and `groups` lists of n tensors as inputs.

    Outputs are the new weights and the new states; a weight's tensors all have the same shape.
    """
    n, rest = divmod(op.n_in - 2, groups)
    if op.n_in < 2 or rest:
        raise InvalidNode(
            f"{op.node.op_type} takes R, T and {groups} tensors per weight, got {op.n_in} inputs"
        )
    shapes = [
        op.same_shapes(range(2 + i, op.n_in, n), "weight, gradient, and state must have the same shape")
        for i in range(n)
    ]
    return [op.out(shape, op.dtype(2 + i)) for _ in range(groups - 1) for i, shape in enumerate(shapes)]


lower("Adagrad", domain=_TRAINING)(partial(optimizer_step, groups=3))
lower("Adam", domain=_TRAINING)(partial(optimizer_step, groups=4))
lower("Momentum", domain=_TRAINING)(partial(optimizer_step, groups=3))


# https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html
@lower("Gradient", domain=_TRAINING)
def gradient(op: Op) -> list[Known]:
    """Lower Gradient: one gradient for each tensor in ``xs``, of its shape."""
    return [op.out(op.shape(i), op.dtype(i)) for i in range(op.n_out)]
