"""Inputs, findings and formats of `check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from torch_needed import need

need("torch", "onnxscript")

import torch
from json_schema import schema
from torch import nn
from torch.export import Dim
from torch_correct import ViewFromShape
from torch_mistakes import HardCodedBatch, HardCodedLength, ShortPositionTable, SqueezeBatch, bench

from shapesolve import analyze
from shapesolve.testing import assert_exports
from shapesolve.torch import check
from shapesolve.torch.exporting import quiet
from shapesolve.torch.places import read_trace

HERE = Path(__file__).parent
SHAPES = {"x": {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=512)}}
X, LONG = (torch.zeros(2, 6, 8),), (torch.zeros(2, 12, 8),)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), ShortTable())

    def forward(self, x):
        return self.body(x) * 2


class ShortTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 8)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1]))


def test_a_report_quotes_declaration_term_line_module_and_correction() -> None:
    report = check(HardCodedLength(), LONG, dynamic_shapes=SHAPES)
    (finding,) = report.errors
    assert finding.declared == "x.shape[1]: Dim('seq', min=1, max=512)"
    assert finding.term == "seq == 12"
    assert finding.origin.kind == "HardCodedLength"
    assert dict(finding.counterexample)["seq"] != 12
    text = str(report)
    for part in (
        "error[SS601]",
        "torch_mistakes.py:",
        "y = y.reshape(x.shape[0], 12, 2, 4)",
        "refuted: seq = ",
    ):
        assert part in text
    assert report.corrected == "batch = Dim(\"batch\", min=1, max=64)\ndynamic_shapes = {'x': {0: batch}}"
    assert report.corrected.splitlines()[1] in text
    assert [s.state for s in report.sizes] == ["free", "fixed"]


def test_a_graph_may_need_what_torch_export_does_not_see() -> None:
    report = check(Nested(), X, dynamic_shapes=SHAPES)
    (finding,) = report.errors
    assert (finding.code, finding.term) == ("SS604", "seq <= 16")
    assert report.refusal == ""
    assert finding.origin.module == "body.1.table"
    assert [p.function for p in finding.origin.trace] == ["forward", "forward"]
    assert 'Dim("seq", min=1, max=16)' in report.corrected
    assert check(Nested(), X, dynamic_shapes={"x": {0: Dim("batch"), 1: Dim("seq", max=16)}}).ok


def test_a_limit_of_an_undeclared_range_is_a_warning() -> None:
    report = check(Nested(), X, dynamic_shapes={"x": {0: Dim("batch"), 1: Dim("seq")}})
    assert report.ok
    assert [(f.code, f.term) for f in report.findings] == [("SS605", "seq <= 16")]


@pytest.mark.parametrize(
    ("make", "args", "good", "bad"),
    [
        (ShortPositionTable, (torch.zeros(2, 10, dtype=torch.int64),), (3, 512), (3, 513)),
        (SqueezeBatch, (torch.zeros(2, 5, 8),), (1, 5, 8), (2, 5, 8)),
    ],
)
def test_the_runtime_agrees(
    make: type[nn.Module], args: tuple[torch.Tensor], good: tuple[int, ...], bad: tuple[int, ...]
) -> None:
    (case,) = [c for c in bench if c.make is make]
    report = check(make(), args, dynamic_shapes=case.dynamic_shapes)
    assert report.model is not None
    assert report.analysis is not None
    session = ort.InferenceSession(report.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (name,) = report.analysis.inputs
    kind = np.int64 if args[0].dtype == torch.int64 else np.float32
    session.run(None, {name: np.zeros(good, kind)})
    with pytest.raises(Exception, match=r"(?i)error|invalid|out of"):
        session.run(None, {name: np.zeros(bad, kind)})


def test_hints_and_examples_of_size_one() -> None:
    auto = check(HardCodedLength(), LONG, dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    assert [(f.code, f.term) for f in auto.findings] == [("SS606", "x_dim1 == 12")]
    shapes = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}
    (finding,) = check(HardCodedBatch(), X, dynamic_shapes=shapes).findings
    assert (finding.code, finding.severity, finding.verdict) == ("SS606", "warning", "module")
    for confirm in (True, False):  # torch.onnx.export keeps a batch of one dynamic
        one = check(ViewFromShape(), (torch.zeros(1, 6, 8),), dynamic_shapes=SHAPES, confirm=confirm)
        assert not one.findings, str(one)
        assert {s.state for s in one.sizes} == {"free"}


def test_a_declaration_that_does_not_fit_is_a_finding() -> None:
    report = check(ViewFromShape(), X, dynamic_shapes={"y": {0: Dim("batch")}})
    assert [f.code for f in report.findings] == ["SS607"]
    assert "`dynamic_shapes`" in str(report)


def test_an_exported_program_is_checked_with_its_example() -> None:
    with quiet():
        program = torch.export.export(Nested(), X, dynamic_shapes=SHAPES)
        exported = torch.onnx.export(Nested(), X, dynamo=True, dynamic_shapes=SHAPES, verbose=False)
    for given in (program, exported):
        report = check(given)
        assert any("<= 16" in f.title and f.place for f in report.errors), str(report)
        assert "max=16" in report.corrected
    for given in (exported.model_proto, "net.onnx"):
        with pytest.raises(TypeError, match=r"shapesolve check FILE"):
            check(given)
    analysis = analyze(exported)
    assert any("<= 16" in term.text for term in analysis.contract.usual)


class ByName(nn.Module):
    def forward(self, parts):
        return parts["a"].sum(1) + parts["b"].sum(1), parts["a"]


def test_a_dict_at_the_end_is_keywords_as_for_the_exporter() -> None:
    n, parts = Dim("n", max=9), {"a": torch.randn(2, 5), "b": torch.randn(2, 3)}
    shapes = {"parts": {"a": {0: n}, "b": {0: n}}}
    for args in ((parts, {}), ({"parts": parts},)):
        assert not check(ByName(), args, dynamic_shapes=shapes).findings
    (finding,) = check(ByName(), (parts,), dynamic_shapes=shapes).findings
    assert "unexpected keyword argument 'a'" in finding.title


class Factored(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return torch.linalg.qr(y)[0]


def test_an_operator_that_onnx_does_not_have() -> None:
    report = check(Factored(), (torch.zeros(2, 4, 4),), dynamic_shapes={"x": {0: Dim("batch")}})
    (finding,) = report.findings
    assert finding.code == "SS608"
    assert "linalg_qr" in finding.title
    assert finding.place is not None
    assert "torch.linalg.qr(y)" in finding.place.code


def test_traces() -> None:
    text = f'File "{HERE}/a.py", line 3, in forward\n    return f(x)\n  File "{torch.__file__}", line 9, in g\n    pass'
    (place,) = read_trace(text)
    assert (place.line, place.function, place.code) == (3, "forward", "return f(x)")


def test_formats_land_on_the_python_line() -> None:
    report = check(HardCodedBatch(), X, dynamic_shapes=SHAPES)
    place = report.errors[0].place
    assert place is not None
    github = report.to_github()
    assert github.startswith("::error file=")
    assert f"torch_mistakes.py,line={place.line},title=SS603" in github
    (result,) = json.loads(report.to_sarif())["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["region"] == {"startLine": place.line}
    assert location["artifactLocation"]["uri"].endswith("torch_mistakes.py")
    data = json.loads(report.to_json())
    assert data["ok"] is False
    assert data["findings"][0]["place"]["line"] == place.line
    assert data["declared"][0]["state"] == "restricted"


def rows(x, scale=2.0):
    y = x * scale
    return y.view(2, -1, 8)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))

    def encode(self, x):
        self.calls += 1
        return self.linear(x).view(x.shape[0], -1)


def test_a_function_is_judged_like_a_module() -> None:
    shapes = {"x": {0: Dim("batch", min=1, max=64)}}
    x = (torch.zeros(2, 5, 8),)
    report = check(rows, x, dynamic_shapes=shapes)
    assert report.name == "rows"
    (finding,) = report.errors
    assert finding.place is not None
    assert "y.view(2, -1, 8)" in finding.place.code
    assert dict(finding.counterexample)["batch"] % 2
    for function in (lambda x: x.relu(), partial(rows, scale=3.0), Encoder().encode):
        assert check(function, (torch.zeros(2, 2, 8),), dynamic_shapes={"x": {}}).ok
    encoder = Encoder()
    assert not check(encoder.encode, x, dynamic_shapes=shapes).findings
    assert float(encoder.calls) == 0
    assert not check(torch.relu, x, dynamic_shapes={"args": ({0: Dim("batch")},)}).findings


def test_of_what_is_compiled_the_original_is_judged() -> None:
    shapes = {"x": {0: Dim("batch", min=1, max=64)}}
    for make in (HardCodedBatch, lambda: rows):
        plain = check(make(), X, dynamic_shapes=shapes)
        assert str(check(torch.compile(make()), X, dynamic_shapes=shapes)) == str(plain)


def test_assert_exports() -> None:
    assert assert_exports(ViewFromShape(), X, dynamic_shapes=SHAPES).ok
    with pytest.raises(AssertionError, match=r"SS603[\s\S]*view\(2, -1, 8\)"):
        assert_exports(HardCodedBatch(), X, dynamic_shapes=SHAPES)


def command(*args: str) -> subprocess.CompletedProcess[str]:
    root = HERE.parent.parent
    return subprocess.run(
        [sys.executable, "-m", "shapesolve", "check", *args],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def test_the_command_finds_and_prints() -> None:
    done = command("--torch", "torch_factories:wrong", "--format", "github")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=torch_mistakes.py,line=")
    done = command("--torch", "torch_factories:right")
    assert done.returncode == 0, done.stderr
    assert "free, as declared" in done.stdout


@pytest.mark.parametrize("target", ["right", "wrong"])
def test_the_command_prints_what_the_schema_says(target: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    data = json.loads(command("--torch", f"torch_factories:{target}", "--json").stdout)
    assert list(data)[:2] == ["version", "command"]
    whole = schema()
    jsonschema.validate(data, {**whole["$defs"]["CheckSource"], "$defs": whole["$defs"]})
    jsonschema.validate(data, whole)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("torch_factories", "package.module:factory"),
        ("no_such_module:f", "cannot import"),
        ("torch_factories:nothing", "has no 'nothing'"),
        ("torch_factories:strange", "must give arguments"),
        ("torch_factories:failing", "no weights"),
    ],
)
def test_a_target_that_cannot_be_used(target: str, message: str) -> None:
    from shapesolve.torch.checking import check_target

    with pytest.raises(ValueError, match=message):
        check_target(target)


def test_without_pytorch_the_command_says_what_is_missing() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport shapesolve.torch"
    root = HERE.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "pip install" in done.stderr.splitlines()[-1]


def test_the_notebook_tells_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    need("nbclient", "nbformat")
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(HERE.parent.parent))
    path = HERE.parent.parent / "notebooks/before_export.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    text = "".join(o.get("text", "") for cell in notebook.cells for o in cell.get("outputs", ()))
    assert "error[SS604]" in text
    assert "tagger.py:17" in text
    assert "513 fails" in text
