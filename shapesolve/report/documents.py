"""Types of the ``--json`` output: one document per command, composed of smaller parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

from ..explain.derivation import Derivation
from ..explain.finding import Finding, Severity
from ..explain.runtime import Mismatch
from .coverage import Coverage

Shape = list[int | str]
Sizes = dict[str, int]
_T = TypeVar("_T")
#: document -> record whose fields are added to its own
CARRIED: dict[Any, Any] = {}


def carries(record: Any) -> Callable[[type[_T]], type[_T]]:
    """Add the fields of a dataclass to a document type (see `json.data_of`)."""

    def add(document: type[_T]) -> type[_T]:
        CARRIED[document] = record
        return document

    return add


@carries(Finding)
class FindingData(TypedDict):
    """A finding. `nodes` are the nodes named in its text, `operands` have a name, shape, and origin. A restricted model
    runs at `runs` and fails at `fails`. `constants` are initializers that contain a hard-coded size.
    """

    severity: Severity
    nodes: list[str]
    runs: Sizes
    fails: Sizes


class TensorData(TypedDict):
    """A tensor. The shape is null if the rank is unknown; a symbolic size is an expression."""

    dtype: str
    shape: Shape | None


class ConditionData(TypedDict):
    """A condition on input sizes, and the nodes that require it."""

    condition: str
    nodes: list[str]


class SiteData(TypedDict):
    """An axis of a tensor or, if `element` is true, an element of its data; a null `axis` means the whole tensor."""

    tensor: str
    axis: int | None
    element: bool


class ConstraintData(TypedDict):
    """A constraint of a node or an input: over tensor dims (`x[1]`), and with definitions substituted."""

    role: str
    node: str
    op_type: str
    condition: str
    over_inputs: str
    rule: str
    sites: list[SiteData]


class ConstraintsData(TypedDict):
    """Data of `shapesolve constraints --json`."""

    constraints: list[ConstraintData]


class AnalysisData(TypedDict):
    """Analysis of a model: `Analysis.to_json()`, which also includes the version.

    `unjudged`: tensors of unknown rank, which the contract does not cover.
    """

    model: str
    nodes: int
    opsets: Sizes
    ok: bool
    inputs: list[str]
    outputs: list[str]
    tensors: dict[str, TensorData]
    bindings: Sizes
    contract: list[ConditionData]
    unjudged: list[str]
    findings: list[FindingData]


class Analyze(AnalysisData):
    """`shapesolve analyze --json`."""

    command: Literal["analyze"]


class CheckedModel(TypedDict):
    """A model; `ok` is true if it has no contradictions."""

    model: str
    ok: bool
    findings: list[FindingData]


class UnusableModel(TypedDict):
    """A file that cannot be analyzed, with the reason."""

    model: str
    error: str


class Check(TypedDict):
    """`shapesolve check --json`: the reported findings, by model."""

    command: Literal["check"]
    models: list[CheckedModel]
    unusable: list[UnusableModel]


class LineData(TypedDict):
    """Line of Python code."""

    file: str
    line: int
    function: str
    code: str


class OriginData(TypedDict):
    """Origin of a node: the calls that led to it, outermost first, and the path and class of its module."""

    trace: list[LineData]
    module: str
    kind: str


@carries(Finding)
class SourceFindingData(FindingData):
    """Finding on a line of Python code; `term` is the condition found in place of `declared`."""

    place: LineData | None
    origin: OriginData
    declared: str
    term: str
    counterexample: Sizes
    verdict: Literal["module", "graph", "tracer", "export", "unknown"]


class DeclaredConditionData(TypedDict):
    """Condition that restricts a declared size; `verdict` is the result of its proof."""

    condition: str
    verdict: str
    counterexample: Sizes


class DeclaredData(TypedDict):
    """Result for a size declared dynamic."""

    name: str
    declaration: str
    state: str
    conditions: list[DeclaredConditionData]


class CheckSource(TypedDict):
    """`shapesolve check --torch --json`. `refusal` is torch.export's message, `corrected` the corrected declaration."""

    command: Literal["check"]
    module: str
    ok: bool
    refusal: str
    declared: list[DeclaredData]
    corrected: str
    findings: list[SourceFindingData]
    analysis: AnalysisData | None


class TermData(TypedDict):
    """Condition of a contract; `assuming` is the scope in which this form is valid."""

    condition: str
    kind: str
    symbols: list[str]
    nodes: list[str]
    assuming: list[str]


class UsualData(TypedDict):
    """Contract for typical sizes: conditions equivalent to the exact ones if the scope holds and all sizes are at least
    1.
    """

    scope: list[str]
    terms: list[TermData]


class SymbolRangeData(TypedDict):
    """Range of a symbol: its minimum, maximum (null: unbounded), and a common divisor of its sizes."""

    min: int
    max: int | None
    multiple: int


class ContractData(TypedDict):
    """Data of `shapesolve contract --json`."""

    terms: list[TermData]
    usual: UsualData
    impossible: bool
    inputs: dict[str, list[int | str] | None]
    outputs: dict[str, list[int | str] | None]
    ranges: dict[str, SymbolRangeData]
    ranges_suffice: bool
    derived: NotRequired[dict[str, str]]
    unjudged: NotRequired[list[str]]
    internal: NotRequired[list[TermData]]
    assumed: NotRequired[list[TermData]]
    declared: NotRequired[list[TermData]]


class Contract(ContractData):
    """`shapesolve contract --json`, which `shapesolve.Contract.from_json` reads. `impossible`: no sizes run.

    `unjudged`: tensors of unknown rank, which the contract does not cover. `inputs` and `outputs` are shapes; output
    shapes are expressions of the input sizes. `ranges` are the bounds and a divisor of each symbol; if
    `ranges_suffice`, they imply the whole contract.
    """

    command: Literal["contract"]


class Constraints(ConstraintsData):
    """`shapesolve constraints --json`: the selected constraints, in graph order."""

    command: Literal["constraints"]


@carries(Derivation)
class Explain(TypedDict):
    """`shapesolve explain --json`: the shape's derivation, axis by axis and node by node."""

    command: Literal["explain"]


class ViolationData(TypedDict):
    """Requirement that the given sizes break."""

    condition: str
    message: str
    nodes: list[str]


class EvaluateData(TypedDict):
    """Data of `shapesolve evaluate --json`."""

    sizes: Sizes
    tensors: dict[str, list[int]]
    open: dict[str, str]
    broken_contract: list[str]
    violations: list[ViolationData]


class Evaluate(EvaluateData):
    """`shapesolve evaluate --json`; `open` has the shapes that the given sizes leave undetermined."""

    command: Literal["evaluate"]


class ReasonData(TypedDict):
    """Premise of a proof."""

    condition: str
    node: str
    rule: str


class ProveData(TypedDict):
    """Data of `shapesolve prove --json`."""

    claim: str
    decided: Literal["proved", "refuted", "unknown"]
    assuming: NotRequired[list[str]]
    since: NotRequired[list[ReasonData]]
    counterexample: NotRequired[Sizes]
    holds_if: NotRequired[list[str]]
    reason: NotRequired[str]


class Prove(ProveData):
    """`shapesolve prove --json`; a proof that needs assumptions is `unknown`, with the assumptions listed.

    A refuted claim may be proved under the conditions `holds_if`.
    """

    command: Literal["prove"]


class RunData(TypedDict):
    """A run; `open` lists the tensors whose shape was not fully predicted."""

    sizes: Sizes
    ok: bool
    compared: int
    open: list[str]
    mismatches: list[Mismatch]


class Verify(TypedDict):
    """`shapesolve verify --json`."""

    command: Literal["verify"]
    runs: list[RunData]


class ScannedModel(TypedDict):
    """Model of a scan; `message` is the reason why it cannot be read, or its contradiction."""

    path: str
    status: str
    nodes: int
    seconds: float
    tensors: int
    tensors_with_shape: int
    contract: list[str]
    unjudged: list[str]
    findings: list[FindingData]
    message: str


class Scan(TypedDict):
    """`shapesolve scan --json`."""

    command: Literal["scan"]
    models: list[ScannedModel]


class Ops(TypedDict):
    """`shapesolve ops --json`."""

    command: Literal["ops"]
    operators: list[Coverage]
