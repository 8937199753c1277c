"""What is declared of an operator is what its rule does: which inputs it reads as data, how ranks follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx.backend.test
import pytest
from onnx import TensorProto, helper

import shapesolve
from benchmarks.package import kind
from shapesolve.lower.interface import find_interface
from shapesolve.lower.op import Op
from shapesolve.lower.rule import Rule
from shapesolve.lower.signature import Signature
from shapesolve.operators import default_registry

pytestmark = pytest.mark.skipif(kind() == "compiled", reason="words of a compiled class cannot be replaced")

NODES = sorted((Path(onnx.backend.test.__file__).parent / "data").glob("*/*/model.onnx"))
EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.onnx"))


def undeclared(op: Op, i: int, *, elements: bool) -> str | None:
    """The rule and the input that it reads as data without saying so; following partial data says it of all inputs."""
    if not op.has(i):
        return None
    rule: Rule | None = op.rule
    if rule is None and not elements:
        return None
    if rule is None:  # another operator's rule lowers it
        rule = op.walk.operators.rule(op.node, op.walk.scope.opsets)
        i = list(op.node.inputs).index(op.names[i])
    if rule is None or i in (*rule.data, *rule.elements) or (rule.values and not elements):
        return None
    return f"{rule.domain or 'ai.onnx'} {rule.op_type} since {rule.since}: input {i}"


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is read without being declared, while models are analyzed."""
    reads: set[str] = set()

    def watch(word: str, *, elements: bool) -> None:
        before: Callable[..., Any] = getattr(Op, word)

        def watched(self: Op, i: int) -> Any:
            told = undeclared(self, i, elements=elements)
            if sys._getframe(1).f_code is Op._refine.__code__:
                told = None  # what is known stays known of a tensor whose rank is learned
            if told is not None:
                reads.add(told)
            return before(self, i)

        monkeypatch.setattr(Op, word, watched)

    for word in ("ints", "scalar", "const_ints"):
        watch(word, elements=True)
    watch("value", elements=False)
    return reads


def test_rules_declare_what_they_read(found: set[str]) -> None:
    assert len(NODES) > 100
    for path in [*NODES, *EXAMPLES]:
        shapesolve.analyze(path)
    assert found == set()


def test_every_declaration_on_a_node_of_its_own(found: set[str]) -> None:
    """Each operator with as many vectors of numbers as its schema takes inputs, so that each read is reached; ranks follow."""
    checked = set()
    for model in one_node_models():
        node = model.graph.node[0]
        analysis = shapesolve.analyze(model)
        rule = analysis._solved.walk.operators.rule(node, analysis.model.opsets)
        relation = "" if rule is None else rule.rank_relation
        ranks = [len(analysis.shapes[name]) for name in node.input if name in analysis.shapes]
        if relation and "y0" in analysis.shapes and len(ranks) == len(node.input):
            expected = max(ranks) if relation == "broadcast" else ranks[0]
            assert len(analysis.shapes["y0"]) == expected, (relation, node)
            if relation == "all" and analysis.ok:
                assert len(set(ranks)) == 1
            checked.add(node.op_type)
    assert len(checked) > 90
    assert found == set()


def one_node_models() -> list[onnx.ModelProto]:
    models = []
    for rule in default_registry():
        n = number_of_inputs(rule)
        first = [[dims, *[dims[:1]] * (n - 1)] for dims in ([4], [], [2, 4], [2, 3, 8, 8])]
        for dims in [*first, *([[4] if k == i else None for k in range(n)] for i in range(n))]:
            for number in (TensorProto.FLOAT, TensorProto.INT64):
                inputs = [helper.make_tensor_value_info(f"i{k}", number, d) for k, d in enumerate(dims)]
                names = [i.name for i in inputs]
                nodes = [helper.make_node(rule.op_type, names, ["y0", "y1"], domain=rule.domain)]
                version = max(rule.since, 1) if rule.until is None else rule.until - 1
                opsets = [helper.make_opsetid("", 17), helper.make_opsetid(rule.domain, version)]
                graph = helper.make_graph(nodes, "g", inputs, [])
                models.append(helper.make_model(graph, opset_imports=opsets[not rule.domain :]))
    return models


def number_of_inputs(rule: Rule) -> int:
    interface = find_interface(rule.domain, rule.op_type, max(rule.since, 1))
    return 6 if interface is None else min(interface.most_inputs or 8, 8)


def test_axes_in_letters_are_read() -> None:
    """A signature has ``=`` replaced by its own letters; a function has none that could stand for it."""
    for rule in default_registry():
        if isinstance(rule.axes, str):
            inputs, outputs, _ = Signature(rule.axes, (), {}).parsed
            assert outputs, (rule.domain, rule.op_type, rule.axes, inputs)
