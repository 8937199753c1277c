"""The report as a file: self-contained, safe, up to date with its sources."""

import hashlib
import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import shapesolve as ss
from shapesolve.explorer.page import asset, render_html, script_json

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(ss.__file__).parent / "explorer/frontend"
in_a_checkout = pytest.mark.skipif(
    not SOURCES.exists(), reason="an installed package has no sources of the explorer"
)
HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028&quot;\"'"


def hostile_model() -> onnx.ModelProto:
    x = helper.make_tensor_value_info(HOSTILE, TensorProto.FLOAT, [HOSTILE, 64])
    y = helper.make_tensor_value_info("<b>y</b>", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Relu", [HOSTILE], ["<i>"], name="/<svg onload=alert(2)>/" + HOSTILE)]
    nodes.append(helper.make_node("MatMul", ["<i>", "w"], ["<b>y</b>"], name="<script>alert(3)</script>"))
    w = helper.make_tensor("w", TensorProto.FLOAT, [32, 2], [0.0] * 64)
    graph = helper.make_graph(nodes, "<title>", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class Reader(html.parser.HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        i = len(self.elements) - 1
        self.texts[i] = self.texts.get(i, "") + data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = ss.analyze(ROOT / "examples/attention.onnx").to_html()
    tags = read(page).elements
    assert not [t for t, a in tags if {"src", "href"} & a.keys()]
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in asset("explorer.css")


def test_names_of_the_model_are_never_markup() -> None:
    page = render_html(ss.analyze(hostile_model()))
    reader = read(page)
    tags = [t for t, _ in reader.elements]
    assert tags.count("script") == 2
    assert not {"img", "svg", "b", "i"} & set(tags)
    data = next(reader.texts[i] for i, (t, a) in enumerate(reader.elements) if a.get("id") == "data")
    assert any(name == HOSTILE for name, *_ in json.loads(data)["tensors"])


def test_the_notebook_display_escapes_too() -> None:
    a = ss.analyze(hostile_model())
    tags = [t for t, _ in read(a._repr_html_()).elements]
    assert tags.count("script") == 1
    assert not {"img", "svg", "i", "title"} & set(tags)


def test_json_in_a_script_element_cannot_end_it() -> None:
    text = script_json({"</script>": ["<!--", "&amp;", "\u2028"]})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"</script>": ["<!--", "&amp;", "\u2028"]}


def test_the_policy_names_the_script() -> None:
    page = ss.analyze(ROOT / "examples/unet.onnx").to_html()
    assert re.search(r"script-src &#x27;sha256-|script-src 'sha256-[\w+/=]{44}'", page)
    assert "unsafe-eval" not in page


@in_a_checkout
def test_the_bundle_is_built_from_these_sources() -> None:
    files = [*sorted((SOURCES / "src").iterdir()), SOURCES / "build.mjs", SOURCES / "package-lock.json"]
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    hint = "run `npm ci && npm run build` in shapesolve/explorer/frontend"
    assert digest in asset("explorer.js")[:300], hint
    assert digest in asset("explorer.css")[:300], hint


@in_a_checkout
def test_licences_of_bundled_libraries_are_shipped() -> None:
    text = asset("LICENSES.txt")
    locked = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))["packages"]
    for name in ("cytoscape", "cytoscape-dagre", "@dagrejs/dagre", "@dagrejs/graphlib"):
        assert f"{name} {locked[f'node_modules/{name}']['version']}" in text
    assert text.count("Permission is hereby granted, free of charge") >= 4


def test_a_page_tells_apart_models_whose_files_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    model = tmp_path / "bert/model.onnx"
    model.write_bytes((ROOT / "examples/unet.onnx").read_bytes())
    page = tmp_path / "page.html"
    done = subprocess.run([sys.executable, "-m", "shapesolve", "report", model, "-o", page], check=False)
    assert done.returncode == 0
    assert "<title>bert/model.onnx" in page.read_text("utf-8")
    assert "<title>model.onnx" in ss.analyze(model).to_html()


def test_pages_are_the_same_each_time() -> None:
    path = ROOT / "examples/attention.onnx"
    assert ss.analyze(path).to_html() == ss.analyze(path).to_html()
