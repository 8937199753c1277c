"""Commands analyze, contract, explain, evaluate, prove."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ..expr.nearest import like_pattern, unknown_name
from ..lines import plain
from ..solve.facts.constraint import ROLES
from .app import app
from .asking import At, GivenSizes, asked_sizes
from .console import (
    FOUND,
    OK,
    UNDECIDED,
    Progress,
    Result,
    fail,
)
from .options import (
    Assume,
    Bind,
    Broadcast,
    FindingsFormat,
    Model,
    accepts,
    ending,
    find,
    load,
    write_file,
)
from .parameters import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis import Analysis
    from ..answers.derivation import Derivation
    from ..report.evaluation import Evaluate
    from ..report.json import Analyze, Contract
    from ..report.verdict import Prove
    from ..solve.facts.constraint import Constraint


Exact = Annotated[
    bool,
    Option(
        "--exact",
        help="Show exact forms, which also hold for empty and very small inputs. By default, shorter forms are shown.",
    ),
]


@app.command(
    example=[
        "A mask whose length is 1 or the length of the cache including the new tokens.",
        "analyze examples/attention.onnx --tensors 'present_*'",
    ]
)
def analyze(
    model: Model,
    tensors: Annotated[
        str | None, Option("--tensors", metavar="PATTERN", help="Show matching tensors, e.g. '*attn*'.")
    ] = None,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
    exact: Exact = False,
    format: FindingsFormat = "text",
) -> Result[Analyze]:
    """Show input and output shapes, the contract, and all findings.

    Exit code: 1 if no input sizes are accepted. To fail on any error, use `check`. Examples:

        shapesolve analyze model.onnx

        shapesolve analyze model.onnx --tensors '*attn*'

        shapesolve analyze model.onnx --assume "total == past + seq"
    """
    start = time.perf_counter()
    a = load(model, assume, bind, broadcast)
    from ..report.text import report_lines, tensor_lines

    if tensors is not None:
        return Result(None, tensor_lines(a, _matching(tensors, a), exact=exact), accepts(a))
    find(a)
    lines = report_lines(a, time.perf_counter() - start, exact=exact)
    if format in ("sarif", "github"):
        from ..report.sarif import WRITERS

        return Result(None, WRITERS[format]([(str(a.model.path or ""), a.findings)]), accepts(a))
    from ..report.json import report_data

    return Result(lambda: report_data(a), lines, accepts(a))


def _matching(pattern: str, a: Analysis) -> list[str]:
    """Return the tensors whose names match a pattern, at least one."""
    names = [n for n in a.dtypes if fnmatchcase(n, pattern) or n == pattern]
    return names or fail(f"no tensor matches {pattern!r}{like_pattern(pattern, a.dtypes)}")


@app.command(
    example=[
        "Three poolings with skip connections require multiples of 8.",
        "contract examples/unet.onnx",
        "contract examples/unet.onnx --format python -o check_inputs.py",
    ]
)
def contract(
    model: Model,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
    exact: Exact = False,
    format: Annotated[
        Literal["text", "json", "smtlib", "python", "cpp", "onnx"],
        Option(
            "--format",
            help="Text, JSON, a function that checks input shapes, or a copy of the model that checks them first.",
        ),
    ] = "text",
    outputs: Annotated[
        bool,
        Option("--outputs", help="With python or cpp: add a function that computes output shapes."),
    ] = False,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FILE", help="File to write; required by --format onnx."),
    ] = None,
) -> Result[Contract]:
    """Show the conditions on input sizes under which the model runs.

    Each condition names the nodes that require it. Checkers take the shapes of all inputs by name and return the
    broken conditions. They are C++14 or Python without dependencies, or a copy of the model in which a
    node named after the broken condition fails. Exit code: 1 if no sizes run. Examples:

        shapesolve contract model.onnx

        shapesolve contract model.onnx --format cpp -o check_inputs.hpp

        shapesolve contract model.onnx --format cpp --outputs -o shapes.hpp

        shapesolve contract model.onnx --format onnx -o guarded.onnx
    """
    a = find(load(model, assume, bind, broadcast), findings=False)
    if output is None and format == "onnx":
        fail("--format onnx requires -o FILE")
    if outputs and format not in ("python", "cpp"):
        fail("--outputs requires --format python or cpp")
    from ..report.json import contract_data, data_of, envelope
    from ..report.text import contract_lines, headline

    lines = [headline(a), (), *contract_lines(a, limit=None, exact=exact)] if format == "text" else []
    text = ""
    if format == "json" and output is not None:
        text = envelope("contract", data_of(contract_data(a)))
    elif format == "smtlib":
        text = a.contract.to_smtlib()
    elif format in ("python", "cpp"):
        from ..deploy.guards.guard import guard

        text = guard(a, format, outputs=outputs)
    if output is None:
        return Result(lambda: contract_data(a), text or lines, accepts(a))
    if format == "onnx":
        from ..change.annotate.file import save_changed
        from ..deploy.guards.guard import guarded_proto

        save_changed(a.model, guarded_proto(a), output)
    else:
        write_file(output, f"{(text or plain(lines)).rstrip()}\n".encode(), a.model)
    return Result(None, [f"wrote {output}"], *ending(a))


@dataclass(frozen=True)
class Constraints:
    """`shapesolve constraints --json`: the selected constraints, in graph order."""

    constraints: Sequence[Constraint]


@app.command(
    example=[
        "The constraints of one node: its requirements, and the dims of its output.",
        "constraints examples/attention.onnx --node /attn/Concat_3",
    ]
)
def constraints(
    model: Model,
    node: Annotated[
        str | None, Option("--node", metavar="PATTERN", help="Show only matching nodes, e.g. '*attn*'.")
    ] = None,
    symbol: Annotated[
        str | None,
        Option("--symbol", metavar="NAME", help="Show only constraints that depend on this input dim."),
    ] = None,
    role: Annotated[
        list[str] | None, Option("--role", metavar="ROLE", help=f"Show only these roles: {', '.join(ROLES)}.")
    ] = None,
    assume: Assume = None,
    bind: Bind = None,
    format: Annotated[Literal["text", "json", "smtlib"], Option("--format", help="Output format.")] = "text",
) -> Result[Constraints]:
    """List the size constraints of a model, in graph order.

    A definition is a formula for an output dim. A requirement is a condition that a node checks. Examples:

        shapesolve constraints model.onnx --role requirement

        shapesolve constraints model.onnx --node '*attn*' --symbol seq --format smtlib
    """
    a = load(model, assume, bind)
    unknown = next((r for r in role or () if r not in ROLES), None)
    if unknown is not None:
        fail(f"unknown role {unknown!r}; expected one of: {', '.join(ROLES)}")
    if symbol is not None and symbol not in a.symbols:
        fail(unknown_name("dim", symbol, a.symbols))
    rows = a.constraints if role is None else a.constraints.role(*(r for r in ROLES if r in role))
    rows = rows if symbol is None else rows.for_symbol(symbol)
    rows = rows if node is None else rows.for_nodes(lambda label: fnmatchcase(label, node) or label == node)
    if node is not None and not rows:
        fail(f"no node matches {node!r}{like_pattern(node, [n.label for n in a.model.graph.nodes])}")
    from ..report.text import constraint_lines

    text = rows.to_smtlib() if format == "smtlib" else constraint_lines(rows)
    return Result(lambda: Constraints(list(rows)), text, *ending(a))


@app.command(
    example=[
        "The cache grows by the number of new tokens.",
        "explain examples/attention.onnx present_key --axis 2",
    ]
)
def explain(
    model: Model,
    tensor: Annotated[str, Argument(metavar="TENSOR", help="Tensor name.")],
    axis: Annotated[int | None, Option("--axis", metavar="N", help="Show only this axis.")] = None,
    depth: Annotated[
        int | None,
        Option("--depth", metavar="N", min=1, help="Show only the last N nodes of the derivation."),
    ] = None,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> Result[Derivation]:
    """Show where each axis of a tensor comes from.

    Nodes that pass a size on unchanged are counted; nodes that compute one are named. Examples:

        shapesolve explain model.onnx logits

        shapesolve explain model.onnx logits --axis 1
    """
    a = load(model, assume, bind, broadcast)
    try:
        derivation = a.explain(tensor, axis, depth)
    except KeyError as e:
        fail(str(e.args[0]))
    from ..report.derivation import derivation_lines

    return Result(lambda: derivation, derivation_lines(derivation, a), *ending(a))


@app.command(
    example=[
        "A height of 20 breaks the contract; the exit code is 1.",
        "evaluate examples/unet.onnx batch=1 height=20 width=24",
    ]
)
def evaluate(
    model: Model,
    sizes_given: GivenSizes = None,
    at: At = None,
    bind: Bind = None,
    tensors: Annotated[
        str | None,
        Option("--tensors", metavar="PATTERN", help="Tensors to show. [default: inputs and outputs]"),
    ] = None,
    format: Annotated[Literal["text", "json"], Option("--format", help="Output format.")] = "text",
) -> Result[Evaluate]:
    """Compute tensor shapes at given input sizes.

    Exit code: 1 if the model does not run at these sizes. Example:

        shapesolve evaluate model.onnx batch=2 seq=5
    """
    a = find(load(model), findings=False)
    sizes = asked_sizes(a, [*(sizes_given or ()), *(bind or ()), *(at or ())])
    from ..report.evaluation import evaluation_data, evaluation_lines

    outputs = (n for n, _ in a.model.graph.outputs)
    names = [*a.inputs, *outputs] if tensors is None else _matching(tensors, a)
    code = FOUND if a._solved.violations_at(sizes) else OK
    return Result(lambda: evaluation_data(a, sizes, names), evaluation_lines(a, sizes, names), code)


@app.command(
    example=[
        "One claim is proved for all sizes that the model accepts; the other is refuted by an example.",
        'prove examples/attention.onnx "present_key[2] == past_seq + seq"',
        'prove examples/unet.onnx "height >= 9"',
    ]
)
def prove(
    model: Model,
    claim: Annotated[
        str,
        Argument(metavar="CLAIM", help='A condition, e.g. "Z[1] == 2*seq".'),
    ],
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> Result[Prove]:
    """Prove a condition, or find a counterexample.

    A proof holds for all accepted sizes. Exit code: 0 if proved, 1 if refuted, 3 if unknown. Example:

        shapesolve prove model.onnx "logits[1] == seq"
    """
    a = load(model, assume, bind, broadcast)
    try:
        with Progress("proof"):
            proof = a.prove(claim)
    except LookupError as e:
        fail(str(e.args[0]))
    from ..report.verdict import verdict_data, verdict_lines
    from ..solve.proof import Refuted

    code = OK if proof else FOUND if isinstance(proof, Refuted) else UNDECIDED
    return Result(lambda: verdict_data(claim, proof), verdict_lines(claim, proof), code)
