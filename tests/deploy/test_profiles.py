"""Corners of profiles are accepted and run, refusals name the term, and tools read what is written for them."""

from __future__ import annotations

import json
import re
import shlex
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy.profiles.formats import TARGETS
from shapesolve.deploy.profiles.profiles import Profile
from shapesolve.deploy.sizes import Sizes
from tests.building import bundled_files, corpus_files, parsed

from .profile_runs import run_at, within
from .test_inputs import session

ROOT = Path(__file__).resolve().parents[2]
UNET, ATTENTION = ROOT / "examples/unet.onnx", ROOT / "examples/attention.onnx"
TIED = "total_seq == past_seq + seq"


def attention() -> ss.Analysis:
    return ss.analyze(ATTENTION, assume=[TIED])


@pytest.mark.parametrize(
    ("path", "opt", "high"),
    [
        (UNET, {"height": 24, "batch": 2}, {"height": 40, "batch": 3, "width": 24}),
        (ATTENTION, {"seq": 1, "past_seq": 8}, {"seq": 16, "past_seq": 20, "batch": 3}),
    ],
    ids=["unet", "attention"],
)
def test_corners_and_sizes_between_run(path: Path, opt: dict[str, int], high: dict[str, int]) -> None:
    a = ss.analyze(path, assume=[TIED] if path is ATTENTION else [])
    (found,) = ss.profile(a, opt, max=high)
    assert {n: found.opt[n] for n in opt} == opt
    assert {n: found.max[n] for n in high} == high
    run = session(onnx.load(path))
    drawn = list(within(a, found, Random(0), 20))
    assert len(drawn) == 23
    for sizes in drawn:
        run_at(a, run, sizes, set(a.inputs))


def pairs(condition: str) -> ss.Analysis:
    """Two free sizes that keep a condition, and an input of fixed shape."""
    text = "g (float[m, 3] a, float[n] b, float[2] fixed) => (x, y, z) { x = Relu(a) y = Relu(b) z = Relu(fixed) }"
    return ss.analyze(parsed(text), assume=[condition])


@pytest.mark.parametrize(
    ("condition", "accepts"),
    [
        ("m + n <= 12", lambda m, n: m + n <= 12),
        ("m == 1 or n == 1", lambda m, n: 1 in (m, n)),
        ("m % 3 == n % 3", lambda m, n: m % 3 == n % 3),
    ],
)
def test_ranges_that_are_not_accepted_together_are_split(condition: str, accepts: Any) -> None:
    a = pairs(condition)
    high = {"m": 10, "n": 11}
    with pytest.raises(ss.NoProfile, match="m = 10, n = 11") as refused:
        ss.profile(a, {"m": 1, "n": 1}, max=high)
    assert refused.value.corner == "max"
    assert any(condition.partition(" ")[0] in text for text in refused.value.broken)
    found = ss.profile(a, {"m": 1, "n": 1}, max=high, split=True)
    best = {}
    for name, other in (("m", "n"), ("n", "m")):  # each name at its greatest, then the other
        tops = [
            (sizes[name], sizes[other])
            for m, n in product(range(1, 11), range(1, 12))
            if accepts(m, n) and (sizes := {"m": m, "n": n})
        ]
        best[name] = dict(zip((name, other), max(tops), strict=True))
    expected = {tuple(sorted(b.items())) for b in best.values()}
    assert {tuple(sorted(p.max.items())) for p in found} == expected
    for one in found:
        assert all(accepts(*(sizes[n] for n in "mn")) for sizes in (one.min, one.opt, one.max))
        assert one.holds(one.opt)
        between = product(*(range(one.min[n], one.max[n] + 1) for n in "mn"))
        assert (one.conditions == ()) == all(accepts(*sizes) for sizes in between)


def test_what_nobody_asked_to_be_empty_is_not() -> None:
    """Nearer to 1 is 0, at which nothing is computed: as a corner of a range, and as the nearest size."""
    a = ss.analyze(parsed("g (float[seq, batch] x) => (y) <int64[2] to = {9, -1}> { y = Reshape(x, to) }"))
    (found,) = ss.profile(a, {"batch": 1})
    assert (found.min, found.opt) == ({"seq": 9, "batch": 1},) * 2
    (found,) = ss.profile(a, {"batch": 1}, min={"seq": 0})
    assert found.min["seq"] == 0
    assert Sizes(a, {"batch": 1}, least=1).nearest({"seq": 2}) == {"seq": 9, "batch": 1}
    assert Sizes(a, {"batch": 1}).nearest({"seq": 2}) == {"seq": 9, "batch": 1}
    assert Sizes(a, {"batch": 1}).nearest({"seq": 2}, "below") == {"seq": 0, "batch": 1}


def test_a_corner_that_is_refused_is_named_with_its_term() -> None:
    a = ss.analyze(UNET)
    for corner, sizes in (("opt", {"height": 63}), ("min", {"width": 7}), ("max", {"height": 130})):
        given: dict[str, dict[str, int]] = {"opt": {"height": 64, "width": 64}, corner: sizes}
        with pytest.raises(
            ss.NoProfile,
            match=rf"{corner} .*{next(iter(sizes))} must be a multiple of 8, got .* needed by /up",
        ) as refused:
            ss.profile(a, **given)  # type: ignore[arg-type]
        assert refused.value.corner == corner
    with pytest.raises(ss.NoProfile, match=r"height = 128 is accepted"):
        ss.profile(a, {"height": 64}, max={"height": 130})
    with pytest.raises(ValueError, match="opt height = 64 is greater than max height = 8"):
        ss.profile(a, {"height": 64}, max={"height": 8})
    with pytest.raises(ValueError, match="unknown dim 'hight'"):
        ss.profile(a, {"hight": 64})


# ---------------------------------------------------------------------- what tools read


def read_back(text: str, target: str, names: list[str]) -> list[dict[str, dict[str, list[int]]]]:
    """Profiles as the tool's own reader takes them apart."""
    if target == "json":
        return [p["inputs"] for p in json.loads(text)["profiles"]]
    corners: list[tuple[str, list[tuple[str, list[int]]]]] = []
    if target == "ort-trt":
        for key, value in json.loads(text).items():
            pairs = [part.split(":") for part in value.split(",")]
            corners.append((key.split("_")[2], [(n, [int(d) for d in s.split("x")]) for n, s in pairs]))
    else:
        for word in shlex.split(text.replace("\\\n", ""), comments=True):
            if target == "trtexec" and not word.startswith("--profile"):
                corner, _, value = word.removeprefix("--").partition("Shapes=")
                pairs = [part.rpartition(":")[::2] for part in value.split(",")]
                corners.append((corner, [(n.strip("'"), [int(d) for d in s.split("x")]) for n, s in pairs]))
            elif word.startswith("--trt-"):
                corners.append((word.split("-")[3], []))
            elif target == "polygraphy":
                name, _, shape = word.rpartition(":")
                corners[-1][1].append((name, json.loads(shape)))
    found: list[dict[str, dict[str, list[int]]]] = []
    for corner in ("min", "opt", "max"):
        told = [(name, shape) for c, shapes in corners if c == corner for name, shape in shapes]
        assert len(told) % len(names) == 0
        for k, (name, shape) in enumerate(told):
            if k // len(names) == len(found):
                found.append({n: {} for n in names})
            found[k // len(names)][name][corner] = shape
    return found


@pytest.mark.parametrize("target", ["json", "trtexec", "ort-trt", "polygraphy"])
def test_tools_read_the_shapes(target: str) -> None:
    a = pairs("m + n <= 12")
    found = ss.profile(a, {"m": 2, "n": 2}, min={"m": 2}, max={"m": 9, "n": 9}, split=True)
    assert len(found) == 2
    told = read_back(ss.profile_text(a, found, target), target, ["a", "b"])
    assert told == [
        {n: {"min": list(r.min), "opt": list(r.opt), "max": list(r.max)} for n, r in one.inputs.items()}
        for one in found
    ]


def test_python_texts_are_right_for_any_name() -> None:
    a, name = ss.analyze(ATTENTION, assume=[TIED]), "a'\n\"b"
    (one,) = ss.profile(a, {"seq": 2, "past_seq": 3}, max={"seq": 4})
    odd = Profile(one.min, one.opt, one.max, {name: one.inputs["past_key"]}, ())
    space: dict[str, Any] = {}
    exec(ss.profile_text(a, [odd], "openvino"), space)  # noqa: S102  (the point of the test)
    assert space["shapes"] == {name: "[1,4,1..3,16]"}

    class Ct:
        RangeDim = dict
        Shape = dict
        TensorType = dict

    text = ss.profile_text(a, [odd], "coreml").replace("import coremltools as ct", "")
    exec(text, space | {"ct": Ct}, space)  # noqa: S102  (likewise)
    dim = {"lower_bound": 1, "upper_bound": 3, "default": 3}
    assert space["inputs"] == [{"name": name, "shape": {"shape": (1, 4, dim, 16)}}]
    with pytest.raises(ValueError, match="cannot express"):
        ss.profile_text(
            a, [Profile(one.min, one.opt, one.max, {"a,b": one.inputs["past_key"]}, ())], "trtexec"
        )


@pytest.mark.parametrize("target", list(TARGETS))
def test_conditions_that_a_format_has_no_place_for_are_named_or_refused(target: str) -> None:
    a = pairs("m == 2*n")
    found = ss.profile(a, {"m": 2, "n": 1}, max={"m": 600, "n": 300})
    (term,) = found[0].conditions
    if target == "coreml":
        with pytest.raises(ValueError, match=re.escape(term)):
            ss.profile_text(a, found, target)
        return
    text = ss.profile_text(a, found, target)
    if target == "ort-trt":  # JSON, read by onnxruntime: a note on stderr names them
        assert json.loads(text).keys() == {f"trt_profile_{corner}_shapes" for corner in ("min", "opt", "max")}
    elif target == "qnn":  # which takes one size of each input
        assert text.split()[:3] == ["--input_dim", "a", "2,3"]
    elif target in ("ort", "ort-web", "mlnet"):  # which take the optimum sizes
        assert all(str(size) in text for size in (2, 1))
    elif target == "json":
        assert json.loads(text)["profiles"][0]["conditions"] == [term]
    else:
        assert text.splitlines()[-1].startswith("# ")
        assert text.splitlines()[-1].endswith(term)


def test_hosts_of_onnxruntime_get_the_optimum_sizes(tmp_path: Path) -> None:
    a = ss.analyze(UNET)
    profiles = ss.profile(a, {"batch": 2, "height": 64, "width": 32})
    assert ss.profile_text(a, profiles, "ort") == "-f batch:2 -f height:64 -f width:32"
    web = json.loads(ss.profile_text(a, profiles, "ort-web"))
    assert web == {"freeDimensionOverrides": {"batch": 2, "height": 64, "width": 32}}
    options = onnxruntime.SessionOptions()
    for name, size in web["freeDimensionOverrides"].items():
        options.add_free_dimension_override_by_name(name, size)
    session = onnxruntime.InferenceSession(UNET, options, ["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [2, 3, 64, 32]
    assert '    ["image"] = new[] { 2, 3, 64, 32 },' in ss.profile_text(a, profiles, "mlnet").splitlines()
    unnamed = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[?] x) => (y) { y = Relu(x) }'
    )
    with pytest.raises(ValueError, match="no input dim of the file is named x_d0"):
        ss.profile_text(ss.analyze(unnamed), ss.profile(unnamed, {"x_d0": 3}), "ort")
    named = ss.annotate(unnamed)
    assert ss.profile_text(ss.analyze(named), ss.profile(named, {"x_d0": 3}), "ort") == "-f x_d0:3"
    pair = json.loads(ss.profile_text(a, [*profiles, *profiles], "ort-web"))
    assert pair == [web, web]


def test_migraphx_gets_each_range_with_its_usual_size() -> None:
    text = ss.profile_text(
        ss.analyze(UNET), ss.profile(UNET, {"height": 64, "width": 64}, max={"height": 96}), "migraphx"
    )
    words = shlex.split(text, comments=True)
    assert words[:2] == ["--dyn-input-dim", "@image"]
    assert words[2] == "[1,3,{min:8,max:96,optimals:[64]},{min:8,max:64,optimals:[64]}]"
    assert text.splitlines()[-1].startswith("# within the ranges, also satisfy")


def test_triton_is_told_of_all_inputs() -> None:
    a = pairs("m <= 12")
    text = ss.profile_text(a, ss.profile(a, {"m": 2, "n": 2}), "triton")
    assert text.count("model_warmup") == 3
    assert 'input {\n  name: "a"\n  data_type: TYPE_FP32\n  dims: [ -1, 3 ]\n}' in text
    assert 'inputs { key: "fixed" value { data_type: TYPE_FP32\n    dims: [ 2 ] zero_data: true } }' in text
    assert text.count("{") == text.count("}")


def test_openvino_compiles_the_bounded_model() -> None:
    if find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed (extra bench)")
    import openvino as ov

    a = attention()
    (one,) = ss.profile(a, {"seq": 2, "past_seq": 3}, max={"seq": 4, "batch": 2})
    space: dict[str, Any] = {}
    exec(ss.profile_text(a, [one], "openvino"), space)  # noqa: S102  (what a user runs)
    core = ov.Core()
    model = core.read_model(ATTENTION)
    model.reshape(space["shapes"])
    compiled = core.compile_model(model, "CPU")
    for sizes in (one.min, one.opt, one.max):
        (feed,) = ss.generate_inputs(a, 1, edge=False, bind=sizes)
        assert compiled(feed)[0].shape == (sizes["batch"], sizes["seq"], 64)


def test_openvino_is_not_told_of_inputs_that_nothing_reads() -> None:
    """It leaves them out when it reads a model, and then knows no input of that name."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["m", 3]) for n in ("read", "unread")]
    node = helper.make_node("Relu", ["read"], ["y"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [out]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    a = ss.analyze(model)
    found = ss.profile(a, {"m": 2}, max={"m": 4})
    space: dict[str, Any] = {}
    exec(text := ss.profile_text(a, found, "openvino"), space)  # noqa: S102  (what a user runs)
    assert space["shapes"] == {"read": "[1..4,3]"}
    assert "# no node reads 'unread'" in text
    if find_spec("openvino") is not None:
        import openvino as ov

        read = ov.Core().read_model(model.SerializeToString())
        assert [i.any_name for i in read.inputs] == ["read"]
        read.reshape(space["shapes"])


def test_the_command(tmp_path: Path) -> None:
    command = [
        "profile",
        str(UNET),
        "--opt",
        "batch=1,height=64",
        "--max",
        "batch=8,height=512",
        "--for",
        "trtexec",
    ]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "options")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "options").read_text("utf-8")
    options, comment = text.splitlines()
    assert options == "--minShapes=image:1x3x8x8 --optShapes=image:1x3x64x8 --maxShapes=image:8x3x512x8"
    assert comment == "# within the ranges, also satisfy height % 8 == 0"
    assert "note: within the ranges, also satisfy height % 8 == 0" in done.stderr
    done = CliRunner().invoke(app, ["profile", str(UNET), "--opt", "height=12"])
    assert (done.exit_code, done.stderr.startswith("error: ")) == (1, True)


def test_without_usual_sizes_those_that_are_found_are_used() -> None:
    done = CliRunner().invoke(app, ["profile", str(UNET)])
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)["profiles"]
    assert found["sizes"]["opt"] == {"batch": 1, "height": 224, "width": 224}


def test_a_cache_begins_empty_where_the_tool_takes_that() -> None:
    a = ss.analyze(ROOT / "examples/attention.onnx")
    (found,) = ss.profile(a, {"seq": 1, "past_seq": 16}, max={"past_seq": 64})
    for corner, past in ((found.min, 0), (found.opt, 16), (found.max, 64)):
        assert (corner["past_seq"], corner["total_seq"]) == (past, past + 1)
    (found,) = ss.profile(a, {"seq": 1, "past_seq": 16}, empty_cache=False)
    assert (found.min["past_seq"], found.min["total_seq"]) == (1, 2)
    assert found.conditions == ("total_seq == 1 or total_seq == past_seq + seq",)


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["profile", str(UNET), "--opt", "height=64", "--max", "height=512"]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    app(asked, standalone_mode=False)
    table = [text.split() for text in capsys.readouterr().out.splitlines()]
    assert table[0] == ["min", "opt", "max"]
    assert ["height", "8", "64", "512"] in table
    app([*asked, "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["profiles"]


def test_a_length_that_others_determine_follows_them() -> None:
    """The mask of a decoder with a cache: nobody asks for its length, which is that of past and new tokens together."""
    (one,) = ss.profile(ATTENTION, {"batch": 1, "seq": 1, "past_seq": 128}, max={"seq": 128, "past_seq": 256})
    assert one.opt["total_seq"] == 129
    assert one.max["total_seq"] == 384
    prefill, step, full = (
        {"batch": 1, "seq": seq, "past_seq": past, "total_seq": seq + past}
        for seq, past in ((128, 1), (1, 128), (128, 256))
    )
    assert all(one.holds(sizes) for sizes in (prefill, step, full))


PASTS = [f for f in (*bundled_files(), *corpus_files("models")) if "past" in f.parent.name]


@pytest.mark.parametrize("path", PASTS, ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}")
def test_the_calls_of_a_decoder_with_a_cache_lie_in_a_profile(path: Path) -> None:
    a = ss.analyze(path)
    past = next(n for n in a.symbols if "past" in n)
    seq = next((n for n in a.symbols if n in ("seq", "sequence_length", "decoder_sequence_length")), None)
    total = next((n for n in a.symbols if n.startswith("total")), None)

    def call(new: int, cached: int) -> dict[str, int]:
        sizes = {past: cached, seq: new, total: cached + (new if seq else 1)}
        return {n: size for n, size in sizes.items() if n is not None}

    usual, greatest = (
        {n: s for n, s in call(new, cached).items() if n != total} for new, cached in ((1, 16), (16, 32))
    )
    profiles = ss.profile(a, usual, min={past: 0}, max=greatest)
    for prefill_decode_full in (call(16, 0), call(1, 16), call(1, 32)):
        assert Sizes(a).completed(prefill_decode_full) is not None
        assert any(one.holds(prefill_decode_full) for one in profiles)


def test_core_ml_takes_no_size_that_the_model_refuses() -> None:
    profiles = ss.profile(UNET, {"batch": 1, "height": 16, "width": 16}, max={"height": 64, "width": 32})
    text = ss.profile_text(ss.analyze(UNET), profiles, "coreml")
    assert "RangeDim" not in text
    listed = text.partition("shapes=[")[2].partition("]")[0]
    shapes = [tuple(map(int, part.strip(" ,()").split(","))) for part in listed.split("),")]
    assert len(set(shapes)) == 8 * 4
    a = ss.analyze(UNET)
    assert all(not a.check_inputs({"image": shape}) for shape in shapes)
    many = ss.profile(UNET, {"batch": 1, "height": 16, "width": 16}, max={"height": 640, "width": 640})
    with pytest.raises(ValueError, match="there are more: narrow the profile"):
        ss.profile_text(a, many, "coreml")
