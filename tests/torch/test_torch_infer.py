"""A declaration found from examples, and what the older exporter's arguments become."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from torch_needed import need

need("torch", "onnxscript", "onnxruntime")

import torch
from torch import nn
from torch.export import AdditionalInputs, Dim
from torch_correct import ViewFromShape
from torch_mistakes import ChunkInThree, LengthsMustAgree

from benchmarks.modules.__main__ import pasted
from shapesolve.torch import check


class Tagger(nn.Module):
    """A table of 32 places, rows in pairs, and weights for eight channels."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.out = nn.Embedding(32, 8), nn.Linear(8, 5)

    def forward(self, x, mask):
        y = self.out(x + self.places(torch.arange(x.shape[1])))
        y = y.view(x.shape[0] // 2, 2, x.shape[1], 5)
        return y.flatten(0, 1) * mask[..., None]


ARGS = (torch.randn(4, 6, 8), torch.ones(4, 6))


def bounds(dim: Dim) -> tuple[str, int]:
    return dim.__name__, dim.max


def test_free_shared_and_limited_sizes_are_found() -> None:
    report = check(Tagger(), ARGS, infer=True)
    assert report.ok
    assert [f.code for f in report.findings] == ["SS613"], str(report)
    assert report.corrected in report.findings[0].help.replace("\n      ", "\n")
    found = pasted(report.corrected)
    assert found["x"].keys() == {0, 1}, "channels are fixed"
    assert found["mask"][1] is found["x"][1]
    assert bounds(found["x"][1]) == ("x_dim1", 32)
    assert "2*" in report.corrected
    assert "inferred" in str(report)
    assert not check(Tagger(), ARGS, dynamic_shapes=found).findings


def test_without_a_declaration_the_report_says_that_sizes_are_fixed() -> None:
    report = check(Tagger(), ARGS)
    assert [(f.code, f.severity) for f in report.findings] == [("SS612", "warning")]
    assert pasted(report.corrected)["x"].keys() == {0, 1}
    assert not check(Tagger(), ARGS, dynamic_shapes={}).findings


def test_sizes_that_differ_between_examples_are_the_dynamic_ones() -> None:
    more = (torch.randn(4, 9, 8), torch.ones(4, 9))
    collected = AdditionalInputs()
    collected.add(more)
    for given in ({"examples": [more]}, {"infer": True, "dynamic_shapes": collected}):
        found = pasted(check(Tagger(), ARGS, **given).corrected)
        assert {axis: dim.__name__ for axis, dim in found["x"].items()} == {1: "x_dim1"}
        assert found["mask"][1] is found["x"][1]


def test_names_that_are_given_stay() -> None:
    x = torch.zeros(2, 5, 8)
    shapes = {"x": {0: Dim.AUTO, 1: Dim("left")}, "y": {0: Dim.AUTO, 1: Dim("right")}}
    found = pasted(check(LengthsMustAgree(), (x, x), dynamic_shapes=shapes, infer=True).corrected)
    assert {dim.__name__ for dim in found["x"].values()} == {"x_dim0", "left"}
    assert found["y"][1] is found["x"][1]


@dataclass
class Cache:
    keys: torch.Tensor


torch.export.register_dataclass(Cache, serialized_type_name="tests.Cache")


class Grows(nn.Module):
    def forward(self, x, cache: Cache, scale=None):
        return torch.cat([cache.keys, x], 1)


def test_inputs_in_containers_and_none_are_declared_as_torch_takes_them() -> None:
    args = (torch.randn(2, 3, 8), Cache(torch.randn(2, 5, 8)))
    found = pasted(check(Grows(), args, {"scale": None}, infer=True).corrected)
    assert found["cache"][0].keys() == {0, 1, 2}
    assert found["scale"] is None
    assert not check(Grows(), args, {"scale": None}, found).findings


def test_the_older_exporters_arguments_say_what_to_pass() -> None:
    x = torch.zeros(2, 6, 8)
    with pytest.raises(TypeError, match="pass dynamic_shapes"):
        check(ViewFromShape(), (x,), dynamic_axes={"x": {0: "batch"}})
    report = check(ViewFromShape(), (x,), dynamic_shapes={"x": {0: "batch", 1: "seq"}})
    assert not report.findings, str(report)
    assert [s.root.name for s in report.sizes] == ["batch", "seq"]


@pytest.mark.parametrize(
    "place",
    [
        "declared._Reader.read",
        "exporting._Trace.look",
        "running._elements",
        "running._filled",
        "running.same",
    ],
)
def test_an_error_of_this_package_is_not_reported_as_the_exporters(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("of our own")

    monkeypatch.setattr(f"shapesolve.torch.{place}", broken)
    x = torch.zeros(2, 12, 8)
    with pytest.raises(KeyError, match="of our own"):
        check(ChunkInThree(), (x,), dynamic_shapes={"x": {0: Dim("batch"), 1: Dim("seq")}})


def test_sizes_left_to_torch_export_that_come_out_equal_are_no_error() -> None:
    x, auto = torch.zeros(2, 5, 8), {0: Dim.AUTO, 1: Dim.AUTO}
    report = check(LengthsMustAgree(), (x, x), dynamic_shapes={"x": auto, "y": auto})
    assert {f.code for f in report.findings} == {"SS606"}, str(report)
