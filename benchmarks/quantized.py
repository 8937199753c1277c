"""What the drop-in is worth to quantization: onnxruntime's preprocessing and dynamic quantization over a corpus.

    python -m benchmarks.quantized [CORPUS] [--only PART]     # the bundled models unless told otherwise

Each model, with drawn weights, goes through `quant_pre_process` and `quantize_dynamic`, with onnxruntime's own shape inference
and with `shapesolve.compat.install()`; what comes out is run on generated inputs. What fails is listed with its reason.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import onnx

import shapesolve
from shapesolve import compat

from .apart import apart
from .corpus import default_corpus, model_files
from .latency import with_weights

#: what is done to a model, in order; each needs what came before
STEPS = ("preprocess", "quantize", "load", "run")
_FEEDS = 4
_SECONDS = 300


def outcome(file: Path, install: bool) -> tuple[str, str]:
    """The first step that fails, and why; "" when all are done."""
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.disable(logging.WARNING)
    model = with_weights(file)
    if install:
        compat.install()
    step = STEPS[0]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # they leave files where they run
        given, ready, small = (Path(folder) / f"{name}.onnx" for name in ("given", "ready", "small"))
        onnx.save(model, given)
        try:
            quant_pre_process(str(given), str(ready))
            step = STEPS[1]
            quantize_dynamic(str(ready), str(small))
            step = STEPS[2]
            session = _session(small)
            step = STEPS[3]
            _run(session, model)
        except Exception as error:  # whatever any of them raises
            return step, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "", ""


def _session(file: Path) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _run(session: Any, model: onnx.ModelProto) -> None:
    """Run feeds for the original; an initializer that quantizing made an input of is fed with its own data."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for feed in shapesolve.generate_inputs(model, _FEEDS, edge=False):
        data = dict(feed)
        for info in session.get_inputs():
            if info.name not in data and info.name in stored:
                data[info.name] = onnx.numpy_helper.to_array(stored[info.name])
        session.run(None, {info.name: data[info.name] for info in session.get_inputs()})


def measure(files: list[Path], install: bool) -> Mapping[str, tuple[str, str]]:
    """The outcome of each model."""
    told = apart(partial(outcome, install=install), files, _SECONDS)
    return {file.parent.name: one if isinstance(one, tuple) else (one, "") for file, one in told}


def main() -> None:
    """Both ways, counted by the step that fails, then failure by failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized", description=__doc__)
    parser.add_argument("corpus", type=Path, nargs="?", default=default_corpus())
    parser.add_argument("--only", default="", help="models whose name holds this")
    args = parser.parse_args()
    files = model_files(args.corpus, args.only)
    for install in (False, True):
        found = measure(files, install)
        counts = Counter(step or "done" for step, _ in found.values())
        print(f"{'installed' if install else 'onnxruntime alone'}: {len(files)} models, {dict(counts)}")
        for name, (step, why) in found.items():
            if step:
                print(f"  {name}: {step}: {why}")


if __name__ == "__main__":
    main()
