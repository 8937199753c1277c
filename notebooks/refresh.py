"""Runs notebooks, all or those named, and stores their outputs: ``python notebooks/refresh.py [NAME...]``.

Tables are stored as HTML without scripts and styles, which code hosts show. Widgets are not stored: where nothing runs, they
show nothing.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

KEPT = ("text/plain", "text/html", "image/png")
_ACTIVE = re.compile(r"<(script|style)>.*?</\1>", re.DOTALL)
_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
#: tables with more characters lose what is folded away: notebooks stay small
_LARGEST = 20_000


def main() -> None:
    """Run the notebooks of this folder."""
    for path in sorted(Path(__file__).parent.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        notebook: Any = nbformat.read(path, as_version=4)
        where = {"metadata": {"path": str(path.parent)}}
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            for output in cell.get("outputs", ()):
                if "data" in output:
                    output["data"] = _kept(output["data"])
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, path)


def _kept(data: dict[str, Any]) -> dict[str, Any]:
    kept = {kind: content for kind, content in data.items() if kind in KEPT}
    if "text/html" in kept:
        kept["text/html"] = _ACTIVE.sub("", kept["text/html"])
        if len(kept["text/html"]) > _LARGEST:
            kept["text/html"] = _FOLDED.sub("", kept["text/html"])
    return kept


if __name__ == "__main__":
    main()
