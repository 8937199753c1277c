"""JSON with a stable layout: the records that commands print, in a common envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..answers.names import dtype_name, upper_bounds
from ..expr import Cond, Dim, eq, symbol
from ..expr.traverse import atoms_of
from ..lines import json_text

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding
    from ..expr import Shape
    from ..solve.contract.contract import Term, Usual

VERSION = 1
Sizes = Mapping[str, int]
#: default of a field that is left out of the JSON
ABSENT: Any = object()
_FINDING = (
    "severity code title node op_type nodes=named operands steps notes help runs:sizes fails:sizes constants usual"
    " condition"
)
_SOURCE_FINDING = f"{_FINDING} origin declared term counterexample:sizes verdict place"
#: class -> its keys, if these are not its fields: separated by spaces; ``key=name`` has the value of another attribute, and
#: ``key:sizes`` is an object made of pairs. ``key:str`` may get more values in later versions.
KEYS = {
    "Buckets": "symbols buckets padding total proved",
    "Constraint": "role:str node op_type condition=text over_inputs=text_over_inputs rule sites=origin.sites",
    "Diff": (
        "same replaces before after outputs contract changed shared removed added requirements_removed "
        "requirements_added conflicts renamed runs"
    ),
    "Finding": _FINDING,
    "ScanRow": (
        "path status:str nodes seconds tensors tensors_with_shape=known contract unjudged findings message"
    ),
    "Site": "tensor axis element=data",
    "SourceFinding": _SOURCE_FINDING,
    "SourceFindingData": _SOURCE_FINDING,
    "Term": "condition=text kind:str symbols nodes assuming=assumptions",
    "Usual": "scope terms impossible:bool",
    "Verification": "sizes=bindings ok compared open mismatches",
    "Rejected": "condition=text sentence message nodes",
}


def keys_of(text: str) -> list[tuple[str, str, str]]:
    """Return the keys of a layout: key, attribute, and type if it differs from the attribute's."""
    out = []
    for word in text.split():
        way, _, kind = word.partition(":")
        key, _, name = way.partition("=")
        out.append((key, name or key, kind))
    return out


def envelope(command: str, data: Mapping[str, Any]) -> str:
    """Return a command's ``--json`` output: the version of the layout, the command, and its data."""
    return json_text({"version": VERSION, "command": command, **data})


def data_of(value: Any) -> Any:
    """Convert a record to plain data, recursively. Dims and conditions become numbers or strings."""
    if isinstance(value, Dim):
        return str(value) if value.terms else value.const
    keys = KEYS.get(type(value).__name__)
    if keys is not None:
        found = [(key, attrgetter(name)(value), kind) for key, name, kind in keys_of(keys)]
        return {key: dict(of) if kind == "sizes" else data_of(of) for key, of, kind in found}
    if is_dataclass(value):
        own = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: data_of(of) for name, of in own if of is not ABSENT}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: data_of(v) for name, v in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: data_of(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [data_of(v) for v in value]
    return str(value) if isinstance(value, Cond) else value


def render_json(analysis: Analysis) -> str:
    """Return the report of an analysis as a JSON string."""
    return json_text({"version": VERSION, **data_of(report_data(analysis))})


@dataclass(frozen=True)
class TensorData:
    """A tensor. The shape is null if the rank is unknown; a symbolic size is an expression."""

    dtype: str
    shape: Shape | None


@dataclass(frozen=True)
class ConditionData:
    """A condition on input sizes, and the nodes that require it."""

    condition: str
    nodes: Sequence[str]


@dataclass(frozen=True)
class AnalysisData:
    """Analysis of a model: `Analysis.to_json()`, which also includes the version.

    `unjudged`: tensors of unknown rank, which the contract does not cover. `bounds`: the largest values of sizes that
    depend on data.
    """

    model: str
    nodes: int
    opsets: Sizes
    ok: bool
    inputs: Sequence[str]
    outputs: Sequence[str]
    tensors: Mapping[str, TensorData]
    bindings: Sizes
    bounds: Mapping[str, Sequence[str]]
    contract: Sequence[ConditionData]
    unjudged: Sequence[str]
    findings: Sequence[Finding]


class Analyze(AnalysisData):
    """`shapesolve analyze --json`."""


def report_data(analysis: Analysis) -> Analyze:
    """Return the report of an analysis."""
    model, shapes = analysis.model, analysis.shapes
    return Analyze(
        model=model.path.name if model.path is not None else model.graph.name,
        nodes=len(model.graph.nodes),
        opsets={domain or "ai.onnx": version for domain, version in sorted(model.opsets.items())},
        ok=analysis.ok,
        inputs=list(analysis.inputs),
        outputs=[name for name, _ in model.graph.outputs],
        tensors={n: TensorData(dtype_name(dtype), shapes.get(n)) for n, dtype in analysis.dtypes.items()},
        bindings=analysis.bindings,
        bounds={n: [str(d) for d in of] for n, of in upper_bounds(analysis._solved).items()},
        contract=[] if analysis.conflicts else [ConditionData(t.text, t.nodes) for t in analysis.contract],
        unjudged=[] if analysis.conflicts else list(analysis.contract.unjudged),
        findings=list(analysis.findings),
    )


@dataclass
class SymbolRangeData:
    """Range of a symbol: its minimum, maximum (null: unbounded), and a common divisor of its sizes."""

    min: int = 0
    max: int | None = None
    multiple: int = 1


@dataclass(frozen=True, kw_only=True)
class Contract:
    """`shapesolve contract --json`, which `shapesolve.Contract.from_json` reads. `impossible`: no sizes run.

    `unjudged`: tensors of unknown rank, which the contract does not cover. `inputs` and `outputs` are shapes; output
    shapes are expressions of the input sizes. `ranges` are the bounds and a divisor of each symbol; if
    `ranges_suffice`, they imply the whole contract.
    """

    terms: Sequence[Term]
    usual: Usual
    impossible: bool
    derived: Mapping[str, str] = ABSENT
    unjudged: Sequence[str] = ABSENT
    internal: Sequence[Term] = ABSENT
    assumed: Sequence[Term] = ABSENT
    declared: Sequence[Term] = ABSENT
    inputs: Mapping[str, Shape | None]
    outputs: Mapping[str, Shape | None]
    ranges: Mapping[str, SymbolRangeData]
    ranges_suffice: bool


def contract_data(analysis: Analysis) -> Contract:
    """Return the contract with its input and output shapes."""
    ranges, suffice = _ranges(analysis)
    return Contract(
        **analysis.contract.to_json(),
        inputs={name: analysis.shapes.get(name) for name in analysis.inputs},
        outputs={name: analysis.shapes.get(name) for name, _ in analysis.model.graph.outputs},
        ranges=ranges,
        ranges_suffice=suffice,
    )


def _ranges(analysis: Analysis) -> tuple[dict[str, SymbolRangeData], bool]:
    """Return bounds and a divisor of each input symbol, and True if these imply all conditions of the contract."""
    ranges = {name: SymbolRangeData() for name in analysis.symbols}
    suffice = not analysis.contract.impossible and not analysis.contract.unjudged
    for term in (*analysis.contract.terms, *analysis.contract.assumed):
        waiting, known = [term.cond], True
        while waiting:
            cond = waiting.pop()
            if cond.kind == "and":
                waiting += [c for c in cond.args if isinstance(c, Cond)]
            else:
                known &= _narrowed(cond, ranges)
        suffice &= known
    return ranges, suffice


def _narrowed(cond: Cond, ranges: Mapping[str, SymbolRangeData]) -> bool:
    """Merge a condition into the ranges if it is a bound, equation, or divisor; return False for others."""
    name = next(iter(cond.free)) if len(cond.free) == 1 else ""
    if name not in ranges or cond.kind not in (">=", "=="):
        return False
    own, d = ranges[name], cond.args[0]
    if not isinstance(d, Dim) or len(d.terms) != 1:
        step = _step(cond, name)
        if step:
            own.multiple = lcm(own.multiple, step)
        return bool(step)
    (monomial, factor), const = d.terms[0], d.const
    if len(monomial) != 1 or monomial[0].kind != "sym":
        return False
    if cond.kind == "==":
        if const % factor:
            return False
        own.min = own.max = -const // factor
    elif factor > 0:
        own.min = max(own.min, -(const // factor))
    else:
        most = const // -factor
        own.max = most if own.max is None else min(own.max, most)
    return True


def _step(cond: Cond, name: str) -> int:
    """Return the divisor k of a condition ``name % k == 0``, or 0 for other conditions."""
    steps = {
        atom.args[1].value
        for atom in atoms_of(cond)
        if atom.kind == "//" and isinstance(atom.args[1], Dim) and atom.args[1].value
    }
    k = steps.pop() if len(steps) == 1 else 0
    return k if k and cond is eq(symbol(name) % k, 0) else 0
