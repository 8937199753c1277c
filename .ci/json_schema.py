"""JSON schema of ``--json`` output, and its page, both generated from the records that commands return."""

from __future__ import annotations

import ast
import json
import sys
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import shapesolve
from shapesolve.cli.app import app
from shapesolve.cli.parameters import Command
from shapesolve.expr import Cond, Dim, Shape
from shapesolve.report.json import KEYS, VERSION, keys_of


class Key(NamedTuple):
    """Key of a record: its name, type, and False if it may be missing."""

    name: str
    kind: Any
    required: bool = True


@cache
def _source(module: str) -> tuple[ast.Module, dict[str, Any]]:
    """Return a module's syntax tree, and its names, including its imports for type checking."""
    folder = Path(shapesolve.__file__).parents[1]
    tree = ast.parse(folder.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8"))
    names = dict(vars(sys.modules[module]))
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)  # noqa: S102 -- our own imports
    return tree, names


def _type(module: str, text: str) -> Any:
    """Return the type that an annotation in this package names."""
    return eval(text, _source(module)[1])  # noqa: S307


@cache
def _attributes(kind: type) -> dict[str, Key]:
    """Return the fields and properties of a class, with their types."""
    found: dict[str, Key] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("shapesolve."):
            continue
        tree = _source(base.__module__)[0]
        body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == base.__name__)
        for node in body:
            if isinstance(node, ast.AnnAssign):
                name, text = ast.unparse(node.target), ast.unparse(node.annotation)
                required = node.value is None or ast.unparse(node.value) != "ABSENT"
                found[name] = Key(name, _type(base.__module__, text), required)
            elif isinstance(node, ast.FunctionDef) and "property" in map(ast.unparse, node.decorator_list):
                assert node.returns is not None
                found[node.name] = Key("", _type(base.__module__, ast.unparse(node.returns)))
    return found


#: class -> its name and description in the schema, if they are not those of the class
_ABOUT = {
    "Bucket": (
        "BucketData",
        "A bucket (the product of several sizes for several names), sizes of all names, its number of "
        "sizes, and padding.",
    ),
    "Buckets": (
        "SizesBuckets",
        "`shapesolve sizes --buckets --json`; `proved`: the padding is proved minimal.",
    ),
    "Constraint": (
        "ConstraintData",
        "A constraint of a node or an input: over tensor dims (`x[1]`), and with definitions substituted.",
    ),
    "CostData": ("Cost", ""),
    "Derivation": (
        "Explain",
        "`shapesolve explain --json`: the shape's derivation, axis by axis and node by node.",
    ),
    "Diff": ("", "`shapesolve diff --json`; `conflicts` has the counts before and after."),
    "Finding": (
        "FindingData",
        "A finding. `nodes` are the nodes named in its text, `operands` have a name, shape, and origin. A "
        "restricted model runs at `runs` and fails at `fails`. `constants` are initializers that contain "
        "a hard-coded size.",
    ),
    "Range": ("RangeData", "Minimum, optimum, and maximum shape of an input."),
    "Removed": ("RemovedData", "Removed node, with the reason."),
    "Run": (
        "FreedRunData",
        "Run of the original and the dynamic model, or of the dynamic one alone (without a difference).",
    ),
    "ScanRow": (
        "ScannedModel",
        "Model of a scan; `message` is the reason why it cannot be read, or its contradiction.",
    ),
    "Shown": (
        "ShownData",
        "A size in the exports. `condition` is the progression that the new model keeps to, and `reason` "
        "says why; an export at `export` would admit `admits`. Accepted sizes in `extrapolated` are "
        "outside the range of the exports.",
    ),
    "Site": (
        "SiteData",
        "An axis of a tensor or, if `element` is true, an element of its data; a null `axis` means the "
        "whole tensor.",
    ),
    "Term": ("TermData", "Condition of a contract; `assuming` is the scope in which this form is valid."),
    "Usual": (
        "UsualData",
        "Contract for typical sizes: conditions equivalent to the exact ones if the scope holds and all "
        "sizes are at least 1.",
    ),
    "Verification": ("RunData", "A run; `open` lists the tensors whose shape was not fully predicted."),
    "Rejected": ("ViolationData", "Requirement that the given sizes break."),
}
#: types in layouts
_TOLD: Any = {"sizes": dict[str, int], "str": str}


def keys(kind: type) -> list[Key]:
    """Return the keys of a record."""
    known = _attributes(kind)
    if kind.__name__ not in KEYS:
        return [key for key in known.values() if key.name]
    out = []
    for name, path, told in keys_of(KEYS[kind.__name__]):
        *ways, last = path.split(".")
        of = known
        for way in ways:
            of = _attributes(of[way].kind)
        out.append(Key(name, _TOLD.get(told) or of[last].kind))
    return out


@cache
def documents() -> dict[type, list[str]]:
    """Return the records that commands print with ``--json``, each with its commands."""
    found: dict[type, list[str]] = {}
    for name in app.list_commands():
        command = app.get_command(None, name)
        assert isinstance(command, Command)
        assert command.callback is not None
        for kind in get_args(_type(command.callback.__module__, command.returns)):
            for one in get_args(kind) or [kind]:
                if one is not types.NoneType:
                    found.setdefault(one, []).append(name)
    return found


def _name(kind: type) -> str:
    return _ABOUT.get(kind.__name__, ("", ""))[0] or kind.__name__


def _about(kind: type) -> str:
    return " ".join((_ABOUT.get(kind.__name__, ("", ""))[1] or str(kind.__doc__)).split())


def _plain(kind: Any) -> Any:
    """Return the type whose JSON a type has."""
    if kind is Dim:
        return int | str
    if kind is Cond:
        return str
    if kind is Shape:
        return list[Dim]
    own = isinstance(kind, type) and issubclass(kind, tuple) and not hasattr(kind, "_fields")
    return kind.__orig_bases__[0] if own and hasattr(kind, "__orig_bases__") else kind


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of all ``--json`` output."""
    definitions: dict[str, Any] = {}
    refs = [_schema_of(kind, definitions) for kind in documents()]
    for kind, commands in documents().items():
        made = definitions[_name(kind)]
        told = {"version": {"const": VERSION}, "command": _schema_of(Literal[*commands], {})}
        made["properties"] = {**told, **made["properties"]}
        made["required"] = [*told, *made["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"shapesolve --json, version {VERSION}",
        "oneOf": refs,
        "$defs": dict(sorted(definitions.items())),
    }


_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and add the schemas of records to `definitions`."""
    kind = _plain(kind)
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if kind is Any:
        return {}
    if origin is Literal:
        return {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(a, definitions) for a in args]}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": _schema_of(args[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(args[1], definitions)}
    if _name(kind) not in definitions:
        definitions[_name(kind)] = {}
        definitions[_name(kind)] |= {
            "type": "object",
            "description": _about(kind),
            "properties": {key.name: _schema_of(key.kind, definitions) for key in keys(kind)},
            "required": [key.name for key in keys(kind) if key.required],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{_name(kind)}"}


_HEAD = f"""# JSON

Commands with `--json` print one object: `version` (the version of this layout, {VERSION}), `command`, and the command's data,
described below. The same description is available as a [JSON schema](schema.json). A version may add new keys; removing a
key or changing its meaning makes a new version. Symbolic sizes are expressions in the [grammar](expressions.md) of
conditions. The exit codes are listed under [command line](../cli/index.md). With exit code 2, only the error is printed, on
stderr; `check` and `scan` also print a result for each file.

Generated by `python .ci/pages.py docs`.
"""


def page() -> str:
    """Return the Markdown page of all documents and their parts."""
    whole = schema()
    printed = [_target(ref) for ref in whole["oneOf"]]
    parts = [_HEAD]
    for name in (*printed, *(n for n in whole["$defs"] if n not in printed)):
        made = whole["$defs"][name]
        parts.append(f"\n## {name}\n\n{made['description']}\n\n| key | type |\n|---|---|\n")
        for key, kind in made["properties"].items():
            optional = "" if key in made["required"] else ", optional"
            parts.append(f"| `{key}` | {_text(kind)}{optional} |\n" if key != "version" else "")
    return "".join(parts)


def _target(ref: Mapping[str, str]) -> str:
    return ref["$ref"].rpartition("/")[2]


def _text(kind: Mapping[str, Any]) -> str:
    """Return the description of a schema, with links to records."""
    if "$ref" in kind:
        return f"[{_target(kind)}](#{_target(kind).lower()})"
    if "anyOf" in kind:
        return " or ".join(map(_text, kind["anyOf"]))
    if "items" in kind:
        return f"list of {_text(kind['items'])}"
    if "additionalProperties" in kind:
        return f"object: {_text(kind['additionalProperties'])} by name"
    values = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
    return " or ".join(f"`{json.dumps(v)}`" for v in values) or kind.get("type", "anything")
