"""Many models at once, with every kind of executor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from shapesolve.lines import plain
from shapesolve.report.json import data_of
from shapesolve.report.scan import find_models, scan, scan_lines

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("unet", "broken_residual", "attention"):
        shutil.copy(ROOT / f"examples/{name}.onnx", tmp_path)
    (tmp_path / "junk.onnx").write_text("hello")
    return tmp_path


EXPECTED = [("attention", "ok"), ("broken_residual", "conflict"), ("junk", "unusable"), ("unet", "ok")]


def states(folder: Path, executor: Executor | None, **options: int) -> list[tuple[str, str]]:
    seen: list[int] = []
    rows = scan([folder], executor, progress=lambda done, total, row: seen.append(done), **options)
    assert seen == list(range(1, len(rows) + 1))
    return [(Path(r.path).stem, r.status) for r in rows]


def test_rows_come_in_the_order_of_the_files(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert states(folder, pool) == EXPECTED


def test_processes_of_our_own(folder: Path) -> None:
    assert states(folder, None, jobs=2) == EXPECTED


_COUNT = """
import sys, threading
from shapesolve.report.scan import scan
if __name__ == "__main__":
    if sys.argv[2] == "threads":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print(*(row.status for row in scan([sys.argv[1]], jobs=2)))
"""


@pytest.mark.parametrize("beside", ["nothing", "threads"])
def test_processes_with_and_without_threads_beside_the_scan(folder: Path, beside: str) -> None:
    script = folder / "count.py"
    script.write_text(_COUNT)
    done = subprocess.run(
        [sys.executable, script, folder, beside], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == [status for _, status in EXPECTED], done.stderr


def test_a_process_pool(folder: Path) -> None:
    with ProcessPoolExecutor(1) as pool:
        assert states(folder, pool) == EXPECTED


def test_a_dask_cluster_of_two_workers(folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert states(folder, client.get_executor()) == EXPECTED


def test_text_and_data(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        rows = scan([folder], pool)
    text = plain(scan_lines(rows))
    assert "4 models: 2 ok, 1 conflict, 1 unusable" in text
    assert "is not an ONNX model" in text
    data = data_of(rows)
    assert [m["status"] for m in data] == [s for _, s in EXPECTED]
    assert data[3]["contract"][0] == "height % 8 == 0"


def test_files_are_found_once(folder: Path) -> None:
    assert len(find_models([folder, folder / "unet.onnx"])) == 4
