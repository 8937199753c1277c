"""`Language`: syntax for writing a `Program` in a programming language.

Integers behave as in Python: quotients round down, and remainders have the sign of the divisor. C++ has 64 bits; a
condition with a number that does not fit is reported as violated, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...expr.code import Syntax
from ..program import Identifiers, Program, Templates, lines_of

#: a relation, by its sign
INFIX = {sign: f"{{0}} {sign} {{1}}" for sign in ("==", "!=", ">=", "<=")}


@dataclass(frozen=True, slots=True)
class Language:
    """A target language: its expressions, statements, and the text around them. The text has ``@RANKS@``, ``@OTHERS@``,
    ``@STEPS@`` and ``@OUTPUTS@``.

    `rank` is an entry for an input of a ``name`` with a ``rank``, `other` one for an input of any shape. `outputs` is the
    function of the shapes of outputs, with ``@STEPS@``.
    """

    syntax: Syntax
    templates: Templates
    identifier: Callable[[str], str]
    rank: str
    other: str
    around: str
    outputs: str
    suffix: str
    taken: frozenset[str] = frozenset()

    def source(self, program: Program, outputs: Program | None = None) -> str:
        """Source of a checker of input shapes, with a function that computes output shapes if given.

        Raises `ValueError` where the contract or a shape has numbers that the language has not.
        """
        literal = self.templates.literal
        parts = {
            "RANKS": "".join(self.rank.format(name=literal(n), rank=r) for n, r in program.ranks.items()),
            "OTHERS": "".join(self.other.format(name=literal(n)) for n in program.others),
            "STEPS": self._steps(program),
            "OUTPUTS": "" if outputs is None else self.outputs.replace("@STEPS@", self._steps(outputs)),
        }
        # one pass: inserted text may itself look like a placeholder
        return re.sub("@(RANKS|OTHERS|STEPS|OUTPUTS)@", lambda found: parts[found[1]], self.around)

    def _steps(self, program: Program) -> str:
        names = Identifiers(self.taken, self.identifier)
        return "\n".join(lines_of(program, self.syntax, self.templates, names))
