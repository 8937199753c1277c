"""HTML report: the explorer as one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .tables import explorer_data

if TYPE_CHECKING:
    from ..analysis import Analysis

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<div id="explorer" data-page></div>
<noscript>This report needs JavaScript. <code>shapesolve analyze</code> prints the same as text.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
_BODY_CSS = "html,body{margin:0;height:100%}#explorer{height:100vh}\n"
_POLICY = (
    "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'"
)
_START = (
    '\nShapesolveExplorer.mount(document.getElementById("explorer"),'
    'JSON.parse(document.getElementById("data").textContent));'
)


def render_html(analysis: Analysis, title: str = "") -> str:
    """Return a self-contained HTML page with graph, shapes, contract, and findings.

    `title` is the displayed name of the model (default: its file name).

    All data from the model is in a JSON block that the script turns into text nodes. A content security policy allows
    only the bundled script to run, and no external resource to load.
    """
    data = explorer_data(analysis, title)
    script = asset("explorer.js") + _START
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        policy=_POLICY.format(digest=digest),
        title=html.escape(f"{data['model']['name']} · shapesolve"),
        css=_BODY_CSS + asset("explorer.css"),
        data=script_json(data),
        script=script,
    )


def script_json(data: Any) -> str:
    """Return JSON that is safe to embed in a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """Return the contents of a file in ``static`` (built by ``frontend``)."""
    return (files(__package__) / "static" / name).read_text("utf-8")
