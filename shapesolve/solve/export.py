"""A contract as text for others: a Python function of sizes, SMT-LIB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expr import eq, symbol
from .languages.python import python_source
from .program import sizes_program

if TYPE_CHECKING:
    from .contract.contract import Contract


def sizes_source(contract: Contract, name: str) -> str:
    """Source of a Python function that takes sizes by keyword and returns the texts of the terms that they break."""
    return python_source(sizes_program(contract), name)


def smtlib_source(contract: Contract) -> str:
    """SMT-LIB 2 text of the terms, one named assertion each."""
    from .smtlib import smtlib_text

    stated = [
        (f"d{number}", f"what {name} stands for", eq(symbol(name), dim))
        for number, (name, dim) in enumerate(contract.derived)
    ]
    for number, term in enumerate((*contract.terms, *contract.assumed)):
        needed = ", ".join(term.nodes[:3]) + (" ..." if len(term.nodes) > 3 else "")
        stated.append((f"c{number}", f"needed by {needed}: {term.text}", term.cond))
    return smtlib_text(stated, impossible=contract.impossible)
