"""The engines that are measured. Each takes a ModelProto in memory and works out all shapes."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from .corpus import Case

Shapes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Engine:
    """`label` heads its columns; `infer` is what is timed, `read` is not.

    `read` turns the result into shapes as text, with "" for a dim without value or name. `refuses` says whether the
    engine's own entry point throws this result away with an exception.
    """

    name: str
    label: str
    package: str
    is_python: bool
    infer: Callable[[Any], Any]
    read: Callable[[Any], Shapes]
    refuses: Callable[[Any], bool] = lambda _result: False

    @property
    def installed(self) -> bool:
        """Whether the engine can be imported here."""
        return importlib.util.find_spec(self.package) is not None


# A name that is not called: in `floor(H/2) + 1`, that is `H`.
_NAME = re.compile(r"[A-Za-z_][\w.]*(?![\w.]*\()")


def resolved_share(shapes: Shapes, case: Case, ranks: Mapping[str, int]) -> float:
    """The share of the dims that are an int, or an expression over the symbols that the inputs declare.

    It says how much an engine answers, not whether the answers are right.
    """
    known: dict[str, bool] = dict.fromkeys(case.symbols, True)
    total = resolved = 0
    for name, rank in ranks.items():
        total += rank
        dims = shapes.get(name)
        if dims is None or len(dims) != rank:
            continue
        for dim in dims:
            if dim not in known:
                known[dim] = bool(dim) and case.symbols.issuperset(_NAME.findall(dim))
            resolved += known[dim]
    return resolved / total if total else 1.0


def ranks_to_score(case: Case, answers: Sequence[Shapes]) -> Mapping[str, int]:
    """The measured ranks; without them, what any engine found for what the outer graph computes."""
    if case.ranks is not None:
        return case.ranks
    ranks: dict[str, int] = {}
    for node in case.model.graph.node:
        for name in node.output:
            found = next((shapes[name] for shapes in answers if name in shapes), None)
            if found is not None:
                ranks[name] = len(found)
    return ranks


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Peers print and warn as they go; keep that out of the table."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _read_annotations(model: onnx.ModelProto) -> Shapes:
    shapes: dict[str, list[str]] = {}
    for value in [*model.graph.value_info, *model.graph.output]:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor.HasField("shape"):
            shapes[value.name] = [
                str(d.dim_value) if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim
            ]
    return shapes


def _shapesolve(model: Any) -> Any:
    """Shapes, constraints and bindings: what is computed at first use is used."""
    analysis = importlib.import_module("shapesolve").analyze(model)
    len(analysis.shapes), len(analysis._solved.stated), len(analysis.bindings)
    return analysis


def _read_shapesolve(analysis: Any) -> Shapes:
    return {name: [str(dim) for dim in shape] for name, shape in analysis.shapes.items() if shape is not None}


def _onnx(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _onnxruntime(model: onnx.ModelProto) -> tuple[onnx.ModelProto, bool]:
    """The steps of `SymbolicShapeInference.infer_shapes`, which raises an error where the second value is false."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference, get_opset

    if (get_opset(model) or 0) < 7:
        raise ValueError("onnxruntime's tool supports opset 7 and above")
    tool = SymbolicShapeInference(int_max=2**31 - 1, auto_merge=True, guess_output_rank=False, verbose=0)
    complete = False
    tool._preprocess(model)
    while tool.run_:
        complete = bool(tool._infer_impl())
    tool._update_output_from_vi()
    return tool.out_mp_, complete


def _onnx_shape_inference(model: onnx.ModelProto) -> Any:
    """With the conversion of its input, as its callers have a ModelProto too; without that of its output."""
    import onnx_ir
    from onnx_shape_inference import infer_symbolic_shapes

    return infer_symbolic_shapes(onnx_ir.serde.deserialize_model(model), warn_on_missing=False)


def _read_onnx_shape_inference(model: Any) -> Shapes:
    import onnx_ir

    return _read_annotations(onnx_ir.serde.serialize_model(model))


OURS = Engine("shapesolve", "ours", "shapesolve", True, _shapesolve, _read_shapesolve)
PEERS = (
    Engine("onnx", "onnx", "onnx", False, _onnx, _read_annotations),
    Engine(
        "onnxruntime",
        "ort",
        "onnxruntime",
        True,
        _onnxruntime,
        lambda result: _read_annotations(result[0]),
        refuses=lambda result: not result[1],
    ),
    Engine(
        "onnx-shape-inference",
        "osi",
        "onnx_shape_inference",
        True,
        _onnx_shape_inference,
        _read_onnx_shape_inference,
    ),
)
ENGINES = (OURS, *PEERS)
