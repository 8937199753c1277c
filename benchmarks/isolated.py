"""Measurements that need a process of their own: memory, start-up, files of gigabytes.

`python -m benchmarks.isolated growth ENGINE FILE` prints, in kB, how far the peak of resident memory rises while one
engine works on one model that is already in memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import onnx
from onnx import helper

from .package import ROOT, installed

#: compiled modules are kept, as they are where a package is installed, whatever the environment says
_INSTALLED = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "shapesolve-compiled"),
}


def peak_kb() -> int:
    """The highest resident memory so far of this process."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def reset_peak() -> None:
    """Let the peak start from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def run(*arguments: str, env: dict[str, str] | None = None) -> str:
    """The output of a fresh interpreter, which finds the same shapesolve; `-P` keeps others than `benchmarks` from ROOT."""
    first = installed(sys.path) or ROOT
    path = os.pathsep.join(filter(None, [str(first), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **(env or {})},
    )
    return done.stdout


# ---------------------------------------------------------------------- memory


def memory_growth(engine: str, file: Path) -> int:
    """Growth of peak resident memory in kB, in a process of its own."""
    return int(run("-m", "benchmarks.isolated", "growth", engine, str(file)))


def _growth(name: str, file: Path) -> int:
    from .corpus import stand_in_weights
    from .engines import ENGINES

    engine = next(e for e in ENGINES if e.name == name)
    engine.infer(
        helper.make_model(helper.make_graph([], "empty", [], []))
    )  # its modules are not the model's memory
    warm = ROOT / "examples" / "attention.onnx"
    if warm.exists():
        engine.infer(onnx.load_model(warm))
    model = onnx.load_model(
        file, load_external_data=False
    )  # nothing else is read: memory freed before would be used again
    del model.graph.value_info[:]
    with stand_in_weights(model):
        reset_peak()
        before = peak_kb()
        result = engine.infer(model)
        after = peak_kb()
    del result
    return after - before


def _adversarial() -> int:
    """Peak of resident memory in MB after the largest model of every family."""
    import shapesolve

    from .families import FAMILIES

    for family in FAMILIES:
        shapesolve.analyze(family.make(family.sizes[-1]))
    return peak_kb() // 1024


# ---------------------------------------------------------------------- start-up


def import_seconds(statement: str, rounds: int = 7) -> float:
    """Median CPU seconds of a fresh interpreter that runs `statement`."""
    code = f"import time; {statement}; print(time.process_time())"
    return statistics.median(float(run("-P", "-c", code, env=_INSTALLED)) for _ in range(rounds))


class Usage(NamedTuple):
    """CPU seconds and MB of peak memory of a fresh interpreter from start to end; did it end well?"""

    seconds: float
    mb: float
    ended_well: bool


#: a small process that starts another one: what a process holds before it becomes another counts as the other's peak
_LAUNCH = """
import json, os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
_, status, used = os.wait4(pid, 0)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, status == 0]))
"""


def usage(*arguments: str) -> Usage:
    """What a fresh interpreter with these arguments takes."""
    return Usage(*json.loads(run("-S", "-E", "-c", _LAUNCH, sys.executable, *arguments, env=_INSTALLED)))


def command_seconds(file: Path, rounds: int = 5) -> tuple[float, float]:
    """Median wall and CPU seconds of ``shapesolve check FILE``, from start to end."""
    wall, cpu = [], []
    for _ in range(rounds):
        before, start = os.times(), time.perf_counter()
        run("-P", "-m", "shapesolve", "check", str(file), env=_INSTALLED)
        wall.append(time.perf_counter() - start)
        after = os.times()
        cpu.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return statistics.median(wall), statistics.median(cpu)


if __name__ == "__main__":
    if sys.argv[1] == "growth":
        print(_growth(sys.argv[2], Path(sys.argv[3])))
    else:
        print(_adversarial())
