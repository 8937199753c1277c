"""What a user waits for who has a file: shapes from a path beside onnx's `infer_shapes_path`, and files of gigabytes."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, helper

from . import isolated
from .corpus import model_files, read_case
from .engines import OURS

MIN_NODES = 100
_SIDE = 1 << 13  # 8192 x 8192 floats are a quarter of a GiB


class Pair(NamedTuple):
    """Milliseconds of CPU for one model: onnx's and ours."""

    model: str
    nodes: int
    theirs: float
    ours: float

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return self.theirs / self.ours


def from_paths(corpus: Path, rounds: int) -> Iterator[Pair]:
    """Both from the path of every model over 100 nodes, in turns; onnx's writes a file, ours leaves an analysis.

    Median CPU milliseconds, after a pass of the garbage collector, which leaves nothing in the processor's caches.
    """
    with tempfile.TemporaryDirectory(prefix="shapesolve-path-") as folder:
        written = Path(folder, "out.onnx")
        for file in model_files(corpus, ""):
            nodes = read_case(file).nodes
            if nodes <= MIN_NODES:
                continue
            theirs, ours = list[float](), list[float]()
            for _ in range(rounds + 1):
                theirs.append(
                    _cpu(partial(onnx.shape_inference.infer_shapes_path, file, written, data_prop=True))
                )
                ours.append(_cpu(partial(OURS.infer, file)))
            # the first one prepares what is prepared once
            yield Pair(file.parent.name, nodes, statistics.median(theirs[1:]), statistics.median(ours[1:]))


def _cpu(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


# ---------------------------------------------------------------------- gigabytes


def write_inline(file: Path, weights: int, side: int = _SIDE) -> None:
    """A chain of MatMuls by so many square inline weights (quarters of a GiB), as a sparse file: no disk is used."""
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(weights)]
    given = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["batch", side])]
    made = [helper.make_tensor_value_info(f"x{weights}", TensorProto.FLOAT, ["batch", side])]
    graph = helper.make_graph(nodes, "large", given, made).SerializeToString()
    length, heads = 4 * side * side, []
    for i in range(weights):
        told = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[side, side]).SerializeToString()
        told += _tag(TensorProto, "raw_data") + _varint(length)
        heads.append(_tag(onnx.GraphProto, "initializer") + _varint(len(told) + length) + told)
    size = len(graph) + sum(map(len, heads)) + weights * length
    model = onnx.ModelProto(ir_version=9, opset_import=[helper.make_opsetid("", 17)]).SerializeToString()
    with file.open("wb") as stream:
        stream.write(model + _tag(onnx.ModelProto, "graph") + _varint(size) + graph)
        for head in heads:
            stream.write(head)
            stream.seek(length, 1)
        stream.truncate(stream.tell())


def _tag(message: Any, field: str) -> bytes:
    return _varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | 2)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


#: what is asked for a file of gigabytes: arguments of a fresh interpreter, the file comes last
TOOLS = {
    "shapesolve check": ("-P", "-m", "shapesolve", "check"),
    "onnx.load": ("-P", "-c", "import onnx, sys; onnx.load(sys.argv[1], load_external_data=False)"),
    "onnx infer_shapes_path": (
        "-P",
        "-c",
        "import onnx, sys; onnx.shape_inference.infer_shapes_path(sys.argv[1], sys.argv[1] + '.out')",
    ),
}


def large_files(quarters: int) -> Iterator[tuple[str, isolated.Usage]]:
    """Every tool on a file with so many quarters of a GiB of weights."""
    with tempfile.TemporaryDirectory(prefix="shapesolve-large-") as folder:
        file = Path(folder, "model.onnx")
        write_inline(file, quarters)
        for tool, arguments in TOOLS.items():
            yield tool, isolated.usage(*arguments, str(file))
