"""Guess and verify: the plain form of conditions that are hard to read.

``(H + 31)//32 == 7`` holds for exactly the sizes 193 to 224. The guess comes from a table of sizes, the proof
that it says the same for *all* sizes from the engine; what is not proved is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd

import numpy as np

from ..expr import FALSE, Cond, Dim, all_of, any_of, constant, eq, ge, le, of_atom, symbol
from ..expr.traverse import atoms_of
from ..propagate import budget
from .engine import Engine
from .tables import Inexact, Table, Truth, truth_table

#: largest size in a table
_LARGEST = 2**62
#: sizes per symbol in a table that shows that conditions on several symbols cannot be told apart
_GRID = {2: 96, 3: 20, 4: 9}


def separate(conds: Sequence[Cond], floor: Mapping[str, Cond], engine: Engine) -> list[Cond] | None:
    """Conditions on one symbol each that together say what `conds` say, or None when there are none (or no
    proof).

    `floor` gives, by symbol, what is taken for granted (``x >= 1`` for inputs that are not empty).
    """
    names = sorted(set().union(*(c.free for c in conds)))
    if _is_joint(names, conds):
        return None
    granted = [floor[n] for n in names if n in floor]
    model = (
        dict.fromkeys(names, 1)
        if len(names) == 1
        else engine.satisfiable([*conds, *granted], cheap=True).model
    )
    if model is None:
        return None
    guesses = []
    for name in names:
        guess = suggested_form(name, model, conds)
        if guess is not None and len(names) == 1 and not granted:
            guess = with_zero(guess, name, conds)
        if guess is None and len(names) == 1 and not granted:  # no size of the table does: 0 may, or none
            few = (eq(_symbol_in(name, conds), 0), FALSE)
            guess = next((c for c in few if engine.equivalent([c], conds, name, 0)), None)
        if guess is None:
            return None
        guesses.append(guess)
    if len(names) == 1:
        same = engine.equivalent(guesses, conds, names[0], 1 if granted else 0)
        if same is not None:
            return guesses if same else None
    for guess in guesses:
        if not engine.entails(guess, [*conds, *granted], cheap=True).proved:
            return None
    for cond in conds:
        if not engine.entails(cond, [*guesses, *granted], cheap=True).proved:
            return None
    return guesses


def _is_joint(names: Sequence[str], conds: Sequence[Cond]) -> bool:
    """Do small sizes show that what `conds` allow of one symbol depends on another one?"""
    if len(names) not in _GRID:
        return False
    sizes = np.arange(1, _GRID[len(names)] + 1, dtype=np.int64)
    table = Table(dict(zip(names, np.meshgrid(*[sizes] * len(names), indexing="ij"), strict=True)))
    held: Truth = np.ones((len(sizes),) * len(names), dtype=np.bool_)
    try:
        for c in conds:
            held = np.logical_and(held, table.truth(c))
    except Inexact:
        return False
    apart: Truth = np.ones_like(held)
    for axis in range(len(names)):
        others = tuple(i for i in range(len(names)) if i != axis)
        apart = np.logical_and(apart, held.any(axis=others, keepdims=True))
    return bool((apart & ~held).any())


def suggested_form(name: str, model: Mapping[str, int], conds: Sequence[Cond]) -> Cond | None:
    """The plain form of `conds` on one symbol, the others fixed, as the table suggests it."""
    sizes = np.arange(1, budget.TABLE_SIZES + 1, dtype=np.int64)
    if any(abs(v) > _LARGEST for v in model.values()):
        return None
    columns = {n: sizes if n == name else np.int64(v) for n, v in model.items()}
    held: Truth = np.ones(sizes.shape, dtype=np.bool_)
    x = _symbol_in(name, conds)
    try:
        for c in conds:
            if name in c.free:
                held = np.logical_and(held, truth_table(c, columns))  # type: ignore[arg-type]
    except (Inexact, KeyError):
        return None
    return plain_form(x, [int(s) for s in sizes[held]])


def with_zero(form: Cond, name: str, conds: Sequence[Cond]) -> Cond:
    """A form that a table of sizes from 1 on suggests for conditions on one symbol, with what they say of 0."""
    x, holds = _symbol_in(name, conds), [c.evaluate({name: 0}) for c in conds]
    if False in holds:
        return form if form.evaluate({name: 0}) is False else all_of((form, ge(x, 1)))
    return any_of((form, eq(x, 0))) if None not in holds and form.evaluate({name: 0}) is False else form


def plain_form(x: Dim, sizes: Sequence[int]) -> Cond | None:
    """A readable condition that holds for exactly `sizes` among ``1 .. TABLE_SIZES`` (all from 1 on if the
    pattern goes on).
    """
    if not sizes:
        return None
    top = budget.TABLE_SIZES
    runs = _runs(sizes)
    if len(runs) <= 2 or len(sizes) <= budget.MAX_LISTED:
        if len(runs) > budget.MAX_LISTED:
            return None
        return any_of(_range(x, lo, hi, top) for lo, hi in runs)
    step = 0
    for a, b in pairwise(sizes):
        step = gcd(step, b - a)
    goes_on = sizes[-1] + step > top
    if len(sizes) == (sizes[-1] - sizes[0]) // step + 1 and step <= budget.MAX_PERIOD:
        parts = [eq(x % step, sizes[0] % step)]
        if sizes[0] > step:
            parts.append(ge(x, sizes[0]))
        if not goes_on:
            parts.append(le(x, sizes[-1]))
        return all_of(parts)
    return _periodic(x, sizes, top)


def _periodic(x: Dim, sizes: Sequence[int], top: int) -> Cond | None:
    """The remainders of one period, one range of them or a few, from some size on."""
    first = sizes[0]
    held = np.zeros(top + 1, dtype=np.bool_)
    held[np.asarray(sizes)] = True
    part = held[first:]
    for period in range(2, min(budget.MAX_PERIOD, len(part) // 3)):
        if not np.array_equal(part[period:], part[:-period]):
            continue
        residues = sorted({(first + int(i)) % period for i in np.flatnonzero(part[:period])})
        rest = x % period
        runs = _runs(residues)
        if len(runs) > 2 and len(residues) > budget.MAX_LISTED:
            return None
        found = any_of(all_of((ge(rest, lo), le(rest, hi))) for lo, hi in runs)
        below = [s for s in range(1, first) if s % period in residues]
        return all_of((found, ge(x, first))) if below else found
    return None


def _runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for s in sizes:
        if runs and runs[-1][1] == s - 1:
            runs[-1] = (runs[-1][0], s)
        else:
            runs.append((s, s))
    return runs


def _range(x: Dim, lo: int, hi: int, top: int) -> Cond:
    if lo == hi:
        return eq(x, lo)
    parts = []
    if lo > 1:
        parts.append(ge(x, lo))
    if hi < top:
        parts.append(ge(constant(hi) - x, 0))
    return all_of(parts)


def _symbol_in(name: str, conds: Sequence[Cond]) -> Dim:
    for c in conds:
        if name in c.free:
            for atom in atoms_of(c):
                if atom.kind == "sym" and atom.args[0] == name:
                    return of_atom(atom)
    return symbol(name)
