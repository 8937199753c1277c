"""Same model, same output, byte for byte: across processes, hash seeds and threads."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import shapesolve

from ..building import share

MODELS = Path(__file__).parents[1] / "models"
NAMES = (
    "gpt2_past__ts",
    "unet_interp__dynamo",
    "loop_scan_outputs",
    "yolo_nms_postprocess",
    "broken/wheel_light_vgg19",
)

_PRINT = """
import sys, shapesolve
from shapesolve.expr import symbol
from shapesolve.solve.contract.build import find_contract
from tests.solve.building import random_system
for seed in range(6):
    s = random_system(seed)
    print(find_contract(s.constraints, s.facts, map(symbol, "abc")).to_json())
for name in sys.argv[1:]:
    a = shapesolve.analyze(name)
    print(a.to_json(), a.contract.to_json(), a.equalities, a.ambiguities, a.constraints.to_smtlib())
    print("".join(str(c) for c in a.constraints), dict(a.bindings), a.prove("batch == 3"))
"""


def paths() -> list[str]:
    return [str(MODELS / name / "model.onnx") for name in NAMES]


def test_every_process_says_the_same():
    seen = set()
    for seed in ("0", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _PRINT, *share(paths(), 2)]
        seen.add(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
    assert len(seen) == 1
    assert len(seen.pop()) > 1000


@pytest.mark.parametrize("path", paths(), ids=NAMES)
def test_every_thread_says_the_same(path):
    def told(_: int) -> tuple[str, str, str]:
        a = shapesolve.analyze(path)
        return a.to_json(), str(a.contract.to_json()), repr(a.prove("batch <= 1000"))

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(told, range(2)))) == 1
    assert told(0) == told(1)


def test_what_was_analyzed_before_does_not_matter():
    first = shapesolve.analyze(paths()[0])
    text = first.to_json(), repr(first.prove("total_seq >= past_seq"))
    assert len(shapesolve.analyze(paths()[-1]).contract) == 3
    again = shapesolve.analyze(paths()[0])
    assert (again.to_json(), repr(again.prove("total_seq >= past_seq"))) == text
