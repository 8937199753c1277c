"""The notebook display, the widget and its plain fallback, and the notebooks themselves."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shapesolve as ss

ROOT = Path(__file__).resolve().parents[2]
#: before_export needs PyTorch: tests/torch runs it
NOTEBOOKS = sorted(p for p in (ROOT / "notebooks").glob("*.ipynb") if p.stem != "before_export")


def test_the_display_has_sizes_a_profile_and_costs() -> None:
    a = ss.analyze(ROOT / "examples/attention.onnx")
    text = a._repr_html_()
    assert "<td class='ss-code'>total_seq</td><td>1</td><td>16</td><td>64</td>" in text
    assert "Cost at batch = 1, seq = 8, total_seq = 16, past_seq = 8" in text
    assert str(ss.cost(a).macs) in text
    assert "<svg" in text
    assert "Deployment" not in ss.analyze(ROOT / "examples/broken_residual.onnx")._repr_html_()


def test_the_display_says_what_was_found() -> None:
    text = ss.analyze(ROOT / "examples/attention.onnx")._repr_html_()
    assert "[batch, seq, 64]" in text
    assert "total_seq == past_seq + seq" in text
    assert "findings" in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")  # the name of the format


def test_the_display_of_a_broken_model() -> None:
    text = ss.analyze(ROOT / "examples/broken_residual.onnx")._repr_html_()
    assert "1 error" in text
    assert "contradicts itself" in text


def test_the_display_of_a_large_model_is_short() -> None:
    text = ss.analyze(ROOT / "tests/models/t5_encoder__ts/model.onnx")._repr_html_()
    assert "The first 400 of" in text
    assert len(text) < 150_000


def test_explore_is_a_widget() -> None:
    pytest.importorskip("anywidget")
    widget = ss.analyze(ROOT / "examples/unet.onnx").explore(height=400)
    assert repr(widget) == "<ExplorerWidget of unet.onnx>"
    assert widget.height == 400
    assert widget.data["model"]["nodes"] == 28
    assert "export default" in widget._esm


def test_displays_load_no_optional_package_and_explore_prints_text_without_anywidget() -> None:
    code = """
import sys, shapesolve as ss
a = ss.analyze("examples/unet.onnx")
a._repr_html_(), a.to_html(), str(a)
assert not [m for m in ("IPython", "anywidget", "matplotlib", "ipykernel") if m in sys.modules]
sys.modules["anywidget"] = None
shown = a.explore()
print(repr(shown))
assert "pip install" in shown._repr_html_()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "pip install 'shapesolve[notebook]'" in done.stdout
    assert "height % 8 == 0" in done.stdout


def test_there_are_eight_stories() -> None:
    assert len(NOTEBOOKS) == 8


def test_stored_tables_need_no_scripts() -> None:
    """Code hosts show the HTML of a stored output, without scripts and styles."""
    tables = {}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = [o.get("data", {}) for cell in cells for o in cell.get("outputs", ())]
        tables[path.stem] = [t for t in ("".join(o.get("text/html", "")) for o in outputs) if "<table" in t]
        assert not [t for t in tables[path.stem] if re.search("<(script|style)", t) or len(t) > 50_000]
    assert [name[:2] for name, found in tables.items() if found] == ["01", "02", "04"]


def _has_picture(notebook: Any) -> bool:
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    return any("image/png" in o.get("data", {}) for o in outputs)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One kernel for all notebooks, which have their imports in common."""
    manager: Any = pytest.importorskip("jupyter_client").KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(ROOT / "notebooks"))
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_run(kernel: Any, path: Path) -> None:
    nbformat: Any = pytest.importorskip("nbformat")
    nbclient: Any = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    pictured = _has_picture(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # nothing is left of the one before
    nbclient.NotebookClient(notebook, km=kernel, timeout=300).execute()
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    assert outputs
    assert _has_picture(notebook) == pictured
    assert not [o for o in outputs if o.output_type == "error"]
