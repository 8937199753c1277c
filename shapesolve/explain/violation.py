"""`check_inputs`: concrete input shapes against what the model declares and requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..expr import Dim, eq, symbol
from ..lower.types import Tensor
from ..solve.check import Broken, Checker
from ..solve.cones import cone
from .finding import Violation

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..solve.engine import Engine

#: a size for a symbol that no condition is about
_ANY = 2


class InputChecker:
    """Prepared once per analysis; each check costs microseconds."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.declared: list[tuple[str, tuple[tuple[str | None, int | None, Dim], ...]]] = []
        alike: dict[tuple[Dim, ...], tuple[tuple[str | None, int | None, Dim], ...]] = {}
        for name, known in lowered.inputs.items():
            if isinstance(known, Tensor) and known.shape is not None:
                dims = tuple([(d.name, d.value, d) for d in known.shape])
                self.declared.append((name, alike.setdefault(tuple(known.shape), dims)))
        said = [c.cond.free for c in lowered.constraints if c.role in ("user", "assumption")]
        self.tied = frozenset[str]().union(*said)
        self.checker = Checker(lowered.constraints, lowered.facts)

    def bind(self, shapes: Mapping[str, Sequence[int]]) -> tuple[dict[str, int], list[Violation]]:
        """Sizes of the symbols, and where the shapes do not fit the declared ones."""
        sizes: dict[str, int] = {}
        wrong: list[Violation] = []
        later: list[tuple[str, int, Dim, int]] = []
        fit: dict[
            int, Sequence[int]
        ] = {}  # by the identity of what is declared: the inputs of a cache are all alike
        for name, dims in self.declared:
            given = shapes.get(name)
            if given is None:
                continue
            if type(given) is not tuple:  # an array of numpy does not compare to one truth
                given = tuple(given)
            if fit.get(id(dims)) == given:
                continue
            found = len(wrong) + len(later)
            if len(given) != len(dims):
                wrong.append(_misfit(f"{name} needs rank {len(dims)}, but it is {list(given)}"))
                continue
            for axis, ((label, const, d), size) in enumerate(zip(dims, given)):
                if label is None:
                    if size != const:
                        later.append((name, axis, d, size))
                elif sizes.setdefault(label, size) != size:
                    wrong.append(
                        _misfit(f"{name}[{axis}] is {size}, but {label} is {sizes[label]} in another input")
                    )
            if found == len(wrong) + len(later):
                fit[id(dims)] = given
        for name, axis, d, size in later:
            if (
                not d.terms and d.const != size
            ):  # an expression is the author's promise, which no runtime checks
                wrong.append(_misfit(f"{name}[{axis}] must be {d}, but it is {size}"))
        _solve([(d, size) for _, _, d, size in later if d.terms], sizes, self.tied)
        return sizes, wrong

    def completed(self, sizes: Mapping[str, int], engine: Engine) -> dict[str, int] | None:
        """Accepted sizes of all inputs, with these for the names that they give; None where none were found."""
        full = dict(sizes)
        missing = [n for n in self.lowered.symbols if n not in full]
        conds = [c for c in self.checker.conditions if c.free <= self.lowered.symbols.keys()]
        near = cone(missing, conds)
        if near:
            fixed = [eq(symbol(n), v) for n, v in full.items()]
            found = engine.model([*near, *cone({n for c in near for n in c.free}, fixed)])
            if found is None:
                return None
            full.update({n: found[n] for n in missing if n in found})
        full.update({n: _ANY for n in missing if n not in full})
        return None if self.checker.broken(full) else {n: full[n] for n in self.lowered.symbols}

    def check(self, shapes: Mapping[str, Sequence[int]]) -> list[Violation]:
        """Everything that these shapes break."""
        sizes, wrong = self.bind(shapes)
        broken = self.checker.broken(sizes)
        return wrong + [self._violation(b, sizes) for b in broken] if broken else wrong

    def _violation(self, broken: Broken, sizes: Mapping[str, int]) -> Violation:
        from .trace import Tracer
        from .wording import violation_text

        tracer, constraint = Tracer(self.lowered), broken.constraints[0]
        nodes = dict.fromkeys(broken.nodes)
        for c in broken.constraints:
            for site in c.origin.sites:
                nodes.update(
                    dict.fromkeys(tracer.nodes(tracer.chain(site.tensor, site.axis, to_inputs=True)))
                )
        return Violation(
            str(constraint.cond), violation_text(constraint, sizes, self.lowered), tuple(nodes), constraint
        )


def _solve(stated: list[tuple[Dim, int]], sizes: dict[str, int], tied: frozenset[str]) -> None:
    """Bind symbols that only expressions declare (``2*H`` is 6 where H is 3), as far as one at a time will do.

    Where an expression is all that the model sees of several symbols, and the user said nothing of them (`tied`), any
    solution stands for all: every size is a function of the declared ones.
    """
    left = dict(stated)
    while True:
        left = {now: size for d, size in left.items() if (now := _at(d, sizes)) is not None and now.terms}
        for d, size in left.items():
            first, *others = sorted(d.free)
            if others and (
                not tied.isdisjoint(d.free) or any(o is not d and not o.free.isdisjoint(d.free) for o in left)
            ):
                continue
            zeros = dict.fromkeys(others, 0)
            trial = _at(d, zeros)
            if trial is None:
                continue
            step = trial.terms[0][1] if trial.terms else 0
            found, odd = divmod(size - trial.const, step) if step else (-1, 0)
            if found >= 0 and not odd and trial is symbol(first) * step + trial.const:
                sizes.update({first: found, **zeros})
                break
        else:
            return


def _at(d: Dim, sizes: Mapping[str, int]) -> Dim | None:
    """`d` at these sizes; None where it divides by 0."""
    try:
        return d.subs(sizes)
    except ZeroDivisionError:
        return None


def _misfit(message: str) -> Violation:
    return Violation(message, message, ())
