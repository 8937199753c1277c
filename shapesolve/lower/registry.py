# compiled: see CONTRIBUTING.md
"""`Registry`: registers rules for operators."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from typing import Any

from ..arguments import wrong
from .op import Op
from .records import Outputs, Steps
from .rule import (
    Axes,
    Bodies,
    Choices,
    Rule,
    Rules,
    Runtime,
    TypeSpec,
    Versions,
    canonical,
)
from .signature import Signature
from .work import Work

#: a rule's body: reads the node through `Op`, states requirements, returns its outputs in order
Lower = Callable[[Op], Outputs]
#: body of a rule for an operator with subgraphs
LowerBodies = Callable[[Op], Steps]


class Registry(Rules):
    """Rules by domain and operator; a child registry overlays its parent.

    >>> registry = Registry(parent=default_registry())
    >>> @registry.register("com.custom", "MyOp")
    ... def my_op(op):
    ...     return op.out(op.shape(0))
    """

    __slots__ = ()

    def register(
        self,
        domain: str,
        op_type: str,
        versions: Versions = None,
        **options: Any,
    ) -> Callable[[Lower], Lower]:
        """Decorator that registers a lowering function (see `Op`) for an operator. `options` are fields of `Rule`."""
        _check("register", domain, op_type)
        if not isinstance(versions, int | range | None):
            raise wrong("register takes versions as an int, a range or None", versions)
        since, until = 0, None
        if isinstance(versions, range):
            since, until = versions.start, versions.stop
        elif versions is not None:
            since = versions

        def decorate(lower: Lower) -> Lower:
            if not callable(lower):
                raise wrong("register takes a function", lower)
            self.add(Rule(canonical(domain), op_type, since, lower, until=until, **options))
            return lower

        return decorate

    def signature(
        self,
        op_type: str,
        dims: str,
        *,
        domain: str = "",
        since: int = 0,
        until: int | None = None,
        where: str | Seq[str] = (),
        types: tuple[TypeSpec, ...] | None = None,
        choices: Choices | None = None,
        fault: str = "",
        runtime: tuple[Runtime, ...] = (),
        work: Work | None = None,
        axes: Axes | None = None,
        named: tuple[int, ...] = (),
        **names: str | int,
    ) -> None:
        """Register an operator by its signature (notation: see `shapesolve.lower.signature`)."""
        _check("signature", domain, op_type)
        for given, name in ((dims, "dims"), *((text, "where") for text in _texts(where))):
            if not isinstance(given, str):
                raise wrong(f"signature takes {name} as a string", given)
        if not isinstance(since, int):
            raise wrong("signature takes since as an int", since)
        rule = Signature(dims, (where,) if isinstance(where, str) else tuple(where), names)
        if (
            self is not DEFAULT or DEFAULT.supply is not None
        ):  # built-in ones are tested, and parsed when they are used
            rule.check()
        declared = Rule(canonical(domain), op_type, since, rule, "signature", until, types, choices=choices)
        axes = dims if axes == "=" else axes
        self.add(replace(declared, fault=fault, runtime=runtime, work=work, axes=axes, named=named))


def _check(function: str, domain: object, op_type: object) -> None:
    for name, given in (("domain", domain), ("op_type", op_type)):
        if not isinstance(given, str):
            raise wrong(f"{function} takes {name} as a string", given)


def _texts(given: object) -> Seq[object]:
    return given if isinstance(given, list | tuple) else (given,)


DEFAULT = Registry()


def lower(
    *op_types: str, since: int = 0, domain: str = "", operands: str = "", **options: Any
) -> Callable[[Lower], Lower]:
    """Decorator that registers a function as the rule of operators in the default registry.

    Args:
        op_types: Names of the operators.
        since: First opset version that the rule covers.
        domain: Domain of the operators.
        operands: Shapes that the inputs must have, in the notation of signatures.
        options: Other declarations, see `Rule`.
    """

    def decorate(function: Lower) -> Lower:
        checks = Signature(f"{operands}, ?... -> ?", (), {}) if operands else None
        rule = function if checks is None else partial(_checked, checks, function)
        for name in op_types:
            DEFAULT.add(Rule(domain, name, since, rule, **options))
        return function

    return decorate


def _checked(operands: Signature, function: Lower, op: Op) -> Any:
    operands(op)
    return function(op)


def lower_bodies(
    *op_types: str,
    bodies: Bodies,
    since: int = 0,
    **options: Any,
) -> Callable[[LowerBodies], LowerBodies]:
    """Decorator that registers a function as the rule of operators that run subgraphs."""

    def decorate(function: LowerBodies) -> LowerBodies:
        for name in op_types:
            DEFAULT.add(Rule("", name, since, function, values=True, bodies=bodies, **options))
        return function

    return decorate


signature = DEFAULT.signature
