"""Drop-in replacements for the shape inference functions of onnx and onnxruntime.

    from shapesolve.compat import SymbolicShapeInference, infer_shapes      # instead of theirs
    python -m shapesolve.compat --input model.onnx --output shaped.onnx     # instead of symbolic_shape_infer.py
    shapesolve.compat.install()                                             # for callers that import theirs

Declared inputs and outputs stay: input dims are never renamed, and names of output dims are kept. An output dim that
only an expression describes stays undeclared unless `expressions` is set.

https://onnx.ai/onnx/api/shape_inference.html,
https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/python/tools/symbolic_shape_infer.py
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from .analysis import Analysis, analyze
from .builder import BasicShapeBuilder as BasicShapeBuilder
from .change.annotate.annotate import annotated
from .findings.declared import contradictions
from .model import ModelError
from .model.saving import save, with_weights

_LOG = logging.getLogger(__name__)
#: modules from which onnxruntime's tool is imported: as a package, and by onnxruntime's own transformers tools
_TOOLS = ("onnxruntime.tools.symbolic_shape_infer", "symbolic_shape_infer")
_PACKAGED, _BARE = _TOOLS
_LOCK = threading.Lock()
_replaced: list[tuple[Any, str, Any]] = []


class SymbolicShapeInference:
    """Replacement for ``onnxruntime.tools.symbolic_shape_infer.SymbolicShapeInference``."""

    @staticmethod
    def infer_shapes(
        in_mp: onnx.ModelProto,
        int_max: int = 2**31 - 1,
        auto_merge: bool = False,
        guess_output_rank: bool = False,
        verbose: int = 0,
        *,
        expressions: bool = False,
    ) -> onnx.ModelProto:
        """Return a copy of the model with inferred shapes.

        Args:
            in_mp: Model, which is not modified.
            int_max: Ignored; sizes that mean "to the end" are recognized without it.
            auto_merge: Whether to assume that two names in a broadcast are equal; the assumption is logged.
            guess_output_rank: Ignored; nothing is guessed.
            verbose: Log level; at 1 or more, findings are logged as warnings.
            expressions: Whether to write expressions (``past + seq``) into output dims too.

        Raises:
            ModelError: If the model cannot be read.
        """
        analysis = analyze(in_mp, broadcast="equal" if auto_merge else "named")
        if verbose or auto_merge:
            _tell(analysis, verbose)
        return _shaped(analysis, expressions)


def infer_shapes(
    model: onnx.ModelProto | bytes,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
    *,
    expressions: bool = False,
) -> onnx.ModelProto:
    """Replacement for ``onnx.shape_inference.infer_shapes``; data is always propagated.

    With `check_type` or `strict_mode`, a model with contradictory shapes is an error; with `strict_mode`, so is a
    declared shape or element type that differs from the inferred one.

    Raises:
        onnx.shape_inference.InferenceError: If an error was requested as above, and the model cannot run, cannot be
        read, or has a wrong declaration.
        TypeError: If `model` is neither a proto nor bytes.
    """
    given: object = model
    if not isinstance(given, (onnx.ModelProto, bytes)):
        given = type(model).__name__
        raise TypeError(f"expected a ModelProto or bytes, got {given}; for a path, use infer_shapes_path")
    analysis = _analyzed(model, check_type, strict_mode)
    if analysis is None:
        return model if isinstance(model, onnx.ModelProto) else onnx.ModelProto.FromString(model)
    return _shaped(analysis, expressions)


def infer_shapes_path(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str] = "",
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
    *,
    expressions: bool = False,
) -> None:
    """Replacement for ``onnx.shape_inference.infer_shapes_path``. Weights are copied between files without being read.

    Without `output_path`, the model itself is replaced, as onnx does; the file is written atomically.

    Raises:
        onnx.shape_inference.InferenceError, TypeError: As for `infer_shapes`.
        OSError: If the file cannot be written.
    """
    if isinstance(model_path, onnx.ModelProto):
        raise TypeError("expected a path; for a ModelProto, use infer_shapes")
    source = os.fspath(model_path)
    analysis = _analyzed(source, check_type, strict_mode)
    if analysis is not None:
        proto = _trimmed(annotated(analysis), analysis, expressions)
        save(proto, analysis.model, Path(os.fspath(output_path) or source))


def install() -> None:
    """Replace the functions of onnx and onnxruntime in this process, until `uninstall`."""
    with _LOCK:
        if _replaced:
            return
        _replace(onnx.shape_inference, "infer_shapes", infer_shapes)
        _replace(onnx.shape_inference, "infer_shapes_path", infer_shapes_path)
        try:
            tool = importlib.import_module(_PACKAGED)
        except ImportError:  # onnxruntime, or a dependency of its tool, is not installed
            return
        sys.modules.setdefault(_BARE, tool)  # later imports by that name get the replacement
        for module in dict.fromkeys((tool, sys.modules[_BARE])):
            theirs = module.SymbolicShapeInference
            _replace(theirs, "infer_shapes", staticmethod(SymbolicShapeInference.infer_shapes))
            _replace(theirs, "_infer_impl", _infer_impl)


def uninstall() -> None:
    """Restore the functions of onnx and onnxruntime."""
    with _LOCK:
        while _replaced:
            owner, name, original = _replaced.pop()
            setattr(owner, name, original)
        if _BARE in sys.modules and sys.modules[_BARE] is sys.modules.get(_PACKAGED):
            del sys.modules[_BARE]


def _replace(owner: Any, name: str, ours: Any) -> None:
    _replaced.append((owner, name, vars(owner)[name]))
    setattr(owner, name, ours)


def _infer_impl(self: Any, start_sympy_data: object = None) -> bool:
    """Set the attributes that subclasses in onnxruntime read after inference."""
    analysis = analyze(self.out_mp_, broadcast="equal" if self.auto_merge_ else "named")
    shaped = _shaped(analysis, expressions=True)
    del self.out_mp_.graph.value_info[:]
    self.out_mp_.graph.value_info.extend(shaped.graph.value_info)
    known = (*shaped.graph.input, *shaped.graph.output, *shaped.graph.value_info)
    self.known_vi_.update({info.name: info for info in known})
    self.run_ = False
    return True


def _analyzed(model: Any, check_type: bool, strict_mode: bool) -> Analysis | None:
    """Return the analysis, or None with a log message for an unreadable model unless `check_type`."""
    try:
        analysis = analyze(model)
    except ModelError as e:
        if check_type or strict_mode:
            raise onnx.shape_inference.InferenceError(str(e)) from None
        _LOG.warning("no shapes inferred: %s", e)
        return None
    refusals = [c.message for c in analysis.conflicts] if check_type or strict_mode else []
    refusals += contradictions(analysis._solved) if strict_mode else []
    if refusals:
        raise onnx.shape_inference.InferenceError("; ".join(dict.fromkeys(refusals)))
    return analysis


def _shaped(analysis: Analysis, expressions: bool) -> onnx.ModelProto:
    return with_weights(_trimmed(annotated(analysis), analysis, expressions), analysis.model)


def _trimmed(model: onnx.ModelProto, analysis: Analysis, expressions: bool) -> onnx.ModelProto:
    """Return the annotated model, with declared outputs kept if only a name or expression is new."""
    if expressions:
        return model
    declared = {o.name: o for o in analysis.model.proto.graph.output}
    for info in model.graph.output:
        if info.type.WhichOneof("value") != "tensor_type" or not info.type.tensor_type.HasField("shape"):
            continue
        before = declared[info.name].type.tensor_type.shape.dim
        for i, dim in enumerate(info.type.tensor_type.shape.dim):
            if not dim.dim_param or dim.dim_param in analysis.symbols:
                continue
            dim.ClearField("dim_param")
            if i < len(before) and before[i].dim_param:
                dim.dim_param = before[i].dim_param
    return model


def _tell(analysis: Analysis, verbose: int) -> None:
    for finding in analysis.findings:
        if verbose or finding.code.startswith("SS5"):
            _LOG.warning(
                "%s: %s%s", finding.code, finding.title, f" ({finding.node})" if finding.node else ""
            )


def _arguments(given: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(
        "python -m shapesolve.compat", description="Write a copy of a model with all inferred shapes."
    )
    parser.add_argument("--input", required=True, help="model file")
    parser.add_argument("--output", help="file to write (default: only analyze the model)")
    parser.add_argument(
        "--auto_merge", action="store_true", help="in a broadcast, assume that two names are equal"
    )
    parser.add_argument("--int_max", type=int, default=2**31 - 1, help="ignored")
    parser.add_argument("--guess_output_rank", action="store_true", help="ignored; nothing is guessed")
    parser.add_argument("--verbose", type=int, default=0, help="at 1 or more, print findings")
    parser.add_argument(
        "--save_as_external_data", action="store_true", help="keep weights in an external file"
    )
    parser.add_argument("--all_tensors_to_one_file", action="store_true", help="use one file for all weights")
    parser.add_argument("--external_data_location", default="./", help="name of that file")
    parser.add_argument(
        "--external_data_size_threshold",
        type=int,
        default=1024,
        help="minimum bytes of an external weight",
    )
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line of onnxruntime's symbolic_shape_infer tool.

    Returns:
        The exit code: 0, or 1 with a message if the model cannot be read or written.
    """
    logging.basicConfig(format="%(message)s")
    args = _arguments(given)
    try:
        analysis = analyze(args.input, broadcast="equal" if args.auto_merge else "named")
        _tell(analysis, args.verbose)
        if args.output:
            proto = _trimmed(annotated(analysis), analysis, False)
            if args.save_as_external_data:
                _save_apart(with_weights(proto, analysis.model), args)
            else:
                save(proto, analysis.model, Path(args.output))
    except (ModelError, ValueError, OSError) as e:
        _LOG.error("%s", e)
        return 1
    return 0


def _save_apart(model: onnx.ModelProto, args: Namespace) -> None:
    one = args.all_tensors_to_one_file
    onnx.save_model(
        model,
        args.output,
        save_as_external_data=True,
        all_tensors_to_one_file=one,
        location=args.external_data_location if one and args.external_data_location != "./" else None,
        size_threshold=args.external_data_size_threshold,
        convert_attribute=False,
    )


if __name__ == "__main__":
    sys.exit(main())
