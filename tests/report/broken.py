"""Models with one planted bug each, of the kinds that exports and edits really have."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

import shapesolve


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


def _dead_branch() -> onnx.ModelProto:
    """A branch for sizes that the input never has."""
    proto = _if_branches(65, 64)
    (choice,) = proto.graph.node
    proto.graph.initializer.append(numpy_helper.from_array(np.array(False), "never"))
    choice.input[0] = "never"
    return proto


#: name -> (model, assumptions)
CASES: dict[str, tuple[onnx.ModelProto, tuple[str, ...]]] = {
    "matmul_inner": (
        model("g (float[batch, seq, 64] x) => (y) { [fc] y = MatMul(x, fc_weight) }", fc_weight=[65, 256]),
        (),
    ),
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
    "permute_rank": (
        model("g (float[batch, 8, 64] x) => (y) { [turn] y = Transpose<perm: ints = [0, 2, 3, 1]>(x) }"),
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
    "topk_by_data": (
        model("g (float[batch, 5] x, int64[1] k) => (v, i) { [best] v, i = TopK(x, k) }"),
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
    "assumption": (
        model("g (float[batch, width] x) => (y) { [fc] y = MatMul(x, fc_weight) }", fc_weight=[64, 8]),
        ("width >= 65",),
    ),
    "assumptions_against_each_other": (
        model("g (float[batch, width] x) => (y) { [act] y = Relu(x) }"),
        ("width == 2*batch", "batch >= 10", "width <= 16"),
    ),
    "unknown_rank_mismatch": (
        model("g (float[batch, 8] x) => (y) { [conv] y = Conv(x, conv_weight) }", conv_weight=[4, 8, 3, 3]),
        (),
    ),
    "dead_branch": (_dead_branch(), ()),
    "if_branches": (_if_branches(65, 63), ()),
    "if_one_branch": (_if_branches(65, 64), ()),
    "specialised": (
        model(
            """g (float[batch, seq, 32] x) => (y) {
            [view] y = Reshape(x, target)
            [bias] z = Add(y, table) }""",
            target=ints(-1, 9, 32),
            table=[9, 32],
        ),
        (),
    ),
    "specialised_dim": (
        model(
            """g (float[1, seq, 32] x) => (y) {
            [turn] t = Transpose<perm: ints = [1, 0, 2]>(x)
            [view] y = Reshape(t, target) }""",
            target=ints(9, 4, 8),
        ),
        (),
    ),
    "same_dim_twice": (
        model("g (float[m, k] a, float[j, n] b) => (y) { [product] y = MatMul(a, b) }"),
        (),
    ),
    "stale_value_info": (
        model(
            "g (float[batch, 64] x) => (float[batch, 12] y) { [fc] y = MatMul(x, fc_weight) }",
            fc_weight=[64, 10],
        ),
        (),
    ),
    "size_of_the_example": (
        model(
            """g (float[batch, 8] past, float[batch, horizon] future) => (float[5, batch] y) <float[batch, 5] rows> {
            [level] mean = MatMul(past, w) [shift] rows = Add(future, mean) [turn] y = Transpose(rows) }""",
            w=[8, 1],
        ),
        (),
    ),
    "open_broadcast": (
        model("g (float[batch, m] a, float[batch, n] b) => (y) { [sum] y = Add(a, b) }"),
        (),
    ),
    "usual_broadcast": (
        model(
            """g (float[p] past, float[s] new, float[t] mask) => (y) {
            [join] all = Concat<axis: int = 0>(past, new) [scale] y = Mul(all, mask) }"""
        ),
        (),
    ),
    "bound_by_assumption": (
        model("g (float[batch, d_model] x) => (y) { [bias] y = Add(x, b) }", b=[64]),
        (),
    ),
    "multiples": (
        model(
            """g (float[batch, 4, height, width] x) => (y) {
            [down] d = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
            [up] u = Resize<mode: string = "nearest">(d, , scales)
            [skip] y = Concat<axis: int = 1>(x, u) }""",
            scales=np.array([1, 1, 2, 2], np.float32),
        ),
        (),
    ),
    "empty_only": (
        model(
            """g (float[batch, seq, 4] x) => (y) {
            [rows] r = Reshape(x, target) [head] y = MatMul(r, weight) }""",
            target=ints(0, 0, 6),
            weight=[6, 2],
        ),
        (),
    ),
    "fixed_channels": (
        model(
            """g (float[batch, channels, 32, 32] image) => (y) {
            [conv] y = Conv<kernel_shape: ints = [3, 3]>(image, conv_weight) }""",
            conv_weight=[8, 3, 3, 3],
        ),
        (),
    ),
    "unread_input": (
        model("g (float[batch, 8] x, int64[batch] lengths) => (y) { [act] y = Relu(x) }"),
        (),
    ),
    "overridable_default": (
        model(
            "g (float[N, 6] x, int64[2] target) => (y) { [reshape] y = Reshape(x, target) }",
            target=ints(0, 6),
        ),
        (),
    ),
    "unknown_operator": (
        model("g (float[batch, 8] x) => (y) { [thing] y = Relu(x) }"),
        (),
    ),
    "file_remark": (
        model("g (float[batch, 64] x) => (y) { [gelu] y = com.microsoft.Gelu(x) }"),
        (),
    ),
    "file_fault": (
        model("g (float[batch, 64] x) => (y) { [conv] a = Relu(x) [conv] y = Relu(a) }"),
        (),
    ),
}
_custom = CASES["unknown_operator"][0]
_custom.graph.node[0].domain, _custom.graph.node[0].op_type = "acme.ops", "FancyPool"
_custom.opset_import.append(helper.make_opsetid("acme.ops", 1))


@cache
def analyzed(name: str) -> shapesolve.Analysis:
    """The analysis of a case, which no test changes."""
    proto, given = CASES[name]
    return shapesolve.analyze(proto, assume=given)
