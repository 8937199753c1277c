"""`Program`: what a generated checker computes, the same for every language that it is written in.

Sizes get names one after the other, and conditions over them are tested; each broken one is told by its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expr import Cond, Dim, all_of, any_of, constant, eq, floor_div, ge, of_atom, symbol
from ..expr.code import CodeWriter, Syntax, unless_undefined
from ..expr.grammar import quoted_name

if TYPE_CHECKING:
    from ..expr import Shape
    from .contract.contract import Contract

#: an input's size on an axis
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Define:
    """A symbol has this size."""

    name: str
    dim: Dim


@dataclass(frozen=True, slots=True)
class Check:
    """A condition and what is told where it is broken."""

    cond: Cond
    text: str


Step = Define | Check


@dataclass(frozen=True, slots=True)
class Program:
    """A checker: of sizes, which are its `parameters`, or of the shapes of inputs.

    Attributes:
        parameters: symbols whose sizes are given.
        places: symbols that stand for the size of an input on an axis.
        ranks: how many axes each input has that is checked.
        others: inputs of which nothing is known, and which may have any shape.
        steps: in order; a condition speaks of symbols that are defined before it.
    """

    parameters: tuple[str, ...]
    places: Mapping[str, Place]
    ranks: Mapping[str, int]
    others: tuple[str, ...]
    steps: tuple[Step, ...]


def sizes_program(contract: Contract) -> Program:
    """The checker that is given a size for each symbol of a contract."""
    return Program(contract.symbols, {}, {}, (), tuple(_needed(_terms(contract))))


def shapes_program(contract: Contract, declared: Mapping[str, Shape], others: Iterable[str] = ()) -> Program:
    """The checker that is given shapes of inputs, which are declared so.

    Raises `ValueError` where these do not determine the size of a symbol that the contract or a declaration speaks of.
    """
    reading = _Reading(declared)
    steps = [*reading.steps(), *_terms(contract)]
    missing = sorted(set(contract.symbols) - reading.known.keys())
    if missing:
        raise ValueError(f"the shapes of the inputs do not determine the size {quoted_name(missing[0])}")
    ranks = {name: len(shape) for name, shape in declared.items()}
    return Program((), reading.places, ranks, tuple(others), tuple(_needed(steps)))


def _terms(contract: Contract) -> Iterator[Step]:
    undefined: dict[str, Cond] = {}
    for name, dim in contract.derived:
        yield Define(name, dim)
        valued = unless_undefined(eq(dim, symbol(name)), undefined)
        if valued is not eq(dim, symbol(name)):
            undefined[name] = all_of([valued, unless_undefined(~eq(dim, symbol(name)), undefined)])
    if contract.impossible:
        yield Check(any_of([]), "no input sizes are accepted")
    for term in (*contract.terms, *contract.assumed):
        yield Check(unless_undefined(term.cond, undefined), term.text)


def _needed(steps: Sequence[Step] | Iterable[Step]) -> list[Step]:
    """Without sizes that nothing speaks of."""
    kept: list[Step] = []
    used: set[str] = set()
    for step in reversed(list(steps)):
        if isinstance(step, Check) or step.name in used:
            kept.append(step)
            used |= step.cond.free if isinstance(step, Check) else step.dim.free
    return kept[::-1]


class _Reading:
    """How the shapes of inputs give symbols their sizes, as `check_inputs` has it."""

    def __init__(self, declared: Mapping[str, Shape]) -> None:
        names = {n for shape in declared.values() for d in shape for n in d.free}
        self.declared: list[tuple[Dim, Dim, str]] = []
        self.places: dict[str, Place] = {}
        for name, shape in declared.items():
            for axis, d in enumerate(shape):
                said = f"{quoted_name(name)}[{axis}]"
                place = said
                while place in names:
                    place += "'"
                names.add(place)
                self.places[place] = name, axis
                self.declared.append((symbol(place, None), d, said))
        self.known: dict[str, int] = {}

    def steps(self) -> Iterator[Step]:
        """Names first, where they stand alone; then those of which an expression is linear in one that is left."""
        first: dict[int, None] = {}
        for i, (place, d, _) in enumerate(self.declared):
            if d.name is not None and d.name not in self.known:
                self.known[d.name] = i
                first[i] = None
                yield Define(d.name, place)
        while found := self._solvable():
            i, name, size, conds = found
            place, d, said = self.declared[i]
            first[i] = None
            self.known[name] = i
            yield Define(name, size)
            yield Check(all_of([*conds, unless_defined(eq(place, d))]), f"{said} == {d}")
        for i, (place, d, said) in enumerate(self.declared):
            if i in first:
                continue
            if not d.free <= self.known.keys():
                name = min(d.free - self.known.keys())
                raise ValueError(f"the shapes of the inputs do not determine the size {quoted_name(name)}")
            yield Check(unless_defined(eq(place, d)), f"{said} == {d}")

    def _solvable(self) -> tuple[int, str, Dim, list[Cond]] | None:
        for i, (place, d, _) in enumerate(self.declared):
            left = d.free - self.known.keys()
            if len(left) != 1:
                continue
            (name,) = left
            found = [(mono, c) for mono, c in d.terms if any(name in a.free for a in mono)]
            if len(found) == 1 and len(found[0][0]) == 1 and found[0][0][0].kind == "sym":
                x, c = of_atom(found[0][0][0]), found[0][1]
                over = (place - (d - x.scale(c))).scale(1 if c > 0 else -1)
                return i, name, floor_div(over, constant(abs(c))), [ge(over, 0)]
        return None


def unless_defined(cond: Cond) -> Cond:
    """The condition, which is false where it has no value: a declared size must be one."""
    return ~unless_undefined(~cond)


class Identifiers:
    """Distinct identifiers for symbols, and others that are nothing's yet."""

    def __init__(self, taken: Iterable[str], form: Callable[[str], str]) -> None:
        self._taken, self._form, self.of = set(taken), form, dict[str, str]()
        self._count = 0

    def __call__(self, said: str) -> str:
        """That of a symbol."""
        if said not in self.of:
            base = self._form(re.sub(r"\W", "_", said, flags=re.ASCII))
            identifier, k = base, 2
            while identifier in self._taken:
                identifier, k = f"{base}_{k}" if not base.endswith("_") else f"{base}{k}_", k + 1
            self._taken.add(identifier)
            self.of[said] = identifier
        return self.of[said]

    def fresh(self) -> str:
        """A name for a part."""
        while True:
            self._count += 1
            name = f"t{self._count}"
            if name not in self._taken:
                self._taken.add(name)
                return name


@dataclass(frozen=True, slots=True)
class Templates:
    """How a language states the steps of a program, for `str.format`.

    Attributes:
        size, condition: name a part: its ``name`` and ``value``.
        test: tell the literal ``text`` where the ``cond`` does not hold.
        place: the size of the input with the literal ``name`` on an ``axis``.
        remark: a line of comment.
        literal: a string of the language.
    """

    size: str
    condition: str
    test: str
    place: str
    remark: str
    literal: Callable[[str], str]


def lines_of(program: Program, syntax: Syntax, templates: Templates, names: Identifiers) -> list[str]:
    """The steps of a program."""

    def identifier(said: str) -> str:
        if said not in program.places:
            return names(said)
        name, axis = program.places[said]
        return templates.place.format(name=templates.literal(name), axis=axis)

    writer = CodeWriter(syntax, identifier, names.fresh)
    out: list[str] = []

    def text(said: Dim | Cond) -> str:
        before = len(writer.lets)
        found = writer.text(said)
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
            out.append(templates.test.format(cond=cond, text=templates.literal(step.text)))
    return out
