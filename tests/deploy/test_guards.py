"""Generated guards say what `check_inputs` says, in every language, for any name and at any size."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy.guards.graph import put_in_front
from shapesolve.deploy.guards.guard import outputs_of, program_of
from shapesolve.expr import (
    Cond,
    Dim,
    all_of,
    any_of,
    broadcast,
    constant,
    eq,
    floor_div,
    ge,
    ite,
    maximum,
    minimum,
    ne,
    symbol,
)
from shapesolve.expr.closures import Compiler
from shapesolve.expr.code import unless_undefined
from shapesolve.solve.program import Check, Program

from ..building import EVERYTHING, session
from . import guard_runs
from .guard_runs import answers_of, compiler, drawn_shapes

ROOT = Path(__file__).resolve().parents[2]
UNET = ROOT / "examples/unet.onnx"
HOSTILE = [
    "class", "int", "fn", "n", "t1", "broken", "shapes", "a\nb", '"; }', "*/ //", "back\\slash", "??/", "é\u2028\u202e",
    "\\u0041", "${x}", "{0}", "@STEPS@", "%s", "a b", "a_b", "`", "'''", "__proto__", "\x01\x7f",
]  # fmt: skip
#: sizes of synthetic programs, beyond what 32 bits hold
LARGE = (0, 1, 2, 3, 5, 8, 100, 2**31, 2**40 + 1, 2**62, 2**63 - 1)
PALETTE = (0, 1, 2, 3, 4, 5, 7, 8, 64)
NEEDS_COMPILER = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler on this machine")


def hostile() -> onnx.ModelProto:
    """Names of dims and inputs that mean something in some language."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", [a, b], [f"out{k}"]) for k, (a, b) in enumerate(pairwise(HOSTILE))],
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}{k % 2}", HOSTILE[k - 1]])
            for k, name in enumerate(HOSTILE)
        ],
        [helper.make_tensor_value_info(f"out{k}", TensorProto.FLOAT, None) for k in range(len(HOSTILE) - 1)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


PLACES = [symbol(f"x[{axis}]", None) for axis in range(4)]


def random_dim(rng: Random, depth: int = 3) -> Dim:
    """Any dim: with negative numerators, divisors that may be 0 or negative, choices by conditions."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*PLACES, *PLACES, constant(rng.choice((-7, -2, 3, 1000)))])
    a, b = random_dim(rng, depth - 1), random_dim(rng, depth - 1)
    kind = rng.randrange(8 if depth > 1 else 7)
    if kind == 0:
        return a + b * rng.choice((1, -3, 8))
    if kind == 1:
        return a - b
    if kind == 2:
        return a * b
    if kind in (3, 4):
        divisor = b if rng.random() < 0.5 else constant(rng.choice((2, 3, 8, -3)))
        if divisor.value == 0:
            return a
        quotient = floor_div(a, divisor)
        return quotient if kind == 3 else a - divisor * quotient
    if kind == 5:
        return rng.choice((maximum, minimum))(a, b)
    if kind == 6:
        return broadcast(a, b, rng.choice(PLACES))
    return ite(random_cond(rng, depth - 1), a, b)


def random_cond(rng: Random, depth: int = 3) -> Cond:
    if depth > 1 and rng.random() < 0.5:
        parts = [random_cond(rng, depth - 1) for _ in range(2)]
        return rng.choice((all_of, any_of))(parts)
    a, b = random_dim(rng, depth), random_dim(rng, max(depth - 1, 0))
    return rng.choice((eq, ge, ne))(a, b)


def is_broken(cond: Cond, sizes: dict[str, int]) -> bool:
    """As `check_inputs` has it: what has no value is not broken."""
    try:
        return not Compiler().test(cond)(sizes)
    except ZeroDivisionError:
        return cond.evaluate(sizes) is False


def synthetic(seed: int, count: int) -> tuple[Program, list[Cond]]:
    """A program of random conditions on the shape of one input, each told by its number."""
    rng = Random(seed)
    conds: list[Cond] = []
    while len(conds) < count:
        try:
            cond = random_cond(rng)
        except ZeroDivisionError:
            continue
        if cond.args and cond.size < 60:
            conds.append(cond)
    places = {str(place.name): ("x", axis) for axis, place in enumerate(PLACES)}
    steps = tuple(Check(unless_undefined(cond), str(k)) for k, cond in enumerate(conds))
    return Program((), places, {"x": 4}, (), steps), conds


class Case:
    """Programs, what they are asked, and what is true."""

    def __init__(self, draws: int) -> None:
        self.programs: list[Program] = []
        self.asked: list[list[dict[str, tuple[int, ...]]]] = []
        self.accepted: list[list[bool]] = []
        for model in (ROOT / "examples/attention.onnx", hostile()):
            a = ss.analyze(model)
            known = None if isinstance(model, Path) else dict.fromkeys(a.symbols, 3)
            shapes = drawn_shapes(a, Random(1), draws, known)
            self.programs.append(program_of(a))
            self.asked.append(shapes)
            self.accepted.append([not a.check_inputs(s) for s in shapes])
        rng = Random(2)
        program, self.conds = synthetic(3, 40)
        self.programs.append(program)
        drawn = [tuple(rng.choice(p) for _ in range(4)) for p in [PALETTE] * draws + [LARGE] * draws]
        self.asked.append([{"x": sizes} for sizes in drawn])
        self.broken = [
            [str(k) for k, cond in enumerate(self.conds) if is_broken(cond, self.named(sizes))]
            for sizes in drawn
        ]

    @staticmethod
    def named(sizes: tuple[int, ...]) -> dict[str, int]:
        return {str(place.name): size for place, size in zip(PLACES, sizes, strict=True)}


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(60 if EVERYTHING else 30)


@pytest.mark.parametrize("language", ["python", pytest.param("cpp", marks=NEEDS_COMPILER)])
def test_guards_agree_with_check_inputs(language: str, case: Case, tmp_path: Path) -> None:
    told = answers_of(language, case.programs, case.asked, tmp_path)
    assert [[not broken for broken in all_] for all_ in told[:-1]] == case.accepted
    assert any(any(all_) for all_ in case.accepted)
    for shapes, broken, true in zip(case.asked[-1], told[-1], case.broken, strict=True):
        if language == "python" or max(shapes["x"]) < 2**16:
            assert broken == true, shapes
        else:  # conditions in which a number does not fit are told as broken, and marked
            marked = {
                text.partition(" ")[0] for text in broken if " (a number does not fit in 64 bits)" in text
            }
            assert [b for b in broken if " " not in b] == [t for t in true if t not in marked], shapes


def test_what_is_no_input_or_has_another_rank_is_told(tmp_path: Path) -> None:
    a = ss.analyze(UNET)
    name, shape = next(
        (n, tuple(d.evaluate({"batch": 1, "height": 8, "width": 8}) for d in a.shapes[n])) for n in a.inputs
    )
    asked: list[dict[str, Any]] = [{name: shape}, {}, {name: shape[1:]}, {name: (-1, *shape[1:])}]
    asked.append({name: shape, "y": ()})
    (told,) = answers_of("python", [program_of(a)], [asked], tmp_path)
    assert told == [
        [],
        [f"{name} is missing"],
        [f"{name} must have 4 axes"],
        [f"{name} must not have a negative size"],
        ["y is no input that is checked"],
    ]


def declared(*shapes: list[str | int]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, s) for k, s in enumerate(shapes)]
    outs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(shapes))]
    nodes = [helper.make_node("Relu", [f"x{k}"], [f"y{k}"]) for k in range(len(shapes))]
    graph = helper.make_graph(nodes, "g", infos, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_sizes_that_only_expressions_declare_are_solved_for(tmp_path: Path) -> None:
    a = ss.analyze(declared(["2*half + 1", "seq"], ["past + seq", 3], ["past", "n//(half - 3)"], ["n"]))
    shapes = [
        {"x0": (h, s), "x1": (p, 3), "x2": (p - s, q), "x3": (n,)}
        for h in (0, 1, 4, 7, 8, 9)
        for s in (0, 2)
        for p in (0, 2, 5)
        for q in (0, 2)
        for n in (0, 5)
        if p >= s
    ]
    (told,) = answers_of("python", [program_of(a)], [shapes], tmp_path)
    assert [not t for t in told] == [not a.check_inputs(s) for s in shapes]
    assert 0 < sum(not t for t in told) < len(told)


def test_what_shapes_do_not_determine_is_refused() -> None:
    with pytest.raises(ValueError, match="do not determine the size a"):
        ss.guard(declared(["a*b"]))
    with pytest.raises(ValueError, match="unknown language 'c'"):
        ss.guard(declared(["a"]), "c")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- shapes of outputs

#: a size that has no value where a divisor is 0, and one that is too large to write out
QUOTIENT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[n, m, 6] x, float[k] w, int64 count) => (y, z, s, c)
<int64[3] to = {0, -1, 4}, int64[1] one = {-1}> {
    y = Reshape (x, to)
    z = Reshape (x, one)
    s = ReduceSum <keepdims = 0> (w)
    flat = Reshape (count, one)
    c = ConstantOfShape (flat)
}"""
MODELS = ["gpt2_past__ts", "vit_interp__ts", "stft_op_logmel", "yolo_nms_postprocess"]
if EVERYTHING:
    MODELS += ["unet_interp__dynamo", "loop_scan_outputs", "skl_gbdt"]


@cache
def analyses() -> list[ss.Analysis]:
    """Of all models whose outputs are asked for; of the last one no accepted sizes are found soon."""
    files = [ROOT / f"tests/models/{name}/model.onnx" for name in MODELS]
    return [ss.analyze(m) for m in (*files, UNET, onnx.parser.parse_model(QUOTIENT), hostile())]


@pytest.mark.parametrize("language", ["python", pytest.param("cpp", marks=NEEDS_COMPILER)])
def test_shapes_of_outputs_are_those_that_the_model_makes(language: str, tmp_path: Path) -> None:
    programs = [(program_of(a), outputs_of(a)) for a in analyses()]
    asked = [
        drawn_shapes(a, Random(4), 40, None if a is not analyses()[-1] else dict.fromkeys(a.symbols, 3))
        for a in analyses()
    ]
    found = guard_runs.outputs_of(language, programs, asked, tmp_path)
    accepted = 0
    for a, shapes, answers in zip(analyses(), asked, found, strict=True):
        names = {name for name, _ in a.model.graph.outputs}
        for given, answer in zip(shapes, answers, strict=True):
            if a.check_inputs(given):
                assert len(answer) == 1, given
                assert answer[0].startswith(("ValueError: ", "invalid_argument: ")), answer
                continue
            accepted += 1
            sizes = a.evaluate(a.bind_inputs(given))
            known = dict(text.rpartition("=")[::2] for text in answer)
            assert known == {n: ",".join(map(str, sizes[n])) for n in known}, given
            named = {
                n
                for n in names
                if (shape := a.shapes.get(n)) and all(d.free <= a.symbols.keys() for d in shape)
            }
            assert named <= known.keys() <= names
    assert accepted > 60


def test_an_output_that_data_decides_is_left_out_and_named() -> None:
    source = ss.guard(onnx.parser.parse_model(QUOTIENT), outputs=True)
    assert "# left out, as the shapes of the inputs do not decide their sizes: c\n" in source
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  (the text is a working function)
    assert space["output_shapes"]({"x": (5, 2, 6), "w": (7,), "count": ()}) == {
        "y": (5, 3, 4),
        "z": (60,),
        "s": (),
    }
    with pytest.raises(ValueError, match="w is missing"):
        space["output_shapes"]({"x": (5, 2, 6), "count": ()})
    assert "output_shapes" not in ss.guard(UNET)


# ---------------------------------------------------------------------- in front of a model


def stub(ranks: dict[str, int]) -> onnx.ModelProto:
    """A model that only hands on inputs of any sizes."""
    graph = helper.make_graph(
        [helper.make_node("Identity", [n], [f"out {n}"]) for n in ranks],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.INT8, [None] * r) for n, r in ranks.items()],
        [helper.make_tensor_value_info(f"out {n}", TensorProto.INT8, None) for n in ranks],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def what_breaks(run: ort.InferenceSession, shapes: dict[str, Any]) -> str:
    """What onnxruntime says; empty where it runs."""
    try:
        found = run.run(None, {n: np.zeros(s, np.int8) for n, s in shapes.items()})
    except Exception as e:  # whatever onnxruntime raises
        return str(e)
    assert [f.shape for f in found] == list(shapes.values())
    return ""


def test_asserting_models_agree_with_check_inputs(case: Case) -> None:
    for program, asked, accepted in zip(case.programs, case.asked, case.accepted):
        model = stub(dict(program.ranks))
        put_in_front(model, program)
        run = session(model)
        for shapes, accept in list(zip(asked, accepted, strict=True))[:25]:
            assert (what_breaks(run, shapes) == "") == accept, shapes


def test_nodes_compute_as_python_does() -> None:
    """Each random condition alone, at sizes where it can be met by tensors."""
    rng = Random(5)
    program, conds = synthetic(4, 20)
    for k, (step, cond) in enumerate(zip(program.steps, conds, strict=True)):
        model = stub({"x": 4})
        try:
            put_in_front(model, Program((), program.places, program.ranks, (), (step,)))
        except ValueError as e:
            assert "64 bits" in str(e)  # noqa: PT017  (some of them cannot be checked)
            continue
        run = session(model)
        for _ in range(12):
            sizes = tuple(rng.choice(PALETTE[:-1]) for _ in range(4))
            told = what_breaks(run, {"x": sizes})
            assert bool(told) == is_broken(cond, Case.named(sizes)), (str(cond), sizes, told)
            assert not told or f"Name:'{k}'" in told


def test_a_guarded_model_runs_as_before_and_names_what_is_broken() -> None:
    original, changed = onnx.load(UNET), ss.guarded(UNET)
    onnx.checker.check_model(changed)
    assert original.graph.input == changed.graph.input
    assert original.graph.output == changed.graph.output
    name = original.graph.input[0].name
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 24)).astype(np.float32)
    for a, b in zip(
        session(original).run(None, {name: x}), session(changed).run(None, {name: x}), strict=True
    ):
        assert np.array_equal(a, b)
    with pytest.raises(Exception, match=r"Name:'height % 8 == 0'"):
        session(changed).run(None, {name: x[:, :, :12]})
    own = ss.analyze(changed)
    a = ss.analyze(UNET)
    for height in range(20):
        assert own.check_inputs({name: (1, 3, height, 8)}) != [] or not a.check_inputs(
            {name: (1, 3, height, 8)}
        )


def test_bodies_read_the_checked_inputs() -> None:
    """What a branch captures is renamed, what it has itself under the name of an input is not."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[n, 2] x, float[n, 3] z) => (y) {
        y = If (c) <then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (x) { s = Shape(z) x = Abs(z) }>
    }"""
    model = onnx.parser.parse_model(
        text.replace("e () => (x) { s = Shape(z) x = Abs(z) }", "e () => (b) { b = Abs(z) }")
    )
    run = session(ss.guarded(model))
    feeds = {"x": np.ones((4, 2), np.float32), "z": np.ones((4, 3), np.float32)}
    for c in (True, False):
        assert run.run(None, {"c": np.array(c), **feeds})[0].shape == (4, 2 if c else 3)
    with pytest.raises(Exception, match=r"z\[0\] == n"):
        run.run(None, {"c": np.array(True), **feeds, "z": np.ones((5, 3), np.float32)})


# ---------------------------------------------------------------------- the command


def test_the_command_writes_every_format(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["contract", str(UNET), "--format", "cpp", "--outputs"])
    assert (done.exit_code, "inline Shapes output_shapes" in done.output) == (0, True)
    assert CliRunner().invoke(app, ["contract", str(UNET), "--outputs"]).exit_code == 2
    for form, said in (("cpp", "namespace checked"), ("python", "def check_inputs")):
        done = CliRunner().invoke(app, ["contract", str(UNET), "--format", form])
        assert done.exit_code == 0
        assert said in done.output
        assert "height % 8 == 0" in done.output
    target = tmp_path / "guarded.onnx"
    done = CliRunner().invoke(app, ["contract", str(UNET), "--format", "onnx", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert onnx.load(target) == ss.guarded(UNET)
    done = CliRunner().invoke(app, ["contract", str(UNET), "--format", "onnx"])
    assert done.exit_code == 2
    onnx.save(declared(["a*b"]), tmp_path / "product.onnx")
    done = CliRunner().invoke(app, ["contract", str(tmp_path / "product.onnx"), "--format", "cpp"])
    assert (done.exit_code, "do not determine" in done.output) == (2, True)


RESIZED = """<ir_version: 8, opset_import: ["" : 18]>
g (float[n, 3, h, w] x, float[1, 3, 4, 4] p) => (y)
<int64[2] front = {1, 3}, int64[1] one = {-1}, int64 two = {2}> {
    s = Shape <start = 2, end = 3> (x)
    scalar = Squeeze (s)
    half = Div (scalar, two)
    flat = Reshape (half, one)
    sizes = Concat <axis = 0> (front, flat, flat)
    y = Resize <mode = "cubic"> (p, , , sizes)
}"""


def test_loaders_still_see_ranks_behind_the_checks() -> None:
    """onnxruntime infers shapes when it loads, from data of Shape nodes, too; what passes a check keeps its declaration."""
    feeds = {"x": np.ones((2, 3, 12, 4), np.float32), "p": np.ones((1, 3, 4, 4), np.float32)}
    changed = ss.guarded(onnx.parser.parse_model(RESIZED), assume=["h >= 5"])
    told = [str(i.type) for i in changed.graph.value_info]
    assert told == [str(i.type) for i in changed.graph.input]
    run = session(changed)
    assert run.run(None, feeds)[0].shape == (1, 3, 6, 6)
    with pytest.raises(Exception, match=r"Name:'h >= 5'"):
        run.run(None, {**feeds, "x": feeds["x"][:, :, :4]})


def test_an_opset_that_onnxruntime_has_no_kernels_for_is_refused() -> None:
    with pytest.raises(ValueError, match="must have opset 7 or later"):
        ss.guarded(
            onnx.parser.parse_model(
                '<ir_version: 4, opset_import: ["" : 6]> g (float[n] x) => (y) { y = Relu(x) }'
            )
        )


def test_messages_of_a_checker_say_what_was_given() -> None:
    space: dict[str, Any] = {}
    exec(ss.guard(ROOT / "examples/unet.onnx", "python"), space)  # noqa: S102  (the text is a working function)
    check = space["check_inputs"]
    assert check({"image": (1, 3, 12, 16)}) == ["height % 8 == 0 (got height = 12)"]
    assert check({"image": (3, 12, 16)}) == ["image must have 4 axes (got 3)"]
    assert check({"image": (1, 3, -8, 16)}) == ["image must not have a negative size (got -8)"]
