"""Every operand of every operator with a CPU kernel is checked: changed nodes are accepted exactly if onnxruntime runs them.

Each operand in turn has an axis more or fewer, another size, or another element type. A few changes of each operator are tried,
with numbers or with names as declared dims; with `EVERYTHING` all of them, both ways.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from shapesolve.lower.semantics import DIFFERENCES
from shapesolve.operators import default_registry

from ..building import EVERYTHING
from ..fuzz.isolate import Lost, Worker
from .operands import Node, nodes, truth, verdict

OPERATORS = sorted({(node.domain, node.op_type) for node in nodes()})
#: operators with a kernel that no node here has: they run graphs, or take sequences or maps; sampled text; no dense operand
_BEYOND = """
BeamSearch CastMap ConcatFromSequence DictVectorizer GreedySearch If ImageDecoder Loop MatMulFpQ4
MaxRoiPool MemcpyFromHost MemcpyToHost Nobody Optional OptionalGetElement OptionalHasElement
ParametricSoftplus RandomNormal RandomUniform Sampling Scan ScaledTanh SequenceAt SequenceConstruct
SequenceEmpty SequenceErase SequenceInsert SequenceLength SparseAttention SparseToDenseMatMul SwiGLU
WhisperBeamSearch
"""
BEYOND = frozenset(_BEYOND.split())
#: operators whose nodes may run with names for sizes and are refused here: an entry of `DIFFERENCES`
UNCHECKED = {"Inverse": "inverse-squares"}
#: nodes of each operator that are tried without `EVERYTHING`: one as it is, and others with a change
BY_DAY = 2


def _work(node: Node, names: bool) -> Iterator[str]:
    yield "runs"
    return truth(node, names)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Worker]:
    """onnxruntime in a process of its own, as some operands end it."""
    worker = Worker(_work, (nodes()[0], False))
    yield worker
    worker.close()


def _changes(domain: str, op_type: str) -> Iterator[tuple[str, Node, bool]]:
    drawn = []
    for number, node in enumerate(nodes()):
        if (node.domain, node.op_type) == (domain, op_type):
            for what, changed in (("unchanged", node), *node.changed()):
                drawn.append((zlib.crc32(f"{number} {what}".encode()), f"{node.name} {what}", changed))
    drawn.sort(key=lambda d: d[0])
    for unchanged, most in ((True, 1), (False, BY_DAY - 1)):
        found = [d for d in drawn if d[1].endswith(" unchanged") is unchanged]
        for draw, what, changed in found if EVERYTHING else found[:most]:
            for names in (False, True):
                if EVERYTHING or draw % 2 == names:
                    yield f"{what}{' (names declared)' * names}", changed, names


@pytest.mark.parametrize(("domain", "op_type"), OPERATORS, ids=lambda v: v or "ai.onnx")
def test_a_changed_operand_is_accepted_if_it_runs(runtime: Worker, domain: str, op_type: str) -> None:
    wrong = []
    for what, node, names in _changes(domain, op_type):
        try:
            real, shapes = runtime.ask(node, names)
        except Lost:
            real, shapes = "the process ends", []
        if real == "limit" or (names and UNCHECKED.get(op_type) in DIFFERENCES):
            continue
        refused, misshapen = verdict(node, names, shapes)
        if misshapen or bool(refused) == (real == "runs"):
            wrong.append(f"{what}: {misshapen or refused or 'accepted'}; onnxruntime: {real}")
    assert not wrong, "\n".join(wrong)


def test_every_operator_with_a_kernel_is_here() -> None:
    registry = default_registry()
    known = {(rule.domain, rule.op_type) for rule in registry if rule.has_kernel}
    missing = {op for domain, op in known - set(OPERATORS) if domain in ("", "ai.onnx.ml", "com.microsoft")}
    assert missing == BEYOND & missing
    assert len(OPERATORS) > 240
