"""`Program`: steps of a generated checker, independent of the target language.

Sizes get names one after the other, and conditions over them are tested; each broken one is reported by its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..expr import Cond, Dim, Shape
from ..expr.code import CodeWriter, Syntax
from ..expr.limits import MAX_LISTED

#: an input's size on an axis
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Define:
    """Step: gives a symbol its size."""

    name: str
    dim: Dim


@dataclass(frozen=True, slots=True)
class Check:
    """Step: a condition, with the message if it is violated."""

    cond: Cond
    text: str


Step = Define | Check


@dataclass(frozen=True, slots=True)
class Program:
    """A checker of sizes or input shapes, or a function that computes output shapes.

    Attributes:
        parameters: Symbols whose sizes are given.
        places: Symbols for the size of an input axis.
        ranks: Rank of each input that is checked.
        others: Inputs that may have any shape.
        steps: Definitions and checks, in order; a condition only uses earlier symbols.
        limits: Description of what is not checked; empty if nothing.
        outputs: Output shapes over the defined symbols.
    """

    parameters: tuple[str, ...]
    places: Mapping[str, Place]
    ranks: Mapping[str, int]
    others: tuple[str, ...]
    steps: tuple[Step, ...]
    limits: str = ""
    outputs: Mapping[str, Shape] = field(default_factory=dict)


class Identifiers:
    """Distinct identifiers for symbols and for temporaries."""

    def __init__(self, taken: Iterable[str], form: Callable[[str], str]) -> None:
        self._taken, self._form, self.of = set(taken), form, dict[str, str]()
        self._count = 0

    def __call__(self, symbol: str) -> str:
        """The identifier of a symbol."""
        if symbol not in self.of:
            base = self._form(re.sub(r"\W", "_", symbol, flags=re.ASCII))
            identifier, k = base, 2
            while identifier in self._taken:
                identifier, k = f"{base}_{k}" if not base.endswith("_") else f"{base}{k}_", k + 1
            self._taken.add(identifier)
            self.of[symbol] = identifier
        return self.of[symbol]

    def fresh(self) -> str:
        """An unused identifier for a temporary."""
        while True:
            self._count += 1
            name = f"t{self._count}"
            if name not in self._taken:
                self._taken.add(name)
                return name


@dataclass(frozen=True, slots=True)
class Templates:
    """Format strings of one language for the steps of a program.

    Attributes:
        size, condition: name a part: its ``name`` and ``value``.
        test: tell ``text``, an expression for a string, where the ``cond`` does not hold.
        given: the output with the literal ``name`` has these ``sizes``, each a `one`.
        got: the number with the ``name`` as a string.
        place: the size of the input with the literal ``name`` on an ``axis``.
        remark: a line of comment.
        literal: a string of the language.
    """

    size: str
    condition: str
    test: str
    given: str
    one: str
    got: str
    place: str
    remark: str
    literal: Callable[[str], str]


def lines_of(program: Program, syntax: Syntax, templates: Templates, names: Identifiers) -> list[str]:
    """The lines of source for a program's steps."""

    def identifier(symbol: str) -> str:
        if symbol not in program.places:
            return names(symbol)
        name, axis = program.places[symbol]
        return templates.place.format(name=templates.literal(name), axis=axis)

    writer = CodeWriter(syntax, identifier, names.fresh)
    out = [templates.remark.format(ascii(program.limits)[1:-1])] if program.limits else []

    def text(expression: Dim | Cond) -> str:
        before = len(writer.lets)
        found = writer.text(expression)
        for let in writer.lets[before:]:
            form = templates.condition if let.is_condition else templates.size
            out.append(form.format(name=let.name, value=let.text))
        return found

    for step in program.steps:
        if isinstance(step, Define):
            value = text(step.dim)
            if names(step.name).rstrip("_") != step.name:
                out.append(
                    templates.remark.format(f"{names(step.name)} is the size {templates.literal(step.name)}")
                )
            out.append(templates.size.format(name=names(step.name), value=value))
        else:
            cond = text(step.cond)
            parts, before = [], f"{step.text} (got "
            for n in sorted(step.cond.free)[:MAX_LISTED]:
                parts += [
                    templates.literal(f"{before}{n} = "),
                    templates.got.format(name=identifier(n)),
                ]
                before = ", "
            parts.append(templates.literal(")" if parts else step.text))
            out.append(templates.test.format(cond=cond, text=" + ".join(parts)))
    for name, shape in program.outputs.items():
        sizes = "".join(templates.one.format(text(d)) for d in shape)
        out.append(templates.given.format(name=templates.literal(name), sizes=sizes))
    return out
