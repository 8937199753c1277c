"""`Contract`: conditions on input sizes under which a model runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, overload

from ...arguments import checked
from ...expr import Cond, Dim, parse_cond, parse_dim
from ...expr.plain import Kind, kind_of, sides_of
from ...lazy import cached_property
from ..facts.constraint import Constraint, Role
from ..facts.log import ConstraintSet
from .usual import NO_SCOPE, Scope


@dataclass(frozen=True, eq=False)
class Term:
    """One condition on input sizes, with the nodes behind it.

    `scope` holds the conditions on input sizes, besides `n >= 1`, under which the term has this form.
    """

    cond: Cond
    kind: Kind
    text: str
    symbols: tuple[str, ...]
    numbers: tuple[int, ...]
    scope: tuple[Cond, ...] = ()
    source: ConstraintSet | None = field(default=None, repr=False)
    given: tuple[Cond, ...] = field(default=(), repr=False)
    """All that the form was proved under: its scope, and sizes of at least 1."""
    beside: tuple[Cond, ...] = field(default=(), repr=False)
    """The conditions of the contract's other terms, and what the user gave."""
    find: Callable[[Term], Sequence[Constraint]] | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        needs = tuple(self.constraints)
        parts = (self.cond, self.kind, self.text, self.symbols, tuple(range(len(needs))), self.scope)
        return Term, (*parts, ConstraintSet(needs), self.given, self.beside, _Found(self.core))

    def __deepcopy__(self, memo: object) -> Term:
        return self

    @cached_property
    def passes(self) -> dict[str, int] | None:
        """Sizes of all symbols at which the whole contract holds, close to common ones; None if none were found."""
        from ..sizes import SizeFinder

        return SizeFinder([self.cond, *self.beside]).some()

    @cached_property
    def fails(self) -> dict[str, int] | None:
        """Sizes that break this term and no other one, as near to `passes` as found. None when none were found."""
        from ..sizes import SizeFinder

        return SizeFinder(self.beside).breaking(self.cond, self.passes)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that it comes from, in graph order."""
        return () if self.source is None else tuple(self.source.numbered(n) for n in self.numbers)

    @property
    def core(self) -> tuple[Constraint, ...]:
        """A minimal set of constraints that imply the term, or all its requirements if the proof exceeds the budget."""
        return () if self.find is None else tuple(self.find(self))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Labels of the nodes that need it, in graph order."""
        found = (c.origin.node for c in self.constraints if c.role == "requirement")
        return tuple(dict.fromkeys(n for n in found if n))

    def roles(self) -> set[Role]:
        """The roles of its constraints."""
        return {c.role for c in self.constraints}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of its scope, as text."""
        return tuple(map(text_of, self.scope))

    def __str__(self) -> str:
        return f"{self.text} for {', '.join(self.assumptions)}" if self.scope else self.text

    def to_json(self) -> dict[str, Any]:
        """Plain data: condition, symbols, nodes, scope."""
        return {
            "condition": self.text,
            "kind": self.kind,
            "symbols": list(self.symbols),
            "nodes": list(self.nodes),
            "assuming": list(self.assumptions),
        }


class _Found:
    """Returns the stored core of an unpickled term."""

    def __init__(self, core: tuple[Constraint, ...]) -> None:
        self.core = core

    def __call__(self, term: Term) -> tuple[Constraint, ...]:
        return self.core


class Terms(tuple[Term, ...]):
    """A selection of a contract's terms."""

    __slots__ = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Labels of the nodes that need any of them."""
        return tuple(dict.fromkeys(n for t in self for n in t.nodes))

    @property
    def cond(self) -> tuple[Cond, ...]:
        """Conditions of the terms."""
        return tuple(t.cond for t in self)

    def with_cores(self, find: Callable[[Term], Sequence[Constraint]]) -> Terms:
        """The terms with `find` as the function that finds their cores."""
        return Terms(replace(t, find=find) for t in self)

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    def __repr__(self) -> str:
        return f"Terms({self})"


_NO_TERMS = Terms()


def _beside(terms: Terms, given: Iterable[Cond]) -> Terms:
    conds = [*terms.cond, *given]
    return Terms(replace(t, beside=tuple(c for c in conds if c is not t.cond)) for t in terms)


def _terms(rows: Sequence[Mapping[str, Any]]) -> Terms:
    """Terms from rows of a JSON document. Raises `ValueError` for a row that states none."""
    found = []
    for row in rows:
        try:
            text = str(row["condition"])
            scope = tuple(parse_cond(str(c)) for c in row.get("assuming", ()))
        except (TypeError, KeyError, AttributeError):
            raise ValueError("a term is an object with a condition") from None
        cond = parse_cond(text)
        found.append(Term(cond, kind_of(cond), text, tuple(sorted(cond.free)), (), scope))
    return Terms(found)


@dataclass(frozen=True, eq=False)
class Usual:
    """A contract for usual sizes. Its terms are proved to agree with the exact ones wherever the scope holds.

    Attributes:
        terms: The conditions, in their form for usual sizes.
        scope: Conditions on input sizes that the terms assume, besides `1 <= n < 10**9` for each size.
        whole: The model's whole scope, for shapes.
        impossible: True if no sizes satisfy the requirements.
    """

    terms: Terms
    scope: tuple[Cond, ...] = ()
    whole: Scope = NO_SCOPE
    impossible: bool = False

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def with_cores(self, find: Callable[[Term], Sequence[Constraint]], given: tuple[Cond, ...] = ()) -> Usual:
        """The form with `find` as the function that finds the cores of its terms."""
        conds = (*self.whole.sizes, *self.scope, *given)
        return replace(self, terms=_beside(self.terms, conds).with_cores(find))

    @property
    def may_be_empty(self) -> tuple[str, ...]:
        """Names of cache lengths that may be 0."""
        return self.whole.may_be_empty

    @property
    def nothing(self) -> str:
        """Text for no terms, where the exact contract has some."""
        if self.impossible:
            return "no input sizes"
        names = f" ({', '.join(self.may_be_empty)} may be 0)" if self.may_be_empty else ""
        return f"any input size of at least 1 runs{names}"

    def __str__(self) -> str:
        if not self.terms:
            return self.nothing
        text = ", ".join(t.text for t in self.terms)
        return f"{text} {heading(self.scope)}" if self.scope else text

    def to_json(self) -> dict[str, Any]:
        """Plain data, in a stable order."""
        terms = [t.to_json() for t in self.terms]
        return {"scope": [*map(text_of, self.scope)], "terms": terms, "impossible": self.impossible}


def heading(scope: Iterable[Cond]) -> str:
    """Text of a scope: `for height >= 4, width >= 4`; empty for none."""
    texts = ", ".join(map(text_of, scope))
    return f"for {texts}" if texts else ""


@dataclass(frozen=True, eq=False)
class Contract(Sequence[Term]):
    """The irredundant conditions on input symbols under which a model runs, exact at every size including 0.

    `str(contract)` shows the form for usual sizes (`usual`); everything else is exact.

    Attributes:
        internal: Conditions on data, which exclude no input size.
        assumed: Conditions given by the user or the `broadcast` mode.
        declared: Conditions declared by the model that no node needs.
        impossible: True if no sizes satisfy the requirements.
        derived: Named sizes, as expressions of inputs and of earlier names.
        unjudged: Tensors of unknown rank. Requirements on these are not in the contract.
        inputs: Names of the input sizes. If there are none, all input shapes are fixed.
    """

    terms: Terms
    internal: Terms = _NO_TERMS
    assumed: Terms = _NO_TERMS
    declared: Terms = _NO_TERMS
    impossible: bool = False
    derived: tuple[tuple[str, Dim], ...] = ()
    unjudged: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    find_usual: Callable[[], Usual] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _beside(self.terms, self.assumed.cond))

    def with_cores(self, find: Callable[[Term], Sequence[Constraint]]) -> Contract:
        """The contract with `find` as the function that finds the cores of its terms."""
        made = self.find_usual
        usual = None if made is None else cache(lambda: made().with_cores(find, self.assumed.cond))
        return replace(self, terms=self.terms.with_cores(find), find_usual=usual)

    def __len__(self) -> int:
        return len(self.terms)

    @overload
    def __getitem__(self, index: int) -> Term: ...
    @overload
    def __getitem__(self, index: slice) -> Terms: ...
    @overload
    def __getitem__(self, index: str) -> Terms: ...
    def __getitem__(self, index: int | slice | str) -> Term | Terms:
        """A term by position, or all terms on a symbol by its name."""
        if isinstance(index, str):
            return Terms(t for t in self.terms if index in t.symbols)
        found = self.terms[index]
        return found if isinstance(found, Term) else Terms(found)

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    @cached_property
    def usual(self) -> Usual:
        """The form for usual sizes, which is displayed first."""
        return Usual(self.terms, impossible=self.impossible) if self.find_usual is None else self.find_usual()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "usual": self.usual, "find_usual": None}

    @property
    def nothing(self) -> str:
        """Text of a contract that has no terms at usual sizes."""
        if self.impossible:
            return "no input sizes"
        if self.assumed:
            return f"no conditions beyond what is assumed: {self.assumed}"
        if self.unjudged:
            return f"no known conditions: {self.limits}"
        if self.inputs == ():
            return "all input sizes are fixed"
        return self.usual.nothing if self.terms else "any input size runs"

    @property
    def limits(self) -> str:
        """Text on what the contract leaves undecided; empty if nothing."""
        if not self.unjudged:
            return ""
        more = len(self.unjudged) - 1
        others = f" and {more} more {'tensors' if more > 1 else 'tensor'}" if more else ""
        one = f"{self.unjudged[0]} has unknown rank, so its requirements are not part of the contract"
        many = f"{self.unjudged[0]}{others} have unknown rank, so their requirements are not part of the contract"
        return many if more else one

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that must have a size for the contract to be decided."""
        names = dict.fromkeys(s for t in (*self.terms, *self.assumed) for s in t.symbols)
        for name, dim in self.derived:
            names.pop(name, None)
            names.update(dict.fromkeys(sorted(dim.free)))
        return tuple(n for n in names if n not in dict(self.derived))

    def from_constraint(self, constraint: Constraint) -> Terms:
        """The terms that a constraint is a source of."""
        return Terms(t for t in self.terms if constraint in t.constraints)

    def broken(self, sizes: Mapping[str, int]) -> Terms:
        """The terms that these sizes break, whatever the other sizes are."""
        return Terms(t for t in (*self.terms, *self.assumed) if t.cond.evaluate(sizes) is False)

    @checked
    def holds(self, sizes: Mapping[str, int]) -> bool | None:
        """Return True if these sizes are accepted; None if that depends on a symbol without a size, or on `unjudged`."""
        sizes = dict(sizes)
        for name, dim in self.derived:
            value = dim.evaluate(sizes)
            if value is not None:
                sizes[name] = value
        terms = (*self.terms, *self.assumed)
        truths = [t.cond.evaluate(sizes) for t in terms]
        if False in truths or self.impossible:
            return False
        unsettled = [t for t, truth in zip(terms, truths) if truth is None]
        return None if self.unjudged or any(not t.cond.free <= sizes.keys() for t in unsettled) else True

    def __str__(self) -> str:
        if self.impossible:
            return "no input sizes"
        if not self.usual.terms:
            return self.nothing
        return f"{self.usual} ({self.limits})" if self.unjudged else str(self.usual)

    def __repr__(self) -> str:
        return f"Contract({self})"

    def to_json(self) -> dict[str, Any]:
        """Plain data, in a stable order."""
        data: dict[str, Any] = {
            "terms": [t.to_json() for t in self.terms],
            "usual": self.usual.to_json(),
            "impossible": self.impossible,
        }
        if self.derived:
            data["derived"] = {name: str(dim) for name, dim in self.derived}
        if self.unjudged:
            data["unjudged"] = list(self.unjudged)
        for name in ("internal", "assumed", "declared"):
            part: Terms = getattr(self, name)
            if part:
                data[name] = [t.to_json() for t in part]
        return data

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Contract:
        """Return the contract of a document written by `to_json` or `shapesolve contract --format json`.

        It accepts the same sizes (`holds`, `to_python`). The nodes behind its terms are not included.

        Raises:
            ValueError: If the document is invalid, has a later version, or contains a condition that cannot be
                parsed.
        """
        if isinstance(data, str):
            data = json.loads(data)
        if not isinstance(data, Mapping) or not isinstance(data.get("terms"), list):
            raise ValueError("no contract: a document with a list of terms is expected")
        if data.get("version", 1) != 1:
            raise ValueError(f"the contract has version {data['version']!r}, not 1")
        derived = tuple((n, parse_dim(str(d))) for n, d in dict(data.get("derived", {})).items())
        internal, assumed, declared = (_terms(data.get(n, ())) for n in ("internal", "assumed", "declared"))
        unjudged, terms = tuple(map(str, data.get("unjudged", ()))), _terms(data["terms"])
        scope = tuple(parse_cond(str(c)) for c in dict(data.get("usual", {})).get("scope", ()))
        usual = Usual(_terms(data["usual"]["terms"]), scope) if "usual" in data else Usual(terms)
        return cls(
            terms,
            internal=internal,
            assumed=assumed,
            declared=declared,
            impossible=bool(data.get("impossible")),
            derived=derived,
            unjudged=unjudged,
            find_usual=lambda: usual,
        )

    def to_python(self, name: str = "check_sizes") -> str:
        """Return the source of a Python function that takes sizes by keyword and returns the conditions that they
        violate.
        """
        from ..export import sizes_source

        return sizes_source(self, name)

    def to_smtlib(self) -> str:
        """SMT-LIB 2 text: one named assertion per term."""
        from ..export import smtlib_source

        return smtlib_source(self)


def text_of(cond: Cond, write: Callable[[Cond], str] = str) -> str:
    """Text of a condition with two bounds of one expression as a chain: ``1 <= seq <= 512``. `write` gives the text of
    another condition.
    """
    if cond.kind == "and" and len(cond.args) == 2 and all(c.kind == ">=" for c in cond.args):
        a, b = (c.args[0] for c in cond.args)
        if (a + b).value is not None:
            low, high = (a, b) if a.terms and a.terms[0][1] > 0 else (b, a)
            middle = sides_of(low)[0]
            if not any(c < 0 for _, c in low.terms) and low.const <= 0 and high.const >= 0:
                return f"{-low.const} <= {middle - max(low.const, 0)} <= {high.const}"
    return write(cond)
