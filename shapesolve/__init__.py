"""Symbolic shape analysis for ONNX models: proved shapes, contracts on sizes, explained conflicts.

    import shapesolve as ss
    a = ss.analyze("model.onnx")
    a.shapes["logits"], a.contract, a.conflicts

See `analyze` and `Analysis`. Names are loaded when first used, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analysis import Analysis, analyze
    from .causes.finding import Conflict, Finding, Violation
    from .change.annotate.annotate import annotate
    from .change.compare.diff import diff
    from .change.free.model import free
    from .change.generalize.model import generalize
    from .change.refused import Refused
    from .change.simplify.fix import fix
    from .change.simplify.simplify import simplify
    from .deploy import (
        NoProfile,
        NoSizes,
        buckets,
        enumerate_sizes,
        generate_inputs,
        guarded,
        profile,
        profile_text,
    )
    from .deploy.cost.cost import Cost, cost
    from .deploy.guards import guard
    from .expr import (
        Cond,
        Dim,
        DimSyntaxError,
        Shape,
        broadcast_shapes,
        parse_cond,
        parse_dim,
    )
    from .lower import DEFAULT, InvalidNode, Op, Registry, Rule
    from .model import ModelError
    from .model.devices import devices
    from .solve.contract.contract import Contract, Term
    from .solve.facts.constraint import Constraint
    from .solve.proof import Proved, Refuted, Unknown

    #: adds a rule for an operator to the default registry (decorator; see `Registry.register`)
    register = DEFAULT.register
    #: adds an operator by its signature to the default registry (see `shapesolve.lower.signature`)
    signature = DEFAULT.signature

__version__ = "0.1.0"

#: name -> package or module that defines it
_ROOMS = {
    **dict.fromkeys(("Analysis", "analyze"), "analysis"),
    **dict.fromkeys(("Conflict", "Finding", "Violation"), "causes.finding"),
    **dict.fromkeys(("Contract", "Term"), "solve.contract.contract"),
    **dict.fromkeys(("Proved", "Refuted", "Unknown"), "solve.proof"),
    "annotate": "change.annotate.annotate",
    "diff": "change.compare.diff",
    **dict.fromkeys(
        ("Cond", "Dim", "DimSyntaxError", "Shape", "broadcast_shapes", "parse_cond", "parse_dim"), "expr"
    ),
    **dict.fromkeys(("InvalidNode", "Op", "Registry", "Rule"), "lower"),
    "Constraint": "solve.facts.constraint",
    "ModelError": "model",
    "devices": "model.devices",
    "fix": "change.simplify.fix",
    "Refused": "change.refused",
    "simplify": "change.simplify.simplify",
    **dict.fromkeys(
        (
            "NoProfile",
            "NoSizes",
            "buckets",
            "enumerate_sizes",
            "generate_inputs",
            "guard",
            "guarded",
            "profile",
            "profile_text",
        ),
        "deploy",
    ),
    "free": "change.free.model",
    "generalize": "change.generalize.model",
    **dict.fromkeys(("Cost", "cost"), "deploy.cost.cost"),
    "Value": "lower.values",
}


if not TYPE_CHECKING:  # type checkers then know only the names above

    def __getattr__(name: str) -> Any:
        if name in ("register", "signature"):
            # the built-in rules are loaded first, so that the new rule takes precedence over them
            value = getattr(import_module(".operators", __name__).default_registry(), name)
        elif name in _ROOMS:
            value = getattr(import_module(f".{_ROOMS[name]}", __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*sorted(__all__), "__version__"]


__all__ = [
    "Analysis",
    "Cond",
    "Conflict",
    "Constraint",
    "Contract",
    "Cost",
    "Dim",
    "DimSyntaxError",
    "Finding",
    "InvalidNode",
    "ModelError",
    "NoProfile",
    "NoSizes",
    "Op",
    "Proved",
    "Refused",
    "Refuted",
    "Registry",
    "Rule",
    "Shape",
    "Term",
    "Unknown",
    "Value",
    "Violation",
    "analyze",
    "annotate",
    "broadcast_shapes",
    "buckets",
    "cost",
    "devices",
    "diff",
    "enumerate_sizes",
    "fix",
    "free",
    "generalize",
    "generate_inputs",
    "guard",
    "guarded",
    "parse_cond",
    "parse_dim",
    "profile",
    "profile_text",
    "register",
    "signature",
    "simplify",
]
