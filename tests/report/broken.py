"""Models with one planted bug each, of the kinds that exports and edits really have."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

import shapesolve
from shapesolve.findings.diagnose import CODES


def model(text: str, opset: int = 17, **weights: list[int] | np.ndarray) -> onnx.ModelProto:
    """A model in ONNX's text syntax; weights are shapes (filled with zeros) or arrays."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
    for name, given in weights.items():
        array = given if isinstance(given, np.ndarray) else np.zeros(given, np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _if_branches(then_rows: int, else_rows: int) -> onnx.ModelProto:
    """A branch whose weight does not have 64 rows cannot be taken."""
    unknown = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    branches = {}
    for name, rows in (("then_branch", then_rows), ("else_branch", else_rows)):
        weight = numpy_helper.from_array(np.zeros((rows, 8), np.float32), f"{name}_w")
        node = helper.make_node("MatMul", ["x", weight.name], [f"{name}_y"], name="project")
        result = [helper.make_tensor_value_info(f"{name}_y", onnx.TensorProto.FLOAT, None)]
        branches[name] = helper.make_graph([node], name, [], result, [weight])
    graph = helper.make_graph(
        [helper.make_node("If", ["training"], ["y"], name="choice", **branches)],
        "g",
        [
            helper.make_tensor_value_info("training", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 64]),
        ],
        unknown,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


#: name -> (model, assumptions)
CASES: dict[str, tuple[onnx.ModelProto, tuple[str, ...]]] = {
    "matmul_swapped": (
        model("g (float[batch, 64] x) => (y) { [proj] y = MatMul(proj_weight, x) }", proj_weight=[64, 32]),
        (),
    ),
    "matmul_missing_transpose": (
        model(
            """g (float[batch, heads, 9, 16] q, float[batch, heads, 9, 16] k) => (y)
            { [scale] s = Mul(q, factor) [scores] y = MatMul(s, k) }""",
            factor=[1],
        ),
        (),
    ),
    "residual_width": (
        model(
            """g (float[batch, 128] x) => (y) {
            [up] h = MatMul(x, up_weight)
            [act] a = Relu(h)
            [residual] y = Add(a, x) }""",
            up_weight=[128, 256],
        ),
        (),
    ),
    "concat_wrong_axis": (
        model(
            "g (float[batch, 8, 64] a, float[batch, 8, 32] b) => (y) { [join] y = Concat<axis: int = 1>(a, b) }"
        ),
        (),
    ),
    "reshape_baked": (
        model(
            """g (float[batch, 3, 32, 32] image) => (y) {
            [conv] c = Conv<strides: ints = [2, 2], kernel_shape: ints = [2, 2]>(image, conv_weight)
            [flatten] f = Reshape(c, target)
            [head] y = MatMul(f, head_weight) }""",
            conv_weight=[8, 3, 2, 2],
            target=ints(0, 1152),
            head_weight=[1152, 10],
        ),
        (),
    ),
    "reshape_baked_batch": (
        model(
            """g (float[batch, 3, 32, 32] image) => (y) {
            [conv] c = Conv<strides: ints = [2, 2], kernel_shape: ints = [2, 2]>(image, conv_weight)
            [flatten] f = Reshape(c, target)
            [head] y = MatMul(f, head_weight) }""",
            conv_weight=[8, 3, 2, 2],
            target=ints(-1, 1152),
            head_weight=[1152, 10],
        ),
        (),
    ),
    "reshape_product": (
        model("g (float[2, 3] x) => (y) { [view] y = Reshape(x, target) }", target=ints(4)),
        (),
    ),
    "reshape_heads": (
        model(
            """g (float[batch, seq, 768] x) => (y) {
            [split] h = Reshape(x, target)
            [fc] y = MatMul(h, fc_weight) }""",
            target=ints(0, 0, 12, -1),
            fc_weight=[65, 64],
        ),
        (),
    ),
    "wrong_permute": (
        model(
            """g (float[batch, 8, 64] x, float[batch, 8, 64] skip) => (y) {
            [turn] t = Transpose<perm: ints = [0, 2, 1]>(x)
            [residual] y = Add(t, skip) }"""
        ),
        (),
    ),
    "split_sum": (
        model(
            "g (float[batch, 96] x) => (q, k, v) { [qkv] q, k, v = Split<axis: int = 1>(x, parts) }",
            parts=ints(32, 32, 31),
        ),
        (),
    ),
    "conv_channels": (
        model(
            "g (float[batch, 3, h, w] x) => (y) { [stem] y = Conv(x, stem_weight) }",
            stem_weight=[16, 4, 3, 3],
        ),
        (),
    ),
    "conv_group": (
        model(
            "g (float[batch, 32, h, w] x) => (y) { [depthwise] y = Conv<group: int = 16>(x, dw_weight) }",
            dw_weight=[32, 1, 3, 3],
        ),
        (),
    ),
    "conv_kernel_too_large": (
        model(
            "g (float[batch, 3, 2, 2] x) => (y) { [stem] y = Conv(x, stem_weight) }", stem_weight=[8, 3, 5, 5]
        ),
        (),
    ),
    "gather_table": (
        model(
            """g (float[batch, 10, 8] x) => (y) {
            [pick] y = Gather<axis: int = 1>(x, last) }""",
            last=ints(10),
        ),
        (),
    ),
    "position_table": (
        model(
            """g (int64[batch, 600] ids) => (y) {
            [positions] p = Range(zero, length, one)
            [embed] y = Gather(table, p) }""",
            zero=np.array(0, np.int64),
            one=np.array(1, np.int64),
            length=np.array(600, np.int64),
            table=[512, 64],
        ),
        (),
    ),
    "expand": (
        model("g (float[batch, 3] x) => (y) { [grow] y = Expand(x, target) }", target=ints(1, 4)),
        (),
    ),
    "where_mask": (
        model(
            """g (bool[batch, 1, 7, 7] mask, float[batch, 4, 7, 9] scores) => (y)
            { [masked] y = Where(mask, scores, low) }""",
            low=[1],
        ),
        (),
    ),
    "gemm_bias": (
        model(
            "g (float[batch, 64] x) => (y) { [fc] y = Gemm<transB: int = 1>(x, fc_weight, fc_bias) }",
            fc_weight=[10, 64],
            fc_bias=[11],
        ),
        (),
    ),
    "gemm_trans": (
        model(
            "g (float[batch, 64] x) => (y) { [fc] y = Gemm(x, fc_weight, fc_bias) }",
            fc_weight=[10, 64],
            fc_bias=[10],
        ),
        (),
    ),
    "lstm_hidden": (
        model(
            """g (float[seq, batch, 16] x) => (y) {
            [rnn] y = LSTM<hidden_size: int = 32>(x, rnn_w, rnn_r) }""",
            rnn_w=[1, 128, 16],
            rnn_r=[1, 128, 33],
        ),
        (),
    ),
    "batchnorm_scale": (
        model(
            """g (float[batch, 32, h, w] x) => (y) {
            [norm] y = BatchNormalization(x, scale, bias, mean, var) }""",
            scale=[64],
            bias=[64],
            mean=[64],
            var=[64],
        ),
        (),
    ),
    "layernorm_width": (
        model(
            "g (float[batch, seq, 256] x) => (y) { [norm] y = LayerNormalization(x, gamma) }",
            gamma=[255],
        ),
        (),
    ),
    "pad_negative": (
        model("g (float[batch, 3] x) => (y) { [crop] y = Pad(x, pads) }", pads=ints(0, -2, 0, -2)),
        (),
    ),
    "slice_rank": (
        model(
            "g (float[batch, 3] x) => (y) { [cut] y = Slice(x, starts, ends, axes) }",
            starts=ints(0),
            ends=ints(2),
            axes=ints(2),
        ),
        (),
    ),
    "slice_then_add": (
        model(
            """g (float[batch, 10] x) => (y) {
            [left] a = Slice(x, zero, five, axis)
            [right] b = Slice(x, four, ten, axis)
            [mix] y = Add(a, b) }""",
            zero=ints(0),
            five=ints(5),
            four=ints(4),
            ten=ints(10),
            axis=ints(1),
        ),
        (),
    ),
    "einsum": (
        model(
            """g (float[batch, 7, 16] q, float[batch, 7, 17] k) => (y)
            { [scores] y = Einsum<equation: string = "bqd,bkd->bqk">(q, k) }"""
        ),
        (),
    ),
    "squeeze": (
        model("g (float[batch, 3, 8] x) => (y) { [drop] y = Squeeze(x, axes) }", axes=ints(1)),
        (),
    ),
    "topk": (
        model("g (float[batch, 5] x) => (v, i) { [best] v, i = TopK(x, k) }", k=ints(10)),
        (),
    ),
    "depth_to_space": (
        model("g (float[batch, 10, h, w] x) => (y) { [shuffle] y = DepthToSpace<blocksize: int = 2>(x) }"),
        (),
    ),
    "symbol_bound_twice": (
        model(
            """g (float[batch, width] x) => (y, z) {
            [first] y = MatMul(x, a_weight)
            [second] z = MatMul(x, b_weight) }""",
            a_weight=[64, 8],
            b_weight=[48, 8],
        ),
        (),
    ),
    "assumptions_against_each_other": (
        model("g (float[batch, width] x) => (y) { [act] y = Relu(x) }"),
        ("width == 2*batch", "batch >= 10", "width <= 16"),
    ),
    "unknown_rank_mismatch": (
        model("g (float[batch, 8] x) => (y) { [conv] y = Conv(x, conv_weight) }", conv_weight=[4, 8, 3, 3]),
        (),
    ),
    "if_branches": (_if_branches(65, 63), ()),
    "stale_value_info": (
        model(
            "g (float[batch, 64] x) => (float[batch, 12] y) { [fc] y = MatMul(x, fc_weight) }",
            fc_weight=[64, 10],
        ),
        (),
    ),
    "usual_broadcast": (
        model(
            """g (float[p] past, float[s] new, float[t] mask) => (y) {
            [join] all = Concat<axis: int = 0>(past, new) [scale] y = Mul(all, mask) }"""
        ),
        (),
    ),
}
for code, kind in CODES.items():
    if kind.example is not None:
        CASES[code] = kind.example.model(), kind.example.assume


@cache
def analyzed(name: str) -> shapesolve.Analysis:
    """The analysis of a case, which no test changes."""
    proto, given = CASES[name]
    return shapesolve.analyze(proto, assume=given)
