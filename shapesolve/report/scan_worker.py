"""What every process of a scan needs: imported once, by the process that they are forked from."""

from __future__ import annotations

from .. import analysis
from ..analysis import diagnose
from ..ops import default_registry
from ..solver import ambiguity, bindings, contract
from .scan import scan_one

default_registry()

__all__ = ["ambiguity", "analysis", "bindings", "contract", "diagnose", "scan_one"]
