"""Costs as expressions, held against shapes measured at run time, against numbers counted by hand, and against trying sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy.cost import memory as cost_memory
from shapesolve.deploy.cost.memory import largest
from shapesolve.deploy.cost.text import bytes_in
from shapesolve.expr import ZERO, Dim
from shapesolve.lower.work import each
from shapesolve.operators import default_registry

from ..building import share
from ..expr.trees import build, trees
from ..operators.conftest import one, text
from .replay import compare, operations

MODELS = Path(__file__).resolve().parents[1] / "models"
BUNDLED = sorted(f.parent.name for f in MODELS.glob("*/truth.json"))
#: a loop whose trips are a value that the input gives
NOT_EVALUATED = {"script_loop_if__ts": ["not evaluated: _v0 (n_steps)"]}


@pytest.mark.parametrize("name", share(BUNDLED, 3))
def test_memory_and_operations_are_those_of_measured_runs(name: str) -> None:
    assert list(dict.fromkeys(compare(MODELS / name))) == NOT_EVALUATED.get(name, [])


# ---------------------------------------------------------------------- operations of single operators

CASES: list[tuple[str, list[str | None], dict[str, Any], dict[str, Any]]] = [
    ("Gemm", ["K M", "K N", "N"], {"transA": 1}, {}),
    ("ConvTranspose", ["N 4 L", "4 3 5"], {"strides": [2]}, {}),
    ("Conv", ["N 4 L", "6 2 3", "6"], {"group": 2, "dilations": [2]}, {}),
    ("GRU", ["L N 5", "2 21 5", "2 21 7", "2 42"], {"hidden_size": 7, "direction": "bidirectional"}, {"n_out": 2}),
    ("LSTM", ["L N 5", "1 28 5", "1 28 7"], {"hidden_size": 7}, {}),
    ("Einsum", ["B M K", "B K N", "N"], {"equation": "bmk,bkn,n->bm"}, {}),
    ("Einsum", ["B M K"], {"equation": "bmk->b"}, {}),
    ("GlobalAveragePool", ["B 3 M N"], {}, {}),
    ("MaxPool", ["B 3 M N"], {"kernel_shape": [1, 3]}, {}),
    ("LRN", ["B 3 M N"], {"size": 3}, {}),
    ("Sum", ["B M", "M", "1"], {}, {}),
    ("LayerNormalization", ["B M", "M"], {}, {}),
    ("ReduceL2", ["B M"], {}, {}),
    ("Attention", ["B 4 M 8", "B 4 N 8", "B 4 N 6"], {}, {"opset": 23}),
    ("Attention", ["B M 32", "B N 16", "B N 16"], {"q_num_heads": 4, "kv_num_heads": 2}, {"opset": 23}),
    ("RotaryEmbedding", ["B 4 M 8", "B M 2", "B M 2"], {"rotary_embedding_dim": 4}, {"opset": 23}),
    ("MultiHeadAttention", ["B M 12", "B N 12", "B N 12", "36"], {"num_heads": 3}, {"domain": "com.microsoft"}),
    ("FusedMatMul", ["K M", "K N"], {"transA": 1}, {"domain": "com.microsoft"}),
    ("SkipLayerNormalization", ["B M 8", "B M 8", "8", "8", "8"], {}, {"domain": "com.microsoft"}),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "attrs", "more"), CASES)
def test_operations_of_one_node(
    op_type: str, inputs: list[str | None], attrs: dict[str, Any], more: dict[str, Any]
) -> None:
    model = one(op_type, inputs, attrs, **more)
    c = ss.cost(model)
    assert not c.uncounted
    for sizes in ({"B": 2, "M": 5, "N": 3, "K": 7, "L": 9}, {"B": 1, "M": 1, "N": 4, "K": 1, "L": 11}):
        own = {n: size for n, size in sizes.items() if n in c.analysis.symbols}
        found = c.analysis.evaluate(own)
        assert not found.violations
        counted = operations(model.graph.node[0], found)
        assert counted is not None
        numbers = c.at(own)
        assert (numbers.macs, numbers.flops) == (counted[0], 2 * counted[0] + counted[1])
        assert numbers.flops > 0


def test_an_interpolation_reads_along_the_axes_that_change() -> None:
    for mode, taps in (("linear", 4), ("cubic", 16), ("nearest", 0)):
        attrs = {"mode": mode}
        model = one("Resize", ["B 3 M N", None], attrs, {2: [1.0, 1.0, 2.0, 3.0]}, opset=19)
        assert ss.cost(model).at({"B": 2, "M": 5, "N": 4}).macs == taps * 2 * 3 * 10 * 12


_UNCOUNTED = """
    Affine AffineGrid Bernoulli BlackmanWindow CausalConvWithState DFT DeformConv Det EfficientNMS_TRT GRUUnit HammingWindow
    HannWindow ImageDecoder LinearAttention MaxRoiPool MelWeightMatrix MemcpyFromHost MemcpyToHost Multinomial
    NegativeLogLikelihoodLoss NonMaxSuppression ParametricSoftplus RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike RegexFullMatch RoiAlign STFT Scale ScaledTanh SoftmaxCrossEntropyLoss StringConcat StringNormalizer
    StringSplit TfIdfVectorizer TopK Unique
"""


def test_standard_operators_declare_their_work() -> None:
    """All but those that docs/reference/cost-model.md leaves out, and what they are made of: bodies, drawing."""
    left = {r.op_type for r in default_registry() if r.domain == "" and r.work is None and not r.bodies}
    assert sorted(left) == _UNCOUNTED.split()


def test_the_work_of_an_operator_of_a_user() -> None:
    registry = ss.Registry()
    registry.signature("Twice", "*S -> *S", domain="acme.ops", types=(0,), work=each(2))
    c = ss.cost(one("Twice", ["N 3"], domain="acme.ops"), registry=registry)
    assert str(c.flops) == "6*N"


def test_what_is_not_counted_is_told() -> None:
    c = ss.cost(one("TopK", ["N"], {}, {1: [1]}, n_out=2))
    assert c.uncounted == {"TopK": 1}
    assert c.nodes[0].flops is None
    assert "TopK (1)" in str(c)


def test_the_body_of_a_loop_counts_once_a_trip() -> None:
    body = onnx.parser.parse_graph(
        "body (int64 i, bool go, float[N] s) => (bool more, float[N] t, float[N] r)"
        " { more = Identity(go)  t = Exp(s)  r = Add(t, t) }"
    )
    inputs = [helper.make_tensor_value_info("x", 1, ["N"])]
    constants = [helper.make_tensor("five", 7, [], [5]), helper.make_tensor("yes", 9, [], [True])]
    node = helper.make_node("Loop", ["five", "yes", "x"], ["y", "rows"], body=body)
    outputs = [helper.make_empty_tensor_value_info(n) for n in ("y", "rows")]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    c = ss.cost(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    at = c.at({"N": 3})
    assert at.flops == 5 * 2 * 3
    # x; inside i, go, more, s, t and r; y, and five rows
    assert at.peak == 12 + (8 + 1 + 1 + 12 + 12 + 12) + 12 + 60


# ---------------------------------------------------------------------- placement


def test_views_and_overwritten_inputs_share_memory() -> None:
    chain = text(
        "float[N, 4] x",
        "a = Relu(x)  b = Exp(a)  s = Constant<value_ints=[4, -1]>()  c = Reshape(b, s)  d = Sqrt(c)  y = Transpose(d)",
    )
    at = ss.cost(chain).at({"N": 10})
    # each by itself: x and any two neighbours; shared: x stays what it is, a to d are one buffer, y is another
    assert (at.peak, at.peak_reused) == (3 * 160, 3 * 160)
    longer = text("float[N, 4] x", "a = Relu(x)  b = Exp(a)  c = Sqrt(b)  y = Add(c, c)")
    at = ss.cost(longer).at({"N": 10})
    assert (at.peak, at.peak_reused) == (3 * 160, 2 * 160)


def test_an_input_that_is_read_later_is_not_written_over() -> None:
    at = ss.cost(text("float[N] x", "a = Relu(x)  b = Exp(a)  y = Add(a, b)")).at({"N": 8})
    assert (at.peak, at.peak_reused) == (4 * 32, 3 * 32)  # x, a, b and y; b lies beside a, y lies in a


def test_bytes_follow_the_element_type() -> None:
    c = ss.cost(
        text("float[N] x", "a = Cast<to=7>(x)  b = Cast<to=22>(x)  c = Cast<to=9>(x)", outputs="a, b, c")
    )
    made = {row.name: str(row.bytes) for row in c.nodes}
    assert list(made.values()) == ["8*N", "(N + 1)//2", "N"]


# ---------------------------------------------------------------------- the largest


def by_definition(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Ordered by three probes; none of them known to reach one that stands behind it and is nowhere larger."""
    names = sorted({n for d in dims for n in d.free})
    probes = [{n: size + 3 * k for k, n in enumerate(names)} for size in (1000, 7, 130)]

    def at(d: Dim) -> list[int]:
        return [-1 if n is None else n for n in map(d.evaluate, probes)]

    kept: list[Dim] = []
    for d in sorted(dict.fromkeys(dims), key=at, reverse=True):
        lows = [(o - d).lo for o in kept if all(a <= b for a, b in zip(at(d), at(o), strict=True))]
        if not any(lo is not None and lo >= 0 for lo in lows):
            kept.append(d)
    return tuple(kept) or (ZERO,)


@given(st.lists(trees, max_size=6))
def test_the_largest_of_dims_are_those_that_no_other_one_is_shown_to_reach(drawn: list[Any]) -> None:
    dims = [build(t) for t in drawn]
    dims += [a + b for a, b in pairwise(dims)]  # so that some do exceed others
    assert largest(dims).of == by_definition(dims)


def test_dims_that_follow_each_other_are_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    n, m, p = Dim("N"), Dim("M"), Dim("P")
    growing = [p * k for k in range(1, 401)]
    crossing = [n * (1000 * k) + m * (40_000 - 1000 * k) for k in range(41)]
    compared = 0
    reaches = cost_memory._Candidate.reaches

    def counted(one: Any, other: Any) -> bool:
        nonlocal compared
        compared += 1
        return reaches(one, other)

    monkeypatch.setattr(cost_memory._Candidate, "reaches", counted)
    assert set(largest([*growing, *crossing]).of) == {*crossing, growing[-1]}
    assert compared < 400 + 42 * 41


# ---------------------------------------------------------------------- the largest that fits


def brute_force(c: ss.Cost, memory: int, symbol: str, others: Mapping[str, int]) -> int | None:
    best = None
    for n in range(64):
        sizes = {**others, symbol: n}
        if not c.analysis.evaluate(sizes).violations and c.at(sizes).memory <= memory:
            best = n
    return best


@pytest.mark.parametrize("memory", [700, 5_001, 11_520])
def test_the_largest_size_that_fits(memory: int) -> None:
    pyramid = text(
        "float[B, 1, H, 8] x",
        "a = SpaceToDepth<blocksize=4>(x)  b = DepthToSpace<blocksize=4>(a)  y = Add(b, x)",
    )
    c = ss.cost(pyramid)
    for symbol, others in (("H", {"B": 2}), ("B", {"H": 12})):
        wanted = brute_force(c, memory, symbol, others)
        if not wanted:  # nothing, or nothing but empty inputs
            continue
        fit = c.fit(memory, symbol, others)
        assert fit.size == wanted
        assert fit.memory == c.at(fit.sizes).memory <= memory
        assert fit.above is not None
        assert c.at({**others, symbol: fit.above}).memory == fit.memory_above
        assert fit.memory_above is not None
        assert fit.memory_above > memory


def test_what_does_not_fit_and_what_is_missing() -> None:
    c = ss.cost(
        text(
            "float[A, B] x",
            "y = Relu(x)",
        ),
        assume=["A >= 3"],
    )
    with pytest.raises(ss.NoSizes, match="A = 3, the smallest accepted size, already takes 240 bytes"):
        c.fit(100, "A", {"B": 10})
    with pytest.raises(ValueError, match="provide them: B"):
        c.fit(1000, "A")
    with pytest.raises(ValueError, match="unknown dim 'Q'"):
        c.fit(1000, "Q", {"B": 1})
    with pytest.raises(ValueError, match="missing sizes: B"):
        c.at({"A": 4})
    with pytest.raises(ValueError, match="A must be at least 3, got 2"):
        c.at({"A": 2, "B": 1})


@pytest.mark.parametrize(
    ("given", "found"),
    [("8GB", 8 * 10**9), ("8 GiB", 8 << 30), ("512", 512), ("1.5kB", 1500), ("x", None), ("-1B", None)],
)
def test_units(given: str, found: int | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match=r"memory (must be|is)"):
            bytes_in(given)
    else:
        assert bytes_in(given) == found


# ---------------------------------------------------------------------- what people see


def test_the_plot_draws_accepted_sizes() -> None:
    c = ss.cost(text("float[N, 1, H, 8] x", "y = SpaceToDepth<blocksize=8>(x)"))
    root = ElementTree.fromstring(c.plot("H", {"N": 1}, upto=40))
    lines = [e.attrib["points"].split() for e in root.iter() if e.tag.endswith("polyline")]
    accepted = [n for n in range(41) if not c.analysis.evaluate({"N": 1, "H": n}).violations]
    assert [len(points) for points in lines] == [len(accepted)] * 3
    assert "N = 1" in "".join(root.itertext())


def test_a_name_of_a_dim_is_only_text_in_the_plot() -> None:
    model = text("float[N] x", "y = Relu(x)")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "a<b>&"
    c = ss.cost(model)
    (name,) = c.analysis.symbols
    assert ElementTree.fromstring(c.plot(name)) is not None


def test_scopes_add_up() -> None:
    c = ss.cost(MODELS / "bert_eager__ts" / "model.onnx")
    sizes = {"batch": 2, "seq": 6}
    scopes = c.scopes(depth=4)
    assert len(scopes) > 4
    assert sum(s.flops.evaluate(sizes) or 0 for s in scopes) == c.at(sizes).flops
    assert max(s.live.evaluate(sizes) or 0 for s in scopes) == c.at(sizes).peak
    assert sum(s.parameters for s in scopes) <= c.parameters
    graph = onnx.load(MODELS / "bert_eager__ts" / "model.onnx", load_external_data=False).graph
    stored = sum(math.prod(t.dims) for t in graph.initializer)
    stored += sum(math.prod(n.attribute[0].t.dims) for n in graph.node if n.op_type == "Constant")
    assert c.parameters == stored


def test_the_command(tmp_path: Path) -> None:
    model = str(MODELS / "bert_eager__dynamo" / "model.onnx")
    picture = tmp_path / "memory.svg"
    args = ["cost", model, "--at", "seq=16", "--max-memory", "2MB", "--plot", str(picture), "--json"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["fit"]["memory"] <= 2_000_000 < told["fit"]["memory_above"]
    assert told["fit"]["above"] == told["fit"]["size"] + 1
    assert len(told["nodes"]) == 216 - sum(n["op_type"] == "Constant" for n in told["nodes"])
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    done = CliRunner().invoke(app, ["cost", model, "--at", "batch=2,seq=16", "--by", "scope"])
    assert done.exit_code == 0, done.output
    assert "parameters + peak" in done.stdout
    assert CliRunner().invoke(app, ["cost", model, "--at", "seq=16", "--max-memory", "1kB"]).exit_code == 1
    assert CliRunner().invoke(app, ["cost", model, "--max-memory", "1kB"]).exit_code == 2


def test_given_sizes_stand_in_the_formulas_and_bring_those_that_follow() -> None:
    unet = str(MODELS.parents[1] / "examples/unet.onnx")
    rows = CliRunner().invoke(app, ["cost", unet, "--at", "batch=1"]).output
    assert "batch" not in rows
    assert "height" in rows
    decoder = CliRunner().invoke(
        app, ["cost", str(MODELS.parents[1] / "examples/attention.onnx"), "--at", "batch=1,seq=1,past_seq=63"]
    )
    assert decoder.output.startswith("at batch = 1, seq = 1, past_seq = 63, total_seq = 64\n")
    assert "KiB  maximum held at once" in decoder.output
