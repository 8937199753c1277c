"""Profiles in the formats of tools such as TensorRT and OpenVINO.

The formats are command-line options, provider options, API shapes, and server configuration.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from onnx import TensorProto

from ...analysis import Analysis
from ...arguments import checked
from ...lower.types import Tensor
from ..enumeration import InOrder
from ..inputs.values import unread_inputs
from ..limits import MAX_COREML
from ..sizes import Sizes
from .profiles import Profile, Range

_Part = TypeVar("_Part")
Corner = Literal["min", "opt", "max"]
_CORNERS: tuple[Corner, ...] = ("min", "opt", "max")
Writer = Callable[[Analysis, Sequence[Profile]], str]


class Target(NamedTuple):
    """Profile format: name of the tool, description, writer.

    `commented`: conditions follow in a comment. `exact`: the format contains only accepted sizes, so there are no
    conditions. `empty`: the tool supports ranges that begin at 0, for caches.
    """

    text: str
    write: Writer
    commented: bool
    exact: bool
    empty: bool


#: tools by their ``profile --for`` name
TARGETS: dict[str, Target] = {}


def target(
    name: str, text: str, *, commented: bool = False, exact: bool = False, empty: bool = False
) -> Callable[[Writer], Writer]:
    """Register the writer of a profile format (decorator)."""

    def declare(write: Writer) -> Writer:
        TARGETS[name] = Target(text, write, commented, exact, empty)
        return write

    return declare


@checked
def profile_text(analysis: Analysis, profiles: Sequence[Profile], target: str) -> str:
    """Return profiles in the format `target`. Fixed-shape inputs are omitted unless the tool requires all inputs.

    Conditions that sizes within the ranges must also satisfy are in a final comment line if the format has comments
    (``ort-trt`` does not: see `Profile.conditions`). Core ML gets enumerated shapes instead.

    Raises:
        ValueError: If the tool is unknown, or cannot express a name or a shape.
    """
    if target not in TARGETS:
        raise ValueError(f"unknown tool {target!r}; expected one of: {', '.join(TARGETS)}")
    if not any(one.inputs for one in profiles):
        raise ValueError("all input shapes are fixed, so no profile is needed")
    found = TARGETS[target]
    comments = (
        [f"# {ascii(text)[1:-1]}" for text in conditions_text(profiles, target)] if found.commented else []
    )
    return "\n".join([found.write(analysis, profiles), *comments])


def conditions_text(profiles: Sequence[Profile], target: str) -> Iterator[str]:
    """Return the conditions that sizes within each profile's ranges must also satisfy; none for an exact format."""
    for k, one in enumerate(() if TARGETS[target].exact else profiles):
        if one.conditions:
            where = f"profile {k}: " if len(profiles) > 1 else ""
            yield f"{where}within the ranges, also satisfy {', '.join(one.conditions)}"


def _joined(profile: Profile, corner: Corner, form: Callable[[str, tuple[int, ...]], str]) -> list[str]:
    return [form(name, getattr(shapes, corner)) for name, shapes in profile.inputs.items()]


def _crossed(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


@target(
    "trtexec",
    "trtexec options: --minShapes, --optShapes, --maxShapes, after --profile=K if there are several",
    commented=True,
    empty=True,
)
def _trtexec(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/command-line-programs.html
    lines = []
    for k, one in enumerate(profiles):
        options = [f"--profile={k}"] if len(profiles) > 1 else []
        for corner in _CORNERS:
            options.append(f"--{corner}Shapes={','.join(_joined(one, corner, _trtexec_shape))}")
        lines.append(shlex.join(options))
    return " \\\n".join(lines)


def _trtexec_shape(name: str, shape: tuple[int, ...]) -> str:
    if "'" in name or "," in name:
        raise ValueError(f"trtexec cannot express the input name {name!r}")
    plain = name.isascii() and all(c.isalnum() or c in "_./-" for c in name)
    quoted = name if plain else f"'{name}'"  # trtexec removes these quotes
    return f"{quoted}:{_crossed(shape)}"


@target(
    "ort-trt",
    "JSON options of onnxruntime's TensorRT provider: trt_profile_min_shapes, _opt_, _max_",
    empty=True,
)
def _ort_trt(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
    options = {}
    for corner in _CORNERS:
        shapes = [text for one in profiles for text in _joined(one, corner, _ort_shape)]
        options[f"trt_profile_{corner}_shapes"] = ",".join(shapes)
    return json.dumps(options, indent=1)


def _ort_shape(name: str, shape: tuple[int, ...]) -> str:
    if ":" in name or "," in name:
        raise ValueError(f"onnxruntime's TensorRT provider cannot express the input name {name!r}")
    return f"{name}:{_crossed(shape)}"


@target(
    "polygraphy",
    "polygraphy options: --trt-min-shapes, --trt-opt-shapes, --trt-max-shapes",
    commented=True,
    empty=True,
)
def _polygraphy(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://docs.nvidia.com/deeplearning/tensorrt/polygraphy/docs/index.html
    def form(name: str, shape: tuple[int, ...]) -> str:
        return f"{name}:[{','.join(map(str, shape))}]"

    return " \\\n".join(
        shlex.join(
            [part for corner in _CORNERS for part in (f"--trt-{corner}-shapes", *_joined(one, corner, form))]
        )
        for one in profiles
    )


@target("migraphx", "migraphx-driver options: --dyn-input-dim, one command line per profile", commented=True)
def _migraphx(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/reference/MIGraphX-cli.html
    def words(one: Profile) -> Iterator[str]:
        for name, shapes in one.inputs.items():
            dims = [
                str(low) if low == high else f"{{min:{low},max:{high},optimals:[{usual}]}}"
                for low, usual, high in zip(shapes.min, shapes.opt, shapes.max, strict=True)
            ]
            yield from ("--dyn-input-dim", f"@{name}", f"[{','.join(dims)}]")

    return "\n".join(shlex.join(words(one)) for one in profiles)


@target(
    "qnn",
    "qnn-onnx-converter options: --input_dim, the optimum sizes; it converts for one size of each input",
    exact=True,
)
def _qnn(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://docs.qualcomm.com/bundle/publicresource/topics/80-63442-50/tools.html
    def words(one: Profile) -> Iterator[str]:
        for name in analysis.inputs:
            shape = one.inputs[name].opt if name in one.inputs else _fixed(analysis, name)
            yield from ("--input_dim", name, ",".join(map(str, shape)))

    return "\n".join(shlex.join(words(one)) for one in profiles)


@target(
    "ort",
    "options of onnxruntime_perf_test: -f NAME:SIZE, the optimum sizes, for dims that the file names",
    exact=True,
    empty=True,
)
def _ort(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/test/perftest/README.md
    lines = []
    for one in profiles:
        sizes = _overrides(analysis, one)
        strange = next((name for name in sizes if ":" in name), None)
        if strange is not None:
            raise ValueError(f"onnxruntime_perf_test cannot express the dim name {strange!r}")
        lines.append(" ".join(f"-f {shlex.quote(f'{name}:{size}')}" for name, size in sizes.items()))
    return "\n".join(lines)


@target(
    "ort-web",
    "JSON of onnxruntime-web's freeDimensionOverrides, the optimum sizes, for dims that the file names",
    exact=True,
    empty=True,
)
def _ort_web(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://onnxruntime.ai/docs/api/js/interfaces/InferenceSession.SessionOptions.html
    made = [{"freeDimensionOverrides": _overrides(analysis, one)} for one in profiles]
    return json.dumps(made[0] if len(made) == 1 else made, indent=1)


def _overrides(analysis: Analysis, one: Profile) -> dict[str, int]:
    """Return the optimum sizes by dim name.

    Raises:
        ValueError: If a dim of an input has no name in the file.
    """
    declared = {d for _, kind in analysis.model.graph.inputs for d in getattr(kind, "dims", None) or ()}
    unnamed = next((name for name in one.opt if name not in declared), None)
    if unnamed is not None:
        raise ValueError(
            f"no input dim of the file is named {unnamed}; annotate names dims that have no name"
        )
    return dict(one.opt)


@target("mlnet", "C# dictionary for ML.NET's ApplyOnnxModel (shapeDictionary), the optimum sizes", exact=True)
def _mlnet(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://learn.microsoft.com/dotnet/api/microsoft.ml.onnxcatalog.applyonnxmodel
    texts = []
    for one in profiles:
        rows = [
            f"    [{json.dumps(name)}] = new[] {{ {', '.join(map(str, shapes.opt))} }},"
            for name, shapes in one.inputs.items()
        ]
        texts.append("\n".join(["new Dictionary<string, int[]>", "{", *rows, "}"]))
    return "\n".join(texts)


def _fixed(analysis: Analysis, name: str) -> list[int]:
    return [d.const for d in analysis.shapes[name]]


def _named(parts: Sequence[_Part], name: str) -> Iterator[tuple[str, _Part]]:
    """Yield each part with a distinct name: ``name``, or ``name_0``, ``name_1``, ... if there are several."""
    for k, one in enumerate(parts):
        yield (name if len(parts) == 1 else f"{name}_{k}"), one


@target("openvino", "Python code: the argument of openvino.Model.reshape", commented=True, empty=True)
def _openvino(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://docs.openvino.ai/2025/openvino-workflow/running-inference/model-input-output/dynamic-shapes.html
    lines = ["# openvino.Core().read_model(...).reshape(shapes)"]
    unread = [name for name in unread_inputs(analysis) if name in profiles[0].inputs]
    if unread:  # OpenVINO drops unused inputs and rejects their names
        lines.append(f"# no node reads {', '.join(map(ascii, unread))}: OpenVINO omits such inputs")
    for variable, one in _named(profiles, "shapes"):
        lines.append(f"{variable} = {{")
        for name, shapes in ((n, s) for n, s in one.inputs.items() if n not in unread):
            dims = [str(a) if a == b else f"{a}..{b}" for a, b in zip(shapes.min, shapes.max, strict=True)]
            lines.append(f"    {name!a}: {'[' + ','.join(dims) + ']'!a},")
        lines.append("}")
    return "\n".join(lines)


@target(
    "coreml",
    "Python code: coremltools inputs, as ranges, or enumerated if a range contains rejected sizes",
    exact=True,
)
def _coreml(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://apple.github.io/coremltools/docs-guides/source/flexible-inputs.html
    lines = ["import coremltools as ct", ""]
    points = [one.opt for one in profiles]
    if len(points) > 1 and all(one.min == one.max for one in profiles):  # one list of all points
        parts: list[tuple[Profile, Sequence[Mapping[str, int]]]] = [(profiles[0], points)]
        if len(points) > MAX_COREML:
            raise ValueError(f"Core ML supports at most {MAX_COREML} shapes, got {len(points)}")
    else:
        parts = [(one, _listed(analysis, one) if one.conditions else []) for one in profiles]
    for variable, (one, sizes) in _named(parts, "inputs"):
        lines.append(f"{variable} = [")
        for name, shapes in one.inputs.items():
            shape = _enumerated(analysis, one, name, sizes) if sizes else _ranges(shapes)
            lines.append(f"    ct.TensorType(name={name!a}, shape={shape}),")
        lines.append("]")
    return "\n".join(lines)


def _ranges(shapes: Range) -> str:
    dims = ", ".join(
        str(low) if low == high else f"ct.RangeDim(lower_bound={low}, upper_bound={high}, default={usual})"
        for low, usual, high in zip(shapes.min, shapes.opt, shapes.max, strict=True)
    )
    return f"ct.Shape(shape=({dims},))"


def _enumerated(analysis: Analysis, one: Profile, name: str, sizes: Iterable[Mapping[str, int]]) -> str:
    known = analysis.inputs[name]
    dims = known.shape if isinstance(known, Tensor) else None
    shapes = dict.fromkeys(tuple(d.evaluate(at) for d in dims or ()) for at in sizes)
    listed = ", ".join(f"({', '.join(map(str, shape))},)" for shape in shapes)
    usual = ", ".join(map(str, one.inputs[name].opt))
    return f"ct.EnumeratedShapes(shapes=[{listed}], default=({usual},))"


def _listed(analysis: Analysis, one: Profile) -> Sequence[Mapping[str, int]]:
    """Return all accepted sizes in the ranges of a profile.

    Raises:
        ValueError: If there are more than Core ML supports.
    """
    found: list[dict[str, int]] = []
    order = InOrder(Sizes(analysis), 0, one.min, one.max)
    for sizes in order:
        found.append(sizes)
        if len(found) > MAX_COREML:
            raise ValueError(_too_many(one))
    if not order.whole:
        raise ValueError(_too_many(one))
    return sorted(found, key=lambda sizes: [sizes[name] for name in one.min])


def _too_many(one: Profile) -> str:
    return (
        f"Core ML supports ranges that are valid for every size in them, or at most {MAX_COREML} shapes; only sizes with"
        f" {' and '.join(one.conditions)} run, and there are more: narrow the profile with --min and --max"
    )


_TRITON_TYPES: Mapping[int, str] = {
    TensorProto.BOOL: "BOOL", TensorProto.UINT8: "UINT8", TensorProto.UINT16: "UINT16", TensorProto.UINT32: "UINT32",
    TensorProto.UINT64: "UINT64", TensorProto.INT8: "INT8", TensorProto.INT16: "INT16", TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64", TensorProto.FLOAT16: "FP16", TensorProto.FLOAT: "FP32", TensorProto.DOUBLE: "FP64",
    TensorProto.STRING: "STRING", TensorProto.BFLOAT16: "BF16",
}  # fmt: skip


@target("triton", "config.pbtxt with a warm-up at each corner")
def _triton(analysis: Analysis, profiles: Sequence[Profile]) -> str:
    # https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md
    lines = ['backend: "onnxruntime"', "max_batch_size: 0"]
    for part, names in (
        ("input", list(analysis.inputs)),
        ("output", [n for n, _ in analysis.model.graph.outputs]),
    ):
        for name in names:
            lines += [f"{part} {{", f"  name: {_pbtxt(name)}", f"  data_type: {_triton_type(analysis, name)}"]
            lines += [f"  {line}" for line in _triton_dims(analysis, name)]
            lines.append("}")
    for k, one in enumerate(profiles):
        for corner in _CORNERS:
            lines += ["model_warmup {", f'  name: "{corner} of profile {k}"']
            lines += _triton_warmup(analysis, one, corner)
            lines.append("}")
    terms = ", ".join(t.text for t in (*analysis.contract.terms, *analysis.contract.assumed))
    if terms:  # a dim of -1 accepts every size
        lines.append(f"# the model requires {ascii(terms)[1:-1]}")
    return "\n".join(lines)


def _triton_type(analysis: Analysis, name: str) -> str:
    found = _TRITON_TYPES.get(analysis.dtypes.get(name, 0))
    if found is None:
        raise ValueError(f"Triton has no element type for {name}")
    return f"TYPE_{found}"


def _triton_dims(analysis: Analysis, name: str) -> list[str]:
    known = analysis.inputs.get(name)
    shape = known.shape if isinstance(known, Tensor) else analysis.shapes.get(name)
    if shape is None:
        raise ValueError(f"input {name} has unknown rank")
    if not len(shape):
        return ["dims: [ 1 ]", "reshape { shape: [ ] }"]
    return [f"dims: [ {', '.join(str(-1 if d.terms else d.const) for d in shape)} ]"]


def _triton_warmup(analysis: Analysis, one: Profile, corner: Corner) -> Iterator[str]:
    for name in analysis.inputs:
        shape = getattr(one.inputs[name], corner) if name in one.inputs else _fixed(analysis, name)
        yield f"  inputs {{ key: {_pbtxt(name)} value {{ data_type: {_triton_type(analysis, name)}"
        yield f"    dims: [ {', '.join(map(str, shape or [1]))} ] zero_data: true }} }}"


def _pbtxt(text: str) -> str:
    data = text.encode(errors="replace")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in data) + '"'


@target("json", "sizes, shapes, and conditions of each profile (the default)", empty=True)
def _json(_analysis: Analysis, profiles: Sequence[Profile]) -> str:
    return json.dumps({"profiles": [one.to_json() for one in profiles]}, indent=1)
