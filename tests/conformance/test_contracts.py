"""Contracts of real models: what they say, that they agree with `check_inputs`, that findings say why exports do not run."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import shapesolve
from shapesolve.solve.proof import Proved, Refuted

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests/models"
CORPUS = Path(os.environ.get("SHAPESOLVE_CORPUS") or "nowhere")


def analyzed(name):
    return shapesolve.analyze(MODELS / name / "model.onnx")


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("gpt2_past__ts", ["total_seq >= past_seq + seq"]),
        ("llama_past__dynamo", ["total_seq >= past_seq + seq"]),
        ("bert_eager__ts", ["seq <= 512"]),
        ("vit_interp__ts", ["height >= 8", "width >= 8"]),
        ("unet_interp__dynamo", ["height >= 4", "width >= 4"]),
        ("stft_op_logmel", ["samples >= 64"]),
        ("yolo_nms_postprocess", []),
        ("broken/wheel_light_resnet50", ["193 <= height <= 224", "193 <= width <= 224"]),
        ("broken/wheel_light_vgg19", ["(height//32)*(width//32) == 49"]),
    ],
)
def test_contracts_say_what_a_caller_must_know(name, terms):
    contract = analyzed(name).contract.usual
    assert [t.text for t in contract] == terms
    assert all(t.nodes for t in contract)


def test_a_contract_for_usual_sizes_says_so():
    a = analyzed("broken/wheel_light_vgg19")
    assert str(a.contract) == "(height//32)*(width//32) == 49 for height >= 32, width >= 32"
    thin = {"data_0": (1, 3, 20, 1568)}  # onnxruntime runs this: a pool of a thin image gives one row
    assert a.check_inputs(thin) == []
    assert a.check_inputs({"data_0": (1, 3, 20, 1600)})


@pytest.mark.parametrize("name", ["wheel_light_resnet50", "wheel_light_vgg19"])
def test_the_node_that_restricts_a_size_is_named(name):
    a = analyzed(f"broken/{name}")
    baked = [f for f in a.diagnostics if f.code == "SS404"]
    assert baked
    assert all(f.op_type == "Reshape" and f.severity == "warning" for f in baked)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus")
@pytest.mark.parametrize(
    ("name", "code", "node", "says"),
    [
        ("conformer_ctc__ts", "SS404", "/a/Reshape_4", "frames"),
        ("lstm_stateful__dynamo", "SS404", "node_Reshape_128", "[9, -1, 32]"),
        ("mamba__ts", "SS401", "/m/backbone/layers.0/mixer/Add_11", "seq = 9"),
        ("patchtst__ts", "SS201", "/m/model/encoder/positional_encoder/Add", "cannot broadcast"),
        ("stft_frontend__ts", "SS404", "/t/self_attn/Reshape_4", "samples"),
    ],
)
def test_findings_say_why_an_export_does_not_run(name, code, node, says):
    found = shapesolve.analyze(CORPUS / "broken" / name / "model.onnx").diagnostics
    assert any(f.code == code and f.node == node and says in f.title for f in found), [str(f) for f in found]


def test_models_that_run_as_declared_have_no_finding_above_info():
    correct = [p.parent.name for p in MODELS.glob("*/model.onnx")]
    assert len(correct) > 10
    loud = {name: [str(f) for f in analyzed(name).diagnostics if f.severity != "info"] for name in correct}
    assert not any(loud.values()), {n: fs for n, fs in loud.items() if fs}


def test_quantities_and_refutations_read_as_they_were_asked():
    a = analyzed("vit_interp__ts")
    (output, _), *_ = a.model.graph.outputs
    size = a.size_in_bytes(output)
    assert a.divisor(size) % 4 == 0
    assert a.bounds(size)[0] == 512
    assert a.bounds("height")[0] == 8
    assert isinstance(a.prove("height >= 8"), Proved)
    refuted = a.prove("height // 2 * 2 == height")
    height = refuted.counterexample["height"]
    assert repr(refuted) == f"Refuted(height = {height}: {height - 1} != {height})"
    assert repr(a.prove("height < 9")).endswith(">= 9)")
    assert isinstance(a.prove("2 <= height <= 5"), Refuted)
    assert isinstance(a.equal(size, a.size_in_bytes(output)), Proved)
    with pytest.raises(KeyError, match="unknown tensor"):
        a.size_in_bytes("nothing")


def page_of_contracts(folder, *names):
    with TemporaryDirectory() as made:
        page = Path(made, "contracts.md")
        subprocess.run(
            [sys.executable, ROOT / ".ci/contracts.py", folder, page, *names], check=True, cwd=ROOT
        )
        return page.read_text("utf-8")


@pytest.mark.skipif(not (ROOT / ".ci/contracts.py").is_file(), reason="an sdist does not hold the script")
def test_the_page_of_contracts():
    page = page_of_contracts(MODELS, "gpt2_past__ts", "skl_gbdt")
    assert "| `total_seq >= past_seq + seq` | `/m/transformer/Gather_6` |" in page
    assert "Every input size runs." in page


@pytest.mark.skipif(not (CORPUS / "models").is_dir(), reason="needs the corpus")
def test_the_page_in_the_documentation_is_current():
    assert page_of_contracts(CORPUS / "models") == (ROOT / "docs/reference/contracts.md").read_text("utf-8")
