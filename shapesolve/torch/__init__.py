"""Findings about shapes at PyTorch source lines: checks a module before export (extra ``torch``).

from torch.export import Dim
import shapesolve.torch
print(shapesolve.torch.check(net, (x,), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}}))
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the core needs no PyTorch
    raise ImportError('shapesolve.torch needs PyTorch: pip install "shapesolve[torch]"') from error

from . import limits as _limits  # noqa: F401 - first, so that a warning about the version precedes any error
from .checking import assert_exports, check
from .exporting import dynamic
from .places import Place, SourceFinding
from .report import Report, SizeOutcome

__all__ = [
    "Place", "Report", "SizeOutcome", "SourceFinding", "assert_exports", "check", "dynamic",
]  # fmt: skip
