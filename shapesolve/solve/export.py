"""A contract as source text for others: a Python function, SMT-LIB."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import TYPE_CHECKING

from ..expr import Cond, Dim, eq, symbol
from ..expr.grammar import is_plain_name
from ..expr.traverse import atoms_of

if TYPE_CHECKING:
    from .contract.contract import Contract


def python_source(contract: Contract, name: str) -> str:
    """Source of a function that takes sizes by keyword and returns the texts of the terms that they break."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name for a Python function")
    derived = dict(contract.derived)
    names = _identifiers((*contract.symbols, *derived))
    parameters = ", ".join(f"{names[s]}: int" for s in contract.symbols)
    lines = [
        f"def {name}({'*, ' if parameters else ''}{parameters}) -> list[str]:",
        '    """Conditions on input sizes that do not hold; when there are none, the model runs."""',
    ]
    for said, identifier in names.items():
        if said != identifier:
            lines.append(f"    # {identifier} is the size {said!r}")
    conds = [term.cond for term in (*contract.terms, *contract.assumed)]
    if any(a.kind == "broadcast" for a in atoms_of(*conds, *derived.values())):
        lines += [
            "    def broadcast(*sizes: int) -> int:",
            "        return next((n for n in sizes if n != 1), 1)",
            "",
        ]
    lines.append("    broken = []")
    if contract.impossible:
        lines.append("    broken.append('no input sizes are accepted')")
    for size, dim in derived.items():
        lines.append(f"    {names[size]} = {_python_text(dim, names)}")
    for term in (*contract.terms, *contract.assumed):
        divisors = dict.fromkeys(_python_text(d, names) for d in _divisors(term.cond))
        valued = "".join(f"({d}) != 0 and " for d in divisors)  # without a value nothing is broken
        lines.append(f"    if {valued}not ({_python_text(term.cond, names)}):")
        lines.append(f"        broken.append({term.text!r})")
    return "\n".join([*lines, "    return broken", ""])


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


def _python_text(said: Cond | Dim, names: dict[str, str]) -> str:
    """The condition or dim over the identifiers; as people read it, which is Python but for `broadcast`."""
    if isinstance(said, Cond) and not said.args:
        return str(said.is_true)
    symbols = (a for a in atoms_of(said) if a.kind == "sym")
    return str(said.subs({a.args[0]: symbol(names[a.args[0]], a.args[1]) for a in symbols}))


def _divisors(cond: Cond) -> list[Dim]:
    """Sizes that the condition divides by, and that may be 0."""
    found = (a.args[1] for a in atoms_of(cond) if a.kind == "//" and a.args[1].terms)
    return [d for d in dict.fromkeys(found) if d.lo is None or d.lo < 1]


def _identifiers(symbols: tuple[str, ...]) -> dict[str, str]:
    """A distinct Python identifier for each symbol."""
    taken = {"broken", "broadcast", *dir(builtins)}
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
