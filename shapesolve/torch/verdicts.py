"""Blames a refused size on the module, the exported graph or the tracer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..expr import Cond
from .declared import Declaration
from .findings import Verdict
from .outcome import Restriction, sizes_text
from .running import Ran, Runs, near, violating
from .unguarded import Unguarded

_MAX_COMPARED = 10
_MAX_LISTED = 20_000
_MAX_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A refutation that was tried.

    Attributes:
        verdict: whose fault it is; unknown where the module could not be run there.
        sizes: the sizes at which it shows, all others as in the example.
        failed: the run that failed, with its line, when the module does.
        runs: ruled out by the condition, and the module runs there all the same.
        follows: the ones among them where the exported graph gives what the module gives.
    """

    verdict: Verdict
    sizes: tuple[tuple[str, int], ...] = ()
    failed: Ran | None = None
    runs: tuple[tuple[tuple[str, int], ...], ...] = ()
    follows: tuple[tuple[tuple[str, int], ...], ...] = ()


class Confirmation:
    """Tries refutations: by running the module, and where it runs, the exported graph without its guards."""

    def __init__(self, declaration: Declaration, runs: Runs, graph: Unguarded | None) -> None:
        self.declaration, self.runs, self.graph = declaration, runs, graph

    def of(self, restriction: Restriction, others: Sequence[Cond] = ()) -> Confirmed:
        """Try the sizes that a restriction rules out, and none of the `others`."""
        given = [dict(restriction.counterexample)] if restriction.counterexample else []
        alone = restriction.term.fails if others else None
        if alone is not None and self._declared(alone):
            given.append({n: v for n, v in alone.items() if v != self.runs.example[n]})
        found = self.of_condition(restriction.term.cond, restriction.roots, given, others)
        if found.verdict == "tracer" and not restriction.guarded:
            # what the analysis proves of the graph holds, whatever torch.export's program computes
            return Confirmed("graph", found.sizes, None, found.runs)
        return found

    def of_condition(
        self,
        cond: Cond,
        roots: Sequence[str],
        given: Sequence[Mapping[str, int]] = (),
        others: Sequence[Cond] = (),
    ) -> Confirmed:
        """Try declared sizes at which a condition does not hold, and the `others` do."""
        own = violating(self.declaration, self.runs.example, lambda sizes: holds_at(cond, sizes), roots)
        tried: list[tuple[dict[str, int], Ran]] = []
        for sizes in self._beside([*map(dict, given), *own], roots):
            whole = self.runs.complete(sizes)
            fits = not holds_at(cond, whole) and all(holds_at(c, whole) for c in others)
            if fits and len(tried) < self.runs.tries and all(sizes != s for s, _ in tried):
                ran = self.runs.at(sizes)
                if ran.state != "unknown":
                    tried.append((sizes, ran))
        if not tried and others:  # conditions that always break together are tried together
            return self.of_condition(cond, roots, given)
        ran_there = tuple(tuple(s.items()) for s, r in tried if r.state == "runs")
        failing = [(s, r) for s, r in tried if r.state == "fails"]
        places = [r.origin.place for _, r in failing]  # another line may fail at the very ends of a range
        failed = max(failing, key=lambda pair: places.count(pair[1].origin.place), default=None)
        if failed is not None:
            known = ran_there or self._ran_elsewhere(cond, own)
            return Confirmed("module", tuple(failed[0].items()), failed[1], known)
        if not tried:
            return Confirmed("unknown")
        return self.of_graph(ran_there)

    def _ran_elsewhere(
        self, cond: Cond, own: Sequence[dict[str, int]]
    ) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Sizes that other conditions rule out too, and where the module runs: this one is not what it needs."""
        ran = (s for s in own[: self.runs.tries] if self.runs.at(s).state == "runs")
        return tuple(tuple(s.items()) for s in ran if not holds_at(cond, self.runs.complete(s)))

    def _declared(self, sizes: Mapping[str, int]) -> bool:
        roots = self.declaration.roots
        return all(
            n in roots and (roots[n].low or 1) <= v and (roots[n].high is None or v <= (roots[n].high or v))
            for n, v in sizes.items()
        )

    def _beside(self, own: Sequence[dict[str, int]], roots: Sequence[str]) -> Iterator[dict[str, int]]:
        """Sizes alone, and each with other sizes for the rest, where the module runs with those but for these."""
        declared, example = self.declaration.roots, self.runs.example
        rest = {
            n: v for n, r in declared.items() if n not in roots and (v := near(r.low, r.high, example[n]))
        }
        for i, sizes in enumerate(own):
            yield sizes
            others = {n: values[i % len(values)] for n, values in rest.items()}
            if others and self.runs.at(others).state == "runs":
                yield {**sizes, **others}

    def of_graph(self, sizes: tuple[tuple[tuple[str, int], ...], ...]) -> Confirmed:
        """Compares the graph with the module at sizes at which the module runs."""
        if self.graph is None:
            return Confirmed("unknown", sizes[0], None, sizes)
        said = {s: self.graph.agrees(dict(s)) for s in sizes[:_MAX_COMPARED]}
        wrong = next((s for s, agrees in said.items() if agrees is False), None)
        right = tuple(s for s, agrees in said.items() if agrees)
        if wrong is not None:
            return Confirmed("graph", wrong, None, sizes, right)
        return Confirmed("tracer" if right else "unknown", (*right, *sizes)[0], None, sizes, right)


def holds_at(cond: Cond, sizes: Mapping[str, int]) -> bool:
    """True unless the condition is false at these sizes. A condition without a value counts as true."""
    try:
        return bool(cond.evaluate(dict(sizes)))
    except (ArithmeticError, ValueError, KeyError):
        return True


def excluded_text(restriction: Restriction, declaration: Declaration, others: Sequence[Cond] = ()) -> str:
    """Text of the declared sizes that a condition excludes. Examples: ``seq = 32``, ``seq >= 33``, ``every seq with seq % 2
    != 0``.

    Sizes that the `others` rule out anyway are not counted.
    """
    cond = restriction.term.cond
    if len(restriction.roots) != 1:
        some = f", {sizes_text(restriction.counterexample)} for one" if restriction.counterexample else ""
        return f"the sizes with {~cond}{some}"
    (name,) = restriction.roots
    root = declaration.roots[name]
    low, high = root.low if root.low is not None else 2, root.high
    alone = [c for c in others if c.free == {name}]
    every = f"every {name} with {' and '.join(map(str, (~cond, *alone)))}"
    if high is None or high - low > _MAX_LISTED:
        return every
    declared = [v for v in range(low, high + 1) if all(holds_at(c, {name: v}) for c in alone)]
    out = [v for v in declared if not holds_at(cond, {name: v})]
    if not out:
        return f"{name} with {~cond}"
    if len(out) > 2 and out == list(range(out[0], out[-1] + 1)):
        if out[-1] == high:
            return f"{name} >= {out[0]}"
        return f"{name} <= {out[-1]}" if out[0] == low else f"{out[0]} <= {name} <= {out[-1]}"
    if len(out) <= _MAX_SHOWN:
        return " and ".join(f"{name} = {v}" for v in out)
    kept = sorted({*range(low, high + 1)}.difference(out))
    if 0 < len(kept) <= _MAX_SHOWN and len(declared) > high - low:
        return f"every {name} but {' and '.join(map(str, kept))}"
    shown = ", ".join(map(str, out[:_MAX_SHOWN]))
    return f"{every} ({shown}, …)"
