"""Signatures: operator rules written as a pattern of named dims.

    signature("BatchNormalization", "N C *S, C, C, C, C -> N C *S")
    signature("DepthToSpace", "N C H W -> N C//(b*b) H*b W*b", b="blocksize", where="C % (b*b) == 0")

Inputs and outputs are separated by commas, the dims of one by spaces. A dim is

``N``            a variable: bound at its first use, and equal at every later use (one of several words,
                 ``number_of_regions``, is printed as words);
``4*H``          an expression: if a variable in it is not bound yet, it is bound by exact division;
``64``           a size;
``_``            any dim;
``*S``           any number of dims (at most one such group in an input); bound and compared like a variable;
``~S``           a group that is broadcast: all inputs with that group broadcast together;
``<S``           a group that broadcasts one way: it must expand to the group ``*S``, which does not change;
``?``            alone: an input or output without a description;
``[C]``          alone: an input of any rank with that number of elements, such as ``[1]``;

An input with ``...`` at its end repeats for all remaining inputs. A ``.`` alone is a scalar. Keyword names are bound
first:
to an attribute (``b="blocksize"``, or ``b="blocksize=1"`` with a default) or to a number. ``where`` adds conditions.
The
rank of an input without a group is required, so it also propagates backward.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from functools import lru_cache
from typing import NamedTuple

from ..expr import (
    ONE,
    Cond,
    Dim,
    Shape,
    Substitution,
    any_of,
    constant,
    divides,
    eq,
    exact_quotient,
    floor_div,
    parse_cond,
    parse_dim,
    symbol,
)
from ..expr.traverse import atoms_of
from .op import InvalidNode, Op
from .reason import formula
from .records import Place
from .rule import Ranks
from .types import Known

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


class PatternTerm(NamedTuple):
    """One token of a pattern. ``kind`` is ``dim``, ``any``, ``#``, or a group's mark ``* ~ <``; `along`: see `lower.axes`."""

    kind: str
    name: str = ""
    dim: Dim = ONE
    along: bool = False


class Pattern(NamedTuple):
    """Dims of one input or output in a signature.

    `anything` means any shape; `repeats` covers all remaining inputs. For an input of any rank, `numel` is the number
    of
    elements.
    """

    terms: tuple[PatternTerm, ...]
    anything: bool = False
    repeats: bool = False
    numel: PatternTerm | None = None

    @property
    def group(self) -> int | None:
        """Position of the group (``*S``) in the pattern, or None."""
        return next((i for i, t in enumerate(self.terms) if t.kind in "*~<"), None)


class Signature:
    """A parsed signature, called as the rule of an operator."""

    __slots__ = ("_parsed", "names", "text", "where")

    def __init__(self, text: str, where: Seq[str], names: Mapping[str, str | int]) -> None:
        self.text, self.where, self.names = text, tuple(where), dict(names)
        self._parsed: tuple[tuple[Pattern, ...], tuple[Pattern, ...], tuple[Cond, ...]] | None = None

    @property
    def parsed(self) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...], tuple[Cond, ...]]:
        """Input patterns, output patterns, conditions (parsed at first use)."""
        if self._parsed is None:
            left, arrow, right = self.text.partition("->")
            if not arrow:
                raise ValueError(f"a signature needs '->': {self.text!r}")
            self._parsed = (_patterns(left), _patterns(right), tuple(parse_cond(w) for w in self.where))
        return self._parsed

    def check(self) -> None:
        """Raise `ValueError` if the signature's text is wrong."""
        _ = self.parsed

    @property
    def ranks(self) -> Ranks:
        """Relation of the first output's rank to the input ranks."""
        inputs, outputs, _ = self.parsed
        if not inputs or not outputs or inputs[0].group is None or outputs[0].group is None:
            return ""  # a rank without a group is required, or known
        first, out = inputs[0], outputs[0]
        groups = [p.terms[p.group] for p in (first, out) if p.group is not None]
        if len(first.terms) != len(out.terms) or groups[0] != groups[1]:
            return ""
        return "first" if groups[0].kind == "*" else ""

    def __call__(self, op: Op) -> list[Known | None]:
        """Lower a node: match its inputs, require equal dims, and return its outputs."""
        inputs, outputs, conditions = self.parsed
        match = _Match(op, self._given(op))
        if len(op.names) > len(inputs) and not (inputs and inputs[-1].repeats):
            raise InvalidNode(f"{op.node.op_type} takes at most {len(inputs)} inputs, got {len(op.names)}")
        for i in range(op.n_in):
            if op.has(i):
                match.input(i, inputs[min(i, len(inputs) - 1)])
        match.settle()
        for cond in conditions:
            match.condition(cond)
        return [op.out(match.output(p)) for p in outputs[: op.n_out]]

    def _given(self, op: Op) -> dict[str, Dim]:
        given: dict[str, Dim] = {}
        for name, source in self.names.items():
            if isinstance(source, int):
                given[name] = constant(source)
                continue
            attribute, _, default = source.partition("=")
            given[name] = constant(op.int_attr(attribute, int(default) if default else None))
        return given

    def __repr__(self) -> str:
        return f"Signature({self.text!r})"


def _patterns(text: str) -> tuple[Pattern, ...]:
    return tuple(_pattern(part.strip()) for part in text.split(",")) if text.strip() else ()


def _pattern(text: str) -> Pattern:
    repeats = text.endswith("...")
    text = text.removesuffix("...").strip()
    if text == "?":
        return Pattern((), anything=True, repeats=repeats)
    if text.startswith("["):
        return Pattern((), anything=True, repeats=repeats, numel=_term(text.strip("[]")))
    terms = tuple(_term(t) for t in text.split()) if text != "." else ()
    return Pattern(terms, repeats=repeats)


def _term(token: str) -> PatternTerm:
    if token[0] == "^":
        return _term(token[1:])._replace(along=True)
    if token == "#":
        return PatternTerm(token)
    if token[0] in "*~<":
        return PatternTerm(token[0], token[1:])
    return PatternTerm("any") if token == "_" else PatternTerm("dim", token, parse_dim(token))


class _Match:
    """Variables and groups bound while matching one node."""

    def __init__(self, op: Op, given: dict[str, Dim]) -> None:
        self.op = op
        self.dims: dict[str, Dim] = given
        self.at: dict[str, Place] = {}
        self.groups: dict[str, Shape] = {}
        self.group_at: dict[str, tuple[int, int]] = {}
        self.broadcast: dict[str, list[tuple[int, Shape]] | None] = {}
        self.one_way: list[tuple[str, int, int, Shape]] = []
        self.waiting: list[tuple[Dim, Dim, Place]] = []

    def input(self, i: int, pattern: Pattern) -> None:
        if pattern.numel is not None:
            known = self.op.shape(i)
            if known is not None:
                self.bind(pattern.numel, known.numel, (i, None))
        if pattern.anything:
            return
        group = pattern.group
        fixed = len(pattern.terms) - (group is not None)
        shape = self.op.shape(i, fixed if group is None else None)
        if shape is None:
            if group is not None and pattern.terms[group].kind == "~":
                self.broadcast[pattern.terms[group].name] = None
            return
        if group is None:
            group = len(pattern.terms)
        elif len(shape) < fixed:
            raise InvalidNode(f"input {self.op.name_of(i)} must have rank {fixed} or more, got {shape}")
        else:
            self.bind_group(pattern.terms[group], i, group, shape[group : len(shape) - fixed + group])
        for k, term in enumerate(pattern.terms[:group]):
            self.bind(term, shape[k], (i, k))
        tail = pattern.terms[group + 1 :]
        for k, term in enumerate(tail, len(shape) - len(tail)):
            self.bind(term, shape[k], (i, k))

    def bind_group(self, term: PatternTerm, i: int, axis: int, dims: Shape) -> None:
        if term.kind == "~":
            so_far = self.broadcast.setdefault(term.name, [])
            if so_far is not None:
                so_far.append((i, dims))
        elif term.kind == "<":
            self.one_way.append((term.name, i, axis, dims))
        elif term.name in self.groups:
            self.same_group(term.name, i, axis, dims)
        else:
            self.groups[term.name], self.group_at[term.name] = dims, (i, axis)

    def same_group(self, name: str, i: int, axis: int, dims: Shape) -> None:
        bound, (j, start) = self.groups[name], self.group_at[name]
        if len(bound) != len(dims):
            raise InvalidNode(
                f"{self.op.name_of(j)} and {self.op.name_of(i)} must have matching ranks, got {bound} and {dims}"
            )
        self.groups[name] = Shape(
            self.op.same(a, b, _agreement("", (j, start + k), (i, axis + k)), (j, start + k), (i, axis + k))
            for k, (a, b) in enumerate(zip(bound, dims, strict=True))
        )

    def bind(self, term: PatternTerm, dim: Dim, place: Place) -> None:
        if term.kind == "any":
            return
        if not term.dim.terms:
            self.op.same(dim, term.dim, f"{_place(place)} must be {term.dim}", place)
        elif term.dim.name is not None:
            name = term.dim.name
            if name in self.dims:
                first = self.at.get(name)
                at = (first, place) if first is not None else (place,)
                self.dims[name] = self.op.same(self.dims[name], dim, _agreement(name, first, place), *at)
            else:
                self.dims[name], self.at[name] = dim, place
        else:
            self.waiting.append((term.dim, dim, place))

    def settle(self) -> None:
        """Solves expressions in inputs for unbound variables by exact division; requires the rest."""
        for expression, dim, place in self.waiting:
            known = expression.subs(self.dims)
            unbound = [n for n in expression.free if n not in self.dims]
            if len(unbound) == 1:
                factor = exact_quotient(known, symbol(unbound[0]))
                if factor is not None and factor.free.isdisjoint(unbound) and factor.value != 0:
                    self.op.require(divides(factor, dim), f"the size must be a multiple of {factor}", place)
                    self.dims[unbound[0]] = floor_div(dim, factor)
                    self.at[unbound[0]] = place
                continue
            if not unbound:
                self.op.same(dim, known, f"the size must be {expression}", place)
        for name, i, axis, dims in self.one_way:
            self.expand_to(name, i, axis, dims)

    def expand_to(self, name: str, i: int, axis: int, dims: Shape) -> None:
        target = self.groups.get(name)
        if target is None:
            return
        if len(dims) > len(target):
            raise InvalidNode(f"{self.op.name_of(i)} of rank {len(dims)} cannot broadcast to {target}")
        source, start = self.group_at[name]
        shift = len(target) - len(dims)
        for k, d in enumerate(dims):
            t = target[shift + k]
            places: tuple[Place, ...] = ((i, axis + k), (source, start + shift + k))
            self.op.require(
                any_of((eq(d, t), eq(d, 1))), "the size must be equal, or 1 to be broadcast", *places
            )

    def condition(self, cond: Cond) -> None:
        if all(n in self.dims for n in cond.free):
            places = [self.at[n] for n in sorted(cond.free) if n in self.at]
            self.op.require(cond.map_dims(Substitution(self.dims)), self.formula(cond), *places)

    def formula(self, cond: Cond) -> str:
        """Return the reason for a condition of the signature, in words if it requires multiples of a number."""
        here = cond.map_dims(Substitution({n: d for n, d in self.dims.items() if n not in self.at}))
        name = next(iter(here.free)) if len(here.free) == 1 else ""
        for atom in atoms_of(here) if name else ():
            k = atom.args[1] if atom.kind == "//" else None
            if isinstance(k, Dim) and here is divides(k, symbol(name)):
                return f"{_place(self.at[name])} must be a multiple of {k}"
        return formula(str(cond))

    def output(self, pattern: Pattern) -> Shape | None:
        if pattern.anything:
            return None
        dims: list[Dim] = []
        for term in pattern.terms:
            if term.kind == "any":
                dims.append(self.op.fresh("an open dim"))
            elif term.kind == "dim":
                dims.append(self.value_of(term.dim))
            else:
                group = self.group(term.name)
                if group is None:
                    return None
                dims += group
        return Shape(dims)

    def group(self, name: str) -> Shape | None:
        if name in self.broadcast:
            parts = self.broadcast[name]
            if parts is None:
                return None
            self.groups[name] = self.op.broadcast_of(parts)
            del self.broadcast[name]
        return self.groups.get(name)

    def value_of(self, dim: Dim) -> Dim:
        for name in sorted(dim.free):
            if name not in self.dims:
                self.dims[name] = self.op.fresh(f"size {name}")
        return dim.subs(self.dims)


@lru_cache(maxsize=1024)
def _agreement(name: str, first: Place | None, second: Place) -> str:
    """Text of the requirement that two axes with the same variable are equal. A name of several words is in the message."""
    words = name.replace("_", " ")
    if first is None:  # it is given
        return f"{_place(second)} must be {words}"
    axes = f"axis {first[1]}" if first[0] == second[0] else _place(first)
    pair = f"{axes} and {_place(second)}"
    return f"the {words} must be equal: {pair}" if "_" in name else f"{pair} must be equal"


def _place(place: Place) -> str:
    i, axis = place
    which = f"the {_ORDINALS[i]} input" if i < len(_ORDINALS) else f"input {i}"
    return f"axis {axis} of {which}" if axis is not None else f"the number of elements of {which}"
