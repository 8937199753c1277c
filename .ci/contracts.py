"""Writes the page of the documentation with the contracts of real models.

    python .ci/contracts.py FOLDER PAGE [NAMES]

The models are ``FOLDER/NAME/model.onnx``. Without NAMES, it uses a representative selection.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from shapesolve import Analysis, Term, analyze
from shapesolve.lower.types import Tensor
from shapesolve.report.limits import MAX_NAMES
from shapesolve.solve.contract.contract import Terms, heading

#: language models with and without a cache, speech, segmentation, detection, classification
SHOWN = (
    "llama_large32_past__ts",
    "gpt2_past__ts",
    "bert_eager__ts",
    "clip__dynamo",
    "t5_decoder_past__ts",
    "whisper_decoder_past__ts",
    "wav2vec2_ctc__ts",
    "resnet50__dynamo",
    "vit_interp__ts",
    "swin__ts",
    "segformer__ts",
    "diffusion_unet__ts",
    "unet_interp__dynamo",
    "fpn_det_topk__ts",
)
_HEAD = """# Contracts of real models

The conditions that a model's input sizes must satisfy for it to run, as found by `shapesolve contract`. Written by
`.ci/contracts.py`; do not edit by hand.
"""


def contracts_page(analyses: Iterator[tuple[str, Analysis]]) -> str:
    """Return the page for these analyses, by name."""
    return "\n".join([_HEAD, *("\n".join(_section(name, a)) for name, a in analyses)])


def _section(name: str, analysis: Analysis) -> Iterator[str]:
    contract = analysis.contract
    yield f"## {name}\n"
    yield f"{len(analysis.model.graph.nodes):,} nodes; {_inputs(analysis)}.\n"
    if analysis.conflicts:
        yield "No input sizes run.\n"
        return
    if not contract:
        yield f"Every input size runs{f' ({contract.limits})' if contract.limits else ''}.\n"
        return
    usual = contract.usual
    if usual.terms:
        yield f"Typical sizes{f' ({heading(usual.scope)})' if usual.scope else ''}:\n"
        yield from _table(usual.terms)
        yield ""
    if usual.terms != contract.terms:
        yield "All sizes:\n"
        yield from _table(contract.terms)
        yield ""
    if contract.limits:
        yield f"{contract.limits[0].upper()}{contract.limits[1:]}.\n"


def _inputs(analysis: Analysis) -> str:
    known = [(n, k) for n, k in analysis.inputs.items() if isinstance(k, Tensor) and k.shape is not None]
    shown = [f"`{n}` {k.shape}" for n, k in known[:MAX_NAMES]]
    more = len(known) - len(shown)
    return ", ".join(shown) + (f" and {more} more inputs" if more else "")


def _table(terms: Terms) -> Iterator[str]:
    yield "| condition | needed by |"
    yield "|---|---|"
    for term in terms:
        yield f"| `{term.text}` | {_nodes(term)} |"


def _nodes(term: Term) -> str:
    shown = ", ".join(f"`{n}`" for n in term.nodes[:MAX_NAMES])
    more = len(term.nodes) - MAX_NAMES
    return shown + (f" and {more} more" if more > 0 else "")


def write_contracts(folder: Path, page: Path, names: Sequence[str] = SHOWN) -> None:
    """Write the page for the models in a folder."""
    page.write_text(contracts_page((n, analyze(folder / n / "model.onnx")) for n in names), encoding="utf-8")


if __name__ == "__main__":
    write_contracts(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or SHOWN)
