"""Findings about shapes at PyTorch source lines: checks a module before export (extra ``torch``).

from torch.export import Dim
import shapesolve.torch
print(shapesolve.torch.check(net, (x,), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}}))
"""

import warnings as _warnings

try:
    import torch as _torch
except ImportError as error:  # pragma: no cover - the core needs no PyTorch
    raise ImportError('shapesolve.torch needs PyTorch: pip install "shapesolve[torch]"') from error
else:  # releases whose private names were checked; before an import that may fail for another
    if ".".join(_torch.__version__.split(".")[:2]) not in (SUPPORTED := ("2.13", "2.14")):
        _warnings.warn(
            f"shapesolve.torch was tested with torch {' and '.join(SUPPORTED)}, not with {_torch.__version__}",
            stacklevel=2,
        )

from .checking import assert_exports, check
from .exporting import dynamic
from .places import Place, SourceFinding
from .report import Report, SizeOutcome

__all__ = [
    "Place", "Report", "SizeOutcome", "SourceFinding", "assert_exports", "check", "dynamic",
]  # fmt: skip
