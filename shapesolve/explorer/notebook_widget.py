"""The explorer as an anywidget (extra ``notebook``)."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from .page import asset

_RENDER = """
function render({ model, el }) {
  const root = document.createElement("div");
  root.style.height = `${model.get("height")}px`;
  el.appendChild(root);
  return ShapesolveExplorer.mount(root, model.get("data"));
}
export default { render };
"""


class ExplorerWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """Explorer widget; ``height`` is in pixels."""

    _esm = asset("explorer.js") + _RENDER
    _css = asset("explorer.css")
    data: Any = traitlets.Dict().tag(sync=True)
    height: Any = traitlets.Int(640).tag(sync=True)

    def __repr__(self) -> str:
        return f"<ExplorerWidget of {self.data['model']['name']}>"

    def _repr_html_(self) -> str:
        """Return fallback text for viewers without widgets."""
        return "<p>Interactive explorer: open this notebook in Jupyter to use it.</p>"
