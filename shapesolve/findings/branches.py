"""Findings about branches and loop bodies that cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..causes.finding import ExampleModel, Finding, Kind
from ..lower.standard import stops_loading

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..lower.rule import Bodies
    from ..solve.facts.constraint import Origin

#: reason that a node is not reached, by the kind of the graphs around it
_WAYS_ROUND: dict[Bodies, str] = {
    "one": "the branch around it must not be taken",
    "trips": "the loop around it must have no iterations",
}


def branches(inputs: str, test: str) -> ExampleModel:
    """Return an `If` of which one branch cannot run: a product with a weight of 65 rows."""
    return ExampleModel(
        f"""g ({inputs}float[batch, 64] x) => (y) {{
        [choice] y = If ({test}) <
            then_branch = then_branch () => (float[a, b] t) {{ [project] t = MatMul(x, small) }},
            else_branch = else_branch () => (float[c, d] e) {{ [project] e = MatMul(x, large) }}
        > }}""",
        {"small": (65, 8), "large": (64, 8)},
    )


@dataclass(frozen=True, eq=False)
class DeadBranch(Kind):
    """a branch or a loop body cannot run for any sizes

    A node in a branch of an `If`, or in the body of a loop, has sizes that contradict each other. The model
    runs if the branch is not taken, or the loop has no iterations, and the contract contains this
    condition.

    ## What to do

    Correct the branch or the body, or remove it if it never runs.
    """

    code, severity = "SS204", "warning"
    example = branches("bool training, ", "training")

    origin: Origin
    way_round: str
    reached_if: str
    stops_loading: bool

    def title(self) -> str:
        return f"{self.origin.op_type} cannot run, so {self.way_round}"

    def notes(self) -> Iterator[str]:
        yield self.origin.rule
        yield f"it is reached if {self.reached_if}"
        if self.stops_loading:
            yield "onnxruntime does not load the file, even if this node is never reached"


def find(analysis: Solved) -> Iterator[Finding]:
    """Yield nodes that cannot run in a branch or a loop body: the model runs only if they are not reached."""
    reported = {node for conflict in analysis.conflicts for node in conflict.nodes}
    for number, entry in enumerate(analysis.lowered.log):
        if entry.guard.is_true or not entry.cond.is_false or entry.role != "requirement":
            continue
        origin = analysis.stated[number].origin
        if origin.node not in reported:
            around = set(analysis.lowered.around(entry.prefix))
            way = _WAYS_ROUND.get(around.pop(), "") if len(around) == 1 else ""
            stops = entry.node is not None and stops_loading(analysis.walk, entry.node)
            reached = analysis.walk.described(entry.guard)
            dead = DeadBranch(origin, way or "it must not be reached", reached, stops)
            yield dead.finding(origin.node, origin.op_type, nodes=(origin.node,))
