"""Exports a contract: as `Program` for generated checkers, as Python function, as SMT-LIB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..expr import Cond, Dim, all_of, any_of, constant, eq, floor_div, ge, of_atom, symbol
from ..expr.code import unless_undefined
from ..expr.grammar import quoted_name
from .languages.python import python_source
from .program import Check, Define, Place, Program, Step

if TYPE_CHECKING:
    from ..expr import Shape
    from .contract.contract import Contract


import re

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

    from ..expr.z3_bridge import Z3Terms

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
    for name, short in (*sizes.changed.items(), *names.changed.items()):
        lines.append(f"; {short} stands for {_one_line(name)}")
    lines += [f"(declare-const {v.sexpr()} Int)" for v in terms.symbols.values()]
    lines += [f"(assert (>= {v.sexpr()} 0))" for v in terms.sizes]
    end = ["(assert false)"] if impossible else []
    return "\n".join([*lines, *body, *end, "(check-sat)", ""])


def _one_line(text: str) -> str:
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)


def sizes_source(contract: Contract, name: str) -> str:
    """Python source of a checker function that takes sizes by keyword. It returns the texts of the terms that they break."""
    return python_source(Program(contract.symbols, {}, {}, (), tuple(_needed(_terms(contract)))), name)


def smtlib_source(contract: Contract) -> str:
    """SMT-LIB 2 text of the terms, one named assertion each."""

    stated = [
        (f"d{number}", f"what {name} stands for", eq(symbol(name), dim))
        for number, (name, dim) in enumerate(contract.derived)
    ]
    for number, term in enumerate((*contract.terms, *contract.assumed)):
        needed = ", ".join(term.nodes[:3]) + (" ..." if len(term.nodes) > 3 else "")
        stated.append((f"c{number}", f"needed by {needed}: {term.text}", term.cond))
    return smtlib_text(stated, impossible=contract.impossible)


def shapes_program(contract: Contract, declared: Mapping[str, Shape], others: Iterable[str] = ()) -> Program:
    """A checker program whose parameters are the shapes of inputs.

    Raises `ValueError` where these do not determine the size of a symbol that the contract or a declaration speaks of.
    """
    reading = _Reading(declared)
    steps = [*reading.steps(), *_terms(contract)]
    missing = sorted(set(contract.symbols) - reading.known.keys())
    if missing:
        raise ValueError(f"the shapes of the inputs do not determine the size {quoted_name(missing[0])}")
    ranks = {name: len(shape) for name, shape in declared.items()}
    limits = f"not judged: {contract.limits}" if contract.limits else ""
    return Program((), reading.places, ranks, tuple(others), tuple(_needed(steps)), limits)


def outputs_program(
    declared: Mapping[str, Shape], named: Iterable[tuple[str, Dim]], outputs: Mapping[str, Shape | None]
) -> Program:
    """A program that computes output shapes from accepted input shapes.

    `named` are sizes that have a name, in terms of inputs and those before. Outputs with other names are left out.
    """
    reading, undefined = _Reading(declared), dict[str, Cond]()
    steps: list[Step] = [step for step in reading.steps() if isinstance(step, Define)]
    known = set(reading.known)
    for step in _defined([(name, dim) for name, dim in named if name not in known], undefined):
        if step.dim.free <= known:
            known.add(step.name)
            steps.append(step)
    given = {n: s for n, s in outputs.items() if s is not None and all(d.free <= known for d in s)}
    for name, shape in given.items():
        for axis, d in enumerate(shape):
            if unless_undefined(ge(d, 0), undefined) is not ge(d, 0):
                steps.append(
                    Check(unless_defined(ge(d, 0), undefined), f"{quoted_name(name)}[{axis}] has a size")
                )
    left = ", ".join(quoted_name(n) for n in outputs if n not in given)
    limits = f"left out, as the shapes of the inputs do not decide their sizes: {left}" if left else ""
    used = {n for shape in given.values() for d in shape for n in d.free}
    return Program((), reading.places, {}, (), tuple(_needed(steps, used)), limits, given)


def _defined(named: Iterable[tuple[str, Dim]], undefined: dict[str, Cond]) -> Iterator[Define]:
    """Definitions of names; `undefined` collects the conditions under which they have no value."""
    for name, dim in named:
        yield Define(name, dim)
        valued = unless_undefined(eq(dim, symbol(name)), undefined)
        if valued is not eq(dim, symbol(name)):
            undefined[name] = all_of([valued, unless_undefined(~eq(dim, symbol(name)), undefined)])


def _terms(contract: Contract) -> Iterator[Step]:
    undefined: dict[str, Cond] = {}
    yield from _defined(contract.derived, undefined)
    if contract.impossible:
        yield Check(any_of([]), "no input sizes are accepted")
    for term in (*contract.terms, *contract.assumed):
        yield Check(unless_undefined(term.cond, undefined), term.text)


def _needed(steps: Iterable[Step], outside: Iterable[str] = ()) -> list[Step]:
    """The steps without definitions that neither a check nor the names `outside` use."""
    kept: list[Step] = []
    used = set(outside)
    for step in reversed(list(steps)):
        if isinstance(step, Check) or step.name in used:
            kept.append(step)
            used |= step.cond.free if isinstance(step, Check) else step.dim.free
    return kept[::-1]


class _Reading:
    """Steps that compute the symbols' sizes from the shapes of inputs."""

    def __init__(self, declared: Mapping[str, Shape]) -> None:
        names = {n for shape in declared.values() for d in shape for n in d.free}
        self.declared: list[tuple[Dim, Dim, str]] = []
        self.places: dict[str, Place] = {}
        for name, shape in declared.items():
            for axis, d in enumerate(shape):
                text = f"{quoted_name(name)}[{axis}]"
                place = text
                while place in names:
                    place += "'"
                names.add(place)
                self.places[place] = name, axis
                self.declared.append((symbol(place, None), d, text))
        self.known: dict[str, int] = {}

    def steps(self) -> Iterator[Step]:
        """Definitions of plain symbols, then of symbols in linear expressions, and checks of the rest."""
        first: dict[int, None] = {}
        for i, (place, d, _) in enumerate(self.declared):
            if d.name is not None and d.name not in self.known:
                self.known[d.name] = i
                first[i] = None
                yield Define(d.name, place)
        while found := self._solvable():
            i, name, size, conds = found
            place, d, text = self.declared[i]
            first[i] = None
            self.known[name] = i
            yield Define(name, size)
            yield Check(all_of([*conds, unless_defined(eq(place, d))]), f"{text} == {d}")
        for i, (place, d, text) in enumerate(self.declared):
            if i in first:
                continue
            if not d.free <= self.known.keys():
                name = min(d.free - self.known.keys())
                raise ValueError(f"the shapes of the inputs do not determine the size {quoted_name(name)}")
            yield Check(unless_defined(eq(place, d)), f"{text} == {d}")

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


def unless_defined(cond: Cond, undefined: Mapping[str, Cond] | None = None) -> Cond:
    """The condition, changed to be false where it has no value (division by 0)."""
    return ~unless_undefined(~cond, undefined)
