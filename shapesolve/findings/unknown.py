"""Findings about nodes without shapes, about files, and about what a caller may override: notes of the lowering."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..causes.finding import ExampleModel, Finding, Kind
from ..causes.limits import MAX_FOR_LIMITS
from ..expr import Dim
from ..lower import Registry
from ..model import Node
from .branches import branches
from .declared import CORRECT, StaleDeclaration

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..lower.lowered import Lowered

#: names of axes, by rank
_AXES = {1: "N", 2: "NC", 3: "NTC", 4: "NCHW", 5: "NCDHW"}


class UnknownOperator(Kind):
    """unknown operator

    The model uses an operator, or a version of it, that neither the built-in rules nor onnx support. Its
    output shapes are unknown. If the model declares them, the declarations are assumed to be right
    ([SS501](SS501.md)); otherwise, everything that depends on them is unknown, too.

    ## What to do

    Declare the operator by a signature or a function (see [adding an operator](../how-to/custom-operators.md)) in
    a Python module, and load it with `--plugin my_ops`. Alternatively, define the operator as a function in
    the model.
    """

    code, severity = "SS101", "warning"
    example = ExampleModel(
        """<ir_version: 8, opset_import: ["": 17, "acme.ops": 1]>
        g (float[batch, 8] x) => (y) { [thing] y = acme.ops.FancyPool(x) }"""
    )


class Unsupported(Kind):
    """a rule does not support a node

    The rule for this node does not support it completely: a required rank or value is unknown, or an
    expression exceeds the size limit. The output gets generated names; nothing is guessed.

    ## What to do

    Often nothing. If the tensor matters, declare its shape in the model, or add a condition with
    `--assume`.
    """

    code, severity = "SS103", "info"

    def __init__(self, message: str, node: Node | None, prefix: str, lowered: Lowered) -> None:
        self.message, self.label = message, "" if node is None else f"{prefix}{node.label}"
        self._own = () if node is None else tuple(lowered.full_name(n, prefix) for n in node.outputs if n)
        self._lowered = lowered

    @property
    def is_first(self) -> bool:
        """True if no input of the node depends on a tensor of unknown rank."""
        return all(self._lowered.unranked_behind.get(name, name) in self._own for name in self._own)

    def title(self) -> str:
        return self.message

    def notes(self) -> Iterator[str]:
        lowered = self._lowered
        more = [
            n for n, first in lowered.unranked_behind.items() if first in self._own and n in lowered.unranked
        ]
        if count := len({*more} - {*self._own}):
            yield f"{count} more tensor{'s' if count > 1 else ''} behind it {'have' if count > 1 else 'has'} unknown rank"


class OddFile(Kind):
    """the file departs from the standard, in a way that onnxruntime understands

    The file violates the ONNX standard, but onnxruntime loads it: a domain has no `opset_import`
    (onnxruntime uses the newest version that it knows), an opset is imported twice, or two constants with
    the same type and shape have the same name (the last one counts). The analysis reads the file as
    onnxruntime does; other tools may reject it.

    ## What to do

    Add the missing parts to the file: `model.opset_import.append(onnx.helper.make_opsetid("com.microsoft",
    1))`.
    """

    code, severity = "SS104", "warning"
    example = ExampleModel("g (float[batch, 64] x) => (y) { [gelu] y = com.microsoft.Gelu(x) }")


class FailedRule(Kind):
    """the rule of an operator failed

    The rule registered for the operator raised an exception, or returned something other than an output.
    The node is treated like an unknown operator: its output shapes are unknown, and it has no requirements
    on its inputs.

    ## What to do

    Correct the rule. A common cause is that `op.shape(0)` is None because the input has unknown rank. Pass
    the rank that the operator requires, `op.shape(0, 4)`, or return `op.out(None)`. If the operator is
    built in, please report it.
    """

    code, severity = "SS105", "warning"


class Unloadable(Kind):
    """onnxruntime does not load the file, although its sizes are valid

    The accepted sizes are valid, but onnxruntime does not load the file. There are two known reasons:

    - A node in a branch of an `If` that is never taken, or in the body of a loop without iterations, has
      inputs with unsupported sizes or element types. onnxruntime checks every branch when it loads the
      file.
    - A target shape, axes, or split sizes are stored in an external data file. onnxruntime requires them in
      the model file.

    ## What to do

    `shapesolve simplify` writes the model without the branch. `shapesolve annotate` and `shapesolve
    simplify` write small integer tensors into the model file.
    """

    code, severity = "SS206", "warning"
    example = branches("", "never")._replace(data={"never": (False,)})


class OverridableDefault(Kind):
    """the analysis assumes the default value of an input that callers can override

    Since IR version 4, an initializer that is also a graph input is only the input's default value, and
    callers may pass another one. If shapes may depend on it (small integers and booleans, and floats used
    as scales or limits), the analysis assumes the default value. The results hold for callers who don't
    override it.

    ## What to do

    Nothing, if no caller overrides it. Remove it from the graph's inputs to make it a constant, or remove
    the initializer to make it an ordinary input.
    """

    code, severity = "SS502", "info"
    example = ExampleModel(
        "g (float[N, 6] x, int64[2] target) => (y) { [reshape] y = Reshape(x, target) }",
        data={"target": (0, 6)},
    )


#: kind of a note of the lowering -> kind of its finding, and help
_KINDS: dict[str, tuple[type[Kind], str]] = {
    "unknown-op": (UnknownOperator, ""),
    "declared": (StaleDeclaration, CORRECT),
    "memory": (StaleDeclaration, CORRECT),
    "open": (Unsupported, ""),
    "default": (OverridableDefault, ""),
    "file": (OddFile, ""),
    "rule": (FailedRule, ""),
    "load": (Unloadable, "`shapesolve simplify` removes the branch"),
    "outside": (Unloadable, "`shapesolve annotate` writes it into the model"),
}


def find(analysis: Solved) -> Iterator[Finding]:
    """Yield what the lowering noted, and tensors of unknown rank."""
    suggested: dict[tuple[str, str], str] = {}
    trials = iter(range(MAX_FOR_LIMITS // max(len(analysis.model.graph.nodes), 1)))
    for note in analysis.lowered.notes:
        kind, help_ = _KINDS.get(note.kind, (None, ""))
        if kind is None or (note.kind == "memory" and analysis.stale_shapes):  # told with the stale shapes
            continue
        label = f"{note.prefix}{note.node.label}" if note.node else ""
        op_type = note.node.op_type if note.node else ""
        if kind is UnknownOperator and note.node is not None:
            key = (note.node.domain, note.node.op_type)
            if key not in suggested:
                suggested[key] = _registration(analysis, note.node, note.prefix, trials)
            help_ = suggested[key]
        nodes = (label,) if label else ()
        if kind is not Unsupported:
            yield kind.worded(note.message, label, op_type, nodes=nodes, help=help_)
        elif (open_ := Unsupported(note.message, note.node, note.prefix, analysis.lowered)).is_first:
            yield open_.finding(label, op_type, nodes=nodes)
    yield from _unranked(analysis)


def _unranked(analysis: Solved) -> Iterator[Finding]:
    """Findings for tensors of unknown rank, at the first one without another explanation."""
    explained = {
        f"{note.prefix}{note.node.label}" for note in analysis.lowered.notes if note.node is not None
    } | analysis.lowered.failed
    explained.update(label for conflict in analysis.conflicts for label in conflict.nodes)
    for name in (n for n, begins in analysis.lowered.unranked.items() if begins):
        node, prefix = analysis.lowered.producers.get(name, (None, ""))
        if node is None:
            if name in analysis.inputs:
                title = f"input {name} has unknown rank: it declares no shape, and no node implies one"
                yield Unsupported.worded(title, dims=(name,))
        elif f"{prefix}{node.label}" not in explained:
            label = f"{prefix}{node.label}"
            title = (
                f"the rank of {name} is unknown: it depends on input data, or the operator has no shape rule"
            )
            unknown = Unsupported(title, node, prefix, analysis.lowered)
            if unknown.is_first:
                yield unknown.finding(label, node.op_type, nodes=(label,))


def _registration(analysis: Solved, node: Node, prefix: str, trials: Iterator[int]) -> str:
    """Help text: the line of Python that declares the operator's shapes. It was tried on this model."""
    domain = f", domain={node.domain!r}" if node.domain else ""
    for dims, _ in zip(_signatures(analysis, node, prefix), trials):
        rules = Registry()
        rules.signature(node.op_type, dims, domain=node.domain)
        trial = analysis.again(rules=rules.over(analysis.request.rules), trial=True)
        if not trial.stuck and not trial.contract.impossible:
            call = f"shapesolve.signature({node.op_type!r}, {dims!r}{domain})"
            return f"save {call} in my_ops.py, with the real output sizes, and add --plugin my_ops"
    return ""


def _signatures(analysis: Solved, node: Node, prefix: str) -> Iterator[str]:
    """Signatures that fit the ranks of a node's inputs: outputs like the first input, or of its rank."""
    letters: dict[Dim, str] = {}

    def named(name: str) -> list[str]:
        shape = analysis.shapes.get(f"{prefix}{name}") if name else None
        if shape is None:
            return ["?"]
        axes = _AXES.get(len(shape), "")
        for d, letter in zip_longest(shape, axes):
            if d not in letters:
                letters[d] = letter if letter and letter not in letters.values() else f"D{len(letters)}"
        return [letters[d] for d in shape] or ["."]

    inputs = [named(name) for name in node.inputs]
    first = inputs[0] if inputs and inputs[0] != ["?"] else []
    for kept in dict.fromkeys((len(first), *range(min(2, len(first)), -1, -1))) if first else ():
        out = [*first[:kept], *["_"] * (len(first) - kept)]
        yield f"{', '.join(map(' '.join, inputs))} -> {', '.join([' '.join(out)] * len(node.outputs))}"
