"""The explorer opened in headless Chromium, which ``SHAPESOLVE_BROWSER`` names."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shapesolve as ss

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["SHAPESOLVE_BROWSER"], args=FLAGS)
        yield browser
        browser.close()


class Shown:
    """An analysis opened as a page; counts what should not happen there."""

    def __init__(
        self,
        chromium: Any,
        folder: Path,
        analysis: ss.Analysis,
        scheme: str = "light",
        size: dict[str, int] | None = None,
        bypass_csp: bool = False,
    ) -> None:
        self.analysis = analysis
        self.errors: list[str] = []
        self.requests: list[str] = []
        file = folder / "report.html"
        file.write_text(analysis.to_html(), "utf-8")
        viewport = size or {"width": 1280, "height": 800}
        self.page = chromium.new_page(viewport=viewport, color_scheme=scheme, bypass_csp=bypass_csp)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("dialog", lambda d: self.errors.append(f"dialog {d.message}"))
        self.page.on("request", lambda r: self.requests.append(r.url))
        start = time.perf_counter()
        self.page.goto(file.as_uri())
        self.page.wait_for_selector(".canvas canvas")
        self.page.evaluate("() => new Promise(requestAnimationFrame)")
        self.seconds = time.perf_counter() - start

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def find(self, words: str) -> None:
        self.page.press(".canvas", "/")
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def close(self) -> None:
        assert self.errors == []
        assert [r for r in self.requests if not r.startswith(("file:", "data:", "blob:"))] == []
        self.page.close()


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Shown] = []

    def open_page(model: Any, **options: Any) -> Shown:
        model = ROOT / model if isinstance(model, str) else model
        opened.append(Shown(chromium, tmp_path, ss.analyze(model), **options))
        return opened[-1]

    yield open_page
    for shown in opened:
        shown.close()
