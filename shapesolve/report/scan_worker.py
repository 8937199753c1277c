"""Modules preloaded before forking scan workers."""

from __future__ import annotations

from .. import analysis
from ..explain import diagnose
from ..operators import default_registry
from ..solve import ambiguity, bindings
from ..solve.contract import build as contract

default_registry()

__all__ = ["ambiguity", "analysis", "bindings", "contract", "diagnose"]
