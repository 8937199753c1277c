"""Advice is tried: what a `help:` line says to run settles what it says it settles; the same is not told twice."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

import shapesolve as ss

from ..building import bundled_files, corpus_files
from ..nodes import info, model
from .broken import CASES

N = helper.make_node

LARGEST = 3_000_000
#: characters of a title: a few conditions, and names
MOST_READ = 900


def files() -> list[Path]:
    found = bundled_files(broken=True) + corpus_files()
    return sorted(p for p in found if p.stat().st_size < LARGEST)


def advised(finding: Any) -> Iterator[str]:
    """The conditions that a finding says to assume, as a shell reads the line."""
    words = shlex.split(finding.help) if finding.help.startswith("--") else []
    yield from (said for option, said in itertools.pairwise(words) if option == "--assume")


def holds_its_promise(source: Any, given: list[str]) -> int:
    tried = 0
    for finding in ss.analyze(source, assume=given).diagnostics:
        assert len(finding.title) < MOST_READ, finding
        for said in advised(finding):
            tried += 1
            after = ss.analyze(source, assume=[*given, said])
            assert after.ok, (finding, said)
            assert not after.contract.impossible, (finding, said)
            left = [
                f
                for f in after.diagnostics
                if (f.code, f.title, f.node) == (finding.code, finding.title, finding.node)
            ]
            assert not left, (finding, said)
    return tried


def test_what_findings_of_small_models_advise_does_what_it_says() -> None:
    assert sum(holds_its_promise(m, list(assume)) for m, assume in CASES.values()) >= 1


@pytest.mark.parametrize("path", files(), ids=lambda p: p.parent.name)
def test_what_findings_of_models_advise_does_what_it_says(path: Path) -> None:
    holds_its_promise(path, [])


@pytest.mark.parametrize("names", [("batch-size", "n"), ("a$b", "`x`"), ('say "a"', "b!c")])
def test_advice_can_be_pasted_into_a_shell(names: tuple[str, str]) -> None:
    m = model([N("Add", ["X", "Y"], ["Z"])], [info("X", [names[0]]), info("Y", [names[1]])], ["Z"])
    assert holds_its_promise(m, []) == 1


def test_a_title_and_its_notes_leave_out_sizes_too_long_to_read() -> None:
    long, n = "frames_" * 40, "n"
    m = model([N("Add", ["X", "Y"], ["Z"])], [info("X", [long]), info("Y", [n])], ["Z"])
    [finding] = [f for f in ss.analyze(m).diagnostics if f.code == "SS301"]
    assert finding.title == "cannot determine whether a long expression equals `n` in a broadcast"
    assert finding.notes == ("it runs if one of these holds: n == 1, 2 more conditions",)


@pytest.mark.parametrize("path", [p for p in files() if "broken" in str(p)][:6], ids=lambda p: p.parent.name)
def test_a_dim_declared_as_advised_is_not_told_of_again(path: Path) -> None:
    a = ss.analyze(path)
    fixed = {f.title.split("`")[1] for f in a.diagnostics if f.code == "SS401" and "`" in f.title}
    proto = onnx.load(path, load_external_data=False)
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in fixed:
                dim.dim_value = a.bindings[dim.dim_param]
    after = ss.analyze(proto)
    assert not [f for f in after.diagnostics if f.code == "SS401" and f.title.split("`")[1] in fixed]
    assert after.ok == a.ok


def test_the_same_at_repeated_layers_is_one_finding() -> None:
    nodes = [N("Mystery", [f"t{i}"], [f"t{i + 1}"], name=f"layer{i}", domain="acme") for i in range(5)]
    graph = helper.make_graph(nodes, "g", [info("t0", ["a"])], [onnx.ValueInfoProto(name="t5")])
    m = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)], ir_version=9
    )
    unknown = [f for f in ss.analyze(m).diagnostics if f.code == "SS101"]
    assert len(unknown) == 1
    assert set(unknown[0].nodes) == {f"layer{i}" for i in range(5)}
    assert any(note.startswith("and at 4 more nodes: layer1") for note in unknown[0].notes)
