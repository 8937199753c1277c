"""Two models held against each other: outputs proved, accepted sizes compared as sets, runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import shapesolve
from shapesolve.change.compare.diff import Diff, diff
from shapesolve.change.compare.differences import run_both
from shapesolve.cli import app
from shapesolve.solve.proof import Refuted
from tests.fuzz.runtime import Failed, Session

from .running import feeds, model_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLAIN = "(float[n, m] x) => (float[n, m] y) { y = Neg(x) }"


def held(before: onnx.ModelProto, after: onnx.ModelProto) -> Diff:
    return diff(before, after)


def runs(model: onnx.ModelProto, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(Session(model).run(feeds(model, sizes)))
    except Failed:
        return False


@pytest.mark.parametrize("name", ["attention", "unet"])
def test_a_simplified_model_passes(name: str) -> None:
    model = onnx.load(EXAMPLES / f"{name}.onnx")
    found = held(model, shapesolve.simplify(model))
    assert found.replaces
    assert {o.verdict for o in found.outputs} == {"same"}


def test_outputs_of_other_names_are_matched_by_position() -> None:
    found = held(model_of(PLAIN), model_of(PLAIN.replace("y", "z").replace("n, m", "rows, columns")))
    assert found.replaces
    assert [(o.name, o.other) for o in found.outputs] == [("y", "z")]


def test_a_missing_output_does_not_pass() -> None:
    two = "(float[n, m] x) => (float[n, m] y, float[n, m] z) { y = Neg(x) z = Abs(x) }"
    found = held(model_of(two), model_of(PLAIN))
    assert found.removed == ("output z",)
    assert not found.replaces


def test_a_size_that_differs_is_shown_at_sizes_that_both_accept() -> None:
    other = model_of("(float[n, m] x) => (float[k, l] y) { y = Concat<axis = 0>(x, x) }")
    found = held(model_of(PLAIN), other)
    (output,) = found.outputs
    assert output.verdict == "differs"
    assert "n = " in output.why
    assert not found.replaces


def test_a_type_that_differs() -> None:
    other = model_of("(float[n, m] x) => (double[n, m] y) { y = Cast<to = 11>(x) }")
    assert held(model_of(PLAIN), other).outputs[0].verdict == "differs"


ONLY = {
    "wider": (
        "(float[n, 4] x, float[m, 4] z) => (float[k, l] y) { y = Add(x, z) w = Reshape(x, t) }",
        "(float[n, 4] x, float[m, 4] z) => (float[k, l] y) { y = Add(x, z) }",
    ),
    "equal": (
        "(float[n, 4] x, float[m, 4] z) => (float[k, l] y) { y = Add(x, z) }",
        "(float[a, 4] x, float[b, 4] z) => (float[k, l] y) { y = Add(z, x) }",
    ),
    "neither": (
        "(float[n, m] x) => (float[k, l] y) { y = Reshape(x, t) }",
        "(float[n, m] x) => (float[k, l] y) { y = Reshape(x, u) }",
    ),
}
STORED = " <int64[2] t = {3, -1}, int64[2] u = {5, -1}> {"


@pytest.mark.parametrize("relation", ONLY)
@pytest.mark.parametrize("swap", [False, True])
def test_accepted_sizes_are_compared_as_sets(relation: str, swap: bool) -> None:
    texts = [text.replace(" {", STORED, 1) for text in ONLY[relation]]
    models = [model_of(text) for text in texts]
    if swap:
        models.reverse()
    contract = held(*models).contract
    expected = {"wider": "narrower"}.get(relation, relation) if swap else relation
    assert contract.relation == expected
    for sizes, (accepts, refuses) in (
        (contract.only_first, models),
        (contract.only_second, models[::-1]),
    ):
        if sizes:
            assert runs(accepts, sizes)
            assert not runs(refuses, sizes)
    assert bool(contract.only_first) == (expected in ("narrower", "neither"))
    assert bool(contract.only_second) == (expected in ("wider", "neither"))


def test_a_fixed_model_is_narrower() -> None:
    model = onnx.load(EXAMPLES / "unet.onnx")
    found = held(model, shapesolve.fix(model, {"height": 16, "width": 16}))
    assert found.contract.relation == "narrower"
    assert {o.verdict for o in found.outputs} == {"same"}


def test_runs_find_what_shapes_do_not_show() -> None:
    model, other = model_of(PLAIN), model_of(PLAIN.replace("Neg", "Abs"))
    found = held(model, other)
    assert found.replaces
    given = [{"x": np.array([[-1, 2]], np.float32)}]
    names = [("x", "x")], [("y", "y")]
    found = run_both(model.SerializeToString(), other.SerializeToString(), given, names)
    assert found.count == 1
    assert "element [0, 1] is 2 instead of -2" in found.faults[0]
    assert not run_both(model.SerializeToString(), model.SerializeToString(), given, names).faults


def test_the_command(tmp_path: Path) -> None:
    model, simple = EXAMPLES / "attention.onnx", tmp_path / "simple.onnx"
    onnx.save(shapesolve.simplify(model), simple)
    result = CliRunner().invoke(app, ["diff", str(model), str(simple), "--prove", "--run", "3"])
    assert result.exit_code == 0, result.output
    assert "both accept the same sizes" in result.output
    assert "3 at accepted sizes: bit for bit the same" in result.output
    fixed = tmp_path / "fixed.onnx"
    onnx.save(shapesolve.fix(model, {"batch": 2}), fixed)
    result = CliRunner().invoke(app, ["diff", str(model), str(fixed), "--prove", "--run", "3"])
    assert result.exit_code == 1, result.output
    assert "the second accepts fewer sizes" in result.output
    assert "only the first" in result.output


def test_what_is_left_undecided_is_said() -> None:
    data = model_of("(float[n] x) => (int64[k, l] y) { y = NonZero(x) }")
    found = held(data, data)
    assert found.outputs[0].verdict == "open"
    assert not found.replaces
    assert "depends on data" in found.outputs[0].why


def test_of_two_models_that_nothing_runs_that_is_said_and_no_output_is_compared() -> None:
    file = str(EXAMPLES / "broken_matmul.onnx")
    done = CliRunner().invoke(app, ["diff", "--prove", file, file])
    assert (done.exit_code, done.stdout) == (1, "contract      no input runs either of them\n")
    found = held(onnx.load(file), onnx.load(file))
    assert found.decided
    assert not found.replaces


def test_sizes_that_are_said_to_differ_are_accepted_by_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counterexample that the first model does not accept shows no difference."""
    from shapesolve.change.compare import diff as module

    class Careless:
        def prove(self, cond: shapesolve.Cond) -> Refuted:
            return Refuted(counterexample={"batch": 1, "height": 3, "width": 8})

    monkeypatch.setattr(module, "_prover", lambda _: Careless())
    unet = EXAMPLES / "unet.onnx"
    found = shapesolve.diff(unet, unet).contract
    assert (found.relation, found.only_first, found.only_second) == ("open", None, None)


def test_a_difference_is_shown_at_sizes_that_are_not_empty() -> None:
    def flat(target: list[int]) -> onnx.ModelProto:
        return onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["": 17]> g (float[batch, 4] x) => (float[a, b] y)
            {{ t = Constant<value_ints = [{target[0]}, {target[1]}]>() y = Reshape(x, t) }}"""
        )

    found = shapesolve.diff(flat([-1, 4]), flat([3, 4])).contract
    assert (found.relation, found.only_first) == ("narrower", {"batch": 2})
    assert (found.first, found.second) == ("any input size runs", "batch == 3")
