"""A declaration that fits: ``dynamic_shapes`` to paste, corrected by what came out."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import Cond, Dim, constant, eq, solve_for_symbol
from .declared import Axis, Declaration
from .outcome import Restriction
from .running import near

_MAX_DIVISOR = 4096
#: sizes at which a correction is tried: of each one alone, and of all together
_PER_SIZE, _TOGETHER = 8, 3


@dataclass
class _Fit:
    """The new declaration of a root. It is a size, an expression, ``step * new + offset`` in bounds, or (`open`) a hint."""

    low: int | None
    high: int | None
    fixed: int | None = None
    equals: Dim | None = None
    step: int = 1
    offset: int = 0
    open: bool = False
    hint: str = ""
    changed: bool = False


class Correction:
    """The corrected declaration; ``left_out`` are conditions that ``dynamic_shapes`` has no words for.

    `equal` are pairs of roots that become one dim. `opened` are roots left to torch.export, with the hint that says so
    (``DYNAMIC``, ``AUTO``). `refused` is set when it was carried out and did not hold, `untried` too when more exports
    would have been needed to find one that does. `numbers` are sizes left at the example's, for want of anything else.
    """

    def __init__(
        self,
        declaration: Declaration,
        restrictions: Sequence[Restriction],
        opened: Mapping[str, str] | None = None,
        *,
        equal: Sequence[tuple[str, str]] = (),
        refused: bool = False,
        untried: bool = False,
    ) -> None:
        self.declaration, self.refused, self.untried = declaration, refused, untried
        self.numbers: dict[str, int] = {}
        self.fits = {n: _Fit(r.low, r.high) for n, r in declaration.roots.items()}
        self.left_out: list[str] = []
        self.said = frozenset(str(r.term.cond) for r in restrictions)
        for restriction in sorted(restrictions, key=lambda r: _ORDER[r.kind]):
            cond = restriction.term.cond
            for part in cond.args if cond.kind == "and" else (cond,):
                if not self._apply(part):
                    self._give_up(part)
        for one, other in equal:
            self._apply(eq(declaration.roots[one].dim, declaration.roots[other].dim))
        for name, hint in (opened or {}).items():
            fit = self.fits[name]
            if fit.fixed is None and fit.equals is None:
                fit.open, fit.changed, fit.hint = True, True, hint

    def fix(self, name: str, size: int) -> None:
        """Make a size the number that it is in the example."""
        self.fits[name].fixed, self.fits[name].changed = size, True
        self.numbers[name] = size

    def limit(self, name: str, size: int, *, upper: bool) -> None:
        """Make a size an end of the range."""
        fit = self.fits[name]
        fit.low, fit.high, fit.changed = (fit.low, size, True) if upper else (size, fit.high, True)

    @property
    def changed(self) -> bool:
        """True if the correction differs from the declaration."""
        return any(f.changed for f in self.fits.values())

    @property
    def elsewhere(self) -> tuple[tuple[str, int], ...]:
        """Required numbers that the example does not have. A declaration without them means the example's."""
        fixed = [(n, f.fixed) for n, f in self.fits.items() if f.fixed is not None]
        axes = self.declaration.axes_of
        return tuple(
            (n, v)
            for n, v in fixed
            if any(a.size.subs({n: v}).value not in (None, a.example) for a in axes(n))
        )

    @property
    def dynamic(self) -> list[str]:
        """The sizes that it leaves dynamic."""
        return [n for n, f in self.fits.items() if f.fixed is None]

    def promised(self, example: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Sizes that it allows: all of them changed, then one at a time, those next to the example first."""
        choices = {n: self._choices(n, example[n]) for n, f in self.fits.items() if f.equals is None}
        rows = max(map(len, choices.values()), default=0)
        together = ({n: v[i % len(v)] for n, v in choices.items() if v} for i in range(min(rows, _TOGETHER)))
        alone = ({n: v[i]} for i in range(rows) for n, v in choices.items() if i < len(v))
        for changed in itertools.chain(together, alone):
            sizes = {**example, **changed}
            for _ in self.fits:  # as in a declaration, one size may be equal to one that is equal to another
                found = ((n, f.equals.evaluate(sizes)) for n, f in self.fits.items() if f.equals is not None)
                sizes.update({n: v for n, v in found if v is not None})
            yield sizes

    def _choices(self, name: str, example: int) -> list[int]:
        """Sizes to test for one name. An undeclared end of the range is one step from the example."""
        fit = self.fits[name]
        if fit.fixed is not None:
            return []
        at = (example - fit.offset) // fit.step
        low = max(at - 1, 1) if fit.low is None else -(-(fit.low - fit.offset) // fit.step)
        high = at + 1 if fit.high is None else (fit.high - fit.offset) // fit.step
        return [v * fit.step + fit.offset for v in near(low, high, at)][:_PER_SIZE]

    # ------------------------------------------------------------------ from conditions to fits

    def _apply(self, cond: Cond) -> bool:
        names = sorted(cond.free)
        if cond.kind == "==":
            if len(names) == 1 and self._residue(cond, names[0]):
                return True
            return self._equality(cond)
        if cond.kind == ">=" and len(names) == 1 and len(cond.args[0].terms) == 1:
            return self._bound(cond.args[0], names[0])
        return False

    def _give_up(self, cond: Cond) -> None:
        """Leaves out a condition that ``dynamic_shapes`` cannot express. torch.export infers it, and callers must obey it."""
        self.left_out.append(str(cond))
        for name in sorted(cond.free & self.fits.keys()):
            self.fits[name].open = self.fits[name].changed = True

    def _equality(self, cond: Cond) -> bool:
        order = list(self.fits)
        found = solve_for_symbol(cond.args[0], lambda a: order.index(a.args[0]) if a.args[0] in order else -1)
        if found is None:
            return False
        name, rest = found[0].args[0], found[1]
        if name not in self.fits:
            return False
        fit = self.fits[name]
        if rest.value is not None:
            fit.fixed, fit.changed = rest.value, True
            return True
        if len(rest.terms) != 1 or rest.terms[0][1] < 1 or len(rest.terms[0][0]) != 1:
            return False  # torch.export derives a dim from one other dim, increasing
        fit.equals, fit.changed = rest, True
        return True

    def _residue(self, cond: Cond, name: str) -> bool:
        divisors = {a.args[1].value for mono, _ in cond.args[0].terms for a in mono if a.kind == "//"}
        (step, *others) = divisors or {None}
        if step is None or others or not 1 < step <= _MAX_DIVISOR:
            return False
        rests = [r for r in range(step) if cond.evaluate({name: 16 * step + r})]
        if len(rests) != 1:
            return False
        fit = self.fits[name]
        fit.step, fit.offset, fit.changed = step, rests[0], True
        return True

    def _bound(self, d: Dim, name: str) -> bool:
        (monomial, factor), fit = d.terms[0], self.fits[name]
        if len(monomial) != 1 or monomial[0].kind != "sym":
            return False
        if factor > 0:
            fit.low = max(fit.low or 0, -(d.const // factor))
        else:
            high = d.const // -factor
            fit.high = high if fit.high is None else min(fit.high, high)
        fit.changed = True
        return True

    # ------------------------------------------------------------------ from fits to text

    def text(self) -> str:
        """Python to paste: the dims, and ``dynamic_shapes``."""
        used: dict[str, None] = {}
        body = self._render(self.declaration.spec, used)
        if self.declaration.spec is None:  # of what is exported already, only its dims can be told
            used = dict.fromkeys(n for n, f in self.fits.items() if f.fixed is None and f.equals is None)
        lines = [f"{_word(n)} = {self._definition(n)}" for n in used if self._definition(n)]
        return "\n".join(lines if self.declaration.spec is None else [*lines, f"dynamic_shapes = {body}"])

    def _definition(self, name: str) -> str:
        fit, root = self.fits[name], self.declaration.roots[name]
        low, high, label = fit.low, fit.high, name
        if fit.step > 1 or fit.offset:
            label = f"_{name.lstrip('_')}"
            low = max(1, -(-((low or 0) - fit.offset) // fit.step))
            high = None if high is None else (high - fit.offset) // fit.step
        bounds = "".join(f", {k}={v}" for k, v in (("min", low), ("max", high)) if v)
        if fit.open or (root.hint and fit.step == 1 and not self._read_by_others(name)):
            return ""
        return f'Dim("{label}"{bounds})'

    def _read_by_others(self, name: str) -> bool:
        return any(f.equals is not None and name in f.equals.free for f in self.fits.values())

    def _render(self, spec: Any, used: dict[str, None]) -> str:
        if isinstance(spec, dict):
            kept = [(k, self._entry(spec, k, v, used)) for k, v in spec.items()]
            return "{" + ", ".join(f"{k!r}: {text}" for k, text in kept if text) + "}"
        if isinstance(spec, (list, tuple)):
            parts = [self._entry(spec, i, v, used) or "None" for i, v in enumerate(spec)]
            inner = ", ".join(parts) + ("," if isinstance(spec, tuple) and len(parts) == 1 else "")
            return f"({inner})" if isinstance(spec, tuple) else f"[{inner}]"
        return repr(spec)

    def _entry(self, spec: Any, key: Any, value: Any, used: dict[str, None]) -> str:
        """Text of one entry; empty for one that is static now."""
        axis = self.declaration.leaves.get((id(spec), key)) if isinstance(key, int) else None
        if axis is not None:
            return self._size(axis, used)
        if value is None or isinstance(value, (dict, list, tuple)):
            return self._render(value, used)
        if type(value).__name__ == "_DimHint":
            return f"Dim.{value.type.name}"
        return repr(value)

    def _size(self, axis: Axis, used: dict[str, None]) -> str:
        size = axis.size
        for _ in self.fits:  # a size may be equal to one that is equal to another
            size = size.subs({n: self._value(n) for n in size.free})
        if size.value is not None:
            return ""
        (name,) = sorted(size.free)[:1]
        root, fit = self.declaration.roots[name], self.fits[name]
        used.setdefault(name)
        if not self._definition(name):
            return _hint(
                fit.hint or root.hint or "DYNAMIC",
                size.subs({name: fit.low or 0}),
                fit.high and size.subs({name: fit.high}),
            )
        return str(size.subs({name: Dim(_word(name)) * fit.step + fit.offset}))

    def _value(self, name: str) -> Dim:
        fit = self.fits[name]
        if fit.fixed is not None:
            return constant(fit.fixed)
        return fit.equals if fit.equals is not None else self.declaration.roots[name].dim


def _hint(kind: str, low: Dim, high: Dim | int | None) -> str:
    """``Dim.DYNAMIC(min=4, max=64)``; a lower bound of up to 2 is what the hint says anyway."""
    if kind == "AUTO":
        return "Dim.AUTO"  # with bounds torch.export refuses what it finds narrower
    least = low.value
    bounds = [f"min={least}"] if least is not None and least > 2 else []
    bounds += [f"max={high}"] if high is not None else []
    return f"Dim.{kind}({', '.join(bounds)})" if bounds else f"Dim.{kind}"


_ORDER = {"range": 0, "restricted": 1, "tied": 2, "fixed": 3}


def _word(name: str) -> str:
    """A Python name for a dim."""
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if keyword.iskeyword(word) or not word or word[0].isdigit() else word
