"""Parallel analysis of many models for `scan`, one row each."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..lines import Printed, line, row
from ..operators import default_registry
from ..operators.plugins import load_plugin, named_plugins

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ProcessPoolExecutor
    from multiprocessing.context import BaseContext

    from ..analysis import BroadcastMode
    from ..causes.finding import Finding

#: no errors; findings that are errors; not a readable model; the analysis itself failed
Status = Literal["ok", "conflict", "unusable", "failed"]
_STYLES = {"ok": "good", "conflict": "error", "unusable": "warning", "failed": "error"}


@dataclass(frozen=True, slots=True)
class ScanRow:
    """Result of scanning one model."""

    path: str
    status: Status
    nodes: int = 0
    seconds: float = 0.0
    tensors: int = 0
    known: int = 0
    contract: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    message: str = ""
    unjudged: tuple[str, ...] = ()

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(f.severity == severity for f in self.findings)


def find_models(paths: Iterable[str | Path]) -> list[Path]:
    """Return the given files and all ``*.onnx`` files in the given folders, without duplicates."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            found[file] = None
    return list(found)


def scan_one(
    path: str,
    broadcast: BroadcastMode = "named",
    assume: Sequence[str] = (),
    bind: Mapping[str, int] | None = None,
) -> ScanRow:
    """Analyze one file; errors become part of the row."""
    from ..analysis import analyze
    from ..model import ModelError

    start = time.perf_counter()

    def seconds() -> float:
        return round(time.perf_counter() - start, 3)

    try:
        a = analyze(path, broadcast=broadcast, assume=assume, bind=bind)
        findings = tuple(a.findings)
        contract = () if a.conflicts else tuple(t.text for t in a.contract)
        unjudged = () if a.conflicts else a.contract.unjudged
        status: Status = "ok" if a.ok else "conflict"
        known = sum(1 for name in a.dtypes if name in a.shapes)
        return ScanRow(
            path, status, len(a.model.graph.nodes), seconds(), len(a.dtypes), known, contract, findings,
            findings[0].title if status == "conflict" else "", unjudged,
        )  # fmt: skip
    except ModelError as e:
        return ScanRow(path, "unusable", seconds=seconds(), message=str(e))
    except Exception as e:
        text = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
        return ScanRow(path, "failed", seconds=seconds(), message=text)


def scan(
    paths: Iterable[str | Path],
    executor: Executor | None = None,
    *,
    jobs: int | None = None,
    broadcast: BroadcastMode = "named",
    progress: Callable[[int, int, ScanRow], None] | None = None,
    assume: Mapping[str, Sequence[str]] | None = None,
    bind: Mapping[str, int] | None = None,
) -> list[ScanRow]:
    """Analyze many models in parallel, and return rows in the order of the files.

    Args:
        paths: Files, and folders to search for ``*.onnx``.
        executor: Any `concurrent.futures.Executor` (for a cluster, Dask's ``Client.get_executor()``). Without one,
            `jobs` processes (by default one per processor) are started and ended.
        jobs: Number of processes to start.
        broadcast: Treatment of named dims in broadcasts, as in `analyze`.
        progress: Callback with (done, total, row), called as models finish, in any order.
        assume: Known conditions on a model's sizes, by path.
        bind: Sizes of symbols for every model, as in `analyze`.
    """
    files = [str(p) for p in find_models(paths)]
    rows: dict[str, ScanRow] = {}
    work = {f: (f, broadcast, tuple((assume or {}).get(f, ())), dict(bind or {})) for f in files}

    def take(row: ScanRow) -> None:
        rows[row.path] = row
        if progress is not None:
            progress(len(rows), len(files), row)

    if executor is not None:
        for row in _run(executor, work):
            take(row)
    else:
        workers = max(1, min(jobs or os.cpu_count() or 1, len(files)))
        for row in _own_processes(work, workers):
            take(row)
    return [rows[f] for f in files]


#: pending calls of `scan_one`, by file
_Work = Mapping[str, tuple[str, "BroadcastMode", tuple[str, ...], dict[str, int]]]


def _run(executor: Executor, work: _Work) -> Iterator[ScanRow]:
    from concurrent.futures import as_completed

    # Otherwise, a large file might run alone at the end.
    largest_first = sorted(work, key=_size, reverse=True)
    futures: dict[Future[ScanRow], str] = {executor.submit(scan_one, *work[f]): f for f in largest_first}
    for future in as_completed(futures):
        yield future.result()


def _own_processes(work: _Work, workers: int) -> Iterator[ScanRow]:
    """Scan in worker processes created here. If one dies, retry each unfinished file in its own process."""
    from concurrent.futures.process import BrokenProcessPool

    left = dict.fromkeys(work)
    try:
        with _pool(workers) as pool:
            for row in _run(pool, work):
                del left[row.path]
                yield row
    except BrokenProcessPool:
        for file in list(left):
            try:
                with _pool(1) as pool:
                    yield pool.submit(scan_one, *work[file]).result()
            except BrokenProcessPool:
                yield ScanRow(file, "failed", message="the worker process died")


#: modules that every analysis uses
_PRELOADED = (
    "shapesolve.analysis",
    "shapesolve.findings.diagnose",
    "shapesolve.solve.ambiguity",
    "shapesolve.solve.bindings",
    "shapesolve.solve.contract.build",
)


def _pool(workers: int) -> ProcessPoolExecutor:
    """Return a process pool; if possible, workers are forked from a process with all imports done."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    context: BaseContext
    if sys.platform != "linux":
        context = get_context("spawn")
    elif threading.active_count() == 1:
        for name in _PRELOADED:  # before the fork, so that every worker has them
            import_module(name)
        default_registry()
        context = get_context("fork")
    else:  # the fork server has no other threads, whose locks a forked child would keep
        context = get_context("forkserver")
        context.set_forkserver_preload(["__main__", __name__, *_PRELOADED])
    # Objects created before the first model are not garbage; exclude them from collections.
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(named_plugins(),)
    )


def _start_worker(plugins: Sequence[tuple[str, str]]) -> None:
    for name, folder in plugins:
        load_plugin(name, Path(folder))
    gc.freeze()


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0


# ---------------------------------------------------------------------- text


def scan_lines(rows: Sequence[ScanRow]) -> Iterator[Printed]:
    """Return the table of scanned models, and totals."""
    heads = ("model", "", f"{'nodes':>6}", f"{'s':>6}", f"{'shapes':>7}", "findings")
    yield row(*(("dim", h) for h in heads))
    for r in rows:
        counts = [f"{n} {s}{'s' if n > 1 else ''}" for s in ("error", "warning") if (n := r.count(s))]
        note = (
            ", ".join(counts)
            if not r.message
            else r.message
            if not counts
            else f"{', '.join(counts)}: {r.message}"
        )
        share = f"{100 * r.known // r.tensors}%" if r.tensors else ""
        numbers = f"{r.nodes:>6,}", f"{r.seconds:>6.2f}", f"{share:>7}"
        yield row(("name", r.path), (_STYLES[r.status], r.status), *(("dim", n) for n in numbers), note)
    yield ()
    totals = {s: sum(r.status == s for r in rows) for s in _STYLES}
    yield line(("bold", f"{len(rows)} model{'s' if len(rows) != 1 else ''}: "), _totals_text(totals))


def _totals_text(totals: dict[str, int]) -> str:
    return ", ".join(f"{n} {status}" for status, n in totals.items() if n) or "no models found"
