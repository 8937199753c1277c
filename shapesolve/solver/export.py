"""A contract as source text for others: a Python function, SMT-LIB."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

from ..dims import Atom, Cond, Dim

if TYPE_CHECKING:
    from .terms import Contract

_RELATIONS = {"==": "==", "!=": "!=", ">=": ">="}


def python_source(contract: Contract, name: str) -> str:
    """Source of a function that takes sizes by keyword and returns the texts of the terms that they break."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name for a Python function")
    names = _identifiers(contract.symbols)
    writer = _PythonWriter(names)
    parameters = ", ".join(f"{names[s]}: int" for s in contract.symbols)
    lines = [
        f"def {name}({'*, ' if parameters else ''}{parameters}) -> list[str]:",
        '    """Conditions on input sizes that do not hold; when there are none, the model runs."""',
    ]
    for symbol, identifier in names.items():
        if symbol != identifier:
            lines.append(f"    # {identifier} is the size {symbol!r}")
    lines.append("    broken = []")
    if contract.impossible:
        lines.append("    broken.append('no input sizes are accepted')")
    for term in contract.terms:
        lines.append(f"    if not ({writer.cond(term.cond)}):")
        lines.append(f"        broken.append({term.text!r})")
    return "\n".join([*lines, "    return broken", ""])


def smtlib_source(contract: Contract) -> str:
    """SMT-LIB 2 text of the terms, one named assertion each."""
    from .constraint import Constraint, Origin
    from .constraints import ConstraintSet

    rows = []
    for term in contract.terms:
        needed = ", ".join(term.nodes[:3]) + (" ..." if len(term.nodes) > 3 else "")
        rows.append(Constraint(term.cond, "requirement", Origin(needed, "needed by", term.text)))
    text = ConstraintSet(rows).to_smtlib()
    return text.replace("(check-sat)", "(assert false)\n(check-sat)") if contract.impossible else text


class _PythonWriter:
    """Expressions in plain Python, fully parenthesized where it matters."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def cond(self, c: Cond) -> str:
        if not c.args:
            return str(c.is_true)
        if c.kind in ("and", "or"):
            return f" {c.kind} ".join(f"({self.cond(a)})" for a in c.args)
        return f"{self.dim(c.args[0])} {_RELATIONS[c.kind]} 0"

    def dim(self, d: Dim) -> str:
        parts = []
        for mono, c in d.terms:
            factors = [self.atom(a) for a in mono]
            sign = "-" if c < 0 else "+"
            if abs(c) != 1:
                factors.insert(0, str(abs(c)))
            parts.append(f"{sign} {'*'.join(factors)}")
        if d.const or not parts:
            parts.append(f"{'-' if d.const < 0 else '+'} {abs(d.const)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    def atom(self, atom: Atom) -> str:
        kind, args = atom.kind, atom.args
        if kind == "sym":
            return self.names[args[0]]
        if kind == "ite":
            return f"(({self.dim(args[1])}) if {self.cond(args[0])} else ({self.dim(args[2])}))"
        if kind == "pos":
            return f"max({self.dim(args[0])}, 0)"
        if kind == "//":
            return f"(({self.dim(args[0])}) // ({self.dim(args[1])}))"
        sizes = ", ".join(self.dim(a) for a in args)
        return f"next((n for n in ({sizes}) if n != 1), 1)"


def _identifiers(symbols: tuple[str, ...]) -> dict[str, str]:
    """A distinct Python identifier for each symbol."""
    taken = {"broken", "max", "next", "n"}
    names = {}
    for symbol in symbols:
        base = re.sub(r"\W", "_", symbol, flags=re.ASCII)
        if not base or base[0].isdigit() or keyword.iskeyword(base):
            base = f"size_{base}"
        identifier, k = base, 2
        while identifier in taken:
            identifier, k = f"{base}_{k}", k + 1
        taken.add(identifier)
        names[symbol] = identifier
    return names
