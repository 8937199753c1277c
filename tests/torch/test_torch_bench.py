"""Modules with one mistake each, found on the marked line; modules without, found to be right."""

from __future__ import annotations

import pytest
from torch_needed import need

need("torch", "onnxscript")

import torch
from torch_bench import Case
from torch_correct import bench as correct
from torch_mistakes import bench as mistakes

from benchmarks.modules.__main__ import pasted
from shapesolve.torch import Report, check


def checked(case: Case) -> Report:
    return check(case.make(), case.args(), dynamic_shapes=case.dynamic_shapes)


def test_the_bench_is_large_enough() -> None:
    assert len(mistakes) >= 25
    assert len(correct) >= 25
    assert len({c.name for c in (*mistakes, *correct)}) == len(mistakes) + len(correct)


@pytest.mark.parametrize("case", mistakes, ids=lambda c: c.name)
def test_a_mistake_is_found_on_its_line(case: Case) -> None:
    report = checked(case)
    found = [
        f for f in report.errors if f.place and (f.place.file, f.place.line) == (case.file, case.marked_line)
    ]
    assert found, str(report)
    assert {f.code for f in found} <= set(case.codes), str(report)
    assert found == list(report.errors), f"an error on another line\n{report}"
    if report.corrected:
        torch.onnx.export(case.make(), case.args(), dynamic_shapes=pasted(report.corrected), verbose=False)


@pytest.mark.parametrize("case", correct, ids=lambda c: c.name)
def test_a_module_without_a_mistake_has_no_error(case: Case) -> None:
    report = checked(case)
    assert report.ok, str(report)
    assert not any(f.severity == "warning" for f in report.findings), str(report)
    assert all(s.state == "free" for s in report.sizes), str(report)
    assert report.corrected == ""
