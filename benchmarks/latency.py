"""What simplifying is worth: the time of onnxruntime on a model before and after, beside the tools that people use for it.

Weights are drawn, sizes are those at which the corpus was measured (small ones, at which shape arithmetic weighs most), data
comes from `generate_inputs`. onnxruntime runs with all of its optimizations on one thread;
the models of a row take turns, and CPU time is measured, so that other work on the machine weighs little.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import shapesolve

MODELS = (
    "bert_eager__ts", "clip__ts", "fpn_det_topk__ts", "gpt2_past__ts", "llama_past__ts", "mixtral__ts",
    "optimum_gpt2", "optimum_llama", "segformer__ts", "swin__ts", "t5_decoder_past__ts", "vit_interp__ts",
    "wav2vec2_ctc__ts", "whisper_decoder_past__ts",
)  # fmt: skip
_RUNS = 10


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxsim

    changed: onnx.ModelProto = onnxsim.simplify(model)[0]
    return changed


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    changed: onnx.ModelProto = onnxslim.slim(model)
    return changed


TOOLS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "shapesolve": shapesolve.simplify,
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
}


def measure_latency(corpus: Path, rounds: int) -> Iterator[list[str]]:
    """Rows of a table: per model the nodes and milliseconds of the original and of what each tool makes of it."""
    tools = {name: tool for name, tool in TOOLS.items() if name == "shapesolve" or find_spec(name)}
    yield ["model", "ms", *(f"{name} {what}" for name in tools for what in ("ms", "nodes", "s"))]
    for name in MODELS:
        file = corpus / name / "model.onnx"
        if not file.exists():
            continue
        print(f"\r{name:<60}", end="", file=sys.stderr, flush=True)
        model = with_weights(file)
        feeds = feeds_of(file, model)[0]
        made: dict[str, tuple[onnx.ModelProto, float]] = {"original": (model, 0.0)}
        for tool, change in tools.items():
            copy = onnx.ModelProto.FromString(model.SerializeToString())
            start = time.process_time()
            try:
                made[tool] = change(copy), time.process_time() - start
            except Exception as error:  # each tool has its own
                print(f"\n{tool} fails on {name}: {error}", file=sys.stderr)
        seconds = _timed({tool: changed for tool, (changed, _) in made.items()}, feeds, rounds)
        cells = [f"{1000 * seconds['original']:.2f} ({_nodes(model)} nodes)"]
        for tool in tools:
            if tool not in made:
                cells += ["fails", "", ""]
                continue
            changed, spent = made[tool]
            cells += [f"{1000 * seconds[tool]:.2f}", str(_nodes(changed)), f"{spent:.2f}"]
        yield [name, *cells]


def with_weights(file: Path) -> onnx.ModelProto:
    """A model of the corpus, with drawn numbers for the weights that it comes without, and ranks of outputs for onnxsim."""
    model = onnx.load(file, load_external_data=False)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            drawn = rng.standard_normal(math.prod(tensor.dims)) * 0.05
            array = drawn.astype(kind).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    shapes = shapesolve.analyze(model).shapes
    for output in model.graph.output:
        declared = output.type.tensor_type
        if output.name in shapes and not declared.HasField("shape"):
            declared.shape.SetInParent()
            for _ in shapes[output.name]:
                declared.shape.dim.add()
    return model


def feeds_of(file: Path, model: onnx.ModelProto) -> list[dict[str, Any]]:
    """Inputs at the first two sizes at which the model was measured; none where a size is not accepted."""
    analysis = shapesolve.analyze(model)
    found = []
    for run in json.loads(file.with_name("truth.json").read_text("utf-8"))["runs"][:2]:
        bind = {name: size for name, size in run["symbols"].items() if name in analysis.symbols}
        try:
            found.append(dict(shapesolve.generate_inputs(analysis, 1, edge=False, bind=bind)[0]))
        except (ValueError, IndexError):
            return []
    return found


def _nodes(model: onnx.ModelProto) -> int:
    return sum(node.op_type != "Constant" for node in model.graph.node)


def _timed(models: dict[str, onnx.ModelProto], feeds: Any, rounds: int) -> dict[str, float]:
    """Median seconds of a run of each model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    sessions = {
        name: ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for name, m in models.items()
    }
    found: dict[str, list[float]] = {name: [] for name in models}
    for session in sessions.values():
        session.run(None, feeds)
    for _ in range(rounds):
        for name, session in sessions.items():
            start = time.process_time()
            for _ in range(_RUNS):
                session.run(None, feeds)
            found[name].append((time.process_time() - start) / _RUNS)
    return {name: statistics.median(values) for name, values in found.items()}
