"""Findings about inputs that nothing reads, and about what is assumed of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..causes.finding import ExampleModel, Finding, Kind
from ..expr import Cond

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.facts.constraint import Constraint


class UnusedInput(Kind):
    """unused input

    The model declares an input that no node, subgraph, or output uses: its value does not affect the
    outputs, but onnxruntime requires it anyway. Often, an argument of the exported function was unused in
    the trace, such as the encoder states of a decoder that reads them from its cache. If its dims share
    names with other inputs, the sizes must still be equal.

    ## What to do

    If the outputs should depend on the input, find out where the export lost it; for example, the traced
    code may not use a mask or lengths. Otherwise, remove the input from the graph, so that callers need not
    pass it.
    """

    code, severity = "SS407", "info"
    example = ExampleModel("g (float[batch, 8] x, int64[batch] lengths) => (y) { [act] y = Relu(x) }")


def _unread(analysis: Solved) -> Iterator[Finding]:
    """Findings for inputs that no node reads. Inputs with a default are optional and are skipped."""
    graph = analysis.model.graph
    read = {name for node in graph.nodes for name in (*node.inputs, *node.captures)}
    read.update(name for name, _ in graph.outputs)
    for name in analysis.inputs:
        if name not in read and name not in graph.initializers:
            yield UnusedInput.worded(f"input {name} is unused: no output depends on it", dims=(name,))


class Assumed(Kind):
    """something was assumed that the model does not decide

    Shapes, the contract, or a proof depend on an assumption:

    - A name is bound to a number because a broadcast only allows that number or 1, and a named dim is
      assumed not to be 1.
    - An unknown operator, or a node with an input of unknown shape, has a declared output shape, which is
      assumed to be right.
    - Two names in a broadcast are assumed to be equal (`--broadcast equal`), or a size times a float is
      assumed to round as it does for sizes below 2**17.

    ## What to do

    Nothing, if the assumption is true. `--broadcast strict` treats a dim that may be 1 as ambiguous, and
    `--assume "d_model == 64"` sets its size. If a declaration is wrong, correct it in the model.
    """

    code, severity = "SS501", "info"
    example = ExampleModel("g (float[batch, d_model] x) => (y) { [bias] y = Add(x, b) }", {"b": (64,)})


def _assumed(analysis: Solved) -> Iterator[Finding]:
    assumed: set[Cond] = set()
    for name, value in analysis.bindings.items():
        why = analysis.bindings.why(name)
        if why.assumption:
            own = why.assumption == f"{name} != 1" and analysis.request.broadcast == "named"
            left = ", which `--broadcast strict` does not assume" if own else ""
            yield Assumed.worded(
                f"`{name}` is set to {value}, assuming {why.assumption}{left}",
                **_place(why.constraints),
                notes=tuple(f"{c.origin.node} needs {c.cond}: {c.origin.rule}" for c in why.constraints[:3]),
                dims=(name,),
            )
            assumed.update(c.cond for c in why.constraints if c.role == "assumption")
    granted: dict[str, list[Constraint]] = {}
    for c in analysis.stated.role("assumption"):
        if c.cond not in assumed:
            granted.setdefault(c.assumption, []).append(c)
    for text, same in granted.items():
        rule = same[0].origin.rule
        notes = (rule,) if text is not rule else ()
        title = f"{text} is assumed" if notes else f"{text}, which is assumed"
        yield Assumed.worded(title, **_place(same), notes=notes, dims=(text,))


def find(analysis: Solved) -> Iterator[Finding]:
    """Yield unused inputs and assumptions."""
    yield from _unread(analysis)
    yield from _assumed(analysis)


def _place(constraints: Sequence[Constraint]) -> dict[str, Any]:
    """Return the nodes of conditions as fields of a finding."""
    nodes = tuple(dict.fromkeys(c.origin.node for c in constraints))
    op_type = constraints[0].origin.op_type if constraints else ""
    return {"node": nodes[0] if nodes else "", "op_type": op_type, "nodes": nodes}
