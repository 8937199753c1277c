"""What an analysis leaves for the garbage collector: nothing of its own, and nothing of others for good."""

import gc
from pathlib import Path

import pytest

import shapesolve
from shapesolve import collection
from shapesolve.collection import collection_paused

MODELS = sorted((Path(__file__).parent.parent / "examples").glob("*.onnx"))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.stem)
def test_an_analysis_leaves_no_cycles(model: Path) -> None:
    def analyzed() -> None:
        analysis = shapesolve.analyze(model)
        assert analysis.shapes
        assert analysis.constraints is not None
        assert analysis.bindings is not None

    analyzed()  # what is imported and remembered at first use is no part of it
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        analyzed()
        gc.collect()
        left = [type(o) for o in gc.garbage if type(o).__module__.startswith("shapesolve")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == []


class Ring:
    """It holds itself."""

    alive = 0

    def __init__(self) -> None:
        self.ring = self
        Ring.alive += 1

    def __del__(self) -> None:
        Ring.alive -= 1


def test_garbage_of_others_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(collection, "_STEP", 1000)
    monkeypatch.setattr(collection, "_limit", collection.sys.maxsize)
    Ring.alive = 0
    most = 0
    for _ in range(20_000):
        with collection_paused:
            rings = [Ring() for _ in range(50)]
        del rings
        most = max(most, Ring.alive)
        if most > Ring.alive:
            break
    assert Ring.alive < most  # a full collection came by itself


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with collection_paused:
        assert not gc.isenabled()
        with collection_paused:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused:
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collection_paused:
            pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()
