"""One thing is changed in a model that runs: findings name it, and help gives what stood there before."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.culprit import mutants, verdict

from ..building import EVERYTHING, ROOT


@pytest.mark.parametrize(
    ("name", "most_missed"), [("unet_pad__ts", 3), ("lstm_tagger__ts", 0), ("resnet50__ts", 0)]
)
def test_what_was_changed_is_named_and_help_undoes_it(name: str, most_missed: int) -> None:
    file = ROOT / "tests/models" / name / "model.onnx"
    found = [
        verdict(kind, name, mutant) for kind, mutant in islice(mutants(file), 0, None, 1 if EVERYTHING else 7)
    ]
    assert found
    assert sum(not v.first for v in found) <= most_missed
    assert sum(not v.right for v in found) <= most_missed
    assert sum(v.errors > 1 for v in found) == 0
