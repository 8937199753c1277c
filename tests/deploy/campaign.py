"""What deployment promises, over a whole corpus: ``python -m tests.deploy.campaign guards|profiles|openvino CORPUS``.

Takes minutes, so it is no test: the tests beside it hold the same on the bundled models. Failures are listed one by one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import shapesolve as ss
from benchmarks.apart import apart
from benchmarks.corpus import model_files
from benchmarks.latency import with_weights
from shapesolve.deploy.guards.guard import program_of

from .guard_runs import answers_of, compiler, drawn_shapes
from .profile_runs import run_at, within
from .test_inputs import session

_SECONDS = 600
_BETWEEN = 20
#: guards that are compiled at once
_TOGETHER = 16


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# ---------------------------------------------------------------------- profiles


def _profiles(file: Path) -> Iterator[tuple[ss.Analysis, Any]]:
    """Around the sizes of the first measured run, up to those of the last and twice the first, where that is accepted."""
    a = ss.analyze(file)
    runs = json.loads((file.parent / "truth.json").read_text())["runs"]
    first, last = (a.bind_inputs(runs[k]["inputs"]) for k in (0, -1))
    opt = {n: v for n, v in first.items() if n in a.symbols and n not in a.bindings}
    high = {n: max(v, last.get(n, v), 2 * v) for n, v in opt.items()}
    for one in ss.profile(a, opt, max=high, split=True):
        yield a, one


def _ranges_run(file: Path) -> str:
    model, runs, found = with_weights(file), 0, 0
    try:
        run = session(model)
        for a, one in _profiles(file):
            found += 1
            for sizes in within(a, one, Random(0), _BETWEEN):
                try:
                    run_at(a, run, sizes, {i.name for i in run.get_inputs()})
                except Exception as error:
                    return f"fails at {dict(sizes)}: {' '.join(str(error).split())[:300]}"
                runs += 1
    except ss.NoProfile as error:
        return f"refused: {error}"
    return f"done: {found} profiles, {runs} sizes"


def _openvino_compiles(file: Path) -> str:
    import openvino as ov

    try:
        (a, one), *_ = _profiles(file)
        text = ss.profile_text(a, [one], "openvino")
    except (ss.NoProfile, ValueError) as error:
        return f"refused: {error}"
    core = ov.Core()
    model = core.read_model(with_weights(file).SerializeToString())
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102  (what a user runs)
    try:
        model.reshape(space["shapes"])
        core.compile_model(model, "CPU")
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"fails: {' '.join(lines[-2:])[:300]}"
    return "done"


def each(work: Callable[[Path], str], files: list[Path]) -> None:
    """What is told of one model after the other, then counted."""
    counts = Counter[str]()
    for file, told in apart(work, files, _SECONDS):
        counts[told.partition(":")[0].partition(" at ")[0]] += 1
        _say(f"{file.parent.name}: {told}")
    _say(f"{len(files)} models: {dict(counts)}")


# ---------------------------------------------------------------------- guards


def guards(files: list[Path], draws: int) -> None:
    """Every language that this machine knows against `check_inputs`."""
    languages = ["python", *(["cpp"] if compiler() else [])]
    asked_in_all, wrong = 0, 0
    for start in range(0, len(files), _TOGETHER):
        names, programs, asked, accepted = [], [], [], []
        for file in files[start : start + _TOGETHER]:
            a = ss.analyze(file)
            try:
                programs.append(program_of(a))
            except ValueError as error:
                _say(f"{file.parent.name}: no guard: {error}")
                continue
            shapes = drawn_shapes(a, Random(1), draws)
            names.append(file.parent.name)
            asked.append(shapes)
            accepted.append([not a.check_inputs(one) for one in shapes])
        for language in languages:
            with tempfile.TemporaryDirectory() as folder:
                told = answers_of(language, programs, asked, Path(folder))
            for name, shapes, said, true in zip(names, asked, told, accepted, strict=True):
                bad = [k for k, broken in enumerate(said) if (not broken) != true[k]]
                wrong += len(bad)
                if bad:
                    _say(f"{name}: {language}: {len(bad)} wrong, first {shapes[bad[0]]}: {said[bad[0]]}")
        asked_in_all += sum(map(len, asked))
        _say(f"{names}: {[sum(all_) for all_ in accepted]} of {draws} accepted")
    _say(f"{asked_in_all} draws of shapes in each of {', '.join(languages)}: {wrong} answers differ")


def main() -> None:
    """One of the promises."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.campaign", description=__doc__)
    parser.add_argument("what", choices=("guards", "profiles", "openvino"))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="", help="models whose name holds this")
    parser.add_argument("--draws", type=int, default=10_000, help="shapes that a guard is asked about")
    args = parser.parse_args()
    files = model_files(args.corpus, args.only)
    if args.what == "guards":
        guards(files, args.draws)
    else:
        each(_ranges_run if args.what == "profiles" else _openvino_compiles, files)


if __name__ == "__main__":
    main()
