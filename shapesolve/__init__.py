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
    from .answers.rejected import Rejected, Violation
    from .causes.finding import Conflict, Finding
    from .change.annotate.annotate import annotate, read_contract
    from .change.annotate.file import save_annotated
    from .change.compare.diff import diff
    from .change.free.model import free
    from .change.generalize.model import generalize
    from .change.refused import Refused
    from .change.simplify.fix import fix
    from .change.simplify.simplify import simplify
    from .change.verify import verify, verify_exports
    from .constraints.audit import Audit
    from .constraints.constraints import ConstraintSystem
    from .deploy import (
        Buckets,
        NoProfile,
        NoSizes,
        Profile,
        buckets,
        enumerate_sizes,
        generate_inputs,
        guard,
        guarded,
        profile,
        profile_text,
    )
    from .deploy.cost.cost import Cost, cost
    from .deploy.cost.limit import Fit
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
    from .report.scan import scan
    from .solve.contract.contract import Contract, Term
    from .solve.facts.constraint import Constraint
    from .solve.proof import Proved, Refuted, Unknown

    #: adds a rule for an operator to the default registry (decorator; see `Registry.register`)
    register = DEFAULT.register
    #: adds an operator by its signature to the default registry (see `shapesolve.lower.signature`)
    signature = DEFAULT.signature

__version__ = "0.1.0"

#: package or module -> names that it defines
_DEFINED = {
    "analysis": ("Analysis", "analyze"),
    "answers.rejected": ("Rejected", "Violation"),
    "causes.finding": ("Conflict", "Finding"),
    "change.annotate.annotate": ("annotate", "read_contract"),
    "change.annotate.file": ("save_annotated",),
    "change.compare.diff": ("diff",),
    "change.free.model": ("free",),
    "change.generalize.model": ("generalize",),
    "change.refused": ("Refused",),
    "change.simplify.fix": ("fix",),
    "change.simplify.simplify": ("simplify",),
    "change.verify": ("verify", "verify_exports"),
    "constraints.audit": ("Audit",),
    "constraints.constraints": ("ConstraintSystem",),
    "deploy": (
        *("Buckets", "NoProfile", "NoSizes", "Profile", "buckets", "enumerate_sizes", "generate_inputs"),
        *("guard", "guarded", "profile", "profile_text"),
    ),
    "deploy.cost.cost": ("Cost", "cost"),
    "deploy.cost.limit": ("Fit",),
    "expr": ("Cond", "Dim", "DimSyntaxError", "Shape", "broadcast_shapes", "parse_cond", "parse_dim"),
    "lower": ("InvalidNode", "Op", "Registry", "Rule"),
    "lower.values": ("Value",),
    "model": ("ModelError",),
    "model.devices": ("devices",),
    "report.scan": ("scan",),
    "solve.contract.contract": ("Contract", "Term"),
    "solve.facts.constraint": ("Constraint",),
    "solve.proof": ("Proved", "Refuted", "Unknown"),
}
_ROOMS = {name: room for room, names in _DEFINED.items() for name in names}


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
    "Audit",
    "Buckets",
    "Cond",
    "Conflict",
    "Constraint",
    "ConstraintSystem",
    "Contract",
    "Cost",
    "Dim",
    "DimSyntaxError",
    "Finding",
    "Fit",
    "InvalidNode",
    "ModelError",
    "NoProfile",
    "NoSizes",
    "Op",
    "Profile",
    "Proved",
    "Refused",
    "Refuted",
    "Registry",
    "Rejected",
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
    "read_contract",
    "register",
    "save_annotated",
    "scan",
    "signature",
    "simplify",
    "verify",
    "verify_exports",
]
