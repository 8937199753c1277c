"""Symbolic shape analysis of ONNX models: proved shapes, contracts on input sizes, explained conflicts.

    import shapesolve as ss
    a = ss.analyze("model.onnx")
    a.shapes["logits"], a.contract, a.conflicts

See `analyze` and `Analysis`.
"""

from .analysis import Analysis, Conflict, Finding, analyze
from .dims import Cond, Dim, DimSyntaxError, Shape, broadcast_shapes, parse_cond, parse_dim
from .graph import ModelError
from .ops import DEFAULT, InvalidNode, Op, Registry, Rule
from .solver.constraint import Constraint

__version__ = "0.1.0"

#: decorator that adds a rule for an operator to the default registry (see `Registry.register`)
register = DEFAULT.register
#: adds an operator by its signature to the default registry (see `shapesolve.ops.signature`)
signature = DEFAULT.signature

__all__ = [
    "Analysis",
    "Cond",
    "Conflict",
    "Constraint",
    "Dim",
    "DimSyntaxError",
    "Finding",
    "InvalidNode",
    "ModelError",
    "Op",
    "Registry",
    "Rule",
    "Shape",
    "analyze",
    "broadcast_shapes",
    "parse_cond",
    "parse_dim",
    "register",
    "signature",
]
