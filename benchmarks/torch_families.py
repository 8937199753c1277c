"""Families of transformers, torchvision and timm: ``python -m benchmarks.torch_families [NAME ...]``.

Small configurations with random weights; nothing is downloaded. Each family has a correct declaration and a mistake that
people make with it. Which sizes run, and on which line the others fail, is found by running the module. One line per
declaration, then the figures; the time is that of `check` against `torch.onnx.export` alone. A family whose package is not
installed is named as left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.modules.__main__ import astray
from benchmarks.modules.built import Built, Sizes
from shapesolve.torch import Report, check
from shapesolve.torch.exporting import quiet
from shapesolve.torch.places import is_foreign

Ranges = tuple[int, int, int]


@dataclass(frozen=True)
class Case(Built):
    """A model of a family with one declaration. Inputs are keyword arguments; lines are those of its package."""

    package: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return self.label

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(zip(self.inputs, self.args()))

    def outputs(self, sizes: Sizes) -> Any:
        with torch.no_grad():
            return self.module()(**dict(zip(self.inputs, self.args(sizes))))

    def is_own(self, file: str) -> bool:
        return file != __file__ and "benchmarks" not in file and not is_foreign(file)

    @property
    def lines(self) -> set[int]:
        return {f.line for f in self.failures}


CASES: list[Case] = []


def family(package: str, make: Callable[[Any], Any], name: str, **declarations: Any) -> None:
    """Adds a family: its model, made of its package, and two declarations, ``(inputs, ranges)`` each."""
    for kind in ("correct", "mistake"):
        inputs, ranges = declarations[kind]

        def made(package: str = package, make: Callable[[Any], Any] = make) -> Any:
            return make(import_module(package)).eval()

        CASES.append(Case(made, inputs, ranges, None, package, f"{name} {kind}"))


def sized(**more: Any) -> dict[str, Any]:
    """Sizes of a small text model."""
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return {**sizes, "intermediate_size": 37, **more}


def decoder(kind: str, **more: Any) -> Callable[[Any], Any]:
    """A decoder without cache."""
    config = sized(num_key_value_heads=2, max_position_embeddings=64, use_cache=False, **more)
    return lambda hf: getattr(hf, f"{kind}Model")(getattr(hf, f"{kind}Config")(**config))


BATCH: Ranges = (1, 16, 2)
SEQ: Ranges = (1, 64, 10)
TEXT = {"input_ids": "int:N T", "attention_mask": "mask:N T"}
MASK_ALONE = ({"input_ids": "int:N T", "attention_mask": "mask:N M"}, {"N": BATCH, "T": SEQ, "M": SEQ})
TOO_LONG = (TEXT, {"N": BATCH, "T": (1, 512, 10)})
FITS = (TEXT, {"N": BATCH, "T": SEQ})


def pixels(name: str, side: int) -> dict[str, Any]:
    """A batch of images, and a declaration of their height too."""
    return {
        "correct": ({name: f"N 3 {side} {side}"}, {"N": BATCH}),
        "mistake": ({name: f"N 3 H {side}"}, {"N": BATCH, "H": (16, 128, side)}),
    }


family(
    "transformers",
    lambda hf: hf.BertModel(hf.BertConfig(**sized(max_position_embeddings=64))),
    "BERT",
    correct=FITS,
    mistake=TOO_LONG,
)
family(
    "transformers",
    lambda hf: hf.DistilBertModel(
        hf.DistilBertConfig(
            vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=37, max_position_embeddings=64
        )
    ),
    "DistilBERT",
    correct=FITS,
    mistake=TOO_LONG,
)
family(
    "transformers",
    lambda hf: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    ),
    "GPT-2",
    correct=FITS,
    mistake=TOO_LONG,
)
family("transformers", decoder("Llama"), "Llama", correct=FITS, mistake=MASK_ALONE)
family("transformers", decoder("Mistral", sliding_window=16), "Mistral", correct=FITS, mistake=MASK_ALONE)
family(
    "transformers",
    lambda hf: hf.T5Model(
        hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, use_cache=False)
    ),
    "T5",
    correct=({**TEXT, "decoder_input_ids": "int:N D"}, {"N": BATCH, "T": SEQ, "D": (1, 64, 7)}),
    mistake=({**TEXT, "decoder_input_ids": "int:B D"}, {"N": BATCH, "T": SEQ, "D": (1, 64, 7), "B": BATCH}),
)
family(
    "transformers",
    lambda hf: hf.ViTModel(hf.ViTConfig(**sized(image_size=32, patch_size=8))),
    "ViT",
    **pixels("pixel_values", 32),
)
family(
    "transformers",
    lambda hf: hf.SwinModel(
        hf.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
        )
    ),
    "Swin",
    correct=({"pixel_values": "N 3 32 32"}, {"N": BATCH}),
    mistake=({"pixel_values": "N C 32 32"}, {"N": BATCH, "C": (1, 4, 3)}),
)
family(
    "transformers",
    lambda hf: hf.WhisperModel(
        hf.WhisperConfig(
            vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=16,
            max_source_positions=30, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=1, use_cache=False,
        )
    ),
    "Whisper",
    correct=({"input_features": "N 16 60", "decoder_input_ids": "int:N D"}, {"N": BATCH, "D": (1, 64, 7)}),
    mistake=(
        {"input_features": "N 16 F", "decoder_input_ids": "int:N D"},
        {"N": BATCH, "D": (1, 64, 7), "F": (20, 120, 60)},
    ),
)  # fmt: skip
family(
    "transformers",
    lambda hf: hf.CLIPModel(
        hf.CLIPConfig(
            text_config=sized(max_position_embeddings=20, eos_token_id=2),
            vision_config=sized(image_size=32, patch_size=8),
            projection_dim=16,
        )
    ),
    "CLIP",
    correct=(
        {"input_ids": "int:N T", "pixel_values": "M 3 32 32", "attention_mask": "mask:N T"},
        {"N": BATCH, "M": (1, 16, 3), "T": (1, 20, 9)},
    ),
    mistake=(
        {"input_ids": "int:N T", "pixel_values": "M 3 32 32", "attention_mask": "mask:N T"},
        {"N": BATCH, "M": (1, 16, 3), "T": (1, 77, 9)},
    ),
)
family(
    "torchvision",
    lambda tv: tv.models.resnet18(num_classes=7),
    "ResNet",
    correct=({"x": "N 3 H W"}, {"N": (1, 4, 2), "H": (32, 96, 64), "W": (32, 96, 64)}),
    mistake=({"x": "N C 64 64"}, {"N": (1, 4, 2), "C": (1, 4, 3)}),
)
family(
    "torchvision",
    lambda tv: tv.models.efficientnet_b0(num_classes=7),
    "EfficientNet",
    correct=({"x": "N 3 H 64"}, {"N": (1, 4, 2), "H": (32, 96, 64)}),
    mistake=({"x": "N C 64 64"}, {"N": (1, 4, 2), "C": (1, 4, 3)}),
)
family(
    "timm",
    lambda timm: timm.create_model("convnext_atto", num_classes=7),
    "ConvNeXt",
    correct=({"x": "N 3 H W"}, {"N": (1, 4, 2), "H": (32, 96, 64), "W": (32, 96, 64)}),
    mistake=({"x": "N 3 H W"}, {"N": (1, 4, 2), "H": (16, 96, 64), "W": (32, 96, 64)}),
)
family(
    "timm",
    lambda timm: timm.create_model("vit_tiny_patch16_224", num_classes=7, img_size=64, depth=2),
    "timm ViT",
    **pixels("x", 64),
)


@dataclass(frozen=True)
class Judged:
    """The verdict on a report, and its time against that of the export alone, in seconds."""

    case: Case
    report: Report
    verdict: str
    checked: float
    exported: float

    def __str__(self) -> str:
        findings = "; ".join(f"{f.severity} {f.code} {f.place} {f.title[:120]}" for f in self.report.findings)
        times = f"{self.checked:5.1f} s of {self.exported:5.1f} s"
        return f"{self.verdict:14} {self.case.name:22} {times} {sorted(self.case.lines)} {findings}"


def verdict(case: Case, report: Report, refused: bool) -> str:
    """`silent` is right of a correct declaration, `right line` of a mistake; `not written` if the exporter refuses it."""
    if not case.failures:
        if not report.findings:
            return "silent"
        if not report.errors:
            return "warned"
        if refused and all(f.verdict == "export" and f.place for f in report.errors):
            return "not written"
        graph = all(f.verdict == "graph" for f in report.errors)
        return "graph astray" if graph and astray(case, report, *case.tried()) else "false alarm"
    own = [f for f in report.errors if f.code not in ("SS608", "SS611")] or report.errors
    lines = {f.place.line if f.place else 0 for f in own}
    return "missed" if not lines else "right line" if lines <= case.lines else "wrong line"


def exported(case: Case) -> tuple[float, bool]:
    """Seconds of the export alone, and if it is refused."""
    module, started, refused = case.module(), time.perf_counter(), False
    try:
        with quiet():
            torch.onnx.export(
                module, (), kwargs=case.kwargs, dynamic_shapes=case.dynamic_shapes, verbose=False
            )
    except Exception:  # whatever the exporter raises
        refused = True
    return time.perf_counter() - started, refused


def judged(case: Case) -> Judged:
    """Checks a declaration, and holds the report against what eager PyTorch does."""
    alone, refused = exported(case)
    started = time.perf_counter()
    report = check(case.module(), (), case.kwargs, case.dynamic_shapes)
    seconds = time.perf_counter() - started
    return Judged(case, report, verdict(case, report, refused), seconds, alone)


def run(names: list[str]) -> Iterator[Judged]:
    for case in CASES:
        if (not names or case.name in names or case.name.rpartition(" ")[0] in names) and find_spec(
            case.package
        ):
            yield judged(case)


def main(names: list[str]) -> None:
    for package in dict.fromkeys(c.package for c in CASES if not find_spec(c.package)):
        print(f"left out: {package} is not installed")
    done = []
    for one in run(names):
        done.append(one)
        print(one, flush=True)
        if names:
            print(one.report)
    right = {False: ("silent", "not written"), True: ("right line",)}
    for wrong, what in (
        (False, "correct declarations without a false finding"),
        (True, "mistakes on the right line"),
    ):
        of = [one for one in done if bool(one.case.failures) is wrong]
        print(f"{sum(one.verdict in right[wrong] for one in of)} of {len(of)} {what}")
    slow = [one for one in done if one.checked > 2.5 * one.exported + 1]
    print(f"{len(done) - len(slow)} of {len(done)} within 2.5 times the export and 1 s")


if __name__ == "__main__":
    main(sys.argv[1:])
