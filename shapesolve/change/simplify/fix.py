"""`fix`: replaces input sizes by numbers and folds what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...expr import Shape
from ...expr.nearest import unknown_name
from ...expr.sizes import sizes_text
from ...model import Model, read_model
from ...model.saving import with_weights
from ..refused import Refused
from .pad import pad_outputs
from .simplify import Simplified, simplified_draft, write_dim

if TYPE_CHECKING:
    import onnx


@checked
def fix(
    model: Any, sizes: Mapping[str, int], *, keep: Iterable[str] = (), pad: bool = False
) -> onnx.ModelProto:
    """Specialize a model to given sizes, ``fix(model, {"batch": 1, "seq": 64})``, and simplify it.

    Sizes that follow from the given ones (``total == past + seq``) are fixed too; the others stay dynamic. Fixed dims of
    inputs and outputs become numbers; names and order are unchanged.

    Args:
        model: Model, as for `analyze`. It is not changed.
        sizes: Size by dim name of the inputs.
        keep: Patterns, as for `simplify`.
        pad: Whether to pad outputs whose sizes depend on data to the largest sizes, with 0; their true sizes become
            further outputs, named `<output>_count`.

    Raises:
        Refused: If the model does not accept these sizes, with the broken condition and its node; or if an output cannot be
            padded because its largest size is unknown.
        ValueError: If no input has a given name, or a size is negative.
        ModelError: If the model cannot be read.
    """
    read = read_model(model)
    done, analysis = fixed(read, sizes, keep=keep)
    if pad:
        pad_outputs(done.model, analysis)
    return with_weights(done.model, read)


def fixed(read: Model, sizes: Mapping[str, int], *, keep: Iterable[str] = ()) -> tuple[Simplified, Analysis]:
    """`fix` with weights left in the original proto. Also the removed nodes, and the analysis it is based on."""
    wrong = next((name for name, size in sizes.items() if size < 0), None)
    if wrong is not None:
        raise ValueError(f"a size is not negative: {wrong} = {sizes[wrong]}")
    free = analyze(read, broadcast="strict")
    _refuse_broken(free, sizes)
    done, analysis = simplified_draft(read, keep=keep, bind=sizes)
    if analysis._solved.stuck:
        raise _without_rest(free, analysis, sizes)
    graph = done.model.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        shape = analysis.shapes.get(info.name)
        if shape is not None:
            _write(info, shape)
    _declare(graph, analysis)
    return done, analysis


def _declare(graph: onnx.GraphProto, analysis: Analysis) -> None:
    """Write known types and shapes of node outputs into the graph's value_info.

    A size without an exact expression is left unspecified.
    """
    declared = {info.name for info in (*graph.output, *graph.value_info)}
    for name in (n for node in graph.node for n in node.output if n and n not in declared):
        shape, dtype = analysis.shapes.get(name), analysis.dtypes.get(name, 0)
        if shape is not None and dtype:
            tensor = graph.value_info.add(name=name).type.tensor_type
            tensor.elem_type = dtype
            tensor.shape.SetInParent()
            for size in shape:
                write_dim(tensor.shape.dim.add(), size)


def _refuse_broken(analysis: Analysis, sizes: Mapping[str, int]) -> None:
    """Raises `Refused` for sizes that the analysis of the free model rejects."""
    strange = next((name for name in sizes if name not in analysis.symbols), None)
    if strange is not None:
        raise ValueError(unknown_name("dim", strange, analysis.symbols))
    if analysis._solved.lowered.clashes:
        conflict = next(iter(analysis.conflicts), None)
        text = "" if conflict is None else f": {conflict.message}"
        raise Refused(f"no size makes this model run{text}")
    broken = analysis._solved.violations_at(sizes)
    if broken:
        raise Refused.at_sizes(broken)


def _without_rest(free: Analysis, bound: Analysis, sizes: Mapping[str, int]) -> Refused:
    """The refusal for sizes that fail regardless of the free ones."""
    conflict = next(iter(bound.conflicts), None)
    text = bound._solved.lowered.clashes[0].message if conflict is None else conflict.message
    stated = () if conflict is None else conflict.stated
    broken = next((t.text for t in free.contract if t.cond.evaluate(sizes) is False), "")
    node = conflict.nodes[0] if conflict is not None and conflict.nodes else ""
    term = broken or next((str(c.cond) for c in stated), "")
    return Refused(f"{sizes_text(sizes)} is not accepted: {text}", node=node, term=term)


def _write(info: onnx.ValueInfoProto, shape: Shape) -> None:
    if info.type.WhichOneof("value") != "tensor_type" or not info.type.tensor_type.HasField("shape"):
        return
    dims = info.type.tensor_type.shape.dim
    if len(dims) == len(shape):
        for dim, size in zip(dims, shape, strict=True):
            if not size.terms:
                dim.dim_value = size.const
