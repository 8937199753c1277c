"""Local web server that shows the explorer for models dropped onto its page.

Access is checked three times. The server listens on the loopback address. A request must name that address as its
host, so that a foreign name that resolves to it is rejected. And it must carry a token that only the printed address
contains; uploads carry it in a header, which a page of another site cannot set. Uploaded files are kept in a
temporary folder, up to a few pages' worth.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from ..model import ModelError
from ..model.limits import MAX_CHUNK
from .limits import MAX_PAGES
from .page import asset

if TYPE_CHECKING:
    from ..analysis import Analysis

_ADDRESS = "127.0.0.1"
_TOKEN, _NAME = "X-Shapesolve-Token", "X-Shapesolve-Name"
_UNUSUAL = re.compile(r"[^\w.-]+")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>shapesolve</title>
<style>{css}</style>
</head>
<body>
<main>
<h1>shapesolve</h1>
<label id="target">Drop an ONNX file here, or choose one
<input type="file" id="file" accept=".onnx">
</label>
<p id="said" role="status"></p>
<p class="small">The file is analyzed on this machine and not sent anywhere else. External weight files are not needed.</p>
</main>
<script>{script}</script>
</body>
</html>
"""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refusal(Exception):
    """Raised for a request that is rejected: status and message."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ExplorerServer(ThreadingHTTPServer):
    """Server that shows the explorer for each file dropped onto its page.

    `analyze` makes an analysis of a path; `port` 0 selects any free port; `largest` bounds an uploaded file, in
    bytes. Use the server as a context manager, which deletes its files at the end.

    Raises:
        OSError: If the port is in use.
    """

    daemon_threads = True

    def __init__(self, analyze: Callable[[Path], Analysis], port: int = 0, largest: int = 1 << 30) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="shapesolve-serve-")
        self.folder = Path(self._folder.name)
        self.analyze, self.largest = analyze, largest
        self.token = secrets.token_urlsafe(32)
        self.pages: list[str] = []
        self.working = threading.Lock()
        try:
            super().__init__((_ADDRESS, port), _Handler)
        except OSError:
            self._folder.cleanup()
            raise

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names accepted in requests to this server."""
        return tuple(f"{name}:{self.server_port}" for name in (_ADDRESS, "localhost"))

    @property
    def url(self) -> str:
        """URL of the page, with the access token."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    def add(self, file: Path) -> str:
        """Analyze a file, store its page, and return the page's name. One file is analyzed at a time."""
        with self.working:
            page = secrets.token_hex(8)
            text = self.analyze(file).to_html()
            (self.folder / f"{page}.html").write_text(text, "utf-8")
            self.pages.append(page)
            for old in self.pages[:-MAX_PAGES]:
                (self.folder / f"{old}.html").unlink(missing_ok=True)
            del self.pages[:-MAX_PAGES]
            return page

    def server_close(self) -> None:
        """Stop listening and remove uploaded files."""
        super().server_close()
        self._folder.cleanup()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore interrupted connections."""


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    server_version, sys_version = "shapesolve", ""
    timeout = 30  # seconds without data before a connection is closed

    def do_GET(self) -> None:
        """Serve the upload page, or an explorer page."""
        self._serve(self._page)

    def do_POST(self) -> None:
        """Analyze an uploaded file, and answer with the URL of its page as JSON."""
        self._serve(self._upload)

    def log_message(self, *_: Any) -> None:
        """Log nothing, because URLs contain the token."""

    def _serve(self, act: Callable[[], None]) -> None:
        try:
            if self.headers.get("Host") not in self.server.hosts:
                raise Refusal(HTTPStatus.FORBIDDEN, "this server only answers requests to its own address")
            if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
                raise Refusal(HTTPStatus.FORBIDDEN, "this server rejects requests from other sites")
            origin = self.headers.get("Origin")
            if origin is not None and origin not in [f"http://{host}" for host in self.server.hosts]:
                raise Refusal(HTTPStatus.FORBIDDEN, "this server rejects requests from other sites")
            act()
        except Refusal as refusal:
            self.close_connection = True
            self._answer(refusal.status, "text/plain", str(refusal))

    def _need_token(self, given: str) -> None:
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "missing token; open the printed address")

    def _page(self) -> None:
        parts = urlsplit(self.path)
        self._need_token(parse_qs(parts.query).get("token", [""])[0])
        if parts.path == "/":
            script = asset("drop.js")
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            policy = (
                f"default-src 'none'; connect-src 'self'; script-src 'sha256-{digest}'; "
                "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
            self._answer(
                HTTPStatus.OK, "text/html", _PAGE.format(css=asset("drop.css"), script=script), policy
            )
        elif parts.path[1:] in self.server.pages:
            text = (self.server.folder / f"{parts.path[1:]}.html").read_text("utf-8")
            self._answer(HTTPStatus.OK, "text/html", text, "frame-ancestors 'none'")
        else:
            raise Refusal(HTTPStatus.NOT_FOUND, "this page does not exist, or has expired")

    def _upload(self) -> None:
        self._need_token(self.headers.get(_TOKEN, ""))
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,15}", length):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request has no file size")
        if int(length) > self.server.largest:
            most = self.server.largest / 1e6
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the file is larger than {most:,.0f} MB")
        with tempfile.TemporaryDirectory(dir=self.server.folder) as folder:
            file = Path(folder, _file_name(unquote(self.headers.get(_NAME, ""))))
            self._receive(file, int(length))
            try:
                page = self.server.add(file)
            except (ModelError, ValueError) as e:
                raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(e).replace(f"{folder}/", "")) from e
            except Exception as e:  # a model must not stop the server
                fault = (
                    f"shapesolve failed ({type(e).__name__}); run `shapesolve check` on this file for details"
                )
                raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, fault) from e
        answer = {"page": f"/{page}?token={self.server.token}"}
        self._answer(HTTPStatus.OK, "application/json", json.dumps(answer))

    def _receive(self, file: Path, length: int) -> None:
        with file.open("wb") as out:
            while length:
                part = self.rfile.read(min(length, MAX_CHUNK))
                if not part:
                    raise Refusal(HTTPStatus.BAD_REQUEST, "the upload is incomplete")
                out.write(part)
                length -= len(part)

    def _answer(self, status: HTTPStatus, kind: str, text: str, policy: str = "default-src 'none'") -> None:
        content = text.encode()
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in {**headers, **_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def _file_name(given: str) -> str:
    """Return a safe file name for an uploaded file."""
    name = _UNUSUAL.sub("_", given.replace("\\", "/").rpartition("/")[2]).lstrip(".")
    return name[-80:] or "model.onnx"
