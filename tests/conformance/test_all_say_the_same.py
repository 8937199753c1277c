"""Random models with sequences, branches and loops: all answers on accepted sizes agree, and are those of onnxruntime."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss

from ..building import seeds, session
from ..nodes import run

SIZES = range(9)
#: text of the model, in which a tensor `t` of rank 2 becomes another one; `{k}`, `{j}` are drawn numbers
_STEPS = {
    "split": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = ConcatFromSequence<axis={j}>(s{n})",
    "stack": "s{n} = SplitToSequence<axis={j}>({t}, k{n})  u{n} = ConcatFromSequence<axis=0, new_axis=1>(s{n})"
    "  {o} = Reshape(u{n}, flat)",
    "part": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = SequenceAt(s{n}, zero)",
    "last": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = SequenceAt(s{n}, minus)",
    "insert": "s{n} = SplitToSequence<axis=0>({t}, k{n})  i{n} = SequenceInsert(s{n}, {t})"
    "  {o} = ConcatFromSequence<axis={j}>(i{n})",
    "branch": "h{n} = Shape<start=0, end=1>({t})  g{n} = Squeeze(h{n})  c{n} = Greater(g{n}, k{n})"
    "  {o} = If(c{n}) <then_branch = then () => (a{n}) {{ a{n} = Reshape({t}, two) }},"
    " else_branch = other () => (b{n}) {{ b{n} = Concat<axis=0>({t}, row) }}>",
    "loop": "{o} = Loop(k{n}, yes, {t}) <body = body (int64 i{n}, bool q{n}, float[x{n}, y{n}] v{n}) => (r{n}, w{n})"
    " {{ r{n} = Identity(q{n}) w{n} = Concat<axis=0>(v{n}, {t}) }}>",
    "product": "p{n} = Transpose<perm=[1, 0]>({t})  {o} = MatMul({t}, p{n})",
    "square": "{o} = MatMul({t}, {t})",
    "add": "{o} = Add({t}, row)",
    "pairs": "{o} = Reshape({t}, two)",
}


def drawn(seed: int) -> onnx.ModelProto:
    """A model of one input ``[N, M]`` with one to three of the steps."""
    draw = random.Random(seed)
    text, stored, t = [], [], "x"
    for n in range(draw.randint(1, 3)):
        out = f"t{n}"
        step = _STEPS[draw.choice([*_STEPS])]
        text.append(step.format(n=n, t=t, o=out, j=draw.randint(0, 1)))
        stored.append(f"int64 k{n} = {{{draw.randint(1, 4)}}}")
        t = out
    constants = ", ".join(
        [*stored, "int64 zero = {0}", "int64 minus = {-1}", "int64[2] flat = {0, -1}", "int64[2] two = {-1, 2}",
         "bool yes = {1}", "float[1, 3] row = {1, 1, 1}"]
    )  # fmt: skip
    source = f'<ir_version: 10, opset_import: ["": 21]> g (float[N, M] x) => (y) <{constants}> {{ '
    return onnx.parser.parse_model(source + "  ".join(text) + f"  y = Identity({t}) }}")


@pytest.mark.parametrize("seed", seeds(0, 150))
def test_contract_checks_and_runs_agree(seed: int) -> None:
    model = drawn(seed)
    a = ss.analyze(model)
    loads = _loads(
        model
    )  # a branch that cannot run keeps onnxruntime from loading the file ("declared-bodies")
    space: dict[str, Any] = {}
    exec(a.contract.to_python(), space)  # noqa: S102  (the point of the test: the text is a working function)
    for n in SIZES:
        for m in SIZES if seed % 3 else (0, 1, 3, 4):
            sizes = {"N": n, "M": m}
            runs = _runs(model, n, m)
            needed = {name: sizes[name] for name in a.contract.symbols}
            said = {
                "holds": a.contract.holds(sizes),
                "check_inputs": not a.check_inputs({"x": (n, m)}),
                "evaluate": not a.evaluate(sizes).violations,
                "generated checker": not space["check_sizes"](**needed),
            }
            assert len(set(said.values())) == 1, (sizes, runs, said, str(a.contract))
            if n and m and loads:  # empty tensors are joined whatever their other sizes are ("concat-empty")
                assert said["holds"] == runs, (sizes, runs, said, str(a.contract))


def _loads(model: onnx.ModelProto) -> bool:
    try:
        session(model)
    except Exception:
        return False
    return True


def _runs(model: onnx.ModelProto, n: int, m: int) -> bool:
    try:
        run(model, x=np.ones((n, m), np.float32))
    except Exception:
        return False
    return True
