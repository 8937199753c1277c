"""Annotated models: policies, names that stay, files, and round trips through onnxruntime and onnx_ir."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.change.annotate.annotate import BOUNDS_KEY, CONTRACT_KEY, read_contract, read_names
from shapesolve.change.annotate.file import save_annotated
from shapesolve.cli import app
from shapesolve.deploy.sizes import Sizes
from shapesolve.model.saving import external_locations
from shapesolve.report.json import contract_data, data_of

from ..building import bundled_files, corpus_files, parsed, session
from .broken import CASES, ints, model

ROOT = Path(__file__).resolve().parents[2]


def bundled() -> list[Path]:
    return bundled_files() + corpus_files("models")


def dims(info: onnx.ValueInfoProto) -> list[int | str | None]:
    return [
        d.dim_param or (d.dim_value if d.HasField("dim_value") else None)
        for d in info.type.tensor_type.shape.dim
    ]


def declared(inner: list[int | str | None] | None, output: list[int | str | None]) -> onnx.ModelProto:
    m = model("g (float[N, 4] X) => (Y) { [a] mid = Relu(X) [b] Y = Identity(mid) }")
    del m.graph.output[:]
    m.graph.output.append(helper.make_tensor_value_info("Y", TensorProto.FLOAT, output))
    if inner is not None:
        m.graph.value_info.append(helper.make_tensor_value_info("mid", TensorProto.FLOAT, inner))
    return m


# declared mid, declared Y, and what each policy makes of them
POLICIES = [
    ("skip", ["K", None], ["out", None], ["K", None], ["out", None]),
    ("override", ["K", None], ["out", None], ["N", 4], ["out", 4]),
    ("refine", ["K", None], ["out", None], ["K", 4], ["out", 4]),
    ("strict", ["K", None], ["out", None], ["K", 4], ["out", 4]),
    ("skip", None, [None, None], ["N", 4], [None, None]),
    ("override", None, [None, None], ["N", 4], ["N", 4]),
    ("refine", None, [None, None], ["N", 4], ["N", 4]),
    ("skip", ["N", 5], ["N", 4], ["N", 5], ["N", 4]),
    ("override", [7, 5], ["N", 4], ["N", 4], ["N", 4]),
    ("refine", ["N", 5], ["N", 4], ["N", 4], ["N", 4]),
    ("refine", ["N", "width"], ["N", "width"], ["N", 4], ["N", "width"]),
]


@pytest.mark.parametrize(("policy", "inner", "output", "mid", "y"), POLICIES)
def test_merge_policies(policy: str, inner: object, output: object, mid: object, y: object) -> None:
    m = declared(inner, output)  # type: ignore[arg-type]
    before = m.SerializeToString(deterministic=True)
    out = ss.analyze(m).annotate(policy)
    assert dims(out.graph.value_info[0]) == mid
    assert dims(out.graph.output[0]) == y
    assert m.SerializeToString(deterministic=True) == before


def test_strict_fails_on_a_contradiction() -> None:
    with pytest.raises(ValueError, match="declared as 5"):
        ss.analyze(declared(["N", 5], ["N", 4])).annotate("strict")
    with pytest.raises(ValueError, match="policy must be"):
        ss.analyze(declared(None, ["N", 4])).annotate("all")


def test_declared_names_of_inputs_and_outputs_stay_and_anonymous_dims_get_names() -> None:
    m = model("g (float[N, 4] X) => (float[rows, 8] Y) { [a] Y = Concat<axis: int = 1>(X, X) }")
    m.graph.input.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None, "M"]))
    out = ss.analyze(m).annotate("override")
    assert dims(out.graph.input[0]) == ["N", 4]
    assert dims(out.graph.input[1]) == ["Z_d0", "M"]
    assert dims(out.graph.output[0]) == ["rows", 8]


def test_subgraphs_are_annotated_too() -> None:
    m, _ = CASES["if_branches"]
    fixed = onnx.ModelProto()
    fixed.CopyFrom(m)
    for attribute in fixed.graph.node[0].attribute:
        weight = attribute.g.initializer[0]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight)[:1].repeat(64, 0), weight.name))
        attribute.g.node.insert(0, helper.make_node("Relu", ["x"], [f"{attribute.name}_a"], name="act"))
        attribute.g.node[1].input[0] = f"{attribute.name}_a"
    a = ss.analyze(fixed)
    assert a.ok
    for attribute in a.annotate().graph.node[0].attribute:
        assert {v.name: dims(v) for v in attribute.g.value_info} == {f"{attribute.name}_a": ["batch", 64]}
        assert dims(attribute.g.output[0]) == ["batch", 8]


def test_tensors_inside_functions_are_left_out() -> None:
    m = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (y) { z = local.twice(x) y = Relu(z) }
        <domain: "local", opset_import: ["": 17]>
        twice (a) => (c) { b = Concat<axis: int = 1>(a, a) c = Identity(b) }"""
    )
    out = ss.analyze(m).annotate()
    assert {v.name: dims(v) for v in out.graph.value_info} == {"z": ["N", 8]}
    assert not out.functions[0].value_info


def test_the_contract_is_stored_and_read_back() -> None:
    a = ss.analyze(ROOT / "examples/unet.onnx")
    out = ss.annotate(ss.analyze(a.annotate(contract=True)), contract=True)
    (text,) = [p.value for p in out.metadata_props if p.key == CONTRACT_KEY]
    assert json.loads(text) == {
        "version": 1,
        "command": "contract",
        **json.loads(json.dumps(data_of(contract_data(a)))),
    }
    read = read_contract(out)
    assert read is not None
    assert [str(t) for t in read] == [str(t) for t in a.contract]
    assert read.holds({"batch": 1, "height": 12, "width": 8}) is False
    assert read_contract(a.annotate()) is None
    assert read_contract(ss.fix(out, {"height": 8})) is None, "it describes the model before the change"


def test_a_model_that_never_runs_carries_that(tmp_path: Path) -> None:
    read = read_contract(ss.annotate(ROOT / "examples/broken_matmul.onnx", contract=True))
    assert read is not None
    assert read.impossible
    command = ["annotate", str(ROOT / "examples/unet.onnx"), "-o", str(tmp_path / "out.onnx"), "--contract"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert read_contract(onnx.load(tmp_path / "out.onnx")) is not None


# ---------------------------------------------------------------------- files


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = ss.analyze(ROOT / "examples/unet.onnx")
    target = tmp_path / "out.onnx"
    save_annotated(a, target)
    assert ss.analyze(target).ok
    content = target.read_bytes()

    def failing(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="disk full"):
        save_annotated(a, target, "override")
    assert target.read_bytes() == content
    assert [f.name for f in tmp_path.iterdir()] == ["out.onnx"]


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    m = model("g (float[N, 4] x) => (y) { [fc] y = MatMul(x, w) }", w=[4, 8])
    source = tmp_path / "model" / "m.onnx"
    source.parent.mkdir()
    onnx.save(m, source, save_as_external_data=True, location="m.data", size_threshold=0)
    a = ss.analyze(source)
    assert list(external_locations(a.model.proto)) == ["m.data"]
    with pytest.raises(ValueError, match="write the output into that folder"):
        save_annotated(a, tmp_path / "elsewhere.onnx")
    save_annotated(a, source.parent / "annotated.onnx")
    assert not list(onnx.load(source.parent / "annotated.onnx").graph.value_info)
    assert session(source.parent / "annotated.onnx").get_outputs()[0].shape == ["N", 8]


@pytest.mark.parametrize("weights", ["copy", "link"])
def test_external_data_goes_along_when_asked(tmp_path: Path, weights: Any) -> None:
    source, folder = tmp_path / "model" / "m.onnx", tmp_path / "elsewhere"
    source.parent.mkdir()
    folder.mkdir()
    m = model("g (float[N, 4] x) => (y) { [fc] y = MatMul(x, w) }", w=[4, 8])
    onnx.save(m, source, save_as_external_data=True, location="parts.data", size_threshold=0)
    a = ss.analyze(source)
    for _ in range(2):  # the second time, the weights are there already
        save_annotated(a, folder / "m.onnx", "override", weights)
    assert session(folder / "m.onnx").get_outputs()[0].shape == ["N", 8]
    assert (folder / "parts.data").samefile(source.parent / "parts.data") == (weights == "link")
    (folder / "m.onnx").unlink()
    (folder / "parts.data").unlink()
    (folder / "parts.data").write_bytes(b"other weights")
    with pytest.raises(ValueError, match="already exists"):
        save_annotated(a, folder / "m.onnx", "override", weights)
    assert [f.name for f in folder.iterdir()] == ["parts.data"]
    assert (folder / "parts.data").read_bytes() == b"other weights"


def test_weights_outside_of_the_folder_are_not_taken_along(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(128))
    (tmp_path / "model").mkdir()
    (tmp_path / "out").mkdir()
    m = model("g (float[N, 4] x) => (y) { [fc] y = MatMul(x, w) }", w=[4, 8])
    onnx.save(m, tmp_path / "model/m.onnx", save_as_external_data=True, location="d", size_threshold=0)
    m = onnx.load(tmp_path / "model/m.onnx", load_external_data=False)
    next(e for e in m.graph.initializer[0].external_data if e.key == "location").value = "../secret"
    (tmp_path / "model/m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(ValueError, match="outside"):
        save_annotated(ss.analyze(tmp_path / "model/m.onnx"), tmp_path / "out/m.onnx", weights="copy")
    assert not list((tmp_path / "out").iterdir())


def test_what_protobuf_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapesolve.model.saving.MAX_PROTOBUF", 100)
    with pytest.raises(ValueError, match="larger than the 2 GiB"):
        save_annotated(ss.analyze(ROOT / "examples/unet.onnx"), tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- round trips


def values(graph: ir.Graph) -> Iterator[ir.Value]:
    for node in graph:
        yield from node.outputs
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from values(attribute.as_graph())


@pytest.mark.parametrize("path", bundled(), ids=lambda p: p.parent.name if p.stem == "model" else p.stem)
def test_every_expression_reads_back_as_the_same_value(path: Path) -> None:
    a = ss.analyze(path)
    out = a.annotate("override")
    invented = read_names(out)
    kept = {o.name for o in out.graph.output}
    rng = random.Random(7)
    points = [Sizes(a, {}).drawn(rng) for _ in range(4)] if a.ok else []
    for info in [o for o in out.graph.output if o.type.WhichOneof("value") not in (None, "tensor_type")]:
        out.graph.output.remove(info)  # onnx_ir reads no maps
    memo: dict[tuple[str, ss.Dim], None] = {}
    for value in values(ir.from_proto(out).graph):
        shape = a._solved.simple_shapes.get(value.name or "")
        if value.shape is None or shape is None or value.name in kept:
            continue
        for read, dim in zip(value.shape, shape, strict=True):
            if isinstance(read, int):
                assert dim == read
            elif read.value not in invented and dim.free <= a.symbols.keys():
                memo[read.value or "", dim] = None
    for text, dim in memo:
        for point in points:
            true = dim.evaluate(point)
            if true is not None and true >= 0:
                assert ir.SymbolicDim(text).evaluate(point) == true, text


@pytest.mark.parametrize("path", [p for p in bundled() if "examples" in str(p)], ids=lambda p: p.stem)
def test_onnxruntime_loads_annotated_models(path: Path, tmp_path: Path) -> None:
    a = ss.analyze(path)
    if not a.ok:
        return
    save_annotated(a, tmp_path / "out.onnx", "override")
    session(tmp_path / "out.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=False)


def test_an_expression_that_the_grammar_lacks_gets_a_name_that_the_metadata_explains() -> None:
    m = model(
        "g (float[N] x, float[_e0] z) => (y) { [cut] c = Slice(x, starts, ends) [pad] y = Concat<axis: int = 0>(c, z) }",
        starts=ints(-3),
        ends=ints(2**31),
    )
    a = ss.analyze(m)
    out = a.annotate()
    for name, text in read_names(out).items():
        assert name not in a.symbols
        assert ss.parse_dim(text, a.symbols) in set(a.shapes["y"]) | set(a.shapes["c"])


@pytest.mark.parametrize("dim", [-1, None, "?", ""])
def test_a_dim_without_a_size_gets_the_name_that_is_printed(dim: int | str | None) -> None:
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [dim, 3, dim, 8])
    half = helper.make_tensor_value_info("y", TensorProto.FLOAT, [dim, 3, dim, dim])
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 2], strides=[1, 2])
    graph = helper.make_graph([pool], "g", [image], [half])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for written, height in (
        (ss.annotate(model), "x_d2"),
        (ss.simplify(model), "x_d2"),
        (ss.fix(model, {"x_d2": 6}), 6),
    ):
        for value, width in ((written.graph.input[0], 8), (written.graph.output[0], 4)):
            found = [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
            assert found == ["x_d0", 3, height, width]


def test_the_largest_sizes_that_data_may_give_are_in_the_file() -> None:
    model = parsed("agraph (float[batch, n] x) => (int64[rank, found] y) { y = NonZero(x) }")
    written = ss.analyze(model).annotate()
    assert {p.key: p.value for p in written.metadata_props} == {BOUNDS_KEY: "found <= batch*n"}
    bounded = ss.analyze(written, bind={"batch": 2, "n": 3}).annotate()
    assert {p.key: p.value for p in bounded.metadata_props} == {BOUNDS_KEY: "found <= 6"}


def test_the_first_node_after_which_shapes_are_unknown_is_named(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "acme" : 1]> g (float[batch, n] x) => (y) {
        a = Relu(x) [odd] b = acme.Odd(a) c = Relu(b) [later] y = acme.Later(c) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    done = CliRunner().invoke(app, ["annotate", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx")])
    assert (
        "tensors have a shape\nshapes are lost first at odd: acme.Odd is not a known operator" in done.output
    )
    assert "later" not in done.output
    whole = CliRunner().invoke(
        app, ["annotate", str(ROOT / "examples/unet.onnx"), "-o", str(tmp_path / "u.onnx")]
    )
    assert "lost" not in whole.output
