"""Sizes at which onnxruntime refuses a bundled model are refused by `fix`, by a term that holds up (see `inconsistent`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapesolve import Refused, fix

from .inconsistent import isolated

MODELS = Path(__file__).resolve().parents[1] / "models"


@pytest.mark.parametrize("name", ["gpt2_past__ts"])
def test_sizes_that_do_not_run_are_refused_with_the_term_that_they_break(name: str) -> None:
    found = [*isolated(MODELS / name, 3)]
    assert len(found) == 3
    assert not [(sizes, wrong) for sizes, wrong in found if wrong]


def test_some_of_the_sizes_are_refused_whatever_the_others_are() -> None:
    with pytest.raises(Refused, match="total_seq = 9") as refused:
        fix(MODELS / "gpt2_past__ts/model.onnx", {"seq": 17, "total_seq": 9, "past_seq": 17})
    assert refused.value.term == "total_seq >= past_seq + seq"
