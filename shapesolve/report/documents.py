"""Types of the ``--json`` output: one document per command, built of smaller parts."""

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
#: document -> the record whose fields it has besides its own
CARRIED: dict[Any, Any] = {}


def carries(record: Any) -> Callable[[type[_T]], type[_T]]:
    """Decorator that adds the fields of a dataclass to a document type (see `json.data_of`)."""

    def add(document: type[_T]) -> type[_T]:
        CARRIED[document] = record
        return document

    return add


@carries(Finding)
class FindingData(TypedDict):
    """A finding: `nodes` are named in its text, `operands` have name, shape and origin. A restricted model runs at `runs` and
    fails at `fails`. `constants` are stored tensors that hold a size of the example.
    """

    severity: Severity
    nodes: list[str]
    runs: Sizes
    fails: Sizes


class TensorData(TypedDict):
    """A tensor. The shape is null if the rank is unknown, and a size that is no number is an expression."""

    dtype: str
    shape: Shape | None


class ConditionData(TypedDict):
    """A condition on input sizes, and the nodes that need it."""

    condition: str
    nodes: list[str]


class SiteData(TypedDict):
    """An axis of a tensor or, if `element` is true, an element of its data; `axis` is null for the whole tensor."""

    tensor: str
    axis: int | None
    element: bool


class ConstraintData(TypedDict):
    """A constraint of a node or an input: over dims of tensors (`x[1]`), and with definitions substituted."""

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
    """The analysis of a model: `Analysis.to_json()`, which has the version too.

    `unjudged`: tensors without a known rank, of which the contract says nothing.
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
    """A model; `ok`: nothing in it contradicts itself."""

    model: str
    ok: bool
    findings: list[FindingData]


class UnusableModel(TypedDict):
    """A file that cannot be analyzed, and why."""

    model: str
    error: str


class Check(TypedDict):
    """`shapesolve check --json`: the findings that are shown, by model."""

    command: Literal["check"]
    models: list[CheckedModel]
    unusable: list[UnusableModel]


class LineData(TypedDict):
    """A line of Python."""

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
    """A finding on a line of Python; `term` is the condition found in place of `declared`."""

    place: LineData | None
    origin: OriginData
    declared: str
    term: str
    counterexample: Sizes
    verdict: Literal["module", "graph", "tracer", "export", "unknown"]


class DeclaredConditionData(TypedDict):
    """A condition that restricts a declared size; `verdict` is the text of its proof."""

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
    """A condition of a contract; `assuming` is the scope in which it is stated in this form."""

    condition: str
    kind: str
    symbols: list[str]
    nodes: list[str]
    assuming: list[str]


class UsualData(TypedDict):
    """The contract for usual sizes: terms that agree with the exact ones if the scope holds and all sizes are at least 1."""

    scope: list[str]
    terms: list[TermData]


class SymbolRangeData(TypedDict):
    """Sizes of a symbol: the least, the greatest (null: no bound) and a number that divides all of them."""

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
    """`shapesolve contract --json`, input of `shapesolve.Contract.from_json`. `impossible`: no sizes run.

    `unjudged`: tensors without a known rank, of which the contract says nothing. `inputs` and `outputs` are shapes, of
    outputs as expressions of the input sizes. `ranges` are bounds and a divisor of each symbol; with `ranges_suffice`
    there is nothing else to keep to.
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
    """A requirement that sizes break."""

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
    """`shapesolve evaluate --json`; `open` has the shapes that the sizes do not settle."""

    command: Literal["evaluate"]


class ReasonData(TypedDict):
    """A condition that a proof follows from."""

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
    """`shapesolve prove --json`; a proof that needs assumptions is `unknown`, and names them.

    A claim that is refuted may be proved under the conditions `holds_if`.
    """

    command: Literal["prove"]


class RunData(TypedDict):
    """A run; `open` are tensors whose shape was not predicted in full."""

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
    """A model of a scan; `message` says why it could not be read, or what it contradicts."""

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
