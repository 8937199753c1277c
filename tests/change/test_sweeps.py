"""Sweeps try rules only where something has changed: the models are those that trying them everywhere would give."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx
import pytest

from shapesolve import analyze
from shapesolve.change.draft import Draft
from shapesolve.change.simplify.sweep import Sweeps
from shapesolve.change.writing import write
from shapesolve.model import read_model
from tests.fuzz.model import drawn_model

from .test_random_graphs import with_fewer_outputs

BUNDLED = sorted(Path(__file__).resolve().parents[1].glob("models/*/model.onnx"))


class Forgetful(dict):  # type: ignore[type-arg]
    """Holds nothing: no node is known to be as it was."""

    def __setitem__(self, key: object, value: object) -> None:
        pass


def swept(model: onnx.ModelProto, keep: tuple[str, ...], *, everywhere: bool) -> bytes:
    read = read_model(model)
    draft = Draft(read)
    sweeps = Sweeps(analyze(read, broadcast="strict"), draft, keep)
    if everywhere:
        sweeps.settled = Forgetful()
    sweeps.run()
    return write(draft).SerializeToString(deterministic=True)


@pytest.mark.parametrize("keep", [(), ("Shape", "Reshape")], ids=["all", "some nodes stay"])
@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.parent.name)
def test_bundled_models_come_out_as_if_rules_were_tried_everywhere(path: Path, keep: tuple[str, ...]) -> None:
    model = onnx.load(path, load_external_data=False)
    assert swept(model, keep, everywhere=False) == swept(model, keep, everywhere=True)


def test_random_graphs_come_out_as_if_rules_were_tried_everywhere() -> None:
    changed = 0
    for seed in range(60):
        model = drawn_model(seed).model
        if not model.graph.output:
            continue
        model = with_fewer_outputs(model, Random(seed))
        fast = swept(model, (), everywhere=False)
        assert fast == swept(model, (), everywhere=True), seed
        changed += fast != model.SerializeToString(deterministic=True)
    assert changed > 30
