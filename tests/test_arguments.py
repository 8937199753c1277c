"""Arguments of a wrong type get a sentence that says what is taken, from everything public."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapesolve as ss
from shapesolve import testing
from shapesolve.lower import registry

COMPILED = not (registry.__file__ or "").endswith(".py")
MODEL = str(Path(__file__).resolve().parents[1] / "examples/unet.onnx")
UNET = ss.analyze(MODEL)
MASK, PROFILES = UNET.shapes["mask"], ss.profile(UNET, {"height": 8})

#: what takes a mapping, a list, a text and a number -> (the function, the parameter)
MAPPINGS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "analyze": (lambda v: ss.analyze(MODEL, bind=v), "bind"),
    "fix": (lambda v: ss.fix(MODEL, v), "sizes"),
    "free": (lambda v: ss.free(MODEL, v), "dims"),
    "profile": (lambda v: ss.profile(UNET, v), "opt"),
    "buckets": (lambda v: ss.buckets(UNET, [8], "height", bind=v), "bind"),
    "enumerate_sizes": (lambda v: ss.enumerate_sizes(UNET, 2, bind=v), "bind"),
    "generate_inputs": (lambda v: ss.generate_inputs(UNET, 1, values=v), "values"),
    "guard": (lambda v: ss.guard(MODEL, bind=v), "bind"),
    "guarded": (lambda v: ss.guarded(MODEL, bind=v), "bind"),
    "evaluate": (UNET.evaluate, "bindings"),
    "check_inputs": (UNET.check_inputs, "shapes"),
    "verify": (UNET.verify, "inputs"),
    "holds": (UNET.contract.holds, "sizes"),
    "subs": (MASK.subs, "bindings"),
    "assert_shapes": (lambda v: testing.assert_shapes(MODEL, v), "expected"),
}
LISTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "simplify": (lambda v: ss.simplify(MODEL, keep=v), "keep"),
    "fix": (lambda v: ss.fix(MODEL, {"height": 8}, keep=v), "keep"),
    "profile_text": (lambda v: ss.profile_text(UNET, v, "trtexec"), "profiles"),
    "assert_contract": (lambda v: testing.assert_contract(MODEL, v), "expected"),
}
TEXTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "prove": (UNET.prove, "claim"),
    "equal": (lambda v: UNET.equal(v, v), "a"),
    "dim": (UNET.dim, "text"),
    "bounds": (UNET.bounds, "text"),
    "explain": (UNET.explain, "tensor"),
    "shape": (UNET.shape, "tensor"),
    "why": (UNET.bindings.why, "name"),
    "parse_dim": (ss.parse_dim, "text"),
    "parse_cond": (ss.parse_cond, "text"),
    "annotate": (UNET.annotate, "policy"),
}
NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "analyze": (lambda v: ss.analyze(MODEL, opset=v), "opset"),
    "enumerate_sizes": (lambda v: ss.enumerate_sizes(UNET, v), "count"),
    "generate_inputs": (lambda v: ss.generate_inputs(UNET, v), "count"),
    "buckets": (lambda v: ss.buckets(UNET, [8], "height", v), "k"),
    "explain": (lambda v: UNET.explain("mask", v), "axis"),
}
CALLS = [
    (name, call, parameter, wrong)
    for table, values in (
        (MAPPINGS, (3, "height", [8])),
        (LISTS, (3, "Conv", object())),
        (TEXTS, (3.5, ["mask"], {})),
        (NUMBERS, ("8", [8], 2.5)),
    )
    for name, (call, parameter) in table.items()
    for wrong in values
]


@pytest.mark.parametrize(("name", "call", "parameter", "wrong"), CALLS)
def test_a_wrong_type_gets_a_sentence(
    name: str, call: Callable[[Any], Any], parameter: str, wrong: object
) -> None:
    with pytest.raises(TypeError) as caught:
        call(wrong)
    taken, _, given = str(caught.value).partition(", got ")
    assert taken.startswith(f"{name}: {parameter} must be a")
    assert given == repr(wrong)


def test_what_is_like_the_right_type_is_taken() -> None:
    assert len(ss.enumerate_sizes(UNET, np.int64(2), bind={"batch": np.int32(1)})) == 2
    assert UNET.explain("mask", axis=np.int8(1)).tensor == "mask"
    assert ss.analyze(MODEL, assume=iter(("height == 8",)), bind=None).symbols
    one = ss.analyze(MODEL, assume="height == 8").contract
    assert str(one) == str(ss.analyze(MODEL, assume=["height == 8"]).contract)


N, AT_LEAST, ANALYSIS = ss.Dim("4*n + m"), ss.parse_cond("n >= m"), "Cost expects an Analysis"
BINDINGS, SIZE, LIST = (
    "takes bindings as a mapping",
    "a size must be an int, a Dim, or a string",
    "a shape is a list of",
)
REGISTRY = ss.Registry()
#: what `checked` does not fit: compiled classes, and what is called too often
OTHERS: list[tuple[Callable[[Any], Any], str, tuple[Any, ...]]] = [
    (N.evaluate, BINDINGS, (3.5, "n", None, [1])),
    (N.subs, BINDINGS, (3.5, "n", None, [1])),
    (AT_LEAST.evaluate, BINDINGS, (3.5, "n", None, [1])),
    (AT_LEAST.subs, BINDINGS, (3.5, "n", None, [1])),
    (N.simplify, "takes under as a condition", (3.5, None, object)),
    (MASK.simplify, "takes under as a condition", (3.5, None, object)),
    (N.z3, "takes ctx as a z3.Context", (3.5, "main")),
    (AT_LEAST.z3, "takes ctx as a z3.Context", (3.5, "main")),
    (N.eq, SIZE, (3.5, None, [1], {}, object)),
    (N.ge, SIZE, (3.5, None, [1], {}, object)),
    (ss.Dim, SIZE, (3.5, None, [1], {}, object)),
    (lambda v: ss.Shape([v]), SIZE, (3.5, None, [1], {}, object)),
    (ss.Shape, LIST, (3.5, None, "batch", b"x", {"n": 1})),
    (ss.broadcast_shapes, LIST, (3.5, "batch", b"x", {"n": 1})),
    (ss.Cost, ANALYSIS, (3.5, None, "model.onnx")),
    (lambda v: REGISTRY.register("my", "Op")(v), "register takes a function", (3.5, "rule")),
]
#: where a compiled class says it in the compiler's words
REGISTERED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: REGISTRY.register(v, "Op"), "register takes domain as a string"),
    (lambda v: REGISTRY.register("my", v), "register takes op_type as a string"),
    (lambda v: REGISTRY.register("my", "Op", v), "register takes versions as an int, a range or None"),
    (lambda v: REGISTRY.signature(v, "N -> N"), "signature takes op_type as a string"),
    (lambda v: REGISTRY.signature("Op", v), "signature takes dims as a string"),
    (lambda v: REGISTRY.signature("Op", "N -> N", domain=v), "signature takes domain as a string"),
    (lambda v: REGISTRY.signature("Op", "N -> N", where=v), "signature takes where as a string"),
    (lambda v: REGISTRY.signature("Op", "N -> N", since=v), "signature takes since as an int"),
]


@pytest.mark.parametrize(("call", "taken", "given"), [(c, t, v) for c, t, values in OTHERS for v in values])
def test_dims_shapes_and_conditions_say_what_they_take(
    call: Callable[[Any], Any], taken: str, given: object
) -> None:
    with pytest.raises(TypeError) as caught:
        call(given)
    said = str(caught.value)
    assert taken in said
    assert said.endswith(f", got {given!r}")


@pytest.mark.parametrize(("call", "taken"), REGISTERED)
def test_what_registers_operators_says_what_it_takes(call: Callable[[Any], Any], taken: str) -> None:
    wrong = object()
    with pytest.raises(TypeError) as caught:
        call(wrong)
    said = str(caught.value)
    assert said in (f"{taken}, got {wrong!r}", said if COMPILED and "expected; got object" in said else "")


def test_a_wrong_content_is_told_where_the_call_fails() -> None:
    with pytest.raises(
        TypeError, match=re.escape("holds: sizes must be a mapping of str to int, got {'height': '8'}")
    ):
        UNET.contract.holds({"height": "8"})  # type: ignore[dict-item]
