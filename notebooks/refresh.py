"""Runs notebooks, all or those named, and stores their texts and pictures: ``python notebooks/refresh.py [NAME...]``.

Tables and widgets are not stored: they are large, and viewers that run nothing show them badly.
"""

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

KEPT = ("text/plain", "image/png")


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
                    output["data"] = {kind: data for kind, data in output["data"].items() if kind in KEPT}
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
