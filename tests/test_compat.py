"""In place of the shape inference of onnx and onnxruntime: their callers work, and what they rely on stays."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from benchmarks.corpus import model_files
from benchmarks.quantized import measure
from shapesolve import compat

from . import building
from .building import EVERYTHING

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = [ROOT / f"examples/{n}.onnx" for n in ("attention", "unet")]


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    try:
        yield
    finally:
        compat.uninstall()


def shapes(model: onnx.ModelProto) -> dict[str, list[object]]:
    infos = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    return {
        i.name: [
            d.dim_value if d.HasField("dim_value") else d.dim_param for d in i.type.tensor_type.shape.dim
        ]
        for i in infos
        if i.type.tensor_type.HasField("shape")
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_number_of_onnx_is_there(path: Path) -> None:
    theirs = shapes(onnx.shape_inference.infer_shapes(onnx.load(path)))
    ours = shapes(compat.infer_shapes(onnx.load(path)))
    for name, dims in theirs.items():
        for a, b in zip(dims, ours[name], strict=True):
            assert a == b or not isinstance(a, int), (name, dims, ours[name])


def test_inputs_and_declared_outputs_keep_their_names() -> None:
    graph = helper.make_graph(
        [helper.make_node("Concat", ["a", "b"], ["c"], axis=0), helper.make_node("Relu", ["c"], ["d"])],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["past"]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["seq"]),
        ],
        [
            helper.make_tensor_value_info("c", TensorProto.FLOAT, ["whole"]),
            helper.make_tensor_value_info("d", TensorProto.FLOAT, [None]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    before = model.SerializeToString()
    plain = shapes(compat.infer_shapes(model))
    assert plain == {"a": ["past"], "b": ["seq"], "c": ["whole"], "d": [""]}
    told = shapes(compat.infer_shapes(model, expressions=True))
    assert told["d"] == ["past + seq"]
    assert model.SerializeToString() == before


def test_strictness_is_their_error() -> None:
    broken = onnx.load(ROOT / "examples/broken_matmul.onnx")
    assert shapes(compat.infer_shapes(broken))
    with pytest.raises(onnx.shape_inference.InferenceError, match="cannot multiply"):
        compat.infer_shapes(broken, strict_mode=True)
    with pytest.raises(onnx.shape_inference.InferenceError, match="cannot multiply"):
        compat.infer_shapes(broken, check_type=True)
    with pytest.raises(TypeError, match="infer_shapes_path"):
        compat.infer_shapes("model.onnx")  # type: ignore[arg-type]


def test_paths(tmp_path: Path) -> None:
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    source.write_bytes(EXAMPLES[1].read_bytes())
    compat.infer_shapes_path(source, out)
    assert onnx.load(out) == compat.infer_shapes(onnx.load(EXAMPLES[1]))
    compat.infer_shapes_path(str(source))
    assert source.read_bytes() == out.read_bytes()


def test_install_and_uninstall() -> None:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    theirs = (onnx.shape_inference.infer_shapes, SymbolicShapeInference.infer_shapes)
    compat.install()
    compat.install()
    assert onnx.shape_inference.infer_shapes is compat.infer_shapes
    assert SymbolicShapeInference.infer_shapes is not theirs[1]
    compat.uninstall()
    assert (onnx.shape_inference.infer_shapes, SymbolicShapeInference.infer_shapes) == theirs
    compat.uninstall()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("auto_merge", [False, True])
def test_preprocessing_for_quantization(
    path: Path, auto_merge: bool, tmp_path: Path, installed: None
) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    out = tmp_path / "ready.onnx"
    quant_pre_process(str(path), str(out), auto_merge=auto_merge)
    building.session(out)
    assert len(shapes(onnx.load(out))) > 10


def test_a_tool_that_is_imported_later_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime's transformers tools import it by a name of its own, when they first need it."""
    folder = Path(ort.__file__).parent / "transformers"
    monkeypatch.syspath_prepend(str(folder))
    for name in ("symbolic_shape_infer", "shape_infer_helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    compat.install()
    try:
        helper = importlib.import_module("shape_infer_helper").SymbolicShapeInferenceHelper
        assert helper._infer_impl is compat._infer_impl
    finally:
        compat.uninstall()
        sys.modules.pop("shape_infer_helper", None)
    assert helper._infer_impl is not compat._infer_impl
    assert "symbolic_shape_infer" not in sys.modules


def test_helpers_that_derive_from_their_class(installed: None) -> None:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    helper_ = SymbolicShapeInference(2**31 - 1, True, False, 0)
    helper_._preprocess(onnx.load(EXAMPLES[0]))
    while helper_.run_:
        assert helper_._infer_impl()
    assert helper_._get_shape_rank(helper_.out_mp_.graph.node[-1], 0) >= 0
    assert len(helper_.known_vi_) > 50


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    line = [
        sys.executable,
        "-m",
        "shapesolve.compat",
        "--input",
        EXAMPLES[0],
        "--output",
        out,
        "--auto_merge",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(shapes(onnx.load(out))) > 50
    done = subprocess.run([*line[:4], tmp_path / "none.onnx"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "file not found" in done.stderr


@pytest.mark.parametrize("name", ["loop_scan_outputs", "yolo_nms_postprocess"][: 2 if EVERYTHING else 1])
def test_what_onnxruntime_alone_cannot_prepare_is_quantized_and_runs(name: str) -> None:
    files = model_files(ROOT / "tests" / "models", f"^{name}$")
    assert measure(files, install=False)[name][0] == "preprocess"
    assert measure(files, install=True)[name] == ("", "")
