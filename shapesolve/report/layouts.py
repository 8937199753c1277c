"""JSON of records whose keys are not their fields."""

from __future__ import annotations

from typing import NamedTuple


class Layout(NamedTuple):
    """JSON of a record: its name and description in the schema (default: the class's), and its keys.

    Keys are separated by spaces; ``key=name`` has the value of another attribute, and ``key:sizes`` is an object made of
    pairs. ``key:str`` may get more values in later versions.
    """

    name: str = ""
    about: str = ""
    keys: str = ""


_FINDING = (
    "severity code title node op_type nodes=named operands steps notes help runs:sizes fails:sizes constants usual"
    " condition"
)
_SOURCE_FINDING = f"{_FINDING} origin declared term counterexample:sizes verdict place"
#: class -> its layout; the keys of a layout without them are the fields of the class
LAYOUTS = {
    "Bucket": Layout(
        "BucketData",
        "A bucket (the product of several sizes for several names), sizes of all names, its number of sizes, and padding.",
    ),
    "Buckets": Layout(
        "SizesBuckets",
        "`shapesolve sizes --buckets --json`; `proved`: the padding is proved minimal.",
        "symbols buckets padding total proved",
    ),
    "Constraint": Layout(
        "ConstraintData",
        "A constraint of a node or an input: over tensor dims (`x[1]`), and with definitions substituted.",
        "role:str node op_type condition=text over_inputs=text_over_inputs rule sites=origin.sites",
    ),
    "CostData": Layout("Cost"),
    "Derivation": Layout(
        "Explain", "`shapesolve explain --json`: the shape's derivation, axis by axis and node by node."
    ),
    "Diff": Layout(
        "",
        "`shapesolve diff --json`; `conflicts` has the counts before and after.",
        "same replaces before after outputs contract changed shared removed added requirements_removed"
        " requirements_added conflicts renamed runs",
    ),
    "Finding": Layout(
        "FindingData",
        "A finding. `nodes` are the nodes named in its text, `operands` have a name, shape, and origin. A restricted model"
        " runs at `runs` and fails at `fails`. `constants` are initializers that contain a hard-coded size.",
        _FINDING,
    ),
    "Range": Layout("RangeData", "Minimum, optimum, and maximum shape of an input."),
    "Removed": Layout("RemovedData", "Removed node, with the reason."),
    "Run": Layout(
        "FreedRunData",
        "Run of the original and the dynamic model, or of the dynamic one alone (without a difference).",
    ),
    "ScanRow": Layout(
        "ScannedModel",
        "Model of a scan; `message` is the reason why it cannot be read, or its contradiction.",
        "path status:str nodes seconds tensors tensors_with_shape=known contract unjudged findings message",
    ),
    "Shown": Layout(
        "ShownData",
        "A size in the exports. `condition` is the progression that the new model keeps to, and `reason` says why; an export"
        " at `export` would admit `admits`. Accepted sizes in `extrapolated` are outside the range of the exports.",
    ),
    "Site": Layout(
        "SiteData",
        "An axis of a tensor or, if `element` is true, an element of its data; a null `axis` means the whole tensor.",
        "tensor axis element=data",
    ),
    "SourceFinding": Layout(keys=_SOURCE_FINDING),
    "SourceFindingData": Layout(keys=_SOURCE_FINDING),
    "Term": Layout(
        "TermData",
        "Condition of a contract; `assuming` is the scope in which this form is valid.",
        "condition=text kind:str symbols nodes assuming=assumptions",
    ),
    "Usual": Layout(
        "UsualData",
        "Contract for typical sizes: conditions equivalent to the exact ones if the scope holds and all sizes are at least"
        " 1.",
        "scope terms impossible:bool",
    ),
    "Verification": Layout(
        "RunData",
        "A run; `open` lists the tensors whose shape was not fully predicted.",
        "sizes=bindings ok compared open mismatches",
    ),
    "Rejected": Layout(
        "ViolationData", "Requirement that the given sizes break.", "condition=text sentence message nodes"
    ),
}


def keys_of(text: str) -> list[tuple[str, str, str]]:
    """Return the keys of a layout: key, attribute, and type if it differs from the attribute's."""
    out = []
    for word in text.split():
        way, _, kind = word.partition(":")
        key, _, name = way.partition("=")
        out.append((key, name or key, kind))
    return out
