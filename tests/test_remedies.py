"""What conflicts advise is carried out on the model, and run: onnxruntime runs it, or fails where the advice says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.causes.edits import Edit
from shapesolve.expr import Dim
from shapesolve.lower.request import OtherShape
from shapesolve.model import Model

from .building import EVERYTHING, run, share
from .nodes import info, model
from .report.broken import CASES, analyzed
from .report.test_advice import files

N = helper.make_node


def tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from tensors(attribute.g)


def zeros(tensor: TensorProto, dims: Any) -> TensorProto:
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return numpy_helper.from_array(np.zeros(tuple(dims), kind), tensor.name)


def written(changed: Model, original: onnx.ModelProto, edit: Edit | None = None) -> onnx.ModelProto:
    """The changed model as a file: weights that are elsewhere, or have another shape with the edit, are zeros."""
    proto = onnx.ModelProto()
    proto.CopyFrom(original)
    del proto.graph.node[:]
    proto.graph.node.extend(node.proto for node in changed.graph.nodes)
    del proto.graph.value_info[:]
    stored = {} if edit is None else edit.stored
    held = {t.name: t for t in proto.graph.initializer}
    held |= {n.output[0]: n.attribute[0].t for n in proto.graph.node if n.op_type == "Constant"}
    for tensor in tensors(proto.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(zeros(tensor, tensor.dims))
    for name, now in stored.items():
        kind = helper.tensor_dtype_to_np_dtype(held[name].data_type)
        array = np.zeros(now.dims, kind) if isinstance(now, OtherShape) else None
        if array is None:
            array = np.array([e.const for e in now], kind).reshape(tuple(held[name].dims))
        held[name].CopyFrom(numpy_helper.from_array(array, name))
    return proto


def refusal(proto: onnx.ModelProto, sizes: Mapping[str, tuple[int, ...]]) -> str:
    """What onnxruntime says on zeros of these shapes; empty when it runs."""
    kinds = {i.name: i.type.tensor_type.elem_type for i in proto.graph.input}
    feeds = {n: np.zeros(s, helper.tensor_dtype_to_np_dtype(kinds[n])) for n, s in sizes.items()}
    try:
        run(proto, feeds)
    except Exception as e:  # onnxruntime raises a dozen classes of its own
        return str(e)
    return ""


def carried_out(a: ss.Analysis, original: onnx.ModelProto, given: tuple[str, ...] = ()) -> int:
    """Repairs that were carried out: onnxruntime runs the model with each, at sizes that the analysis accepts."""
    tried = 0
    for conflict in a.conflicts:
        for repair in conflict.repairs:
            assert str(repair) in conflict.finding.help
            derived = any(
                isinstance(e, Dim) and e.terms for now in repair.edit.stored.values()
                if not isinstance(now, OtherShape) for e in now
            )  # fmt: skip
            if derived or repair.remaining:
                continue
            proto = written(repair.edit.applied(a.model), original, repair.edit)
            after = ss.analyze(proto, assume=given)
            assert after.ok, (repair, [str(f) for f in after.diagnostics])
            sizes = after._solved.completed({})
            assert sizes is not None
            shapes = {n: tuple(d.evaluate(sizes) for d in k.shape) for n, k in after.inputs.items()}
            assert refusal(proto, shapes) == "", repair
            tried += 1
    return tried


@pytest.mark.parametrize(
    ("target", "advised"), [((4, 5), True), ((3, 4), True), ((2, 4), False), ((0, 4), True)]
)
def test_a_target_is_to_be_derived_where_some_number_fits(target: tuple[int, ...], advised: bool) -> None:
    m = model(
        [N("Reshape", ["x", "target"], ["y"], name="view")],
        [info("x", [3, 5])],
        ["y"],
        [numpy_helper.from_array(np.array(target, np.int64), "target")],
    )
    a = ss.analyze(m)
    (finding,) = a.diagnostics
    assert ("change target from" in finding.help) is advised
    assert carried_out(a, m) == advised


def examples_are_true(a: ss.Analysis, original: onnx.ModelProto) -> int:
    """Findings that say at which sizes the model runs, and at which near ones it does not."""
    if any(f.code == "SS302" for f in a.diagnostics):  # then data decides, too
        return 0
    proto, found = written(a.model, original), [f for f in a.diagnostics if f.runs and f.fails]
    for finding in found:
        for sizes, runs in ((dict(finding.runs), True), (dict(finding.fails), False)):
            shapes = {n: tuple(d.evaluate(sizes) for d in k.shape) for n, k in a.inputs.items()}
            said = refusal(proto, shapes)
            assert (said == "") is runs, (finding, said)
    return len(found)


def declared_as_told(a: ss.Analysis, original: onnx.ModelProto, given: tuple[str, ...] = ()) -> int:
    """Dims are declared as findings say: the file runs at sizes that the model accepts, and nothing is told of them again."""
    told = [f for f in a.diagnostics if f.code in ("SS401", "SS402", "SS405") and "declare " in f.help]
    sizes = a._solved.completed({})
    if not told or not a.ok or sizes is None:
        return 0
    proto = written(a.model, original)
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            to = a._solved.facts.substitution.get(dim.dim_param)
            if to is not None and any(f.title.startswith(f"{dim.dim_param} is") for f in told):
                assert any(f.help.endswith(f"as {to}") or f" as {to}," in f.help for f in told)
                if to.terms:
                    dim.dim_param = str(to)
                else:
                    dim.dim_value = to.const
    after = ss.analyze(proto, assume=given)
    assert not [f for f in after.diagnostics if f.code in {g.code for g in told}]
    assert refusal(proto, {n: tuple(d.evaluate(sizes) for d in k.shape) for n, k in a.inputs.items()}) == ""
    return len(told)


#: cases with a remedy that can be carried out; with sizes that run, and near ones that do not; with a dim to declare
_MENDED = """
batchnorm_scale concat_wrong_axis conv_channels conv_group expand gather_table gemm_bias gemm_trans layernorm_width lstm_hidden
SS201 SS202 matmul_missing_transpose pad_negative reshape_heads reshape_product residual_width slice_rank
slice_then_add split_sum symbol_bound_twice wrong_permute
"""
MENDED = frozenset(_MENDED.split())
SHOWN = {"SS501", "SS406", "SS403", "reshape_baked_batch", "SS404"}
DECLARED = {"SS405", "SS402", "SS401"}


@pytest.mark.parametrize("name", CASES)
def test_advice_on_small_models_is_true(name: str) -> None:
    proto, given = CASES[name]
    a = analyzed(name)
    assert bool(carried_out(a, proto, given)) == (name in MENDED)
    assert bool(examples_are_true(a, proto)) == (name in SHOWN)
    assert bool(declared_as_told(a, proto, given)) == (name in DECLARED)


#: all but one with half a gigabyte of weights
BROKEN = [p for p in files() if "broken" in str(p) and (EVERYTHING or "vgg" not in p.parent.name)]


@pytest.mark.parametrize("path", share(BROKEN, 2), ids=lambda p: p.parent.name)
def test_advice_on_models_is_true(path: Path) -> None:
    a, original = ss.analyze(path), onnx.load(path, load_external_data=False)
    carried_out(a, original)
    examples_are_true(a, original)
    declared_as_told(a, original)


def test_a_declaration_that_is_taken_away_is_not_told_of_again() -> None:
    proto, given = CASES["stale_value_info"]
    (finding,) = [f for f in ss.analyze(proto, assume=given).diagnostics if f.code == "SS102"]
    assert "declar" in finding.help
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.ClearField("type")
    assert not [f for f in ss.analyze(bare, assume=given).diagnostics if f.code == "SS102"]


def test_the_node_to_look_at_is_the_one_that_fails() -> None:
    proto, _ = CASES["reshape_baked"]
    a = ss.analyze(proto)
    (finding,) = [f for f in a.diagnostics if "start there" in f.help]
    for size in (1, 2, 5):
        shapes = {
            n: tuple(d.value if d.value is not None else size for d in k.shape) for n, k in a.inputs.items()
        }
        assert finding.node in refusal(proto, shapes)


def _table(last: list[Any]) -> onnx.ModelProto:
    """Rows are added to a table as axes stand; what follows needs the axes as they were."""
    table = numpy_helper.from_array(np.zeros((7, 4), np.float32), "table")
    nodes = [
        N("Add", ["x", "table"], ["placed"], name="place"),
        N("Add", ["placed", "z"], ["y"], name="join"),
    ]
    return model(nodes, [info("x", ["b", 7, 5, 4]), info("z", last)], ["y"], [table])


@pytest.mark.parametrize(
    ("last", "advice"),
    [
        (["b", 5, 7, 4], "insert a Transpose (perm = [0, 2, 1, 3]) between x and place"),
        (["b", 7, 5, 4], "change the shape of table from [7, 4] to [5, 4]"),
        (["b", 9, 9, 4], ""),
    ],
    ids=["swap", "widen", "neither"],
)
def test_of_several_changes_that_is_told_which_mends_the_model(last: list[Any], advice: str) -> None:
    m = _table(last)
    a = ss.analyze(m)
    (finding,) = a.diagnostics
    assert finding.help == advice
    assert carried_out(a, m) == bool(advice)


def test_what_was_not_tried_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapesolve.causes.repair.MAX_LOWERED", 1)
    (finding,) = ss.analyze(_table(["b", 5, 7, 4])).diagnostics
    assert finding.help == ""


@pytest.mark.parametrize("op", ["MatMulInteger", "QLinearMatMul"])
def test_weights_of_quantized_products_that_lie_the_other_way_are_told_as_such(op: str) -> None:
    """A square weight would fit the node alone, but makes another layer of it: what stands there transposed runs."""
    weight = numpy_helper.from_array(np.zeros((5, 12), np.uint8), "w")
    scale = numpy_helper.from_array(np.float32(1), "s")
    columns = numpy_helper.from_array(np.ones(5, np.float32), "sw")
    points = numpy_helper.from_array(np.zeros(5, np.uint8), "zw")
    zero = numpy_helper.from_array(np.uint8(0), "z")
    names = ["x", "w"] if op == "MatMulInteger" else ["x", "s", "z", "w", "sw", "zw", "s", "z"]
    stored = [weight] if op == "MatMulInteger" else [weight, scale, columns, points, zero]
    m = model([N(op, names, ["y"], name="mm")], [info("x", ["batch", 12], TensorProto.UINT8)], ["y"], stored)
    a = ss.analyze(m)
    assert a.diagnostics[0].help == "change the shape of w from [5, 12] to [12, 5]"
    assert carried_out(a, m) == 1
