"""Every command: what it prints, its exit code, and one clear error for input that cannot be used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from shapesolve import __version__
from shapesolve.cli import app
from shapesolve.lower import walk
from shapesolve.model.saving import external_locations

from .broken import model

ROOT = Path(__file__).resolve().parents[2]
ATTENTION = str(ROOT / "examples/attention.onnx")
UNET = str(ROOT / "examples/unet.onnx")
BROKEN = str(ROOT / "examples/broken_residual.onnx")
EXTERNAL = str(ROOT / "tests/models/bert_eager__ts/model.onnx")


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def error_of(*args: str) -> str:
    result = run(*args, code=2)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip() == "^")  # under an expression
    return "\n".join(lines)


def test_analyze_tells_shapes_contract_and_findings() -> None:
    text = run("analyze", ATTENTION).stdout
    assert "past_key        float32  [batch, 4, past_seq, 16]" in text
    assert "present_key     float32  [batch, 4, past_seq + seq, 16]" in text
    assert "total_seq == 1 or total_seq == past_seq + seq" in text
    assert "findings  none" in text  # an unusual broadcast is behind `check`
    assert "\x1b" not in text


def test_analyze_shows_chosen_tensors() -> None:
    text = run("analyze", ATTENTION, "--tensors", "present_*").stdout
    assert text.splitlines() == [
        "tensors   present_key    float32  [batch, 4, past_seq + seq, 16]",
        "          present_value  float32  [batch, 4, past_seq + seq, 16]",
    ]
    assert "no tensor matches" in error_of("analyze", ATTENTION, "--tensors", "nope*")


def test_assumptions_and_sizes_are_taken_into_account() -> None:
    text = run("analyze", ATTENTION, "--assume", "total_seq == past_seq + seq", "--bind", "batch=2").stdout
    assert "findings  none" in text
    assert "[2, 4, total_seq, 16]" in text


def test_every_command_is_listed() -> None:
    assert app.get_command(None, "none of them") is None  # all files are imported for the nearest name
    assert set(app.commands) == set(app.list_commands())


def test_the_version_says_what_is_installed() -> None:
    kind = "pure Python;" if str(walk.__file__).endswith(".py") else "compiled;"
    assert run("--version").stdout.startswith(f"shapesolve {__version__} ({kind} ")


@pytest.mark.parametrize(
    ("args", "code"),
    [(("check", UNET), 0), (("check", ATTENTION), 0), (("check", BROKEN), 1), (("check", __file__), 2)],
)
def test_exit_codes_of_check(args: tuple[str, ...], code: int) -> None:
    run(*args, code=code)


@pytest.mark.parametrize("command", ["analyze", "check"])
def test_findings_in_every_format(command: str) -> None:
    code = 1
    data = json.loads(run(command, BROKEN, "--format", "json", code=code).stdout)
    assert (data["models"][0] if command == "check" else data)["ok"] is False
    sarif = json.loads(run(command, BROKEN, "--format", "sarif", code=code).stdout)
    assert sarif["runs"][0]["results"][0]["ruleId"] == "SS201"
    github = run(command, BROKEN, "--format", "github", code=code).stdout
    assert github.startswith("::error file=")
    assert github.count("\n") == 1


def test_prove() -> None:
    assert run("prove", ATTENTION, "present_key[2] == past_seq + seq").stdout.startswith("proved")
    refuted = run("prove", UNET, "height >= 9", code=1).stdout
    assert refuted.splitlines() == ["refuted  height >= 9", "  at        height = 8", "  where     8 < 9"]


def test_what_is_not_decided_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    found = tmp_path / "found.onnx"
    onnx.save(model("g (float[N] x) => (int64[1, found] y) { y = NonZero(x) }"), found)
    assert run("prove", str(found), "y[1] == N", code=3).stdout.startswith("unknown")
    for prove in ((), ("--prove",)):
        assert "not decided" in run("diff", str(found), str(found), *prove, code=3).stdout
        run("diff", str(found), UNET, *prove, code=1)


def test_explain_lists_the_way_from_the_inputs() -> None:
    text = run("explain", ATTENTION, "present_key").stdout
    assert (
        text.index("past_key")
        < text.index("/attn/k_proj/MatMul")
        < text.index("/attn/Concat_3 computes past_seq + seq")
    )
    assert "through 4 nodes, from /attn/k_proj/MatMul to /attn/Transpose_1" in text
    assert error_of("explain", ATTENTION, "present").endswith("did you mean present_key or present_value?")


def test_names_with_signs_in_them_need_no_quotes(tmp_path: Path) -> None:
    assert run("prove", UNET, "/up3/Concat_output_0[1] == 18").stdout.startswith("proved")
    assert run("prove", UNET, "2*batch-/up3/Concat_output_0[0] == batch").stdout.startswith("proved")
    file = tmp_path / "m.onnx"
    onnx.save(model("g (float[a, b] x) => (y) { y = Relu(x) }"), file)
    proto = onnx.load(file)
    for dim, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, ("batch-size", "num_heads/2")):
        dim.dim_param = name
    onnx.save(proto, file)
    assert run("prove", str(file), "y[0]*num_heads/2 == batch-size*y[1]").stdout.startswith("proved")
    assert run("prove", str(file), "batch-size == 3", code=1).stdout.startswith("refuted")
    assert "error: unexpected '='\n  batch-size=3\n            ^" in error_of(
        "prove", str(file), "batch-size=3"
    )


def test_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    out = str(tmp_path / "out.onnx")
    assert "no input sizes run" in run("annotate", BROKEN, "-o", out, code=1).stderr
    assert "pass --force to overwrite it" in error_of("annotate", UNET, "-o", out)
    run("annotate", UNET, "-o", out, "--force")


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("encoder", "decoder"):
        (tmp_path / folder).mkdir()
        shutil.copy(UNET, tmp_path / folder / "model.onnx")
    text = run("check", str(tmp_path), "--limits").stdout
    assert "encoder/model.onnx" in text
    assert "decoder/model.onnx" in text


def test_an_unknown_tensor_comes_with_names_that_there_are() -> None:
    assert error_of("prove", ATTENTION, "present_kez[1] == 3").endswith(
        "did you mean present_key or present_value?"
    )
    assert error_of("explain", UNET, "logits").endswith("outputs: mask")


def test_contract() -> None:
    assert "height % 8 == 0  needed by /up1/Concat" in run("contract", UNET).stdout
    assert json.loads(run("contract", UNET, "--json").stdout)["terms"][0]["condition"] == "height % 8 == 0"
    source = run("contract", UNET, "--format", "python").stdout
    names: dict[str, object] = {}
    compile(source, "contract", "exec", dont_inherit=True)
    assert "def check_inputs" in source
    assert "assert" in run("contract", UNET, "--format", "smtlib").stdout
    assert "no input sizes run" in run("contract", BROKEN, code=1).stdout
    assert not names


def test_near_says_what_keeps_all_sizes_on_the_other_side() -> None:
    done = run("sizes", UNET, "--near", "height=4,width=25", code=1)
    assert "below    none\n" in done.stdout
    limits = json.loads(run("sizes", UNET, "--near", "height=4,width=25", "--json", code=1).stdout)["limits"]
    assert limits == {"below": {"height": 8}}


def test_evaluate_where_a_size_divides_by_0(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["M//N", "M"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))
    onnx.save(model, tmp_path / "quotient.onnx")
    lines = run("evaluate", str(tmp_path / "quotient.onnx"), "--bind", "M=4", "--bind", "N=0").stdout
    assert "[M//N, M]" in lines


def test_evaluate() -> None:
    text = run("evaluate", UNET, "--bind", "batch=2", "--bind", "height=16", "--bind", "width=24").stdout
    assert "mask   float32  [2, 1, 16, 24]" in text
    broken = run(
        "evaluate", UNET, "--bind", "batch=2", "--bind", "height=20", "--bind", "width=24", code=1
    ).stdout
    assert (
        "  height must be a multiple of 8, got 20\n  = /up3/Concat (Concat inputs must have the same size"
        in broken
    )
    assert "max(" not in broken
    assert "contradicts itself" in run("evaluate", BROKEN, "--bind", "batch=2", code=1).stdout
    table = run("evaluate", ATTENTION, "--bind", "seq=7").stdout.splitlines()
    assert "present_key     float32  [batch, 4, past_seq + 7, 16]  [batch, 4, past_seq + seq, 16]" in table
    assert "past_key        float32  [batch, 4, past_seq, 16]" in table
    assert table[-1] == "undetermined: batch, total_seq, past_seq   (set it with --bind batch=...)"
    data = json.loads(run("evaluate", UNET, "--bind", "batch=2", "--json").stdout)
    assert data["open"] == {"image": "[batch, 3, height, width]", "mask": "[batch, 1, height, width]"}
    assert "expected one of: batch, height, width" in error_of("evaluate", UNET, "--bind", "depth=3")


def test_verify_runs_the_model() -> None:
    text = run("verify", UNET, "--runs", "2").stdout
    assert text.count("agrees") == 2
    text = run("verify", UNET, "--bind", "batch=1", "--bind", "height=8", "--bind", "width=16").stdout
    assert (
        run("verify", str(ROOT / "tests/models/skl_gbdt/model.onnx"), "--runs", "4").stdout.count("agrees")
        == 4
    )
    assert "batch = 1, height = 8, width = 16  agrees  28 tensors compared" in text


def test_verify_says_why_it_cannot() -> None:
    assert "its weights are missing" in error_of("verify", EXTERNAL)
    refused = error_of("verify", UNET, "--bind", "height=7")
    assert refused.endswith("height must be a multiple of 8, got 7")
    assert "no input sizes run" in error_of("verify", BROKEN)


def test_diff(tmp_path: Path) -> None:
    annotated = tmp_path / "annotated.onnx"
    run("annotate", ATTENTION, "-o", str(annotated))
    assert "present_key    same" in run("diff", ATTENTION, str(annotated)).stdout
    assert "tensors       shapes unchanged" in run("diff", ATTENTION, ATTENTION).stdout
    assert "tensors       the models share no tensor" in run("diff", ATTENTION, UNET, code=1).stdout
    assert json.loads(run("diff", BROKEN, UNET, "--json", code=1).stdout)["same"] is False


def test_scan(tmp_path: Path) -> None:
    for name in ("unet", "broken_residual"):
        shutil.copy(ROOT / f"examples/{name}.onnx", tmp_path)
    text = run("scan", str(tmp_path), "--jobs", "1", code=1).stdout
    assert "1 ok, 1 conflict" in text
    assert "nothing" not in text
    assert "no .onnx file" in error_of("scan", str(ROOT / "docs"))


def test_ops() -> None:
    heads, row = run("ops", "HardSwish").stdout.splitlines()
    assert heads.split("  ")[0] == "domain"
    assert row.split()[:2] == ["ai.onnx", "HardSwish"]
    assert len(json.loads(run("ops", "--json").stdout)["operators"]) > 400


def test_annotate_does_not_touch_the_model() -> None:
    before = Path(UNET).read_bytes()
    assert "cannot overwrite the model itself" in error_of("annotate", UNET, "-o", UNET)
    assert "cannot overwrite the model itself" in error_of("report", UNET, "-o", UNET)
    assert Path(UNET).read_bytes() == before


def test_weights_are_not_written_over(tmp_path: Path) -> None:
    shutil.copy(EXTERNAL, tmp_path / "model.onnx")
    weights = tmp_path / next(external_locations(onnx.load(EXTERNAL, load_external_data=False)))
    weights.write_bytes(b"weights")
    for command in ("annotate", "report"):
        told = error_of(command, str(tmp_path / "model.onnx"), "-o", str(weights), "--force")
        assert told.endswith("is a weight file of the model; choose another file")
    assert weights.read_bytes() == b"weights"


def test_nothing_is_cut_when_piped(tmp_path: Path) -> None:
    first, second = "first_" * 20, "second_" * 20
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "z"], ["y"], name="fc")],
        "g",
        [info("x", TensorProto.FLOAT, [3, first]), info("z", TensorProto.FLOAT, [second, 3])],
        [info("y", TensorProto.FLOAT, None)],
    )
    file = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    assert second in run("contract", str(file)).stdout
    lines = run("analyze", str(file)).stdout.splitlines()
    (at,) = (i for i, t in enumerate(lines) if "needed by fc" in t)
    assert second in lines[at - 1]


# ---------------------------------------------------------------------- input that cannot be used


def saved(
    path: Path,
    *nodes: onnx.NodeProto,
    dims: object = ("N",),
    opset: tuple[str, int] = ("", 17),
    ins: str = "x",
) -> str:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(i, TensorProto.FLOAT, dims) for i in ins.split()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset)], ir_version=8), path)
    return str(path)


RELU = helper.make_node("Relu", ["x"], ["y"], name="act")
NESTED = "(" * 100_000 + "height" + ")" * 100_000


def test_files_that_are_no_models(tmp_path: Path) -> None:
    cut, junk = tmp_path / "cut.onnx", tmp_path / "junk.onnx"
    cut.write_bytes(Path(UNET).read_bytes()[:500])
    junk.write_text("hello")
    assert "file not found" in error_of("analyze", str(tmp_path / "none.onnx"))
    assert "is a directory" in error_of("analyze", str(tmp_path))
    assert "is truncated" in error_of("analyze", str(cut))
    assert "is not an ONNX model" in error_of("analyze", str(junk))


def test_graphs_that_make_no_sense(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    assert "which nothing in the graph produces" in error_of("check", saved(file, RELU, ins="z"))
    assert "has two producers" in error_of("check", saved(file, RELU, RELU))
    loop = [helper.make_node("Relu", ["b"], ["y"]), helper.make_node("Relu", ["y"], ["b"])]
    acme = helper.make_node("Relu", ["x"], ["y"], domain="acme")
    assert "cycle" in error_of("check", saved(file, *loop))
    assert "no opset_import" in error_of("check", saved(file, acme))
    assert "two inputs named" in error_of("check", saved(file, RELU, ins="x x"))


def test_dims_that_make_no_sense(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    assert "10,000 characters long" in error_of("check", saved(file, RELU, dims=["a" * 10_000]))
    assert "200,006 characters long" in error_of("check", saved(file, RELU, dims=[NESTED]))
    assert len(error_of("analyze", UNET, "--assume", f"{NESTED} == 1")) < 1000
    run("check", saved(file, RELU, dims=[]))
    run("check", saved(file, RELU, dims=[-3]))
    assert "SS101" in run("check", saved(file, helper.make_node("Foo", ["x"], ["y"]))).stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("analyze", UNET, "--bind", "height"), "expected --bind NAME=SIZE"),
        (("analyze", UNET, "--bind", "height=-1"), "expected --bind NAME=SIZE"),
        (("analyze", UNET, "--bind", "depth=3"), "unknown dim 'depth'"),
        (("analyze", UNET, "--assume", "height =="), "expected a number"),
        (("prove", UNET, "height >"), "\n  height >\n          ^"),
        (("analyze", UNET, "--assume", "depth == 1"), "unknown input dim 'depth'; expected one of:"),
        (("analyze", UNET, "--broadcast", "maybe"), "broadcast must be"),
        (("prove", UNET, "nothing[1] == 2"), "unknown tensor 'nothing'"),
        (("prove", UNET, "mask[1] == hight"), "unknown dim 'hight'; did you mean height?"),
        (("prove", UNET, "mask[9] == 2"), "it has no axis 9"),
        (("annotate", UNET, "-o", "/nowhere/x.onnx"), "cannot write"),
        (
            ("annotate", UNET, "-o", "x.onnx", "--policy", "all"),
            "policy must be skip, override, refine, or strict",
        ),
        (("scan", "/nowhere"), "file not found"),
        (("ops", "Nope"), "no operator matches"),
        (("analyze",), "missing argument 'MODEL' (see shapesolve analyze --help)"),
        (("analyze", UNET, "--tensor", "x"), "no such option '--tensor'; did you mean '--tensors'?"),
        (
            ("analyze", UNET, "--format", "jsn"),
            "expected one of text, json, sarif, github, got 'jsn'; did you mean json?",
        ),
        (("analyze", UNET, "--tensors", "/upp3*"), "no tensor matches '/upp3*'; did you mean '/up3*'?"),
        (("check", UNET.replace("unet", "unett")), f"did you mean {UNET!r}?"),
        (("check", UNET, "--write-baseline", str(ROOT)), "is a directory"),
        (
            ("cost", UNET, "--at", "height=8,width=8", "--of", "batch", "--plot", str(ROOT)),
            "is a directory",
        ),
        (("cost", UNET, "--at", "height"), "expected NAME=SIZE"),
        (("sizes", UNET, "--near", "height"), "expected --near NAME=SIZE"),
        (("profile", UNET, "--opt", "height=x"), "expected --opt NAME=SIZE"),
        (("inputs", UNET, "-o", UNET), "cannot overwrite the model itself"),
        (("simplify", UNET, "-o", "/nowhere/x", "--keep", "Cnov"), "matches 'Cnov'; did you mean Conv?"),
        (
            ("fix", UNET, "-o", "/nowhere/x", "--bind", "batch=1", "--keep", "*up9*"),
            "matches '*up9*'",
        ),
        (
            ("free", UNET, "-o", "/nowhere/x", "--dim", "imag[1]=c"),
            "unknown input 'imag'; did you mean image?",
        ),
        (
            ("free", UNET, "-o", "/nowhere/x", "--dim", "logits[1]=c"),
            "unknown input 'logits'; expected one of: image",
        ),
    ],
)
def test_arguments_that_make_no_sense(args: tuple[str, ...], said: str) -> None:
    assert said in error_of(*args)


def test_a_dask_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    waits = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: waits(address, timeout="1s"))
    assert "cannot reach a Dask scheduler" in error_of("scan", UNET, "--dask", "tcp://127.0.0.1:1")


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="\x1b[31mevil\n\u202e")
    text = run("check", saved(tmp_path / "m.onnx", node, dims=[3, 4]), code=1).stdout
    assert "\x1b" not in text
    assert "\\x1b[31mevil\\n\\u202e" in text
