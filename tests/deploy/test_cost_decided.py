"""Figures that the given sizes decide, beside sizes that only data decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app


def test_a_size_that_data_decides_may_be_given_and_what_does_not_depend_on_it_is_told(tmp_path: Path) -> None:
    """Of eight elements, at most eight are not 0: that the peak may hold them matters for small sizes only."""
    model, path = tmp_path / "found.onnx", str(tmp_path / "found.onnx")
    onnx.save(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["": 17]> g (float[N, 100] x, float[8] z) => (float[N, 100] y, int64[1, num] i)
            { r = Relu(x) y = Neg(r) i = NonZero(z) }"""
        ),
        model,
    )

    def told(*args: str, code: int = 0) -> tuple[str, dict[str, Any]]:
        done = CliRunner().invoke(app, ["cost", path, *args])
        assert done.exit_code == code, done.output
        if code:
            return done.stderr, {}
        return done.output, json.loads(CliRunner().invoke(app, ["cost", path, *args, "--json"]).output)

    c = ss.cost(path)
    output, data = told("--at", "N=10")
    assert c.decided({"N": 10}) == {n: getattr(c.at({"N": 10, "num": 3}), n) for n in c.decided({"N": 10})}
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines()}
    assert rows["peak"][:2] == ["11.8", "KiB"]
    assert rows["activations"][0] == "8*num"
    assert "other numbers need more sizes: num" in output
    assert data["at"]["peak"] == c.at({"N": 10, "num": 8}).peak == c.at({"N": 10, "num": 0}).peak
    assert "activation_bytes" not in data["at"]
    assert "peak" not in told("--at", "num=2")[1]["at"]
    assert told("--at", "N=10,num=2")[1]["at"]["activation_bytes"] == 8000 + 16
    assert (
        told("--at", "num=5", "--max-memory", "12kB", "--of", "N")[1]["fit"]["size"]
        == c.fit(12000, "N", {"num": 5}).size
    )
    assert "provide them: num" in told("--max-memory", "12kB", "--of", "N", code=2)[0]
    assert "unknown dim 'nun'" in told("--at", "nun=5", "--max-memory", "12kB", "--of", "N", code=2)[0]
