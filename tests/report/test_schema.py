"""The schema of what commands print as JSON: current, and true of every command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jsonschema
import onnx
import pytest
from click.testing import CliRunner
from json_schema import page, schema

import shapesolve as ss
from shapesolve.cli import app

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "UNET": "examples/unet.onnx",
    "ATTENTION": "examples/attention.onnx",
    "WRONG": "examples/broken_matmul.onnx",
    "RESNET": "tests/models/resnet50__ts/model.onnx",
    "BAKED": "tests/models/broken/wheel_light_vgg19/model.onnx",
    "NOTHING": "examples/make_examples.py",
}
#: (command line, the document that it prints); names of models stand for their files
COMMANDS = [
    ("analyze UNET", "Analyze"),
    ("analyze WRONG", "Analyze"),
    ("analyze ATTENTION --format json", "Analyze"),
    ("check UNET WRONG BAKED NOTHING", "Check"),
    ("constraints UNET --role requirement", "Constraints"),
    ("contract UNET", "Contract"),
    ("contract BAKED", "Contract"),
    ("explain ATTENTION present_key", "Explain"),
    ("explain ATTENTION present_key --axis 2 --depth 1", "Explain"),
    ("evaluate UNET --bind height=20", "Evaluate"),
    ("evaluate UNET --bind batch=1 --bind height=16 --bind width=8", "Evaluate"),
    ("prove UNET height>=1", "Prove"),
    ("prove UNET height>=9", "Prove"),
    ("verify UNET --runs 1", "Verify"),
    ("inputs UNET -n 2", "Inputs"),
    ("inputs UNET -n 2 -o OUT", "Inputs"),
    ("inputs UNET --bind height=7", "Refused"),
    ("why UNET height=30", "Why"),
    ("why UNET height=32", "Why"),
    ("why WRONG seq=3", "Refused"),
    ("sizes UNET", "SizesUsual"),
    ("sizes ATTENTION", "SizesUsual"),
    ("sizes UNET --near height=30", "SizesNear"),
    ("sizes RESNET --near height=0", "SizesNear"),
    ("sizes UNET --near height=32,width=32,batch=1", "SizesNear"),
    ("sizes UNET --enumerate 3", "SizesFirst"),
    ("sizes UNET --buckets SEEN --symbol height --k 2", "SizesBuckets"),
    ("sizes UNET --enumerate 3 --bind height=7", "Refused"),
    ("profile ATTENTION --opt seq=1,past_seq=64 --max seq=128", "Profile"),
    ("profile UNET --opt height=64 --max height=130", "Refused"),
    ("simplify ATTENTION -o OUT", "Changed"),
    ("fix UNET -o OUT --bind height=8", "Changed"),
    ("fix UNET -o OUT --bind height=7", "Refused"),
    ("free FIXED -o OUT --dim image[0]=batch --verify", "Freed"),
    ("free FIXED -o OUT --dim image[1]=channels", "Refused"),
    ("generalize FIXED LARGE -o OUT", "Generalized"),
    ("diff UNET ATTENTION", "Diff"),
    ("diff UNET UNET --prove --run 1", "Diff"),
    ("scan UNET WRONG -j 1", "Scan"),
    ("ops Conv*", "Ops"),
    ("cost UNET", "Cost"),
    ("cost UNET --bind batch=1 --bind height=8 --bind width=8", "Cost"),
    ("cost UNET --at height=8,width=8 --max-memory 8GB", "Cost"),
    ("cost UNET --at height=8,width=8 --max-memory 1kB", "Refused"),
]


_schema = cache(schema)


def printed(command: str, tmp_path: Path) -> dict[str, object]:
    seen = tmp_path / "seen.csv"
    seen.write_text("height,count\n8,3\n20,4\n", "utf-8")
    files = {**{n: str(ROOT / f) for n, f in MODELS.items()}, "SEEN": str(seen), "OUT": str(tmp_path / "out")}
    if "FIXED" in command:
        files["FIXED"] = str(tmp_path / "fixed.onnx")
        onnx.save(ss.fix(files["UNET"], {"batch": 1, "height": 8, "width": 8}), files["FIXED"])
    if "LARGE" in command:
        files["LARGE"] = str(tmp_path / "large.onnx")
        onnx.save(ss.fix(files["UNET"], {"batch": 1, "height": 24, "width": 40}), files["LARGE"])
    args = [files.get(word, word) for word in command.split()]
    if "--format" not in args:
        args.append("--json")
    result = CliRunner().invoke(app, args)
    assert result.exit_code in (0, 1, 2, 3)
    data: dict[str, object] = json.loads(result.stdout)
    return data


@pytest.mark.parametrize(("command", "document"), COMMANDS)
def test_what_a_command_prints_is_what_the_schema_says(command: str, document: str, tmp_path: Path) -> None:
    data = printed(command, tmp_path)
    assert list(data)[:2] == ["version", "command"]
    assert data["command"] == command.split()[0]
    whole = _schema()  # which every envelope is held against, see `tests/conftest.py`
    jsonschema.Draft202012Validator({**whole["$defs"][document], "$defs": whole["$defs"]}).validate(data)


def test_every_command_that_prints_json_is_in_the_schema() -> None:
    told = {command.split()[0] for command, _ in COMMANDS}
    has = {
        name for name in app.list_commands() if "json" in (p.name for p in app.get_command(None, name).params)
    }
    assert has == told
    elsewhere = {"CheckSource"}  # with the tests that have PyTorch
    assert {document for _, document in COMMANDS} | elsewhere == {
        ref["$ref"].rpartition("/")[2] for ref in schema()["oneOf"]
    }


def test_the_schema_refuses_what_is_not_said(tmp_path: Path) -> None:
    data = printed("prove UNET height>=1", tmp_path)
    checker = jsonschema.Draft202012Validator(schema())
    checker.check_schema(schema())
    assert checker.is_valid(data)
    assert not checker.is_valid({**data, "more": 1})
    assert not checker.is_valid({**data, "version": 2})
    assert not checker.is_valid({k: v for k, v in data.items() if k != "claim"})


def test_the_page_and_the_file_are_current() -> None:
    """`python .ci/pages.py docs` writes them again."""
    assert json.loads((ROOT / "docs/schema.json").read_text("utf-8")) == schema()
    assert (ROOT / "docs/reference/json.md").read_text("utf-8") == page()
