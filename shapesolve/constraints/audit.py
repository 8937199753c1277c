"""An independent check of an analysis by Z3 alone. It uses the whole constraint system, with a variable for every dim of
every tensor.

The statements of the nodes are local, and nothing of what the analysis concluded is among them. So Z3 has to find on its own
that the system can be satisfied where the model runs, that it fixes every size, and that the reported shapes follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ..expr import Dim, Shape
from ..expr.sizes import sizes_text
from ..solve.engine import limited
from ..solve.facts import budget
from .constraints import ConstraintSystem
from .local import Definition

#: max. unanswered queries of one kind before the audit stops asking
_TACTICS = ("simplify", "propagate-values", "solve-eqs", "simplify", "smt")
#: sizes of every tensor, as measured
Measured = Mapping[str, Sequence[int]]


@dataclass
class Audit:
    """Result of an audit by Z3: number of answers of each kind, and contradictions as sentences (`wrong`).

    `runs`: the system is satisfiable at given sizes (expected: `sat`). `changed`: it is satisfiable with one dim of
    one tensor changed from
    its computed size (`unsat`). `entailed`: a dim can differ from its reported expression (`unsat`).
    """

    runs: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    entailed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing is contradicted, and something was decided."""
        return not self.wrong and bool(self.runs["sat"] or self.changed["unsat"] or self.entailed["unsat"])

    @property
    def unknown(self) -> int:
        """Number of queries without an answer within Z3's budget."""
        return self.runs["unknown"] + self.changed["unknown"] + self.entailed["unknown"]

    def __str__(self) -> str:
        asked = self.changed.total(), self.entailed.total()
        lines = [
            f"satisfiable at {self.runs['sat']} of {self.runs.total()} sizes",
            f"refuted {self.changed['unsat']} of {asked[0]} changed dims",
            f"entails {self.entailed['unsat']} of {asked[1]} reported dims",
            f"{self.unknown} questions without an answer",
        ]
        return "\n".join([*lines, *(f"wrong: {w}" for w in self.wrong)])


class Auditor:
    """Asks Z3 whether a constraint system agrees with the shapes of an analysis."""

    def __init__(
        self, system: ConstraintSystem, shapes: Mapping[str, Shape], symbols: Iterable[str], rlimit: int
    ) -> None:
        import z3

        from ..expr.z3_bridge import Z3Terms

        self.shapes, self.symbols, self.rlimit = shapes, frozenset(symbols), rlimit
        self.content = content = system.content
        self.walk = content.walk
        self.terms = Z3Terms(z3.Context())
        # declared shapes of computed tensors are not requirements and may be wrong
        rows = [n for n in system.numbers if content.rows[n].role != "declared"]
        self.formulas = [self.terms.formula(content.local(n)) for n in rows]
        self.formulas += [size >= 0 for size in self.terms.sizes]

    def judge(
        self, runs: Iterable[tuple[Mapping[str, int], Measured]], changes: int, samples: int, seed: int
    ) -> Audit:
        """Audit these runs: sizes of the input dims, with measured sizes of tensors if available. See `Audit`.

        `changes` is the number of sampled dims that are changed, `samples` the number of reported dims that are
        checked.
        """
        audit, random = Audit(), Random(seed)
        for i, (sizes, measured) in enumerate(runs):
            self._judge_run(audit, sizes, measured, 0 if i else changes, random)
        places = [(t, k, d) for t, k, d in self._places() if d.free <= self.symbols]
        for tensor, axis, dim in random.sample(places, min(samples, len(places))):
            solver = self._solver([self._variable(tensor, axis) != self.terms.term(dim)], _TACTICS)
            answer = str(solver.check())
            audit.entailed[answer] += 1
            if audit.entailed["unknown"] == budget.CHEAP_FAILURES:
                break
            if answer == "sat":
                at = self._sizes_of(solver.model())
                audit.wrong.append(f"{tensor}[{axis}] is reported as {dim}, which does not follow: {at}")
        return audit

    def _judge_run(
        self, audit: Audit, sizes: Mapping[str, int], measured: Measured, changes: int, random: Random
    ) -> None:
        import z3

        fixed = [self._symbol(name) == size for name, size in sizes.items()]
        sizes_measured = [
            self._variable(tensor, axis) == size
            for tensor, shape in measured.items()
            for axis, size in enumerate(shape)
            if self._variable(tensor, axis) is not None
        ]
        answer = str(self._solver([*fixed, *sizes_measured], _TACTICS).check())
        if answer == "unknown":
            answer = str(self._solver([*fixed, *sizes_measured]).check())
        audit.runs[answer] += 1
        if answer == "unsat":
            audit.wrong.append(f"the model runs at {dict(sizes)}, the system says that it does not")
        solver = self._solver(fixed)
        if answer != "sat" or not changes or solver.check() != z3.sat:
            return
        computed = [(t, k, d.evaluate(sizes)) for t, k, d in self._places()]
        drawn = [(t, k, size) for t, k, size in computed if size is not None]
        for tensor, axis, size in random.sample(drawn, min(changes, len(drawn))):
            other = size + random.choice([1, 2, 5, *([-1] if size else [])])
            answer = str(solver.check(self._variable(tensor, axis) == other))
            audit.changed[answer] += 1
            if audit.changed["unknown"] == budget.CHEAP_FAILURES:
                break
            if answer == "sat":
                audit.wrong.append(f"at {dict(sizes)} {tensor}[{axis}] is {size}, the system allows {other}")

    def _places(self) -> Iterable[tuple[str, int, Dim]]:
        """Dims of tensors that the analysis reports and the system has variables for. The tensors are those that every
        run makes.
        """
        for tensor, shape in self.shapes.items():
            for axis, dim in enumerate(shape):
                if self._variable(tensor, axis) is not None and self._is_always_made(tensor, axis):
                    yield tensor, axis, dim

    def _is_always_made(self, tensor: str, axis: int) -> bool:
        """True if the dim is defined in every run, and not only in a branch or loop body."""
        number = self.content.definitions.get(self.walk.variable(tensor, axis).name or "")
        row = None if number is None else self.content.rows[number]
        return isinstance(row, Definition) and row.guard is row.numbers

    def _variable(self, tensor: str, axis: int) -> Any:
        return self.terms.symbols.get(self.walk.variable(tensor, axis).name or "")

    def _symbol(self, name: str) -> Any:
        import z3

        return z3.Int(name, self.terms.ctx)

    def _sizes_of(self, model: Any) -> str:
        found = {d.name(): model[d] for d in model.decls() if d.name() in self.symbols}
        return sizes_text(found, sorted(found))

    def _solver(self, more: Sequence[Any], tactics: tuple[str, ...] = ()) -> Any:
        import z3

        ctx = self.terms.ctx
        solver = z3.Then(*[z3.Tactic(t, ctx) for t in tactics]).solver() if tactics else z3.Solver(ctx=ctx)
        solver = limited(solver, self.rlimit)
        solver.add(more)
        solver.add(self.formulas)
        return solver
