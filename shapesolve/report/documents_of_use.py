"""Types of the ``--json`` output of commands that choose sizes, or change or compare models. See `documents`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from ..change.differences import Diff as Differences
from .documents import FindingData, Sizes, carries


class BucketData(TypedDict):
    """A bucket (the product of several sizes for several names), sizes of all names, its number of sizes, and padding."""

    size: int
    sizes: Sizes
    count: int
    padding: int


class Why(TypedDict):
    """`shapesolve why --json`. `sizes` are all sizes if the model runs, `near` the nearest accepted ones."""

    command: Literal["why"]
    runs: bool
    sizes: Sizes | None
    near: dict[str, Sizes | None]
    findings: list[FindingData]


class SizesNear(TypedDict):
    """`shapesolve sizes --near --json`. `sizes` is set if they are accepted; a side is null if nothing was found there.

    `limits` are proved bounds of names that exclude all sizes on a side.
    """

    command: Literal["sizes"]
    accepted: bool
    broken: list[str]
    sizes: NotRequired[Sizes]
    above: NotRequired[Sizes | None]
    below: NotRequired[Sizes | None]
    both: NotRequired[Sizes | None]
    limits: NotRequired[dict[str, Sizes]]


class SizesUsual(TypedDict):
    """`shapesolve sizes --json`. `prefill` has an empty cache, and is missing for models without a cache."""

    command: Literal["sizes"]
    usual: Sizes
    prefill: NotRequired[Sizes]
    smallest: Sizes


class SizesFirst(TypedDict):
    """`shapesolve sizes --enumerate --json`."""

    command: Literal["sizes"]
    sizes: list[Sizes]


class SizesBuckets(TypedDict):
    """`shapesolve sizes --buckets --json`; `proved`: the padding is proved minimal."""

    command: Literal["sizes"]
    symbols: list[str]
    buckets: list[BucketData]
    padding: int
    total: int
    proved: bool


class Inputs(TypedDict):
    """`shapesolve inputs --json`: the sizes of each input set, guesses about values, and files."""

    command: Literal["inputs"]
    sizes: list[Sizes]
    guesses: list[str]
    files: list[str]


class RangeData(TypedDict):
    """Minimum, optimum, and maximum shape of an input."""

    min: list[int]
    opt: list[int]
    max: list[int]


class CornersData(TypedDict):
    """Accepted sizes by name."""

    min: Sizes
    opt: Sizes
    max: Sizes


class ProfileData(TypedDict):
    """A profile; sizes between the minimum and the maximum must satisfy `conditions`."""

    sizes: CornersData
    inputs: dict[str, RangeData]
    conditions: list[str]


class Profile(TypedDict):
    """`shapesolve profile --json`, the default output if no tool is given."""

    command: Literal["profile"]
    profiles: list[ProfileData]


class RemovedData(TypedDict):
    """Removed node, with the reason."""

    node: str
    op_type: str
    reason: str


class Changed(TypedDict):
    """`shapesolve simplify --json` and `fix --json`: the file, node counts before and after, the removed nodes."""

    command: Literal["simplify", "fix"]
    output: str
    before: int
    after: int
    removed: list[RemovedData]


class FreedRunData(TypedDict):
    """Run of the original and the dynamic model, or of the dynamic one alone (without a difference)."""

    sizes: Sizes
    difference: float | None


class Freed(TypedDict):
    """`shapesolve free --json`: the file, and the runs of `--verify`."""

    command: Literal["free"]
    output: str
    runs: list[FreedRunData]


class ShownData(TypedDict):
    """A size in the exports. `condition` is the progression that the new model keeps to, and `reason` says why; an export
    at `export` would admit `admits`. Accepted sizes in `extrapolated` are outside the range of the exports.
    """

    name: str
    exports: list[int]
    condition: str
    reason: str
    export: int | None
    admits: str
    extrapolated: list[str]


class Generalized(TypedDict):
    """`shapesolve generalize --json`: the file, its contract, each export's input shapes, the sizes, and the runs."""

    command: Literal["generalize"]
    output: str
    contract: list[str]
    exports: list[dict[str, list[int]]]
    sizes: list[ShownData]
    runs: list[FreedRunData]


class Refused(TypedDict):
    """Output of a command without a result, because no sizes are accepted or no model can be written."""

    command: Literal["inputs", "sizes", "profile", "cost", "why", "simplify", "fix", "free", "generalize"]
    refused: str


@carries(Differences)
class Diff(TypedDict):
    """`shapesolve diff --json`; `conflicts` has the counts before and after."""

    command: Literal["diff"]
    same: bool
    replaces: bool


class Cost(TypedDict):
    """`shapesolve cost --json`: expressions as strings; rows by scope and by node."""

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
