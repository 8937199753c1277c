"""Writes conditions as SMT-LIB 2 text, with any names in them.

https://smt-lib.org/papers/smt-lib-reference-v2.6-r2021-05-12.pdf, section 3.1: a symbol in bars holds printable characters
but ``|`` and a backslash; some words are not symbols at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..expr import Cond

_WRITABLE = re.compile(r"[!-\[\]-{}~][ -\[\]-{}~]*")
#: reserved words, what the theories of integers and truth values define, and what is read as a number
_TAKEN = re.compile(
    r"[-+*/_!]|[<>]=?|=>?|-\d+|true|false|not|and|x?or|distinct|ite|if|iff|implies|let|forall|exists|match|lambda|par|as"
    r"|div|mod|rem|abs|divisible|to_int|to_real|is_int|Int|Real|Bool|String|BINARY|DECIMAL|HEXADECIMAL|NUMERAL|STRING"
)


class SmtNames:
    """Assigns each name a distinct SMT-LIB symbol: the name itself if it is allowed."""

    def __init__(self, kind: str) -> None:
        """An assignment of names; `kind` begins the symbols of names that are not allowed."""
        self.kind = kind
        self.changed: dict[str, str] = {}
        self._symbols: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, name: str) -> str:
        """The symbol for `name`, without bars."""
        found = self._symbols.get(name)
        if found is None:
            found = name
            folded = " ".join(name.split()) != name  # lines are folded where they are written
            if folded or not _WRITABLE.fullmatch(name) or _TAKEN.fullmatch(name) or name in self._taken:
                k = len(self.changed)
                while (found := f"{self.kind}!{k}") in self._taken:
                    k += 1
                self.changed[name] = found
            self._taken.add(found)
            self._symbols[name] = found
        return found


def smtlib_text(stated: Iterable[tuple[str, str, Cond]], *, impossible: bool = False) -> str:
    """A query that asserts conditions, each given as (name, comment, condition), under their names.

    Symbols that stand for sizes are at least 0. With `impossible`, ``false`` is asserted as well.
    """
    import z3

    from ..expr.z3_terms import Z3Terms

    sizes, names = SmtNames("size"), SmtNames("stated")
    terms = Z3Terms(z3.Context(), sizes)
    body: list[str] = []
    for name, comment, cond in stated:
        formula = " ".join(terms.formula(cond).sexpr().split())
        label = z3.Bool(names(name), terms.ctx).sexpr()
        if comment:
            body.append("; " + _one_line(comment))
        body.append(f"(assert (! {formula} :named {label}))")
    lines = ["(set-option :produce-unsat-cores true)", "(set-logic ALL)"]
    for name, symbol in (*sizes.changed.items(), *names.changed.items()):
        lines.append(f"; {symbol} stands for {_one_line(name)}")
    lines += [f"(declare-const {v.sexpr()} Int)" for v in terms.symbols.values()]
    lines += [f"(assert (>= {v.sexpr()} 0))" for v in terms.sizes]
    end = ["(assert false)"] if impossible else []
    return "\n".join([*lines, *body, *end, "(check-sat)", ""])


def _one_line(text: str) -> str:
    """The text as a comment: one line, ASCII."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)
