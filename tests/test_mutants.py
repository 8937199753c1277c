"""Guards that are broken are seen: `tests/mutants.py` has the table."""

import pytest

from .building import EVERYTHING
from .mutants import MUTANTS, is_caught, place_of


def test_every_mutant_applies() -> None:
    for name, mutant in MUTANTS.items():
        assert mutant.line in place_of(mutant).read_text("utf-8"), name
        assert mutant.line != mutant.broken


@pytest.mark.skipif(not EVERYTHING, reason="takes minutes: at night")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_guard_is_seen(name: str) -> None:
    assert is_caught(name)
