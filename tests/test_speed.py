"""Analyses do not become slower unnoticed: calls are counted, which no load of the machine changes."""

from __future__ import annotations

import pytest

from benchmarks.families import FAMILIES
from benchmarks.guard import count_calls, regressions, workloads
from benchmarks.package import kind

pytestmark = pytest.mark.skipif(
    kind() == "compiled", reason="calls within compiled modules cannot be counted"
)

_WORKLOADS = dict(workloads())


@pytest.mark.parametrize("name", _WORKLOADS)
def test_no_workload_calls_much_more_than_it_did(name: str) -> None:
    assert regressions({name: count_calls(_WORKLOADS[name])}) == []


@pytest.mark.parametrize(
    ("name", "size"), [("llama", 16), ("unet", 16), ("odd-convolutions", 100), ("nested-ifs", 20)]
)
def test_twice_the_model_is_twice_the_work(name: str, size: int) -> None:
    family = next(f for f in FAMILIES if f.name == name)
    once, twice = count_calls([family.make(size)]), count_calls([family.make(2 * size)])
    assert twice < 2.2 * once
