"""Assertions on shapes and contracts, for test suites.

from shapesolve.testing import assert_contract, assert_shapes

assert_shapes("model.onnx", {"logits": ["batch", "seq", 1000]})
assert_contract("unet.onnx", ["height % 8 == 0", "width % 8 == 0"])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .analysis import Analysis, analyze
from .arguments import checked
from .expr import DimSyntaxError, ge, parse_cond, parse_dim
from .expr.sizes import sizes_text
from .report.text import findings_text
from .solve.proof import Proof, Proved, Refuted


def assert_ok(model: Any, **options: Any) -> Analysis:
    """Assert that the model has no conflict, and return the analysis. `options` are passed to `analyze`."""
    __tracebackhide__ = True
    a = _analysis(model, options)
    if a.conflicts:
        raise AssertionError("the model cannot run\n\n" + findings_text(c.finding for c in a.conflicts))
    return a


@checked
def assert_shapes(model: Any, expected: Mapping[str, Sequence[int | str | None]], **options: Any) -> Analysis:
    """Assert that tensors have the given shapes for every input that the model accepts.

    A dim is a number, an expression over the names of the model's input dims (``"past + seq"``), or None for any.

    Raises:
        AssertionError: If a shape differs; the message lists all that do.
    """
    __tracebackhide__ = True
    a = _analysis(model, options)
    wrong = [problem for name, dims in expected.items() for problem in _mismatches(a, name, dims)]
    if wrong:
        raise AssertionError("shapes differ\n" + "\n".join(f"  {w}" for w in wrong))
    return a


@checked
def assert_contract(model: Any, expected: Iterable[str], *, exact: bool = True, **options: Any) -> Analysis:
    """Assert that the model requires the conditions `expected`, and (`exact`) no others.

    Conditions are compared by proof, not as text, and for non-empty inputs, as in `Analysis.contract`.

    Raises:
        AssertionError: If the contracts differ; the message lists the differences.
    """
    __tracebackhide__ = True
    a = assert_ok(model, **options)
    engine = a._solved.prover.engine
    filled = [ge(symbol, 1) for symbol in a.symbols.values()]
    needed = [*(t.cond for t in a.contract), *filled]
    try:
        wanted = {text: parse_cond(text, a.symbols) for text in expected}
    except DimSyntaxError as e:
        raise AssertionError(str(e)) from None
    wrong = []
    for text, cond in wanted.items():
        verdict = engine.entails(cond, needed)
        if not verdict.proved:
            wrong.append(f"the model does not require {text}{_example(verdict.model, a)}")
    for term in a.contract if exact else ():
        verdict = engine.entails(term.cond, [*wanted.values(), *filled])
        if not verdict.proved:
            nodes = f", at {', '.join(term.nodes[:3])}" if term.nodes else ""
            wrong.append(f"the model also requires {term.text}{nodes}{_example(verdict.model, a)}")
    if wrong:
        listed = "\n".join(f"  {w}" for w in wrong)
        raise AssertionError(f"contracts differ: the model's is {a.contract or 'empty'}\n{listed}")
    return a


def _example(model: Mapping[str, int] | None, a: Analysis) -> str:
    sizes = sizes_text(model or {}, a.symbols)
    return f" (for example {sizes})" if sizes else ""


def _analysis(model: Any, options: Mapping[str, Any]) -> Analysis:
    return model if isinstance(model, Analysis) else analyze(model, **options)


def _mismatches(a: Analysis, name: str, dims: Sequence[int | str | None]) -> Iterable[str]:
    if name not in a.dtypes:
        yield f"{name}: unknown tensor"
        return
    shape = a.shapes.get(name)
    if shape is None:
        yield f"{name}: expected {list(dims)}, got unknown rank"
        return
    if len(shape) != len(dims):
        yield f"{name}: expected {list(dims)}, got {shape}"
        return
    for axis, (found, wanted) in enumerate(zip(shape, dims)):
        if wanted is None:
            continue
        try:
            proof = a.equal(found, wanted if isinstance(wanted, str) else parse_dim(str(wanted), {}))
        except (ValueError, KeyError) as e:
            yield f"{name}[{axis}]: {e.args[0] if e.args else e}"
            continue
        if not proof:
            yield f"{name}[{axis}]: expected {wanted}, got {found}{_at(proof)}"


def _at(proof: Proof) -> str:
    if isinstance(proof, Proved):
        return f" (equal only if {' and '.join(proof.assumptions)})"
    if not isinstance(proof, Refuted):
        return " (equality is unknown)"
    return f" (they differ at {proof.at})" if proof.at else ""


def __getattr__(name: str) -> Any:
    """Load the assertion from `shapesolve.torch` on demand, because PyTorch is optional."""
    if name == "assert_exports":
        import importlib

        return getattr(importlib.import_module("shapesolve.torch"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
