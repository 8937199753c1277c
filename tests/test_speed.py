"""Analyses do not become slower unnoticed: calls are counted, which no load of the machine changes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

import pytest

from benchmarks.families import FAMILIES
from benchmarks.guard import count_calls, regressions, workloads
from benchmarks.package import kind

from .building import share

pytestmark = pytest.mark.skipif(
    kind() == "compiled", reason="calls within compiled modules cannot be counted"
)

_WORKLOADS = dict(workloads())


@pytest.fixture(scope="module")
def apart() -> Iterator[ProcessPoolExecutor]:
    """A process that runs nothing else: what other tests left in bounded caches, or drove out, changes the counts.

    It imports the package as the tests do, before the benchmarks, which would take an installed one.
    """
    here, first = get_context("spawn"), ("shapesolve",)
    with ProcessPoolExecutor(1, here, initializer=import_module, initargs=first) as pool:
        yield pool


def _workload(name: str) -> int:
    assert kind() != "compiled"
    return count_calls(_WORKLOADS[name])


def _family(name: str, size: int) -> int:
    assert kind() != "compiled"
    return count_calls([next(f for f in FAMILIES if f.name == name).make(size)])


@pytest.mark.parametrize("name", share(_WORKLOADS, 2))
def test_no_workload_calls_much_more_than_it_did(apart: ProcessPoolExecutor, name: str) -> None:
    assert regressions({name: apart.submit(_workload, name).result()}) == []


@pytest.mark.parametrize(
    ("name", "size"), share([("llama", 16), ("unet", 16), ("nested-ifs", 20), ("odd-convolutions", 100)], 2)
)
def test_twice_the_model_is_twice_the_work(apart: ProcessPoolExecutor, name: str, size: int) -> None:
    once, twice = (apart.submit(_family, name, n).result() for n in (size, 2 * size))
    assert twice < 2.2 * once
