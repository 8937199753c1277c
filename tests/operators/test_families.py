"""Families of operators are loaded for the first model that has one of theirs, and what they hold is what is said of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from shapesolve.operators import default_registry

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> None:
    """In a process of its own, where nothing is loaded yet."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_family_holds_the_operators_that_are_said_to_load_it() -> None:
    run("""
from shapesolve import operators
from shapesolve.lower import DEFAULT

def count():
    return {key: len(rules) for key, rules in DEFAULT._rules.items()}

operators._load(*operators._COMMON)
for name, said in operators._SELDOM.items():
    if name == "onnxruntime_extras":  # it is built on one of them
        operators._load(*operators._BEYOND)
    before = count()
    operators._load(name)
    found = {key[1] for key, n in count().items() if n != before.get(key)}
    assert found == set(said.split()), (name, found ^ set(said.split()))
before = count()
operators.default_registry()
new = {key[0] for key, n in count().items() if n != before.get(key)}
assert not any(operators.in_standard(domain) for domain in new), new
""")


def test_families_beyond_the_standard_hold_none_of_its_operators() -> None:
    run("""
from shapesolve import operators
from shapesolve.lower import DEFAULT

operators._load(*operators._COMMON, *operators._SELDOM)
before = {key for key in DEFAULT._rules if operators.in_standard(key[0])}
operators._load(*operators._BEYOND)
assert {key for key in DEFAULT._rules if operators.in_standard(key[0])} == before
""")


def test_which_family_is_loaded_first_decides_nothing() -> None:
    """Where two rules cover the same version, one of them has the higher `since`, whichever was added last."""
    for rules in default_registry()._rules.values():
        ranks = [(rule.until is not None, rule.since) for rule in rules]
        assert len(set(ranks)) == len(ranks), rules


def test_only_what_a_model_needs_is_loaded() -> None:
    run("""
import sys, shapesolve
assert shapesolve.simplify("examples/attention.onnx")
loaded = {m.removeprefix("shapesolve.") for m in sys.modules if m.startswith("shapesolve.")}
assert "operators.elementwise" in loaded
assert not loaded & {"operators.ml", "operators.vision", "operators.com_microsoft.contrib", "change.simplify.fix"}, loaded
""")


def test_a_rule_of_the_user_comes_after_those_that_are_built_in() -> None:
    """Also when it is registered before the first model is analyzed."""
    run("""
import shapesolve
from onnx import helper

@shapesolve.register("", "NonZero")
def nonzero(op):
    return op.out([7, 7])

graph = helper.make_graph(
    [helper.make_node("NonZero", ["x"], ["y"])], "g",
    [helper.make_tensor_value_info("x", 1, ["n"])], [helper.make_tensor_value_info("y", 7, None)],
)
found = shapesolve.analyze(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)]))
assert str(found.shapes["y"]) == "[7, 7]", found.shapes
""")
