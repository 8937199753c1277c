"""The types of what commands print with ``--json``: one document per command, in terms of smaller parts."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Shape = list[int | str]
Sizes = dict[str, int]


class StepData(TypedDict):
    """A link of the chain that leads to a conflict."""

    node: str
    op_type: str
    tensor: str
    text: str


class FindingData(TypedDict):
    """A finding; `operands` are name, shape and origin; at `runs` a restricted model runs, at `fails` it does not."""

    severity: Literal["error", "warning", "info"]
    code: str
    title: str
    node: str
    op_type: str
    nodes: list[str]
    operands: list[list[str]]
    steps: list[StepData]
    notes: list[str]
    help: str
    runs: Sizes
    fails: Sizes


class TensorData(TypedDict):
    """A tensor; the shape is null where the rank is not known, and a size that is no number is an expression."""

    dtype: str
    shape: Shape | None


class ConditionData(TypedDict):
    """A condition on input sizes, and the nodes that need it."""

    condition: str
    nodes: list[str]


class AnalysisData(TypedDict):
    """The analysis of a model: `Analysis.to_json()`, which has the version too."""

    model: str
    nodes: int
    opsets: Sizes
    ok: bool
    inputs: list[str]
    outputs: list[str]
    tensors: dict[str, TensorData]
    bindings: Sizes
    contract: list[ConditionData]
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
    """What a node comes from: the calls that led to it, outermost first, and the path and class of its module."""

    trace: list[LineData]
    module: str
    kind: str


class SourceFindingData(FindingData):
    """A finding on a line of Python; `met` is where it shows, `term` what came out in place of `declared`."""

    place: LineData | None
    met: LineData | None
    origin: OriginData
    declared: str
    term: str
    counterexample: Sizes
    verdict: Literal["module", "graph", "tracer", "export", "unknown"]


class DeclaredConditionData(TypedDict):
    """A condition that a declared size came out with; `verdict`: how that was found."""

    condition: str
    verdict: str
    counterexample: Sizes


class DeclaredData(TypedDict):
    """What became of a declared size."""

    name: str
    declaration: str
    state: str
    conditions: list[DeclaredConditionData]


class CheckSource(TypedDict):
    """`shapesolve check --torch --json`; `refusal` are torch.export's words, `corrected` is to be declared instead."""

    command: Literal["check"]
    module: str
    ok: bool
    refusal: str
    declared: list[DeclaredData]
    corrected: str
    findings: list[SourceFindingData]
    analysis: AnalysisData | None


class TermData(TypedDict):
    """A term of a contract; `assuming` are conditions under which it is stated in this form."""

    condition: str
    kind: str
    symbols: list[str]
    nodes: list[str]
    assuming: list[str]


class UsualData(TypedDict):
    """A form of the contract that reads better and holds for usual sizes."""

    terms: list[TermData]
    assuming: list[str]


class Contract(TypedDict):
    """`shapesolve contract --json`; `impossible`: no sizes run."""

    command: Literal["contract"]
    terms: list[TermData]
    assuming: list[str]
    impossible: bool
    usual: NotRequired[UsualData]
    derived: NotRequired[dict[str, str]]
    internal: NotRequired[list[TermData]]
    assumed: NotRequired[list[TermData]]
    declared: NotRequired[list[TermData]]


class AxisStepData(TypedDict):
    """A place on the way of a dim; `axis` is null for an element that a tensor holds."""

    kind: Literal["input", "initializer", "passes", "computes"]
    node: str
    op_type: str
    tensor: str
    axis: int | None
    dim: str


class AxisData(TypedDict):
    """Where the dim of an axis comes from, in graph order; `cut`: earlier steps were left out."""

    axis: int
    dim: str
    cut: bool
    steps: list[AxisStepData]


class SourceData(TypedDict):
    """An input or initializer that a shape starts from."""

    kind: str
    tensor: str
    shape: Shape | None


class ShapeData(TypedDict):
    """A tensor that a node reads."""

    tensor: str
    shape: Shape | None


class NodeStepData(TypedDict):
    """A node on the way, with what it reads, makes and requires."""

    node: str
    op_type: str
    inputs: list[ShapeData]
    output: str
    shape: Shape | None
    requires: list[str]


class Explain(TypedDict):
    """`shapesolve explain --json`."""

    command: Literal["explain"]
    tensor: str
    shape: Shape | None
    axes: list[AxisData]
    sources: list[SourceData]
    steps: list[NodeStepData]


class ViolationData(TypedDict):
    """A requirement that sizes break."""

    condition: str
    message: str
    nodes: list[str]


class Evaluate(TypedDict):
    """`shapesolve evaluate --json`; `open` has the shapes that the sizes do not settle."""

    command: Literal["evaluate"]
    sizes: Sizes
    tensors: dict[str, list[int]]
    open: dict[str, str]
    broken_contract: list[str]
    violations: list[ViolationData]


class ReasonData(TypedDict):
    """A condition that a proof follows from."""

    condition: str
    node: str
    rule: str


class Prove(TypedDict):
    """`shapesolve prove --json`; a proof that needs assumptions is `unknown`, and names them."""

    command: Literal["prove"]
    claim: str
    decided: Literal["proved", "refuted", "unknown"]
    assuming: NotRequired[list[str]]
    since: NotRequired[list[ReasonData]]
    counterexample: NotRequired[Sizes]
    reason: NotRequired[str]


class MismatchData(TypedDict):
    """A tensor whose true shape is not the predicted one."""

    tensor: str
    predicted: str
    computed: list[int | None]
    true: list[int]


class RunData(TypedDict):
    """A run; `open` are tensors whose shape was not predicted in full."""

    sizes: Sizes
    ok: bool
    compared: int
    open: list[str]
    mismatches: list[MismatchData]


class Verify(TypedDict):
    """`shapesolve verify --json`."""

    command: Literal["verify"]
    runs: list[RunData]


class BucketData(TypedDict):
    """A size to pad to, with accepted sizes of the other names, how many sizes it holds and what is added to them."""

    size: int
    sizes: Sizes
    count: int
    padding: int


class SizesNear(TypedDict):
    """`shapesolve sizes --near --json`; `sizes` where they are accepted, a side is null where no accepted sizes were found."""

    command: Literal["sizes"]
    accepted: bool
    broken: list[str]
    sizes: NotRequired[Sizes]
    above: NotRequired[Sizes | None]
    below: NotRequired[Sizes | None]
    both: NotRequired[Sizes | None]


class SizesFirst(TypedDict):
    """`shapesolve sizes --enumerate --json`."""

    command: Literal["sizes"]
    sizes: list[Sizes]


class SizesBuckets(TypedDict):
    """`shapesolve sizes --buckets --json`; `proved`: no other choice pads less."""

    command: Literal["sizes"]
    symbol: str
    buckets: list[BucketData]
    padding: int
    total: int
    proved: bool


class Inputs(TypedDict):
    """`shapesolve inputs --json`: the sizes of each set of inputs, what was guessed of values, and the files written."""

    command: Literal["inputs"]
    sizes: list[Sizes]
    guesses: list[str]
    files: list[str]


class RangeData(TypedDict):
    """The shapes of an input."""

    min: list[int]
    opt: list[int]
    max: list[int]


class CornersData(TypedDict):
    """Accepted sizes by name."""

    min: Sizes
    opt: Sizes
    max: Sizes


class ProfileData(TypedDict):
    """A profile; sizes between the least and the greatest must keep the `conditions`."""

    sizes: CornersData
    inputs: dict[str, RangeData]
    conditions: list[str]


class Profile(TypedDict):
    """`shapesolve profile --json`, which is what it prints when no tool is named."""

    command: Literal["profile"]
    profiles: list[ProfileData]


class RemovedData(TypedDict):
    """A node that went, and why."""

    node: str
    op_type: str
    reason: str


class Changed(TypedDict):
    """`shapesolve simplify --json` and `fix --json`: the file, how many nodes there were and are, those that went."""

    command: Literal["simplify", "fix"]
    output: str
    before: int
    after: int
    removed: list[RemovedData]


class FreedRunData(TypedDict):
    """A run of both models, or of the freed one alone, where there is no difference to tell."""

    sizes: Sizes
    difference: float | None


class Freed(TypedDict):
    """`shapesolve free --json`: the file, and the runs of `--verify`."""

    command: Literal["free"]
    output: str
    runs: list[FreedRunData]


class Refused(TypedDict):
    """What a command prints where there is nothing else to tell: no sizes are accepted, or no model can be written."""

    command: Literal["inputs", "sizes", "profile", "cost", "simplify", "fix", "free"]
    refused: str


class OutputData(TypedDict):
    """An output of both models."""

    name: str
    verdict: Literal["same", "differs", "open"]
    before: str
    after: str
    why: str


class ChangeData(TypedDict):
    """A tensor of both models whose type or shape reads differently."""

    name: str
    before: str
    after: str


class Diff(TypedDict):
    """`shapesolve diff --json`; `conflicts` counts those before and after."""

    command: Literal["diff"]
    same: bool
    before: str
    after: str
    outputs: list[OutputData]
    changed: list[ChangeData]
    shared: int
    removed: list[str]
    added: list[str]
    contract_removed: list[str]
    contract_added: list[str]
    needs_removed: list[str]
    needs_added: list[str]
    conflicts: list[int]
    renamed: dict[str, str]


class OutputProofData(TypedDict):
    """An output of both models, and the names that it has."""

    name: str
    other: str
    verdict: Literal["same", "differs", "open"]
    shapes: list[str]
    why: str


class ContractProofData(TypedDict):
    """The accepted sizes of two models as sets, with sizes that only one accepts."""

    relation: Literal["equal", "wider", "narrower", "neither", "open"]
    only_first: Sizes | None
    only_second: Sizes | None
    left_out: int


class RunsData(TypedDict):
    """What runs of both models showed."""

    count: int
    largest: float
    faults: list[str]


class DiffProved(TypedDict):
    """`shapesolve diff --prove --json`."""

    command: Literal["diff"]
    passed: bool
    outputs: list[OutputProofData]
    unmatched: list[str]
    contract: ContractProofData
    runs: RunsData | None


class ScannedModel(TypedDict):
    """A model of a scan; `message` says why it could not be read, or what it contradicts."""

    path: str
    status: str
    nodes: int
    seconds: float
    tensors: int
    tensors_with_shape: int
    contract: list[str]
    findings: list[FindingData]
    message: str


class Scan(TypedDict):
    """`shapesolve scan --json`."""

    command: Literal["scan"]
    models: list[ScannedModel]


class OperatorData(TypedDict):
    """An operator at one version; `values`: data is followed through it."""

    domain: str
    op_type: str
    since: int
    how: str
    values: bool
    deprecated: bool
    standard: bool


class Ops(TypedDict):
    """`shapesolve ops --json`."""

    command: Literal["ops"]
    operators: list[OperatorData]


class Cost(TypedDict):
    """`shapesolve cost --json`: expressions as texts; rows by scope and by node."""

    command: Literal["cost"]
    parameters: int
    parameter_bytes: int
    macs: str | None
    flops: str | None
    activation_bytes: str
    peak: list[str]
    peak_reused: list[str]
    uncounted: Sizes
    unmeasured: list[str]
    remarks: list[str]
    scopes: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    at: NotRequired[Sizes]
    fit: NotRequired[dict[str, Any]]
