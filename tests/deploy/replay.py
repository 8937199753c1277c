"""What a model costs, counted with numbers from shapes that were measured at run time.

Nothing here knows the package's formulas.

    python -m tests.deploy.replay CORPUS     # every model: memory replayed, operations counted, held against `shapesolve.cost`

The definitions are those of docs/reference/cost-model.md: liveness in the order of the file, one MAC per product that is
summed, and operations per element.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss

from ..building import session

Shape = Sequence[int]
Shapes = Mapping[str, Shape]


def bytes_of(shape: Shape, dtype: int) -> int | None:
    """Bytes of a dense tensor; None for texts."""
    if dtype in (0, TensorProto.STRING):
        return None
    if dtype in (TensorProto.INT4, TensorProto.UINT4):
        return (math.prod(shape) + 1) // 2
    return math.prod(shape) * helper.tensor_dtype_to_np_dtype(dtype).itemsize


# ---------------------------------------------------------------------- memory


def held(
    graph: onnx.GraphProto, size: Callable[[str], int], inside: Mapping[str, tuple[int, bool]] | None = None
) -> tuple[int, int]:
    """The bytes of all tensors that nodes make, and the most that is held at once, every tensor by itself.

    `inside`: by first output of a node that runs bodies, the bytes held there, and are its outputs held meanwhile?
    """
    nodes = [n for n in graph.node if n.op_type != "Constant"]
    stored = {t.name for t in graph.initializer}
    given = [i.name for i in graph.input if i.name not in stored]
    outputs = {o.name for o in graph.output}
    made = {o for n in nodes for o in n.output if o}
    readers: dict[str, int] = {}
    for i, n in enumerate(nodes):
        for name in (*n.input, *n.output):
            readers[name] = i
    alive = set(given)
    peak = now = sum(map(size, given))
    for i, n in enumerate(nodes):
        body, beside = (inside or {}).get(next(filter(None, n.output), ""), (0, True))
        if not beside:
            peak, body = max(peak, now + body), 0
        for o in n.output:
            if o:
                alive.add(o)
                now += size(o)
        peak = max(peak, now + body)
        for name in {x for x in (*n.input, *n.output) if x in alive}:
            if readers[name] == i and name not in outputs and name not in given:
                alive.discard(name)
                now -= size(name)
    return sum(map(size, made)), peak


# ---------------------------------------------------------------------- operations


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


_ONE = """
    Abs Acos Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos CumSum Div Elu Equal Erf Exp Floor
    Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Mod Mul Neg Not Or PRelu
    Pow QuickGelu Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh Xor
"""
_NONE = """
    ArrayFeatureExtractor Cast CastLike Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace Dropout Expand
    EyeLike Flatten Gather GatherElements GatherND Identity Imputer LabelEncoder NonZero OneHot OneHotEncoder Pad Range
    ReorderInput ReorderOutput Reshape ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase
    SequenceInsert Shape Size Slice SpaceToDepth Split SplitToSequence Squeeze Tile Transpose Trilu Unsqueeze Where ZipMap
"""
_PER_ELEMENT = {
    **dict.fromkeys(_ONE.split(), 1), **dict.fromkeys(_NONE.split(), 0), "Softmax": 5, "LogSoftmax": 5, "BatchNormalization": 2,
    "InstanceNormalization": 7, "GroupNormalization": 7, "DequantizeLinear": 2, "QuantizeLinear": 2, "BiasGelu": 2,
    "Normalizer": 3, "Scaler": 2, "LpNormalization": 3,
}  # fmt: skip
_PER_READ = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSum"), 1),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), 2),
    "ArgMax": 1, "ArgMin": 1, "GlobalAveragePool": 1, "GlobalMaxPool": 1, "DynamicQuantizeLinear": 4,
}  # fmt: skip


def attention(b: int, heads: int, q: int, k: int, size: int, value: int) -> tuple[int, int]:
    """MACs of ``Q K^T`` and of ``P V``; six operations for each score."""
    return b * heads * q * k * size + b * heads * q * k * value, 6 * b * heads * q * k


def operations(node: onnx.NodeProto, shapes: Shapes) -> tuple[int, int] | None:
    """MACs and other operations of one node; None where they are not counted."""
    op, a = node.op_type, attributes(node)
    x = [shapes.get(n) if n else None for n in node.input]
    y = shapes.get(node.output[0]) if node.output[0] else None
    if op in _PER_ELEMENT:
        per = _PER_ELEMENT[op]
        return 0, per * math.prod(y or ()) if per else 0
    if op in _PER_READ:
        return 0, _PER_READ[op] * math.prod(x[0])  # type: ignore[arg-type]
    if op == "GroupQueryAttention":
        return _grouped(a, x, shapes[node.output[1]])
    if op == "Attention":
        return (_merged if node.domain else _attention)(a, x, y)
    rule = _RULES.get(op)
    return None if rule is None else rule(a, x, y)


def _there(x: Sequence[Any], *at: int) -> int:
    return sum(i < len(x) and x[i] is not None for i in at)


def _matmul(a: Any, x: Any, y: Any) -> tuple[int, int]:
    k = x[0][-1]
    if a.get("transA"):
        k = x[0][0] if a.get("transBatchA") else x[0][-2]
    return math.prod(y) * k, 0


def _gemm(a: Any, x: Any, y: Any) -> tuple[int, int]:
    rows, columns = y
    inner = x[0][0] if a.get("transA") else x[0][1]
    more = _there(x, 2) + bool(a.get("activation"))
    return rows * inner * columns, more * rows * columns


def _conv(a: Any, x: Any, y: Any) -> tuple[int, int]:
    _, per_group, *kernel = x[1]
    taps = per_group
    for k in kernel:
        taps *= k
    more = _there(x, 2, 3) + bool(a.get("activation"))
    return math.prod(y) * taps, more * math.prod(y)


def _conv_transpose(a: Any, x: Any, y: Any) -> tuple[int, int]:
    batch, channels, *spatial = x[0]
    _, per_group, *kernel = x[1]
    return batch * channels * math.prod(spatial) * per_group * math.prod(kernel), _there(x, 2) * math.prod(y)


def _pool(a: Any, x: Any, y: Any) -> tuple[int, int]:
    return 0, math.prod(y) * math.prod(a["kernel_shape"])


def _recurrent(gates: int, join: int) -> Callable[[Any, Any, Any], tuple[int, int]]:
    def count(a: Any, x: Any, y: Any) -> tuple[int, int]:
        length, batch, features = x[0]
        hidden, directions = a["hidden_size"], x[1][0]
        macs = ops = 0
        for _ in range(directions):
            for _ in range(length):
                macs += batch * gates * hidden * (features + hidden)
                ops += batch * hidden * (gates * (2 + _there(x, 3)) + join)
        return macs, ops

    return count


def _resize(a: Any, x: Any, y: Any) -> tuple[int, int]:
    mode = a.get("mode", b"nearest").decode()
    changed = sum(p != q for p, q in zip(x[0], y, strict=True))
    taps = {"linear": 2, "cubic": 4}.get(mode, 0)
    return (math.prod(y) * taps**changed if taps and changed else 0), 0


def _einsum(a: Any, x: Any, y: Any) -> tuple[int, int]:
    left, _, _ = a["equation"].decode().replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, shape in zip(left.split(","), x, strict=True):
        assert "." not in term
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, size)) if size else 0
    cells = math.prod(sizes.values())
    return (cells * (len(x) - 1), 0) if len(x) > 1 else (0, cells)


def _layer_norm(a: Any, x: Any, y: Any) -> tuple[int, int]:
    return 0, math.prod(y) * (5 + _there(x, 1, 2))


def _rms_norm(a: Any, x: Any, y: Any) -> tuple[int, int]:
    return 0, math.prod(y) * (3 + _there(x, 1))


def _skip_norm(a: Any, x: Any, y: Any) -> tuple[int, int]:
    return 0, math.prod(y) * (6 + _there(x, 2, 3, 4))


def _skip_rms_norm(a: Any, x: Any, y: Any) -> tuple[int, int]:
    return 0, math.prod(y) * (4 + _there(x, 2, 3))


def _attention(a: Any, x: Any, y: Any) -> tuple[int, int]:
    """The standard's: [B, N, S, H], or [B, S, N*H] with the heads as attributes."""
    if len(x[0]) == 4:
        (b, n, q, h), k, v = x[0], x[1][2], x[2][3]
    else:
        (b, q, hidden), n = x[0], a["q_num_heads"]
        h, k, v = hidden // n, x[1][1], x[2][2] // a["kv_num_heads"]
    return attention(b, n, q, k + (x[4][2] if _there(x, 4) else 0), h, v)


def _merged(a: Any, x: Any, y: Any) -> tuple[int, int]:
    """onnxruntime's: projections of one input first."""
    (b, s, features), width, n = x[0], x[1][1], a["num_heads"]
    h = width // 3 // n
    macs, ops = attention(b, n, s, s + (x[4][3] if _there(x, 4) else 0), h, h)
    return macs + b * s * features * width, ops + _there(x, 2) * b * s * width


def _multi_head(a: Any, x: Any, y: Any) -> tuple[int, int]:
    (b, s, hidden), n = x[0], a["num_heads"]
    keys, value = (x[1][1], x[2][2] // n) if len(x[1]) == 3 else (x[1][2], x[2][3])
    macs, ops = attention(b, n, s, keys + (x[6][2] if _there(x, 6) else 0), hidden // n, value)
    return macs, ops + (sum(math.prod(x[i]) for i in range(3)) if _there(x, 3) else 0)


def _grouped(a: Any, x: Any, y: Any) -> tuple[int, int]:
    """Keys and values of few heads, which the caches hold (the second output) after the step."""
    (b, s, hidden), n, few = x[0], a["num_heads"], a["kv_num_heads"]
    h = hidden // n if _there(x, 1) else hidden // (n + 2 * few)
    macs, ops = attention(b, n, s, y[2], h, h)
    return macs, ops + (3 * b * s * (n + few) * h if a.get("do_rotary") else 0)


def _rotary(a: Any, x: Any, y: Any) -> tuple[int, int]:
    part = a.get("rotary_embedding_dim", 0)
    whole = x[0][3] if len(x[0]) == 4 else (x[0][2] // a["num_heads"] if part else 1)
    return 0, 3 * math.prod(y) // whole * (part or whole)


def _classifier(a: Any, x: Any, y: Any) -> tuple[int, int]:
    n = len(a["intercepts"])
    return math.prod(x[0]) * n, math.prod(x[0][:-1]) * n


_RULES: dict[str, Callable[[Any, Any, Any], tuple[int, int]]] = {
    **dict.fromkeys(("MatMul", "FusedMatMul", "MatMulInteger"), _matmul),
    **dict.fromkeys(("Gemm", "FusedGemm"), _gemm),
    **dict.fromkeys(("Conv", "FusedConv"), _conv), "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "LSTM": _recurrent(4, 5), "DynamicQuantizeLSTM": _recurrent(4, 5), "GRU": _recurrent(3, 5),
    "MatMulNBits": lambda a, x, y: (math.prod(x[0][:-1]) * a["K"] * a["N"], _there(x, 5) * math.prod(y)),
    "Resize": _resize, "Einsum": _einsum,
    **dict.fromkeys(("Max", "Min", "Sum"), lambda a, x, y: (0, (len(x) - 1) * math.prod(y))),
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm, "SimplifiedLayerNormalization": _rms_norm,
    "SkipLayerNormalization": _skip_norm, "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "LRN": lambda a, x, y: (0, math.prod(y) * (a["size"] + 5)),
    "EmbedLayerNormalization": lambda a, x, y: (0, math.prod(y) * (8 + _there(x, 1))),
    "FastGelu": lambda a, x, y: (0, math.prod(y) * (1 + _there(x, 1))),
    "RotaryEmbedding": _rotary, "MultiHeadAttention": _multi_head, "LinearClassifier": _classifier,
    "LinearRegressor": lambda a, x, y: (math.prod(y) * x[0][-1], math.prod(y) * bool(a.get("intercepts"))),
}  # fmt: skip


def counted(graph: onnx.GraphProto, shapes: Shapes) -> tuple[int, int, set[str]]:
    """MACs, other operations, and the operators that are not counted; bodies inside nodes are the caller's."""
    macs = other = 0
    left: set[str] = set()
    for node in graph.node:
        if any(a.HasField("g") for a in node.attribute):
            continue
        found = operations(node, shapes)
        if found is None:
            left.add(node.op_type)
            continue
        macs, other = macs + found[0], other + found[1]
    return macs, other, left


# ---------------------------------------------------------------------- bodies


class Nested:
    """Memory and operations of the bodies of one graph, each run by itself with what it reads from outside made up."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes, dtypes: Mapping[str, int]) -> None:
        self.model, self.shapes, self.dtypes = model, shapes, dtypes
        self.left: set[str] = set()
        self.macs = self.other = 0
        self.inside: dict[
            str, tuple[int, bool]
        ] = {}  # by output of the node: bytes, and are they held beside it
        for node in model.graph.node:
            bodies = [(a.name, a.g) for a in node.attribute if a.HasField("g")]
            if bodies:
                self._follow(node, bodies)

    def _follow(self, node: onnx.NodeProto, bodies: Sequence[tuple[str, onnx.GraphProto]]) -> None:
        label = node.name or f"{node.op_type}({node.output[0]})"
        peaks, macs, other = [], [], []
        for name, body in bodies:
            given = self._inputs(node, body)
            inner, kinds = self._run(body, given, f"{label}/{name}/")

            def size(n: str, inner: Shapes = inner, kinds: Mapping[str, int] = kinds) -> int:
                return bytes_of(inner[n], kinds[n]) or 0 if n in inner else 0

            _, peak = held(body, size)
            found = counted(body, {**self.shapes, **inner})
            peaks.append(peak)
            macs.append(found[0])
            other.append(found[1])
            self.left |= found[2]
        times = 1
        if node.op_type == "Scan":
            times = self.shapes[node.input[-1]][0]
        elif node.op_type == "Loop":
            times = self.shapes[node.output[-1]][0]  # rows of the last scan output
        self.macs += times * max(macs)
        self.other += times * max(other)
        self.inside[next(o for o in node.output if o)] = max(peaks), node.op_type != "If"

    def _inputs(self, node: onnx.NodeProto, body: onnx.GraphProto) -> dict[str, Shape]:
        """Shapes of a body's inputs: slices along the first axis in a Scan, states and scalars in a Loop."""
        if node.op_type == "Scan":
            scans = attributes(node)["num_scan_inputs"]
            states = len(node.input) - scans
            shapes = [self.shapes[n][i >= states :] for i, n in enumerate(node.input)]
        elif node.op_type == "Loop":
            shapes = [(), (), *(self.shapes[n] for n in node.input[2:])]
        else:
            shapes = []
        return {i.name: shape for i, shape in zip(body.input, shapes, strict=True)}

    def _run(
        self, body: onnx.GraphProto, given: Mapping[str, Shape], prefix: str
    ) -> tuple[dict[str, Shape], dict[str, int]]:
        """Shapes and element types of all tensors of a body, from a run of it as a model of its own."""

        kinds = {i.name: i.type.tensor_type.elem_type for i in body.input}
        made = {o for n in body.node for o in n.output if o}
        inside = {t.name for t in body.initializer} | made | given.keys()
        stored = [t for t in self.model.graph.initializer if t.name not in inside]
        constants = [
            n for n in self.model.graph.node if n.op_type == "Constant" and n.output[0] not in inside
        ]
        known = inside | {t.name for t in stored} | {n.output[0] for n in constants}
        reads = dict.fromkeys(n for node in body.node for n in (*node.input,) if n and n not in known)
        outer = {n: self.shapes[n] for n in [*reads, *(o.name for o in body.output if o.name not in known)]}
        kinds |= {n: self.dtypes[n] for n in outer} | {n: self.dtypes.get(prefix + n, 0) for n in made}
        takes = {**given, **outer}
        inputs = [helper.make_tensor_value_info(n, kinds[n], list(s)) for n, s in takes.items()]
        outputs = [helper.make_empty_tensor_value_info(n) for n in made]
        graph = helper.make_graph(
            [*constants, *body.node], "body", inputs, outputs, [*stored, *body.initializer]
        )
        model = helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )
        for t in model.graph.initializer:
            if t.data_location == TensorProto.EXTERNAL:
                kind = helper.tensor_dtype_to_np_dtype(t.data_type)
                t.CopyFrom(numpy_helper.from_array(np.zeros(tuple(t.dims), kind), t.name))
        loaded = session(model, optimized=False)
        feeds = {n: np.ones(tuple(s), helper.tensor_dtype_to_np_dtype(kinds[n])) for n, s in takes.items()}
        names = [o.name for o in loaded.get_outputs()]
        arrays = dict(zip(names, loaded.run(names, feeds), strict=True))
        types = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in arrays.items()}
        return {**takes, **{n: v.shape for n, v in arrays.items()}}, {**kinds, **types}


# ---------------------------------------------------------------------- one model


def decided(a: ss.Analysis, shapes: Shapes) -> dict[str, int]:
    """Sizes that the data decided in a measured run: read off the dims that are nothing but their name."""
    found: dict[str, int] = {}
    for name, measured in shapes.items():
        for d, size in zip(a.shapes.get(name, ()), measured, strict=False):
            if d.name is not None and d.name not in a.symbols:
                found.setdefault(d.name, size)
    return found


def compare(folder: Path) -> Iterable[str]:
    """What differs, run by run; a line that begins with ``not`` tells what could not be held against anything."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    truth = json.loads((folder / "truth.json").read_text())
    a = ss.analyze(folder / "model.onnx")
    c = ss.cost(a)
    stored = {t.name: list(t.dims) for t in model.graph.initializer}
    stored |= {n.output[0]: list(a.shapes[n.output[0]]) for n in model.graph.node if n.op_type == "Constant"}
    for run in truth["runs"]:
        shapes = {**run["inputs"], **{k: v for k, v in run["tensors"].items() if v is not None}}
        sizes = {**a.bind_inputs(run["inputs"]), **decided(a, shapes)}
        found = c.numbers(sizes)
        if found is None:
            yield f"not evaluated: {c.missing(sizes)}"
            continue

        def size(name: str, shapes: Shapes = shapes) -> int:
            known = bytes_of(shapes[name], a.dtypes[name]) if name in shapes else None
            return 0 if known is None else known

        nested = Nested(model, {**stored, **shapes}, a.dtypes)
        total, peak = held(model.graph, size, nested.inside)
        if total != found.activation_bytes:
            yield f"activations {found.activation_bytes}, measured {total}"
        if peak != found.peak:
            yield f"peak {found.peak}, measured {peak}"
        macs, other, left = counted(model.graph, {**stored, **shapes})
        macs, other, left = macs + nested.macs, other + nested.other, left | nested.left
        if left != set(c.uncounted):
            yield f"not counted by one of both: {sorted(left ^ set(c.uncounted))}"
        elif (macs, 2 * macs + other) != (found.macs, found.flops):
            yield f"operations {found.macs, found.flops}, counted {macs, 2 * macs + other}"


def main(corpus: Path) -> None:
    """Every model of a corpus."""
    right = 0
    folders = sorted(corpus.glob("*/truth.json"))
    for file in folders:
        said = dict.fromkeys(compare(file.parent))
        right += not said
        for text in said:
            sys.stdout.write(f"{file.parent.name}: {text}\n")
    sys.stdout.write(f"{right} of {len(folders)} models exact in memory and operations at each run\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
