"""A contract as source text for others: a Python function, SMT-LIB."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

from ..expr import Cond, symbol
from ..expr.grammar import is_plain_name
from ..expr.traverse import atoms_of

if TYPE_CHECKING:
    from .contract.contract import Contract


def python_source(contract: Contract, name: str) -> str:
    """Source of a function that takes sizes by keyword and returns the texts of the terms that they break."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name for a Python function")
    names = _identifiers(contract.symbols)
    parameters = ", ".join(f"{names[s]}: int" for s in contract.symbols)
    lines = [
        f"def {name}({'*, ' if parameters else ''}{parameters}) -> list[str]:",
        '    """Conditions on input sizes that do not hold; when there are none, the model runs."""',
    ]
    for said, identifier in names.items():
        if said != identifier:
            lines.append(f"    # {identifier} is the size {said!r}")
    if any(a.kind == "broadcast" for a in atoms_of(*(term.cond for term in contract.terms))):
        lines += [
            "    def broadcast(*sizes: int) -> int:",
            "        return next((n for n in sizes if n != 1), 1)",
            "",
        ]
    lines.append("    broken = []")
    if contract.impossible:
        lines.append("    broken.append('no input sizes are accepted')")
    for term in contract.terms:
        lines.append(f"    if not ({_python_text(term.cond, names)}):")
        lines.append(f"        broken.append({term.text!r})")
    return "\n".join([*lines, "    return broken", ""])


def smtlib_source(contract: Contract) -> str:
    """SMT-LIB 2 text of the terms, one named assertion each."""
    from .smtlib import smtlib_text

    stated = []
    for number, term in enumerate(contract.terms):
        needed = ", ".join(term.nodes[:3]) + (" ..." if len(term.nodes) > 3 else "")
        stated.append((f"c{number}", f"needed by {needed}: {term.text}", term.cond))
    return smtlib_text(stated, impossible=contract.impossible)


def _python_text(cond: Cond, names: dict[str, str]) -> str:
    """The condition over the identifiers; as people read it, which is Python but for `broadcast`."""
    symbols = (a for a in atoms_of(cond) if a.kind == "sym")
    return (
        str(cond.subs({a.args[0]: symbol(names[a.args[0]], a.args[1]) for a in symbols}))
        if cond.args
        else str(cond.is_true)
    )


def _identifiers(symbols: tuple[str, ...]) -> dict[str, str]:
    """A distinct Python identifier for each symbol."""
    taken = {"broken"}
    names = {}
    for said in symbols:
        base = re.sub(r"\W", "_", said, flags=re.ASCII)
        if not base.isidentifier() or keyword.iskeyword(base) or not is_plain_name(base):
            base = f"size_{base}"
        identifier, k = base, 2
        while identifier in taken:
            identifier, k = f"{base}_{k}", k + 1
        taken.add(identifier)
        names[said] = identifier
    return names
