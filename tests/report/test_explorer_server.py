"""The local server of the explorer: who it answers, and what it keeps."""

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.explorer.server import ExplorerServer

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/unet.onnx"
BROWSER = os.environ.get("SHAPESOLVE_BROWSER", "")


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with ExplorerServer(ss.analyze, largest=1_000_000) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
    assert not made.folder.exists()


def ask(
    server: ExplorerServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.getheader("Access-Control-Allow-Origin") is None
    connection.close()
    return answer.status, text


def upload(server: ExplorerServer, body: bytes, **headers: str) -> tuple[int, str]:
    return ask(server, "POST", "/", body, **{"X_Shapesolve_Token": server.token, **headers})


def test_it_listens_on_the_loopback_address(server: ExplorerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url.startswith("http://127.0.0.1:")


def test_a_file_becomes_a_page(server: ExplorerServer) -> None:
    status, text = ask(server, "GET", f"/?token={server.token}")
    assert status == 200
    assert "Drop an ONNX file" in text
    status, text = upload(server, MODEL.read_bytes(), X_Shapesolve_Name="..%2F..%2Fmy%20net.onnx")
    assert status == 200
    page = json.loads(text)["page"]
    status, text = ask(server, "GET", page)
    assert status == 200
    assert "<title>my_net.onnx · shapesolve</title>" in text
    assert [f.suffix for f in server.folder.iterdir()] == [".html"] * len(
        server.pages
    )  # nothing else is kept
    assert ask(server, "GET", page.partition("?")[0])[0] == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"X_Shapesolve_Token": "no"}, 403),
        ({"X_Shapesolve_Token": ""}, 403),
        ({"X_Shapesolve_Token": "\u00e9"}, 403),
        ({"Content_Length": "2000000"}, 413),
        ({"Content_Length": "-1"}, 411),
        ({"Transfer_Encoding": "chunked"}, 411),
    ],
)
def test_others_are_refused(server: ExplorerServer, headers: dict[str, str], status: int) -> None:
    before = list(server.pages)
    chunked = iter([b"x"]) if "Transfer_Encoding" in headers else b"x"
    got, text = upload(server, chunked, **headers)  # type: ignore[arg-type]
    assert got == status
    assert text
    assert server.pages == before


def test_pages_need_the_token_and_the_own_address(server: ExplorerServer) -> None:
    for path in ("/", "/?token=x", f"/..%2f?token={server.token}", f"/../x?token={server.token}"):
        assert ask(server, "GET", path)[0] in (403, 404)
    assert ask(server, "GET", f"/?token={server.token}", Host="evil.example")[0] == 403
    for method in ("OPTIONS", "PUT", "DELETE"):
        assert ask(server, method, f"/?token={server.token}")[0] == 501


def test_what_is_no_model_gets_a_sentence(server: ExplorerServer) -> None:
    status, text = upload(server, b"\xff" * 100, X_Shapesolve_Name="bad.onnx")
    assert status == 422
    assert "bad.onnx" in text
    assert str(server.folder) not in text


def test_few_pages_are_kept(server: ExplorerServer) -> None:
    first = server.add(ROOT / "examples/broken_residual.onnx")
    for _ in range(8):
        server.add(ROOT / "examples/broken_residual.onnx")
    assert first not in server.pages
    assert len(list(server.folder.iterdir())) == 8


def test_view_writes_a_page_and_opens_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = CliRunner().invoke(app, ["view", str(MODEL)])
    assert done.exit_code == 0
    (file,) = tmp_path.iterdir()
    assert opened == [file.as_uri()]
    assert str(file) in done.stdout
    assert file.name.startswith("unet-")
    assert "<title>examples/unet.onnx" in file.read_text("utf-8")


@pytest.mark.skipif(not BROWSER, reason="SHAPESOLVE_BROWSER is not set: browser tests are left out")
def test_a_model_is_dropped_in_a_browser(server: ExplorerServer) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        page = browser.new_page()
        errors: list[Any] = []
        page.on("pageerror", lambda e: errors.append(e))
        page.goto(server.url)
        page.set_input_files("#file", {"name": "x.onnx", "mimeType": "", "buffer": b"no model"})
        page.wait_for_selector(".bad:not(:empty)")
        page.evaluate(
            """async (bytes) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "dropped.onnx"));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
            }""",
            list(MODEL.read_bytes()),
        )
        page.wait_for_selector(".canvas canvas")
        assert page.inner_text("h1") == "dropped.onnx"
        assert errors == []
        browser.close()
